"""ledger/chain.py: a link holds what stands before it."""

from __future__ import annotations

import hashlib

from kubevouch.ledger import chain


def test_a_link_is_of_what_stands_before_it_and_of_the_entry() -> None:
    first = chain.beginning("ledger/a")
    one = chain.link(first, b"one")
    assert one == hashlib.sha256(b"\x02" + first + hashlib.sha256(b"\x00one").digest()).digest()
    others = [
        chain.link(chain.beginning("ledger/b"), b"one"),
        chain.link(first, b"two"),
        chain.link(one, b"one"),
        first,
    ]
    assert one not in others and len(set(others)) == 4
