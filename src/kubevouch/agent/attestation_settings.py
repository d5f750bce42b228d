"""By which methods this machine proves what it is, and for which of them its certificate was given.

``kubevouch credential`` reads this at every call of a kubectl: no method is loaded here.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from pathlib import Path

import msgspec

from kubevouch import wellknown
from kubevouch.agent.interface import SettingsError
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.util.files import PRIVATE, make_folder, read_private, write_atomically

MAX_METHODS = 4
"""As many proofs as one request may carry (``attestation.request``)."""
_USE_THE_AGENT = (
    "kubevouch agent can use it; a key in a file is shown with the method's setting key=vouched, where the cluster has "
    "keyProtection: Vouched"
)
STAYS_IN_TPM = (
    "the key of this machine's certificate stays in its TPM, and a plug-in has to hand it out",
    _USE_THE_AGENT,
)
"""What happened and what to do, where a plug-in is asked for such a certificate."""
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_MAX_NOTE = 4096


class Method(msgspec.Struct, frozen=True):
    """One method of attestation.

    Args:
        settings: of its own kind, by name.
        oldest: version of the evidence below which nothing is shown, whatever the cluster says that it reads; empty for
            the oldest that the method can make.
    """

    name: str
    settings: tuple[tuple[str, str], ...] = ()
    oldest: str = ""


class AttestationSettings(msgspec.Struct, frozen=True):
    """What this machine shows with a request for its client certificate: one proof for each of ``methods``, which are
    one at least. The first says who signs."""

    methods: tuple[Method, ...]

    @property
    def signer_name(self) -> str:
        return wellknown.ATTESTED_CLIENT_SIGNER_PREFIX + self.methods[0].name

    @property
    def digest(self) -> str:
        """Hexadecimal SHA-256, that changes with any of it."""
        tree = [[each.name, dict(each.settings), each.oldest] for each in self.methods]
        return hashlib.sha256(json.dumps(tree, sort_keys=True).encode()).hexdigest()

    def __str__(self) -> str:
        return "+".join(each.name for each in self.methods)


def parse(names: Iterable[str], settings: Iterable[str], oldest: Iterable[str]) -> AttestationSettings | None:
    """What the flags say; None without a name.

    Args:
        settings: ``[METHOD.]KEY=VALUE``; the method may be left out where there is one only.
        oldest: ``[METHOD=]VERSION``.

    Raises:
        SettingsError: they cannot be meant.
    """
    methods = list(names)
    for name in methods:
        if not _NAME.fullmatch(name):
            raise SettingsError(f"got {name[:64]!r}, expected the name of a method of attestation, such as tpm")
    if len(set(methods)) != len(methods) or len(methods) > MAX_METHODS:
        raise SettingsError(f"got {', '.join(methods)}, expected up to {MAX_METHODS} methods, each once")
    found: dict[str, dict[str, str]] = {name: {} for name in methods}
    versions: dict[str, str] = {}
    for text in settings:
        where, sign, value = text.partition("=")
        method, dot, key = where.partition(".")
        if not dot or (method not in found and len(methods) == 1):
            method, key = _only(methods, text, "METHOD.KEY=VALUE"), where
        if not sign or not key or method not in found or key in found[method]:
            # The value may be a secret.
            raise SettingsError(
                f"got the setting {where[:64]!r}, expected [METHOD.]KEY=VALUE of {', '.join(methods)}, each once"
            )
        found[method][key] = value
    for text in oldest:
        method, sign, version = text.rpartition("=")
        method = method if sign else _only(methods, text, "METHOD=VERSION")
        if method not in found or not version or method in versions:
            raise SettingsError(f"got the version {text[:64]!r}, expected [METHOD=]VERSION of {', '.join(methods)}")
        versions[method] = version
    if not methods:
        return None
    return AttestationSettings(
        tuple(Method(name, tuple(sorted(found[name].items())), versions.get(name, "")) for name in methods)
    )


def _only(methods: list[str], text: str, form: str) -> str:
    if len(methods) != 1:
        where = text.partition("=")[0][:64]
        raise SettingsError(f"got {where!r} beside {len(methods)} methods of attestation, expected {form}")
    return methods[0]


# ------------------------------------------------------------------ what the current certificate was given for


def note_path(current: Path) -> Path:
    """``current``: the link to the current pair."""
    return current.with_name(current.name.removesuffix("-current.pem") + "-attested.json")


def note(current: Path, settings: AttestationSettings, leaf: Certificate) -> None:
    """That ``leaf`` was given for such proofs; before it becomes the current one, so that it is never without.

    Raises:
        OSError
    """
    make_folder(current.parent)
    write_atomically(note_path(current), json.dumps(_note(settings, leaf)).encode(), mode=PRIVATE)


def is_given_for(current: Path, settings: AttestationSettings | None, leaf: Certificate) -> bool:
    """Whether the current certificate was given for the proofs that would be shown now; True where none would be.

    A certificate of which that is not known was given for something weaker, or is another cluster's or machine's: it
    is asked for again.
    """
    if settings is None:
        return True
    try:
        tree = json.loads(read_private(note_path(current), _MAX_NOTE))
    except (OSError, ValueError, RecursionError):
        return False
    return bool(tree == _note(settings, leaf))


def _note(settings: AttestationSettings, leaf: Certificate) -> dict[str, str]:
    return {"settings": settings.digest, "certificate": leaf.fingerprint().hex()}
