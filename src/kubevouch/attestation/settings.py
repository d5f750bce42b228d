"""Settings of a method, as an operator writes them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from kubevouch.attestation.interface import SettingsError

T = TypeVar("T")

_MAX_BYTES = 1 << 20


def read(settings: Mapping[str, Any], into: type[T], provider: str, *, texts: bool = False) -> T:
    """What ``settings`` say; ``into`` forbids unknown names.

    Args:
        texts: numbers may be written as text, as on a command line.

    Raises:
        SettingsError
    """
    try:
        return msgspec.convert(settings, into, strict=not texts)
    except msgspec.ValidationError as err:
        known = ", ".join(each.encode_name for each in msgspec.structs.fields(into))  # type: ignore[arg-type]
        raise SettingsError(f"settings of {provider}: {err}", hint=f"known settings: {known}") from err


def text_or_file(text: str, path: str, provider: str, name: str) -> bytes:
    """A setting that is given as ``name`` or, as a file, as ``nameFile``; exactly one of them.

    Raises:
        SettingsError: neither, both, or no file that can be read.
    """
    if bool(text) == bool(path):
        got = "both" if text else "neither"
        raise SettingsError(f"settings of {provider}: got {got} of {name} and {name}File, expected one")
    return text.encode() if text else read_file(path, provider, f"{name}File")


def read_file(path: str, provider: str, name: str) -> bytes:
    """The file that a setting names. Raises :class:`SettingsError`."""
    try:
        # Roots come by projected volumes, too, where they are links.
        with Path(path).open("rb") as file:
            contents = file.read(_MAX_BYTES + 1)
    except OSError as err:
        raise SettingsError(f"settings of {provider}: {name} {path}: {err.strerror or err}") from err
    if len(contents) > _MAX_BYTES:
        raise SettingsError(f"settings of {provider}: {name} {path}: expected at most {_MAX_BYTES} bytes")
    return contents
