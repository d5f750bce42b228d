"""signers/held.py: one key, its chain, and stopping for good."""

from __future__ import annotations

import pytest

from asynctest import async_test
from controller_world import NOW, fixture
from kubevouch.ledger.memory import MemoryLedger
from kubevouch.pki import authority, issuance
from kubevouch.pki.authority import CertificateAuthority
from kubevouch.pki.errors import IssuedMismatchError
from kubevouch.pki.issuance import SigningRules
from kubevouch.pki.x509 import x509_request
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.signers.held import HeldSigner
from kubevouch.signers.interface import Approval, Requester, SigningStopped, UndecidedError, Wanted
from kubevouch.signers.issuance import issue
from kubevouch.wellknown import KUBE_APISERVER_CLIENT_KUBELET_SIGNER
from signer_world import new_ca

WANTED = Wanted(
    "c",
    "u",
    KUBE_APISERVER_CLIENT_KUBELET_SIGNER,
    x509_request.parse_pem(fixture("client-good.csr")),
    ["digital signature", "client auth"],
)


async def sign(signer: HeldSigner) -> Certificate:
    return await issue(signer, Requester("u"), Approval("r", "m"), WANTED, now=NOW, ledger=MemoryLedger())


@async_test
async def test_the_chain_behind_a_certificate_is_that_of_who_has_issued_it() -> None:
    root, own, former = new_ca("root"), new_ca("issuing"), new_ca("former")
    mine, theirs = (authority.cross_sign(root, each.certificate, now=NOW) for each in (own, former))
    pool = (mine, theirs, root.certificate)
    signer = HeldSigner(CertificateAuthority(mine, own.key), SigningRules(), pool)
    assert signer.chain_of(await sign(signer)) == (mine,) == signer.chain_of(await sign(signer))
    before = HeldSigner(CertificateAuthority(theirs, former.key), SigningRules(), pool)
    assert signer.chain_of(await sign(before)) == (theirs,)
    assert HeldSigner(CertificateAuthority(mine, own.key), SigningRules()).chain_of(await sign(signer)) == ()


@async_test
async def test_nothing_is_signed_without_a_decision() -> None:
    signer = HeldSigner(new_ca("a"), SigningRules())
    with pytest.raises(UndecidedError):
        await signer.sign(WANTED)  # type: ignore[arg-type]  # what the test is about


@async_test
async def test_who_has_stopped_stays_so_under_other_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    def differs(*_: object, **__: object) -> None:
        raise IssuedMismatchError(("it is a CA",))

    signer = HeldSigner(new_ca("a"), SigningRules())
    with monkeypatch.context() as patch:
        patch.setattr(issuance, "verify_draft", differs)
        with pytest.raises(IssuedMismatchError):
            await sign(signer)
    with pytest.raises(SigningStopped, match="it is a CA"):
        await sign(signer)
    with pytest.raises(SigningStopped):
        await sign(signer.with_rules(SigningRules(), ()))
