"""The functions that Kubernetes adds to the language, as far as they are served: lists and sets.

Not served: a list's ``indexOf`` and ``lastIndexOf`` (the engine has no room for an overload), ``find`` and
``findAll`` (Python's regular expressions backtrack, and these would run on them), quantity, semver, url, ip, cidr,
format and the authorizer.

Source: k8s.io/apiserver/pkg/cel/library/lists.go, cel-go ext/sets.go (Kubernetes 1.36).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from cel_expr_python import cel

_LIST = cel.Type.List(cel.Type.DYN)


def _is_sorted(items: list[Any]) -> bool:
    return all(left <= right for left, right in itertools.pairwise(items))


def _contains(items: list[Any], wanted: list[Any]) -> bool:
    return all(item in items for item in wanted)


def _equivalent(left: list[Any], right: list[Any]) -> bool:
    return _contains(left, right) and _contains(right, left)


def _intersects(left: list[Any], right: list[Any]) -> bool:
    return any(item in right for item in left) or (not left and not right)


def _method(
    name: str, result: cel.Type, implementation: Callable[..., Any], parameters: list[cel.Type]
) -> cel.FunctionDecl:
    overload = cel.Overload(f"kubernetes_{name}", result, parameters, is_member=True, impl=implementation)
    return cel.FunctionDecl(name, [overload])


def _function(name: str, implementation: Callable[..., Any]) -> cel.FunctionDecl:
    overload = cel.Overload(f"kubernetes_{name}", cel.Type.BOOL, [_LIST, _LIST], impl=implementation)
    return cel.FunctionDecl(name, [overload])


DECLARATIONS = [
    _method("isSorted", cel.Type.BOOL, _is_sorted, [_LIST]),
    _method("sum", cel.Type.DYN, sum, [_LIST]),
    _method("min", cel.Type.DYN, min, [_LIST]),
    _method("max", cel.Type.DYN, max, [_LIST]),
    _function("sets.contains", _contains),
    _function("sets.equivalent", _equivalent),
    _function("sets.intersects", _intersects),
]
