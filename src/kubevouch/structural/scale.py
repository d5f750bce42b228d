"""What the ``scale`` subresource asks of every object that has it.

Source: k8s.io/apiextensions-apiserver/pkg/registry/customresource/validator.go (Kubernetes 1.36).
"""

from __future__ import annotations

from typing import Any

import msgspec

from kubevouch.machinery import field
from kubevouch.machinery.field import FieldError
from kubevouch.machinery.text import gotext

_MOST = (1 << 31) - 1


class ScalePaths(msgspec.Struct, frozen=True):
    """Where a kind keeps what its ``/scale`` says; ``selector`` may be empty."""

    spec_replicas: str
    status_replicas: str
    selector: str = ""

    def check_spec(self, tree: dict[str, Any]) -> list[FieldError]:
        """What is wrong with the wanted replicas."""
        return _check_replicas(tree, self.spec_replicas)

    def check_status(self, tree: dict[str, Any]) -> list[FieldError]:
        """What is wrong with the replicas that are there, and with the selector."""
        errors = _check_replicas(tree, self.status_replicas)
        if self.selector:
            selector, why = _at(tree, self.selector, str)
            if why:
                errors.append(field.invalid(self.selector, selector or "", why))
        return errors


def _check_replicas(tree: dict[str, Any], path: str) -> list[FieldError]:
    replicas, why = _at(tree, path, int)
    if why:
        return [field.invalid(path, 0, why)]
    if replicas is not None and replicas < 0:
        return [field.invalid(path, replicas, "should be a non-negative integer")]
    if replicas is not None and replicas > _MOST:
        return [field.invalid(path, replicas, f"should be less than or equal to {_MOST}")]
    return []


def _at(tree: Any, path: str, wanted: type[int] | type[str]) -> tuple[Any, str]:
    """The value, or None and why there is none of the wanted type, or None and nothing."""
    names = path.removeprefix(".").split(".")
    value = tree
    for index, name in enumerate(names):
        if value is None:
            return None, ""
        if not isinstance(value, dict):
            return None, _misfit(names[: index + 1], value, "map[string]interface{}")
        if name not in value:
            return None, ""
        value = value[name]
    if not isinstance(value, wanted) or isinstance(value, bool):
        return None, _misfit(names, value, "string" if wanted is str else "int64")
    return value, ""


def _misfit(names: list[str], value: Any, wanted: str) -> str:
    found = "<nil>" if value is None else gotext.go_type(value)
    return f".{'.'.join(names)} accessor error: {gotext.go_value(value)} is of the type {found}, expected {wanted}"
