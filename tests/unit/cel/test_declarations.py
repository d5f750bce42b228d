"""What can be called is what is implemented."""

from __future__ import annotations

import pytest

from kubevouch.cel import certificate_names, compiler, patches  # noqa: F401 - make all implementations known
from kubevouch.cel.declarations import declarations, named_type
from kubevouch.cel.functions import FUNCTIONS
from kubevouch.cel.types import BOOL, DYN, INT, NULL, STRING, list_of, map_of, optional_of, parameter

# The interpreter has these itself: they need not look at all of their arguments, or make what a loop returns.
OWN = {
    "_?_:_", "_&&_", "_||_", "@not_strictly_false", "_==_", "_!=_", "@in", "_[_]", "_[?_]", "cel.@mapInsert",
    "or", "orValue",
}  # fmt: skip


def test_every_signature_has_an_implementation() -> None:
    wanted = {
        (name, signature.is_member, len(signature.parameters))
        for name, signatures in {
            **declarations(),
            **patches.ADDITIONS.functions,
            **certificate_names.ADDITIONS.functions,
        }.items()
        if name not in OWN
        for signature in signatures
    }
    assert wanted == {
        (name, each.is_member, len(each.classes)) for name, overloads in FUNCTIONS.items() for each in overloads
    }


def test_signatures_have_cel_gos_names() -> None:
    found = {signature.name: signature for signatures in declarations().values() for signature in signatures}
    assert found["less_equals_int64_double"].parameters == (INT, named_type("double"))
    assert found["list_string_sort"].result == list_of(STRING)
    assert found["optional_map_index_value"].parameters[0] == optional_of(map_of(parameter("K"), parameter("V")))
    assert found["optional_map_index_value"].generic
    assert found["format_validate"].result == optional_of(list_of(STRING))
    assert len(found) == sum(map(len, declarations().values()))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("bool", BOOL),
        ("null_type", NULL),
        ("list(string)", list_of(STRING)),
        ("map(string, list(int))", map_of(STRING, list_of(INT))),
        ("kubernetes.Thing", DYN),
        ("list(kubernetes.Thing)", list_of(DYN)),
        ("map(string)", DYN),
    ],
)
def test_types_by_their_names(text: str, kind: object) -> None:
    assert named_type(text) == kind
