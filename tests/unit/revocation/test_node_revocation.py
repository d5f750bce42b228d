"""The hold of what a node has: found again by its node, and by nothing that also is about others."""

from __future__ import annotations

import datetime as dt

import msgspec
import pytest

from kubevouch.machinery.text import names
from kubevouch.revocation.node_revocation import is_of_node, of_node

NOW = dt.datetime(2031, 3, 1, 12, 0, 0, 7, tzinfo=dt.UTC)


@pytest.mark.parametrize("node", ["a", "a.b", "n" * 253])
def test_its_name_is_one_of_an_object(node: str) -> None:
    made = of_node(node, NOW, "stolen", "me")
    assert not names.subdomain(made.metadata.name)
    assert made == of_node(node, NOW.replace(microsecond=0), "stolen", "me")
    assert is_of_node(made, node) and not is_of_node(made, "b")


def test_whatever_is_graver_or_about_more_is_not_lifted_with_it() -> None:
    made = of_node("a", NOW, "", "")
    spec, targets = made.spec, made.spec.revoked
    graver = msgspec.structs.replace(spec, reason="keyCompromise")
    wider = msgspec.structs.replace(spec, revoked=msgspec.structs.replace(targets, nodes=["a", "b"]))
    keyed = msgspec.structs.replace(spec, revoked=msgspec.structs.replace(targets, keys=["a" * 64]))
    assert not any(is_of_node(msgspec.structs.replace(made, spec=each), "a") for each in (graver, wider, keyed))
