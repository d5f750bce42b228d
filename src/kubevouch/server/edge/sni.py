"""Which certificate a client is shown, by the server name that it asks for (RFC 6066 section 3).

Source: k8s.io/component-base/cli/flag/namedcertkey_flag.go, k8s.io/apiserver pkg/server/dynamiccertificates/
named_certificates.go and Go's crypto/tls ``Config.getCertificate`` (Kubernetes 1.36).
"""

from __future__ import annotations

import re
import ssl
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kubevouch.pki.errors import ParseError
from kubevouch.pki.x509.x509_certificate import Certificate, parse_bundle
from kubevouch.server.edge.tls import ServingFiles, TLSOptions, TLSOptionsError, server_context, why_unusable

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

_NAME = re.compile(r"(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)


@dataclass(frozen=True, slots=True)
class NamedFiles:
    """A pair, and for which names; without any it is for those that the certificate has."""

    files: ServingFiles
    names: tuple[str, ...] = ()


def parse(text: str) -> NamedFiles:
    """A value of ``--tls-sni-cert-key``: ``CERT,KEY`` or ``CERT,KEY:NAME,*.NAME``.

    Raises:
        TLSOptionsError
    """
    paths, _, names = text.partition(":")
    certificate, comma, key = (part.strip() for part in paths.partition(","))
    if not comma or not certificate or not key or "," in key:
        raise TLSOptionsError("expected comma separated certificate and key file paths")
    wanted = tuple(name.strip().lower() for name in names.split(",") if name.strip())
    for name in wanted:
        if not _NAME.fullmatch(name):
            raise TLSOptionsError(f"got the name {name!r}, expected host.example.com or *.example.com")
    return NamedFiles(ServingFiles(Path(certificate), Path(key)), wanted)


def names_of(certificate: Certificate) -> tuple[str, ...]:
    """The names that a certificate without names of its own flag is shown for."""
    common = certificate.subject.common_name.lower()
    names = [common] if _NAME.fullmatch(common) else []
    names += (name.lower() for name in certificate.meaning.alt_names.dns_names)
    return tuple(dict.fromkeys(names))


def table(named: Iterable[NamedFiles], options: TLSOptions) -> dict[str, ssl.SSLContext]:
    """The contexts by name. Names of a flag count before those of certificates, and of two the first.

    Raises:
        TLSOptionsError: files are no certificate and key.
    """
    told: dict[str, ssl.SSLContext] = {}
    found: dict[str, ssl.SSLContext] = {}
    for each in named:
        context = usable(each.files, options)
        into = told if each.names else found
        for name in each.names or names_of(parse_bundle(each.files.certificate.read_bytes())[0]):
            into.setdefault(name, context)
    return found | told


def usable(files: ServingFiles, options: TLSOptions) -> ssl.SSLContext:
    """The context of a pair that a person has named. Raises TLSOptionsError."""
    try:
        context = server_context(files, options)
        parse_bundle(files.certificate.read_bytes())
    except (ssl.SSLError, OSError) as err:
        raise TLSOptionsError(why_unusable(files, err)) from err
    except ParseError as err:
        raise TLSOptionsError(f"got {files.certificate}, expected a certificate: {err}") from err
    return context


def choose(name: str, contexts: Mapping[str, ssl.SSLContext]) -> ssl.SSLContext | None:
    """The context for a client that asks for ``name``; None is the server's own."""
    name = name.rstrip(".").lower()
    exact = contexts.get(name)
    return exact if exact is not None else contexts.get(f"*.{name.partition('.')[2]}")


class _Unraisable:
    """Passes on what cannot be raised, except names that are no ASCII."""

    def __init__(self, beneath: Callable[[UnraisableHookArgs], object]) -> None:
        self._beneath = beneath

    def __call__(self, unraisable: UnraisableHookArgs, /) -> None:
        if not (unraisable.exc_type is UnicodeDecodeError and isinstance(unraisable.object, bytes)):
            self._beneath(unraisable)


def refuse_odd_names_quietly() -> None:
    """Has nothing written for a handshake that asks for a name that is no ASCII.

    CPython refuses it before it calls ``sni_callback``, and prints a traceback for each
    (Modules/_ssl.c, ``_servername_callback``): whoever reaches the port could fill the log.
    """
    if not isinstance(sys.unraisablehook, _Unraisable):
        sys.unraisablehook = _Unraisable(sys.unraisablehook)
