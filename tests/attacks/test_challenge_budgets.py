"""One machine with the fleet's token asks for challenges without end; the fleet's other machines join with theirs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

import identity_world as world
from asynctest import async_test
from decisions import admission_request
from kubevouch.admission.attestation_challenge_budget import AttestationChallengeBudget, OpenChallenges
from kubevouch.admission.certificate_request_budget import DEFAULT_BUDGET, NAME_BUDGET, SOURCE_BUDGET
from kubevouch.admission.interface import Operation
from kubevouch.api.kubevouch_v1alpha1.attestation_challenges import AttestationChallenge, AttestationChallengeSpec
from kubevouch.api.kubevouch_v1alpha1.catalog import ATTESTATION_CHALLENGES
from kubevouch.machinery.custom_object import CustomObject
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta, replace_metadata
from kubevouch.registry import write_budget
from kubevouch.registry.write_budget import Allowance
from kubevouch.server.bootstrap import own_kinds
from served_world import Served, served

PATH = "/apis/kubevouch.io/v1alpha1/attestationchallenges"
SOURCE = "kubevouch.io/source-address"
TOKEN = world.token_user()


class Flood:
    """Challenges as they come: refused, or stored and counted."""

    def __init__(self) -> None:
        self.open = OpenChallenges()
        self._plugin = AttestationChallengeBudget(self.open)
        self._number = 0

    async def send(self, source: str) -> int:
        """200, or the code of the refusal; each for a key of its own."""
        self._number += 1
        name, key = f"attest-{self._number}", f"{self._number:064x}"
        obj = CustomObject(metadata=ObjectMeta(name=name), content={"spec": {"keyFingerprint": key}})
        request = admission_request(Operation.CREATE, ATTESTATION_CHALLENGES, obj, user=TOKEN)
        try:
            admitted = await self._plugin.admit(msgspec.structs.replace(request, source=source))
        except APIStatusError as err:
            return err.code
        spec = AttestationChallengeSpec(provider="tpm", version="v1", key_fingerprint=key, requester=TOKEN.name)
        self.open.changed(name, AttestationChallenge(metadata=admitted.metadata, spec=spec))
        return 200


@async_test
async def test_a_thief_at_one_address_does_not_use_up_the_token() -> None:
    flood = Flood()
    codes = [await flood.send("198.51.100.7") for _ in range(DEFAULT_BUDGET)]
    assert (codes.count(200), codes.count(429)) == (SOURCE_BUDGET, DEFAULT_BUDGET - SOURCE_BUDGET)
    assert await flood.send("203.0.113.1") == 200


@async_test
async def test_nor_does_one_with_ten_addresses() -> None:
    flood = Flood()
    codes = [await flood.send(f"198.51.100.{number % 10}") for number in range(DEFAULT_BUDGET)]
    assert set(codes) == {200}
    assert [await flood.send("198.51.100.3"), await flood.send("203.0.113.1")] == [429, 200]
    # One of the largest source has to make room, which node-attestation-controller does.
    largest, _ = flood.open.objects.largest_source(TOKEN.name)
    assert flood.open.are_too_many(TOKEN.name) and largest.startswith("198.51.100.")


async def ask(at: Served, source: str, key: str, **metadata: Any) -> tuple[int, dict[str, Any]]:
    spec = {"provider": "tpm", "version": "v1", "keyFingerprint": key}
    tree = {
        "apiVersion": "kubevouch.io/v1alpha1", "kind": "AttestationChallenge",
        "metadata": {"generateName": "attest-", **metadata}, "spec": spec,
    }  # fmt: skip
    connector = aiohttp.TCPConnector(ssl=at.context, local_addr=(source, 0))
    headers = {"Authorization": f"Bearer {at.token}"}
    async with (
        aiohttp.ClientSession(at.url, headers=headers, connector=connector) as session,
        session.post(PATH, json=tree) as answer,
    ):
        return answer.status, json.loads(await answer.read())


@async_test
async def test_a_running_server_counts_by_address_and_says_which_it_was(tmp_path: Path) -> None:
    async with served(tmp_path) as at:
        await own_kinds.ensure(at.admin)
        forged = {"annotations": {SOURCE: "127.0.0.9"}}
        made = [await ask(at, "127.0.0.5", "a" * 64, **forged) for _ in range(NAME_BUDGET)]
        assert {(code, tree["metadata"]["annotations"][SOURCE]) for code, tree in made} == {(201, "127.0.0.5")}
        code, refused = await ask(at, "127.0.0.5", "a" * 64)
        assert code == 429 and refused["details"]["retryAfterSeconds"] == 30
        assert "127.0.0.5 has as many attestation challenges for this key" in refused["message"]
        assert [(await ask(at, "127.0.0.5", "b" * 64))[0], (await ask(at, "127.0.0.9", "a" * 64))[0]] == [201, 201]
        # An answer to it makes room.
        name = made[0][1]["metadata"]["name"]
        stored = await at.admin.get(ATTESTATION_CHALLENGES, name)
        status = msgspec.structs.replace(stored.status, used_by="uid")
        await at.admin.update(
            ATTESTATION_CHALLENGES, msgspec.structs.replace(stored, status=status), subresource="status"
        )
        assert (await ask(at, "127.0.0.5", "a" * 64))[0] == 201
        # Nobody moves one to another address.
        moved = replace_metadata(await at.admin.get(ATTESTATION_CHALLENGES, name), annotations={SOURCE: "127.0.0.9"})
        kept = await at.admin.update(ATTESTATION_CHALLENGES, moved)
        assert kept.metadata.annotations[SOURCE] == "127.0.0.5"


@async_test
async def test_bytes_that_one_address_writes_are_not_the_others_of_its_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # However long the test takes, nothing comes back meanwhile.
    for name in ("BOOTSTRAP", "BOOTSTRAP_IN_ALL"):
        allowance = getattr(write_budget, name)
        monkeypatch.setattr(write_budget, name, Allowance(1, allowance.burst, allowance.free))
    async with served(tmp_path) as at:
        await own_kinds.ensure(at.admin)
        large = {"annotations": {"a": "x" * 250_000}}
        codes = [(await ask(at, "127.0.0.5", f"{number:064x}", **large))[0] for number in range(24)]
        assert codes == sorted(codes) and codes[-1] == 429
        assert (await ask(at, "127.0.0.9", "f" * 64, **large))[0] == 201
