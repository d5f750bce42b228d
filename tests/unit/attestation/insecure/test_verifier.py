"""No proof at all."""

from __future__ import annotations

import msgspec
import pytest

from asynctest import async_test
from device_certificates import NOW
from kubevouch.api.kubevouch_v1alpha1.node_identities import NodeIdentity
from kubevouch.attestation import catalog
from kubevouch.attestation.insecure.evidence import WARNING
from kubevouch.attestation.interface import (
    Attested,
    Binding,
    Challenge,
    Evidence,
    RefusedEvidenceError,
    SettingsError,
    Strength,
    UnsupportedVersionError,
)
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.pki import keys
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.policy import node_identities
from kubevouch.policy.node_identities import Asked, IdentityRefusedError
from kubevouch.testing.clock import FakeClock
from kubevouch.testing.logs import capture_logs
from verifier_sources import AROUND

KEY = keys.generate(KeyAlgorithm.ECDSA_P256)
FIRST, SECOND = (Binding(spki=b"k", cluster_id="c", nonce=nonce * 32) for nonce in (b"a", b"b"))
VERIFIER = catalog.verifier("insecure")({}, AROUND)


async def judged(binding: Binding, text: bytes = b'{"proves":"nothing"}', version: str = "v1") -> Attested:
    evidence = Evidence(provider="insecure", version=version, data=text)
    return await VERIFIER.verify_client(evidence, binding, Challenge(), NOW)


def asked(known: Attested, uid: str, *, own: bool = True) -> Asked:
    return Asked(node_name="n", proofs=(known,), key="k", uid=uid, requester="system:node:n", seconds=600, own=own)


@async_test
async def test_both_sides_warn_each_time() -> None:
    attestor = await catalog.attestor("insecure")({}, FakeClock())
    for _ in range(2):
        with capture_logs() as told:
            known = await judged(FIRST, await attestor.attest("v1", KEY, FIRST, None))
        assert [each["event"] for each in told] == [WARNING, WARNING]
        assert {each["log_level"] for each in told} == {"warning"}
    assert (known.strength, known.renewable, known.node_name) == (Strength.INSECURE, False, "")
    await attestor.close()


@async_test
async def test_it_never_renews_not_even_for_the_node_itself_with_the_same_key() -> None:
    first = await judged(FIRST)
    status = node_identities.decide(asked(first, "one", own=False), None, (), NOW).status
    named = NodeIdentity(metadata=ObjectMeta(name="n"), status=status)
    # The same request again, after a crash.
    assert node_identities.decide(asked(await judged(FIRST), "one"), named, (), NOW).event == node_identities.AGAIN
    with pytest.raises(IdentityRefusedError) as caught:
        node_identities.decide(asked(await judged(SECOND), "two"), named, (), NOW)
    assert caught.value.step == "name-taken"
    # Nor once its name was let go: it would renew in other words.
    with pytest.raises(IdentityRefusedError, match="joins again with a bootstrap token") as caught:
        node_identities.decide(asked(await judged(SECOND), "two"), None, (), NOW)
    assert caught.value.step == "insecure"


@async_test
async def test_it_never_serves() -> None:
    known = await judged(FIRST)
    known = msgspec.structs.replace(known, addresses=("10.0.0.1",), dns_names=("n",))
    assert await VERIFIER.verify_serving(known, ["n", "10.0.0.1"], NOW) == {}


@async_test
async def test_what_is_not_even_that() -> None:
    for text in (b"{}", b'{"proves":"everything"}', b'{"proves":"nothing","more":1}', b"null"):
        with pytest.raises(RefusedEvidenceError, match=r"^structure: "):
            await judged(FIRST, text)
    with pytest.raises(UnsupportedVersionError):
        await judged(FIRST, version="v0")
    evidence = Evidence(provider="insecure", version="v1", data=b'{"proves":"nothing"}')
    with pytest.raises(RefusedEvidenceError, match=r"^nonce: "):
        await VERIFIER.verify_client(evidence, FIRST, None, NOW)
    with pytest.raises(SettingsError):
        catalog.verifier("insecure")({"renew": True}, AROUND)
