"""When one type can stand for another."""

from __future__ import annotations

import pytest

from kubevouch.cel.types import (
    BOOL,
    DURATION,
    DYN,
    INT,
    NULL,
    STRING,
    Type,
    assignable,
    list_of,
    map_of,
    most_general,
    opaque,
    optional_of,
    parameter,
    struct,
    substitute,
    type_of,
    unwrapped,
)

T, U = parameter("T"), parameter("U")


@pytest.mark.parametrize(
    ("left", "right", "fits"),
    [
        (INT, INT, True),
        (INT, STRING, False),
        (INT, DYN, True),
        (list_of(INT), list_of(DYN), True),
        (list_of(INT), list_of(STRING), False),
        (map_of(STRING, INT), map_of(STRING, INT), True),
        (list_of(INT), map_of(STRING, INT), False),
        (struct("a"), struct("a"), True),
        (struct("a"), struct("b"), False),
        (opaque("a"), optional_of(INT), False),
        (NULL, struct("a"), True),
        (DURATION, NULL, True),
        (NULL, INT, False),
        (STRING, NULL, False),
        (type_of(INT), type_of(STRING), True),
        (T, T, True),
        (T, INT, True),
        (INT, T, True),
        (list_of(T), T, False),
    ],
)
def test_one_for_another(left: Type, right: Type, fits: bool) -> None:
    assert (assignable({}, [left], [right]) is not None) is fits


def test_a_parameter_stands_for_one_type() -> None:
    assert assignable({}, [INT, INT], [T, T]) == {"T": INT}
    assert assignable({}, [INT, STRING], [T, T]) is None
    assert assignable({}, [INT, DYN], [T, T]) == {"T": DYN}
    assert assignable({}, [INT], [T, T]) is None
    assert assignable({"U": list_of(T)}, [U], [T]) is None


def test_the_more_general_of_two() -> None:
    assert most_general(list_of(INT), list_of(DYN)) == list_of(DYN)
    assert most_general(list_of(DYN), list_of(INT)) == list_of(DYN)
    assert most_general(type_of(INT), type_of(BOOL)) == type_of(INT)
    assert most_general(INT, STRING) == STRING


def test_substitution() -> None:
    assert substitute({"T": list_of(U), "U": INT}, map_of(STRING, T)) == map_of(STRING, list_of(INT))
    assert substitute({}, list_of(T)) == list_of(T)
    assert substitute({}, list_of(T), free_to_dyn=True) == list_of(DYN)
    kept = list_of(INT, origin="mine")
    assert substitute({}, kept) is kept


def test_what_prints() -> None:
    assert str(map_of(STRING, optional_of(INT))) == "map(string, optional_type(int))"
    assert unwrapped(optional_of(INT)) == (INT, True)
    assert unwrapped(INT) == (INT, False)
