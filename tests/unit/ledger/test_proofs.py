"""ledger/proofs.py against the definitions of RFC 9162 section 2.1, written down as they stand there."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubevouch.ledger import proofs
from kubevouch.ledger.proofs import Frontier, Node, ProofError

# The leaves, roots and consistency proofs that implementations of Certificate Transparency have in common.
LEAVES = [bytes.fromhex(each) for each in (
    "", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"
)]  # fmt: skip
ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
CONSISTENT = {
    (1, 1): [],
    (1, 8): [
        "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
    ],
    (2, 5): [
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
    ],
    (6, 8): [
        "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a",
        "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ],
}

Bodies = Sequence[bytes]


def split(bodies: Bodies) -> int:
    k = 1
    while k * 2 < len(bodies):
        k *= 2
    return k


def mth(bodies: Bodies) -> bytes:
    """MTH, section 2.1.1."""
    if not bodies:
        return hashlib.sha256().digest()
    if len(bodies) == 1:
        return hashlib.sha256(b"\x00" + bodies[0]).digest()
    k = split(bodies)
    return hashlib.sha256(b"\x01" + mth(bodies[:k]) + mth(bodies[k:])).digest()


def path(m: int, bodies: Bodies) -> list[bytes]:
    """PATH, section 2.1.3.1."""
    if len(bodies) == 1:
        return []
    k = split(bodies)
    return [*path(m, bodies[:k]), mth(bodies[k:])] if m < k else [*path(m - k, bodies[k:]), mth(bodies[:k])]


def subproof(m: int, bodies: Bodies, is_known: bool) -> list[bytes]:
    """SUBPROOF, section 2.1.4.1."""
    if m == len(bodies):
        return [] if is_known else [mth(bodies)]
    k = split(bodies)
    if m <= k:
        return [*subproof(m, bodies[:k], is_known), mth(bodies[k:])]
    return [*subproof(m - k, bodies[k:], False), mth(bodies[:k])]


class Tree:
    """What a store keeps: the hashes of complete nodes."""

    def __init__(self, bodies: Bodies) -> None:
        self.frontier = Frontier()
        self.nodes: dict[Node, bytes] = {}
        for body in bodies:
            self.nodes |= self.frontier.append(proofs.leaf_hash(body))

    def hashes(self, ranges: Sequence[proofs.Range]) -> list[bytes]:
        return [proofs.range_hash(each, self.nodes.__getitem__) for each in ranges]


def bodies(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def test_the_published_trees() -> None:
    for size, root in enumerate(ROOTS, 1):
        assert Tree(LEAVES[:size]).frontier.root().hex() == root == mth(LEAVES[:size]).hex()
    for (former, size), hashes in CONSISTENT.items():
        assert [each.hex() for each in Tree(LEAVES).hashes(proofs.consistency(former, size))] == hashes
    assert Frontier().root() == proofs.EMPTY_ROOT == mth([])


def test_all_small_trees_have_the_proofs_of_the_definition() -> None:
    for size in range(1, 34):
        whole = bodies(size)
        tree, root = Tree(whole), mth(whole)
        assert tree.frontier.root() == root
        for index in range(size):
            hashes = tree.hashes(proofs.inclusion(index, size))
            assert hashes == path(index, whole)
            proofs.verify_inclusion(proofs.leaf_hash(whole[index]), index, size, hashes, root)
        for former in range(1, size):
            hashes = tree.hashes(proofs.consistency(former, size))
            assert hashes == subproof(former, whole, True)
            proofs.verify_consistency(former, mth(whole[:former]), size, root, hashes)
        proofs.verify_consistency(0, proofs.EMPTY_ROOT, size, root, [])
        proofs.verify_consistency(size, root, size, root, [])


@given(st.integers(1, 300), st.data())
def test_a_changed_proof_shows_nothing(size: int, data: st.DataObject) -> None:
    whole = bodies(size)
    tree, root = Tree(whole), mth(whole)
    index = data.draw(st.integers(0, size - 1))
    leaf, hashes = proofs.leaf_hash(whole[index]), tree.hashes(proofs.inclusion(index, size))
    with pytest.raises(ProofError):
        proofs.verify_inclusion(proofs.leaf_hash(b"another"), index, size, hashes, root)
    with pytest.raises(ProofError):
        proofs.verify_inclusion(leaf, index, size, [*hashes, root], root)
    for position in range(len(hashes)):
        with pytest.raises(ProofError):
            proofs.verify_inclusion(leaf, index, size, hashes[:position] + hashes[position + 1 :], root)
        changed = list(hashes)
        changed[position] = proofs.EMPTY_ROOT
        with pytest.raises(ProofError):
            proofs.verify_inclusion(leaf, index, size, changed, root)
    other = data.draw(st.integers(0, size - 1))
    if other != index:
        with pytest.raises(ProofError):
            proofs.verify_inclusion(leaf, other, size, hashes, root)


@given(st.integers(2, 300), st.data())
def test_a_ledger_that_was_rewritten_is_not_consistent(size: int, data: st.DataObject) -> None:
    former = data.draw(st.integers(1, size - 1))
    changed = data.draw(st.integers(0, former - 1))
    whole = bodies(size)
    rewritten = [*whole[:changed], b"another", *whole[changed + 1 :]]
    ranges = proofs.consistency(former, size)
    for tree in (Tree(whole), Tree(rewritten)):
        with pytest.raises(ProofError):
            proofs.verify_consistency(former, mth(whole[:former]), size, mth(rewritten), tree.hashes(ranges))
    hashes = Tree(whole).hashes(ranges)
    for wrong in ([], hashes[1:], hashes[:-1], [*hashes, hashes[0]], hashes[::-1] if len(hashes) > 1 else []):
        with pytest.raises(ProofError):
            proofs.verify_consistency(former, mth(whole[:former]), size, mth(whole), wrong)


def test_sizes_that_cannot_be() -> None:
    root = mth(bodies(3))
    for call in (
        lambda: proofs.inclusion(3, 3),
        lambda: proofs.inclusion(-1, 3),
        lambda: proofs.consistency(4, 3),
        lambda: proofs.verify_inclusion(root, 3, 3, [], root),
        lambda: proofs.verify_consistency(4, root, 3, root, []),
        lambda: proofs.verify_consistency(3, root, 3, root, [root]),
        lambda: proofs.verify_consistency(3, root, 3, mth(bodies(2)), []),
        lambda: proofs.verify_consistency(0, root, 3, root, []),
    ):
        with pytest.raises(ProofError):
            call()


def test_a_frontier_goes_on_where_another_was_left() -> None:
    tree = Tree(bodies(21))
    hashes = [tree.nodes[node] for node in proofs.complete(0, 21)]
    later = Frontier(21, hashes)
    copied = later.copy()
    later.append(proofs.leaf_hash(b"21"))
    assert later.root() == mth(bodies(22)) and copied.root() == mth(bodies(21))
