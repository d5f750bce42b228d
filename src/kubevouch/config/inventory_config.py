"""InventoryConfiguration: where the machines that the operator expects are written down, beside AllowedMachine objects.

Sources are asked in the order of the file. Paths are read from where the program was started.
"""

from __future__ import annotations

import urllib.parse
from typing import Annotated

from kubevouch.config import config_file
from kubevouch.machinery import field
from kubevouch.machinery.declaration import Int32, Struct, always, named, wire
from kubevouch.machinery.field import FieldError
from kubevouch.machinery.scheme import GroupVersion
from kubevouch.structural import paths

KIND = "InventoryConfiguration"
API_VERSION = "kubevouch.io/v1alpha1"
DEFAULT_SECONDS, LEAST_SECONDS, MOST_SECONDS = 60, 5, 86_400
MAX_SOURCES = 16


class FileSource(Struct):
    """A file of AllowedMachine objects."""

    path: Annotated[str, wire(1, "The file.", required=True)] = always(str)


class URLSource(Struct):
    """AllowedMachine objects that a server gives to a GET."""

    url: Annotated[str, wire(1, "Where, over https.", required=True)] = always(str)
    certificate_authority: Annotated[str, wire(2, "A file of CAs; empty is this machine's.")] = ""
    client_certificate: Annotated[str, wire(3, "A file with the certificate to show.")] = ""
    client_key: Annotated[str, wire(4, "A file with its key.")] = ""
    token_file: Annotated[str, wire(5, "A file with a bearer token.")] = ""
    timeout_seconds: Annotated[Int32, wire(6, "How long an answer may take.")] = 10


class ObjectSource(Struct):
    """Objects of the cluster, such as Machines of Cluster API."""

    api_version: Annotated[str, wire(1, "Their group and version.", required=True)] = always(str)
    kind: Annotated[str, wire(2, "Their kind.", required=True)] = always(str)
    resource: Annotated[str, wire(3, "Their plural in paths.", required=True)] = always(str)
    namespaced: Annotated[bool, wire(4, "Whether they are in namespaces.")] = False
    node_name: Annotated[str, wire(5, "JSONPath of the name of the Node.", required=True)] = always(str)
    addresses: Annotated[str, wire(6, "JSONPath of the IP addresses; others that it finds are passed over.")] = ""
    dns_names: Annotated[str, wire(7, "JSONPath of the DNS names; addresses that it finds are passed over.")] = named(
        "dnsNames", ""
    )


class Source(Struct):
    """One of them."""

    name: Annotated[str, wire(1, "What decisions call it.", required=True)] = always(str)
    file: Annotated[FileSource | None, wire(2, "A file.")] = None
    url: Annotated[URLSource | None, wire(3, "A URL.")] = None
    objects: Annotated[ObjectSource | None, wire(4, "Objects.")] = None
    interval_seconds: Annotated[Int32, wire(5, "How often a file or URL is read.")] = DEFAULT_SECONDS


class InventoryConfiguration(Struct):
    """The file."""

    sources: Annotated[list[Source], wire(1, "In the order in which they are asked.")] = []


def decode(text: bytes) -> InventoryConfiguration:
    """Raises :class:`ConfigFileError`."""
    return config_file.decode(text, KIND, {API_VERSION: InventoryConfiguration}, _problems)


def _problems(config: InventoryConfiguration) -> list[FieldError]:
    found = list(config_file.named([each.name for each in config.sources], "sources", MAX_SOURCES))
    for number, source in enumerate(config.sources):
        where = f"sources[{number}]"
        if [source.file, source.url, source.objects].count(None) != 2:
            found.append(field.invalid(where, source.name, "expected exactly one of file, url and objects"))
        if not LEAST_SECONDS <= source.interval_seconds <= MOST_SECONDS:
            why = f"expected {LEAST_SECONDS} to {MOST_SECONDS}"
            found.append(field.invalid(f"{where}.intervalSeconds", source.interval_seconds, why))
        if source.file is not None and not source.file.path:
            found.append(field.required(f"{where}.file.path", ""))
        if source.url is not None:
            found += _url_problems(source.url, f"{where}.url")
        if source.objects is not None:
            found += _object_problems(source.objects, f"{where}.objects")
    return found


def _url_problems(source: URLSource, where: str) -> list[FieldError]:
    found = []
    try:
        parts = urllib.parse.urlsplit(source.url)
        fits = parts.scheme == "https" and bool(parts.hostname) and not parts.username and parts.port != 0
    except ValueError:
        fits = False
    if not fits:
        found.append(field.invalid(f"{where}.url", source.url, "expected https://host[:port]/path"))
    if bool(source.client_certificate) != bool(source.client_key):
        found.append(field.invalid(where, source.url, "expected clientCertificate and clientKey, or neither"))
    if not 1 <= source.timeout_seconds <= 60:
        found.append(field.invalid(f"{where}.timeoutSeconds", source.timeout_seconds, "expected 1 to 60"))
    return found


def _object_problems(source: ObjectSource, where: str) -> list[FieldError]:
    found = [
        field.required(f"{where}.{name}", "")
        for name, value in (("kind", source.kind), ("resource", source.resource), ("nodeName", source.node_name))
        if not value
    ]
    try:
        group = GroupVersion.parse(source.api_version).group
    except ValueError:
        group = ""
    if not group:
        # The kinds of the API server itself have structs of their own here.
        found.append(field.invalid(f"{where}.apiVersion", source.api_version, "expected group/version"))
    for name, path in (("nodeName", source.node_name), ("addresses", source.addresses), ("dnsNames", source.dns_names)):
        try:
            paths.parse(path)
        except paths.PathError as err:
            found.append(field.invalid(f"{where}.{name}", path, str(err)))
    return found
