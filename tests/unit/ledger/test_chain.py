"""ledger/chain.py: a link holds what stands before it."""

from __future__ import annotations

import hashlib

from kubevouch.ledger import chain


def test_a_link_is_of_what_stands_before_it_and_of_the_entry() -> None:
    first, leaf, other = chain.beginning("ledger/a"), bytes(32), bytes([1]) * 32
    one = chain.link(first, leaf)
    assert one == hashlib.sha256(b"\x02" + first + leaf).digest()
    others = [chain.link(chain.beginning("ledger/b"), leaf), chain.link(first, other), chain.link(one, leaf), first]
    assert one not in others and len(set(others)) == 4
