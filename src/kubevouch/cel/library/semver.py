"""Semantic versions.

Source: k8s.io/apiserver/pkg/cel/library/semverlib.go, github.com/blang/semver/v4 (Kubernetes 1.36).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from kubevouch.cel.functions import function, method, opaque
from kubevouch.cel.values import MAX_UINT, EvaluationError, Opaque, Run

_LABEL = re.compile(r"[0-9A-Za-z-]+", re.ASCII)
_DIGITS = re.compile(r"[0-9]+", re.ASCII)
_LONGEST = 1024


@opaque("kubernetes.Semver")
@dataclass(frozen=True)
class Semver(Opaque):
    """A version; ``key`` sorts."""

    numbers: tuple[int, ...]
    prerelease: tuple[str, ...]
    build: tuple[str, ...]

    @property
    def key(self) -> tuple[Any, ...]:
        # A release comes after what came before it; numbers before words.
        parts = tuple((0, int(each), "") if each.isdigit() else (1, 0, each) for each in self.prerelease)
        return (self.numbers, not self.prerelease, parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Semver) and other.key == self.key

    def __hash__(self) -> int:
        return hash(self.key)


def _number(text: str, what: str) -> int:
    if _DIGITS.fullmatch(text) is None:
        raise EvaluationError(f'Invalid character(s) found in {what} number "{text}"')
    if len(text) > 1 and text[0] == "0":
        raise EvaluationError(f'{what.capitalize()} number must not contain leading zeroes "{text}"')
    if len(text) > 20 or int(text) > MAX_UINT:
        raise EvaluationError(f'strconv.ParseUint: parsing "{text}": value out of range')
    return int(text)


def _labels(text: str, what: str) -> tuple[str, ...]:
    labels = tuple(text.split("."))
    for label in labels:
        if not label:
            raise EvaluationError(f"{what} is empty")
        if _LABEL.fullmatch(label) is None:
            raise EvaluationError(f'Invalid character(s) found in {what.lower()} "{label}"')
    return labels


def _parsed(text: str, *, normalize: bool) -> Semver:
    if normalize:
        text = _normalized(text)
    if not text:
        raise EvaluationError("Version string empty")
    if len(text) > _LONGEST:
        raise EvaluationError(f"got a version of {len(text)} characters, expected at most {_LONGEST}")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise EvaluationError("No Major.Minor.Patch elements found")
    rest, plus, build = parts[2].partition("+")
    patch, dash, prerelease = rest.partition("-")
    numbers = (_number(parts[0], "major"), _number(parts[1], "minor"), _number(patch, "patch"))
    before = _labels(prerelease, "Prerelease") if dash else ()
    for label in before:
        if label.isdigit():
            _number(label, "numeric PreRelease version")
    return Semver(numbers, before, _labels(build, "Build meta data") if plus else ())


def _normalized(text: str) -> str:
    parts = text.removeprefix("v").split(".", 2)
    for place, part in enumerate(parts):
        if len(part) > 1:
            bare = part.lstrip("0")
            parts[place] = bare if bare[:1] in tuple("0123456789") else f"0{bare}"
    if len(parts) < 3 and ("+" in parts[-1] or "-" in parts[-1]):
        raise EvaluationError("short version cannot contain PreRelease/Build meta data")
    return ".".join(parts + ["0"] * (3 - len(parts)))


@function("semver", "string")
def _semver(text: str, *, run: Run) -> Semver:
    return _semver_normalized(text, False, run=run)


@function("semver", "string bool")
def _semver_normalized(text: str, normalize: bool, *, run: Run) -> Semver:
    run.spend_on_text(text)
    return _parsed(text, normalize=normalize)


@function("isSemver", "string")
def _is_semver(text: str, *, run: Run) -> bool:
    return _is_semver_normalized(text, False, run=run)


@function("isSemver", "string bool")
def _is_semver_normalized(text: str, normalize: bool, *, run: Run) -> bool:
    try:
        _semver_normalized(text, normalize, run=run)
    except EvaluationError:
        return False
    return True


method("major", "kubernetes.Semver")(lambda version: version.numbers[0])
method("minor", "kubernetes.Semver")(lambda version: version.numbers[1])
method("patch", "kubernetes.Semver")(lambda version: version.numbers[2])


@method("compareTo", "kubernetes.Semver kubernetes.Semver")
def _compare(version: Semver, other: Semver) -> int:
    return (version.key > other.key) - (version.key < other.key)


@method("isGreaterThan", "kubernetes.Semver kubernetes.Semver")
def _is_greater(version: Semver, other: Semver) -> bool:
    return _compare(version, other) > 0


@method("isLessThan", "kubernetes.Semver kubernetes.Semver")
def _is_less(version: Semver, other: Semver) -> bool:
    return _compare(version, other) < 0
