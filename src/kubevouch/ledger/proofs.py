"""Merkle trees over the ledger, and proofs that need a few hashes of it. No I/O.

A tree over ``[begin, end)`` is written as this pair. A *node* ``(level, index)`` is the complete tree over the
``2**level`` leaves from ``index * 2**level`` on; its hash never changes again.

Source: RFC 9162 section 2.1 (the same trees as RFC 6962 section 2.1).

    ProofError    a proof that does not show what it should
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence

EMPTY_ROOT = hashlib.sha256(b"").digest()

Node = tuple[int, int]
Range = tuple[int, int]


class ProofError(ValueError):
    """A proof that does not show what it should."""


def leaf_hash(body: bytes) -> bytes:
    return hashlib.sha256(b"\x00" + body).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()


class Frontier:
    """The complete trees that a ledger of ``size`` consists of: what is needed to append, and for the root."""

    __slots__ = ("hashes", "size")

    def __init__(self, size: int = 0, hashes: Sequence[bytes] = ()) -> None:
        """``hashes``: of :func:`complete` over ``(0, size)``."""
        self.size = size
        self.hashes = list(hashes)

    def append(self, leaf: bytes) -> list[tuple[Node, bytes]]:
        """Put a leaf's hash at the end; returns the nodes that are complete since then, the leaf first."""
        level, index = 0, self.size
        made = [((level, index), leaf)]
        while index & 1:
            leaf = node_hash(self.hashes.pop(), leaf)
            level, index = level + 1, index >> 1
            made.append(((level, index), leaf))
        self.hashes.append(leaf)
        self.size += 1
        return made

    def copy(self) -> Frontier:
        return Frontier(self.size, self.hashes)

    def root(self) -> bytes:
        return folded(self.hashes)


def folded(hashes: Sequence[bytes]) -> bytes:
    """The root over the complete trees with these hashes, from left to right."""
    if not hashes:
        return EMPTY_ROOT
    root = hashes[-1]
    for left in reversed(hashes[:-1]):
        root = node_hash(left, root)
    return root


def complete(begin: int, end: int) -> Iterator[Node]:
    """The nodes that a tree of a proof, or a whole ledger, consists of, from left to right."""
    while begin < end:
        level = (end - begin).bit_length() - 1
        yield level, begin >> level
        begin += 1 << level


def range_hash(part: Range, hash_of: Callable[[Node], bytes]) -> bytes:
    """The hash of a tree of a proof; ``hash_of`` knows those of nodes."""
    return folded([hash_of(node) for node in complete(*part)])


def inclusion(index: int, size: int) -> list[Range]:
    """The trees whose hashes prove that leaf ``index`` is in the tree of ``size`` leaves: PATH, nearest first.

    Source: RFC 9162 section 2.1.3.1.
    """
    if not 0 <= index < size:
        raise ProofError(f"got entry {index}, expected one of the {size} of the tree")
    path: list[Range] = []
    begin, end = 0, size
    while end - begin > 1:
        middle = begin + _split(end - begin)
        if index < middle:
            path.append((middle, end))
            end = middle
        else:
            path.append((begin, middle))
            begin = middle
    return path[::-1]


def consistency(former: int, size: int) -> list[Range]:
    """The trees whose hashes prove that the first ``former`` of ``size`` leaves are what they were: PROOF.

    Source: RFC 9162 section 2.1.4.1.
    """
    if not 0 <= former <= size:
        raise ProofError(f"got a former size of {former}, expected at most {size}")
    if former in (0, size):
        return []
    path: list[Range] = []
    begin, end, is_whole = 0, size, True
    while former != end:
        middle = begin + _split(end - begin)
        if former <= middle:
            path.append((middle, end))
            end = middle
        else:
            path.append((begin, middle))
            begin, is_whole = middle, False
    if not is_whole:
        path.append((begin, end))
    return path[::-1]


def _split(leaves: int) -> int:
    """The largest power of two below ``leaves``."""
    return 1 << ((leaves - 1).bit_length() - 1)


def verify_inclusion(leaf: bytes, index: int, size: int, path: Sequence[bytes], root: bytes) -> None:
    """Raises ProofError unless ``leaf`` is number ``index`` of the tree with this size and root.

    Source: RFC 9162 section 2.1.3.2, step by step.
    """
    # 1. and 2.
    if not 0 <= index < size:
        raise ProofError(f"got entry {index}, expected one of the {size} of the tree")
    fn, sn = index, size - 1
    # 3.
    r = leaf
    # 4.
    for p in path:
        if sn == 0:
            raise ProofError(f"got {len(path)} hashes, expected fewer")
        if fn & 1 or fn == sn:
            r = node_hash(p, r)
            while not fn & 1 and fn:
                fn, sn = fn >> 1, sn >> 1
        else:
            r = node_hash(r, p)
        fn, sn = fn >> 1, sn >> 1
    # 5.
    if sn:
        raise ProofError(f"got {len(path)} hashes, expected more")
    if r != root:
        raise ProofError("the entry is not in the tree with this root")


def verify_consistency(former: int, former_root: bytes, size: int, root: bytes, path: Sequence[bytes]) -> None:
    """Raises ProofError unless the tree with ``size`` and ``root`` begins with the former one.

    Source: RFC 9162 section 2.1.4.2, step by step; sizes that it leaves out are told here.
    """
    if not 0 <= former <= size:
        raise ProofError(f"got a former size of {former}, expected at most {size}")
    if former in (0, size):
        if path:
            raise ProofError(f"got {len(path)} hashes, expected none")
        if former_root != (root if former else EMPTY_ROOT):
            raise ProofError(f"two trees of {former} entries have different roots")
        return
    # 1.
    if not path:
        raise ProofError("got no hashes, expected some")
    # 2.
    hashes = list(path)
    if former & (former - 1) == 0:
        hashes.insert(0, former_root)
    # 3. and 4.
    fn, sn = former - 1, size - 1
    while fn & 1:
        fn, sn = fn >> 1, sn >> 1
    # 5.
    fr = sr = hashes[0]
    # 6.
    for c in hashes[1:]:
        if sn == 0:
            raise ProofError(f"got {len(path)} hashes, expected fewer")
        if fn & 1 or fn == sn:
            fr, sr = node_hash(c, fr), node_hash(c, sr)
            while not fn & 1 and fn:
                fn, sn = fn >> 1, sn >> 1
        else:
            sr = node_hash(sr, c)
        fn, sn = fn >> 1, sn >> 1
    # 7.
    if sn:
        raise ProofError(f"got {len(path)} hashes, expected more")
    if fr != former_root or sr != root:
        raise ProofError(f"the first {former} entries are not what they were")
