"""Evidence made by real tools, each with the verdict it deserves: ``vectors/evidence``, and how a rule is held to it.

The test of a method selects its kinds and gives what judges one of them::

    @pytest.mark.parametrize("case", evidence_cases.of("aws-iid"))
    def test_instance_identity_documents(case: Case) -> None:
        case.judge(lambda: verify_document(case.octets("document"), now=case.now))
"""

from __future__ import annotations

import base64
import datetime as dt
import inspect
import json
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from kubevouch.attestation.interface import RefusedEvidenceError
from kubevouch.pki.x509 import x509_request

FOLDER = Path(__file__).parent / "vectors" / "evidence"


@dataclass(frozen=True)
class Case:
    """One file. ``given`` and ``roots`` are of the kind's own form (``vectors/README.md``)."""

    id: str
    kind: str
    given: dict[str, Any]
    roots: list[Any]
    nonce_text: str
    now: dt.datetime
    csr_pem: str
    accepted: bool
    reason: str

    @property
    def step(self) -> str:
        """The check that has to fail; empty for evidence that is good."""
        return "" if self.accepted else self.reason.partition(":")[0]

    @property
    def nonce(self) -> bytes:
        return base64.b64decode(self.nonce_text, validate=True)

    @property
    def spki(self) -> bytes:
        """The key of the request, as a :class:`~kubevouch.attestation.interface.Binding` has it."""
        return x509_request.parse_pem(self.csr_pem.encode()).public_key.canonical_info

    def octets(self, name: str) -> bytes:
        """``given``'s member ``name`` with ``_b64`` behind it; empty if it is not there."""
        return base64.b64decode(self.given.get(f"{name}_b64") or "", validate=True)

    def text(self, name: str) -> str:
        """``given``'s member ``name``; empty if it is not there."""
        return self.given.get(name) or ""

    def judge(self, rule: Callable[[], object]) -> None:
        """``rule`` accepts what is good, and refuses everything else at the step that has to fail."""
        if self.accepted:
            rule()
            return
        with pytest.raises(RefusedEvidenceError) as caught:
            rule()
        assert caught.value.step == self.step, f"{self.reason}\n{caught.value}"

    async def judge_async(self, rule: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """As :meth:`judge`."""
        made = rule()
        assert inspect.iscoroutine(made)
        if self.accepted:
            await made
            return
        with pytest.raises(RefusedEvidenceError) as caught:
            await made
        assert caught.value.step == self.step, f"{self.reason}\n{caught.value}"


def of(*kinds: str) -> list[Any]:
    """The cases of these kinds, as parameters with their ids. Each kind has one at least."""
    chosen = [case for case in everything() if case.kind in kinds]
    assert {case.kind for case in chosen} == set(kinds)
    return [pytest.param(case, id=case.id) for case in chosen]


def named(identifier: str) -> Case:
    """The case ``ev-…`` of that name."""
    return next(case for case in everything() if case.id == identifier)


@lru_cache(maxsize=1)
def everything() -> tuple[Case, ...]:
    """Every file of the folder."""
    return tuple(_read(path) for path in sorted(FOLDER.glob("*.json")))


def _read(path: Path) -> Case:
    read = json.loads(path.read_text())
    assert read["id"] == path.stem
    assert read["expect"] in ("accept", "reject")
    return Case(
        id=read["id"],
        kind=read["kind"],
        given=read["given"],
        roots=read["roots"],
        nonce_text=read["nonce"] or "",
        now=dt.datetime.fromisoformat(read["now"]),
        csr_pem=read.get("csr_pem") or "",
        accepted=read["expect"] == "accept",
        reason=read["reason"],
    )
