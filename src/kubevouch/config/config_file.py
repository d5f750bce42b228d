"""Kubernetes' configuration files: strict YAML or JSON of one kind.

ConfigFileError       the text is no such configuration; ``str()`` says what is wrong, in Kubernetes' words
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec

from kubevouch.machinery import field
from kubevouch.machinery.codec import json_codec, yamltext
from kubevouch.machinery.field import FieldError
from kubevouch.machinery.text import names
from kubevouch.machinery.text.gotext import quote

S = TypeVar("S", bound=msgspec.Struct)

GROUP = "apiserver.config.k8s.io"
MAX_BYTES = 1 << 20


class ConfigFileError(ValueError):
    """The file cannot be used."""

    @classmethod
    def of(cls, errors: list[FieldError]) -> ConfigFileError:
        """One error for all that validation says."""
        return cls(field.aggregate(errors))


def decode(
    text: bytes, kind: str, versions: Mapping[str, type[S]], problems: Callable[[S], Iterable[FieldError]] | None = None
) -> S:
    """The configuration in ``text``.

    Args:
        kind: the kind that is expected.
        versions: the struct for each apiVersion that is read.
        problems: what speaks against what was read.

    Raises:
        ConfigFileError: too long, no YAML, another kind or version, unknown or repeated fields, values of a wrong type,
            ``problems``.
    """
    if len(text) > MAX_BYTES:
        raise ConfigFileError(f"got {len(text)} bytes, expected at most {MAX_BYTES}")
    try:
        tree, repeated = yamltext.loads(text)
    except yamltext.YAMLError as err:
        raise ConfigFileError(f"couldn't get version/kind; {err}") from err
    if not isinstance(tree, dict):
        raise ConfigFileError("no configuration: expected apiVersion and kind")
    found_kind, version = str(tree.pop("kind", None) or ""), str(tree.pop("apiVersion", None) or "")
    if not found_kind:
        raise ConfigFileError("Object 'Kind' is missing")
    if found_kind != kind or version not in versions:
        raise ConfigFileError(f"no kind {quote(found_kind)} is registered for version {quote(version)}")
    try:
        decoded = json_codec.from_tree(tree, versions[version])
    except json_codec.UnmarshalError as err:
        raise ConfigFileError(str(err)) from err
    strict = [*repeated, *decoded.strict_errors]
    if strict:
        raise ConfigFileError(f"strict decoding error: {', '.join(strict)}")
    value: S = decoded.value
    against = [] if problems is None else list(problems(value))
    if against:
        raise ConfigFileError.of(against)
    return value


def named(given: Sequence[str], path: str, most: int) -> Iterator[FieldError]:
    """What speaks against a list of things with these names, ``path[i].name``: too many, no DNS labels, two alike."""
    if len(given) > most:
        yield field.too_many(path, len(given), most)
    known: set[str] = set()
    for number, name in enumerate(given):
        for why in names.dns_label(name):
            yield field.invalid(f"{path}[{number}].name", name, why)
        if name in known:
            yield field.duplicate(f"{path}[{number}].name", name)
        known.add(name)
