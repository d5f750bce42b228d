"""What can be called: each function with its implementations, for the interpreter.

An implementation is declared where it is written: ``@method("charAt", "string int")``. The interpreter goes by the
types of the arguments that it has; what there is for the checker :mod:`kubevouch.cel.declarations` says. A function
whose last parameter is ``run`` pays for itself; any other costs 1.
"""

from __future__ import annotations

import datetime
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import msgspec

from kubevouch.cel.values import Opaque, Optional, TypeValue, UInt

Implementation = Callable[..., Any]
_F = TypeVar("_F", bound=Callable[..., Any])
_O = TypeVar("_O", bound=Opaque)

_CLASSES: Final[dict[str, type]] = {
    "bool": bool, "int": int, "uint": UInt, "double": float, "string": str, "bytes": bytes, "list": list, "map": dict,
    "null": type(None), "type": TypeValue, "timestamp": datetime.datetime, "duration": datetime.timedelta,
    "optional": Optional,
}  # fmt: skip


class Overload(msgspec.Struct, frozen=True):
    """One implementation of a function.

    Args:
        pays: the implementation takes the run and spends for itself.
        classes: the Python class of each argument, the receiver's first; None takes any.
    """

    is_member: bool
    implementation: Implementation
    pays: bool
    classes: tuple[type | None, ...]

    def takes(self, arguments: Sequence[Any]) -> bool:
        for wanted, argument in zip(self.classes, arguments, strict=True):
            if wanted is not None and type(argument) is not wanted:
                return False
        return True


FUNCTIONS: Final[dict[str, list[Overload]]] = {}
_OPAQUE: Final[dict[str, type[Opaque]]] = {}


def opaque(name: str) -> Callable[[type[_O]], type[_O]]:
    """Makes a class known as the type ``name``."""

    def known(cls: type[_O]) -> type[_O]:
        cls.type_name = name
        _OPAQUE[name] = cls
        return cls

    return known


def function(name: str, parameters: str) -> Callable[[_F], _F]:
    """Declares the implementation of a function; the types of its arguments are separated by blanks."""
    return _declared(name, parameters, is_member=False)


def method(name: str, parameters: str) -> Callable[[_F], _F]:
    """As :func:`function`, called on its first argument."""
    return _declared(name, parameters, is_member=True)


def _declared(name: str, parameters: str, *, is_member: bool) -> Callable[[_F], _F]:
    def declared(implementation: _F) -> _F:
        pays = "run" in inspect.signature(implementation).parameters
        classes = tuple(_class(each) for each in parameters.split())
        FUNCTIONS.setdefault(name, []).append(Overload(is_member, implementation, pays, classes))
        return implementation

    return declared


def _class(name: str) -> type | None:
    plain = name.partition("(")[0]
    return _CLASSES.get(plain) or _OPAQUE.get(plain)
