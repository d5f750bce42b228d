"""What is wrong with what is said of a webhook: where it is, and which versions of a review it understands.

Source: k8s.io/apiserver/pkg/util/webhook/validation.go (Kubernetes 1.36).
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Sequence

from kubevouch.api.admissionregistration_v1.webhooks import HTTPS_PORT, REVIEW_VERSIONS
from kubevouch.machinery import field
from kubevouch.machinery.field import FieldError
from kubevouch.machinery.text import names
from kubevouch.pki.errors import ParseError
from kubevouch.pki.x509 import pem, x509_certificate

_URL_FORM = "; desired format: https://host[/path]"


def service_errors(namespace: str, name: str, path: str | None, port: int | None, where: str) -> list[FieldError]:
    """What is wrong with a service; ``where`` is its path in the object."""
    errors: list[FieldError] = []
    if not name:
        errors.append(field.required(f"{where}.name", "service name is required"))
    if not namespace:
        errors.append(field.required(f"{where}.namespace", "service namespace is required"))
    port = HTTPS_PORT if port is None else port
    if not 1 <= port <= 65535:
        why = "port is not valid: must be between 1 and 65535, inclusive"
        errors.append(field.invalid(f"{where}.port", port, why))
    return errors + _path_errors(path or "", f"{where}.path")


def _path_errors(text: str, path: str) -> list[FieldError]:
    if text in ("", "/"):
        return []
    if text == "//":
        return [field.invalid(path, text, "segment[0] may not be empty")]
    whys = [] if text.startswith("/") else ["must start with a '/'"]
    for index, segment in enumerate(text[1:].removesuffix("/").split("/")):
        if not segment:
            whys.append(f"segment[{index}] may not be empty")
        else:
            whys += [f"segment[{index}]: {why}" for why in names.subdomain(segment)]
    return [field.invalid(path, text, why) for why in whys]


def url_errors(url: str, path: str) -> list[FieldError]:
    """What is wrong with a URL."""
    try:
        parts = urllib.parse.urlsplit(url)
        port = parts.port
    except ValueError as err:
        return [field.required(path, f"url must be a valid URL: {err}{_URL_FORM}")]
    del port  # asked for because only then it is looked at
    user, at, host = parts.netloc.rpartition("@")
    errors: list[FieldError] = []
    if parts.scheme != "https":
        errors.append(field.invalid(path, parts.scheme, f"'https' is the only allowed URL scheme{_URL_FORM}"))
    if not host:
        errors.append(field.invalid(path, host, f"host must be specified{_URL_FORM}"))
    if at:
        errors.append(field.invalid(path, user, "user information is not permitted in the URL"))
    if parts.fragment:
        errors.append(field.invalid(path, parts.fragment, "fragments are not permitted in the URL"))
    if parts.query:
        errors.append(field.invalid(path, parts.query, "query parameters are not permitted in the URL"))
    return errors


def review_version_errors(
    versions: Sequence[str], path: str, if_empty: str, *, has_known: bool = True
) -> list[FieldError]:
    """What is wrong with a list of versions; ``has_known``: one of them has to be one that is known here."""
    if not versions:
        return [field.required(path, if_empty)]
    errors: list[FieldError] = []
    for index, version in enumerate(versions):
        where = f"{path}[{index}]"
        if version in versions[:index]:
            errors.append(field.invalid(where, version, "duplicate version"))
            continue
        errors += [field.invalid(where, version, why) for why in names.dns_1035_label(version)]
    if has_known and not set(versions) & set(REVIEW_VERSIONS):
        why = f"must include at least one of {', '.join(REVIEW_VERSIONS)}"
        errors.append(field.invalid(path, list(versions), why))
    return errors


def ca_bundle_fault(bundle: bytes) -> str:
    """Why no CA can be read from a bundle, in the words of client-go's transport; empty where one can."""
    fault = ""
    try:
        for block in pem.blocks(bundle):
            if block.type != "CERTIFICATE" or block.headers:
                continue
            try:
                x509_certificate.parse_der(block.contents)
            except ParseError as err:
                fault = fault or f"failed to parse certificate: {err}"
            else:
                return ""
    except ParseError as err:
        fault = str(err)
    return f"unable to load root certificates: {fault or 'unable to parse bytes as PEM block'}"
