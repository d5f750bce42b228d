"""One-time join tokens, against a server whose roles hold the verifier to them."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from asynctest import async_test
from controller_world import NOW, Cue, World, answer, world
from kubevouch import wellknown
from kubevouch.api.catalog import SECRETS
from kubevouch.api.core_v1 import Secret
from kubevouch.attestation import catalog
from kubevouch.attestation.interface import (
    Attested,
    Binding,
    Evidence,
    RefusedEvidenceError,
    SettingsError,
    Strength,
    UnavailableError,
    UnsupportedVersionError,
    Verifier,
)
from kubevouch.attestation.join_token.attestor import make_attestor
from kubevouch.attestation.join_token.evidence import Proof
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.pki import keys
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.records import join_tokens
from kubevouch.records.join_tokens import JoinToken
from kubevouch.standalone.controllers import controller_user
from kubevouch.testing.clock import FakeClock
from verifier_sources import AROUND, AnySources

K1, K2 = (Binding(spki=spki, cluster_id="c") for spki in (b"key 1", b"key 2"))
HOUR = dt.timedelta(hours=1)
KEY = keys.generate(KeyAlgorithm.ECDSA_P256)


class Lab:
    """A cluster with one token for worker-7, and its verifier as the controller runs it."""

    def __init__(self, at: World, token: JoinToken) -> None:
        self.at = at
        self.token = token
        self.failures: dict[str, APIStatusError] = {}
        name = wellknown.NODE_ATTESTATION_CONTROLLER
        client: Any = Cue(at.server.api.loopback(controller_user(name), name), [], self.failures)
        self.verifier: Verifier = catalog.verifier("join-token")({}, AnySources(at.clock, client))

    async def shown(self, binding: Binding, token: JoinToken | None = None, **fields: Any) -> Attested:
        signing = token or self.token
        proof = Proof(token_id=signing.token_id, signature=signing.sign(binding.cluster_id, binding.digest))
        return await self.judged(binding, msgspec.json.encode(msgspec.structs.replace(proof, **fields)))

    async def judged(self, binding: Binding, text: bytes, version: str = "v1") -> Attested:
        evidence = Evidence(provider="join-token", version=version, data=text)
        return await self.verifier.verify_client(evidence, binding, None, self.at.clock.now())

    async def step(self, binding: Binding, token: JoinToken | None = None, **fields: Any) -> str:
        try:
            await self.shown(binding, token, **fields)
        except RefusedEvidenceError as err:
            return err.step
        return ""

    async def stored(self) -> Secret:
        name = join_tokens.secret_name(self.token.token_id)
        return await self.at.client.get(SECRETS, name, wellknown.JOIN_TOKENS_NAMESPACE)


@asynccontextmanager
async def lab() -> AsyncIterator[Lab]:
    token = join_tokens.generate()
    async with world() as at:
        await at.client.create(SECRETS, join_tokens.to_secret(join_tokens.plan(token, "worker-7", HOUR, NOW)))
        yield Lab(at, token)


@async_test
async def test_a_token_is_good_for_one_key_and_one_machine() -> None:
    async with lab() as at:
        known = await at.shown(K1)
        assert (known.node_name, known.identity, known.strength) == ("worker-7", "worker-7", Strength.TOKEN)
        assert not known.renewable
        assert at.verifier.machine_name(known) == "worker-7"
        stored = await at.stored()
        assert stored.data["used-by"] == hashlib.sha256(b"key 1").hexdigest().encode()
        assert await at.step(K2) == "used"
        # Its request was decided, and nobody could write that down: it comes again.
        assert await at.step(K1) == ""
        assert (await at.stored()).metadata.resource_version == stored.metadata.resource_version
        at.at.clock.advance(3601)
        assert await at.step(K1) == "used"


@async_test
async def test_a_use_that_comes_too_late_burns_the_token() -> None:
    async with lab() as at:
        at.at.clock.advance(3601)
        assert await at.step(K1) == "expired"
        assert "used-by" in (await at.stored()).data
        assert await at.step(K2) == "used"


@async_test
async def test_who_has_not_the_token_burns_nothing() -> None:
    async with lab() as at:
        wrong = JoinToken(at.token.token_id, "0" * 32)
        replayed = at.token.sign("c", K1.digest)
        for step in (
            await at.step(K1, wrong),
            await at.step(K1, join_tokens.generate()),
            await at.step(K2, signature=replayed),
            await at.step(Binding(spki=b"key 1", cluster_id="another"), signature=replayed),
            await at.step(K1, signature=b""),
            await at.step(K1, signature=b"\0" * 64),
            await at.step(K1, signature=b"\0" * 4000),
            await at.step(K1, token_id="../../x"),
            await at.step(K1, token_id=""),
        ):
            assert step == "token"
        assert "used-by" not in (await at.stored()).data


@async_test
async def test_an_unknown_id_and_a_wrong_secret_look_the_same() -> None:
    async with lab() as at:
        texts = []
        for token in (JoinToken(at.token.token_id, "0" * 32), join_tokens.generate()):
            with pytest.raises(RefusedEvidenceError) as caught:
                await at.shown(K1, token)
            texts.append(str(caught.value))
        assert texts[0] == texts[1]
        assert "used-by" not in (await at.stored()).data


@async_test
async def test_what_cannot_be_read_or_written_now_is_asked_for_again() -> None:
    async with lab() as at:
        at.failures["PUT"] = answer(409)
        with pytest.raises(UnavailableError) as caught:
            await at.shown(K1)
        assert caught.value.retry_after == 1
        at.failures.clear()
        assert await at.step(K2) == ""


@async_test
async def test_a_secret_that_somebody_has_spoilt() -> None:
    async with lab() as at:
        name = join_tokens.secret_name("abcdefgh")
        meta = ObjectMeta(name=name, namespace=wellknown.JOIN_TOKENS_NAMESPACE)
        await at.at.client.create(SECRETS, Secret(metadata=meta, data={"token-id": b"abcdefgh"}))
        assert await at.step(K1, token_id="abcdefgh") == "token"


@async_test
async def test_the_verifier_reads_no_other_secret() -> None:
    async with lab() as at:
        name = wellknown.NODE_ATTESTATION_CONTROLLER
        client = at.at.server.api.loopback(controller_user(name), name)
        for namespace in (wellknown.KUBE_SYSTEM_NAMESPACE, wellknown.SIGNERS_NAMESPACE):
            with pytest.raises(APIStatusError, match="forbidden"):
                await client.get(SECRETS, "a", namespace)


@async_test
async def test_what_is_asked_before_the_proof_is_looked_at() -> None:
    async with lab() as at:
        with pytest.raises(UnsupportedVersionError):
            await at.judged(K1, b"{}", "v2")
        for text in (b"{}", b"[]", b'{"tokenId":1,"signature":"AA=="}', b'{"token":"x"}'):
            with pytest.raises(RefusedEvidenceError, match=r"^structure: "):
                await at.judged(K1, text)
        assert await at.verifier.verify_serving(await at.shown(K1), ["worker-7"], NOW) == {}


def test_there_is_a_cluster_to_ask() -> None:
    with pytest.raises(SettingsError, match="there is no cluster"):
        catalog.verifier("join-token")({}, AROUND)


@async_test
async def test_the_node_s_side_shows_no_token(tmp_path: Path) -> None:
    async with lab() as at:
        path = tmp_path / "token"
        path.touch(mode=0o600)
        path.write_text(at.token.text + "\n")
        attestor = await catalog.attestor("join-token")({"tokenFile": str(path)}, FakeClock())
        shown = await attestor.attest("v1", KEY, K1, None)
        assert at.token.secret.encode() not in shown
        assert (await at.judged(K1, shown)).node_name == "worker-7"
        await attestor.close()


@async_test
async def test_a_token_file_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "token"
    for text, mode, expected in (("x", 0o600, "has the form"), (join_tokens.generate().text, 0o644, "0600")):
        path.write_text(text)
        path.chmod(mode)
        with pytest.raises(SettingsError, match=expected) as caught:
            await make_attestor({"tokenFile": str(path)}, FakeClock())
        assert text not in str(caught.value) or text == "x"
    with pytest.raises(SettingsError, match="No such file"):
        await make_attestor({"tokenFile": str(tmp_path / "none")}, FakeClock())
    with pytest.raises(SettingsError, match="unknown field `token`"):
        await make_attestor({"token": "x"}, FakeClock())
