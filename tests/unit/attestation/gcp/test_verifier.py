"""A machine of Google's proves what it is: both sides, over its metadata service and the API."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from asynctest import async_test
from cloud_servers.gcp import INSTANCE_ID, NAME, PROJECT, ZONE, GoogleCloud, resource
from kubevouch.attestation import catalog
from kubevouch.attestation.api_access import MAX_FILE
from kubevouch.attestation.gcp.attestor import make_attestor
from kubevouch.attestation.gcp.instances import internal_names
from kubevouch.attestation.gcp.verifier import GCPVerifier, make_verifier
from kubevouch.attestation.interface import (
    AttestationError,
    Attested,
    Binding,
    Challenge,
    Evidence,
    RefusedEvidenceError,
    SettingsError,
    Strength,
    UnavailableError,
    UnsupportedVersionError,
)
from kubevouch.client.interface import Client
from kubevouch.pki import keys
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.testing.clock import FakeClock
from node_cases import CASES

NOW = dt.datetime(2031, 3, 1, 12, tzinfo=dt.UTC)
KEY = keys.generate(KeyAlgorithm.ECDSA_P256)
BINDING = Binding(b"spki", "blue", b"n" * 32)


@dataclass
class World:
    clock: FakeClock
    client: Client | None = None


def verifier(cloud: GoogleCloud, folder: Path, clock: FakeClock | None = None, **settings: Any) -> GCPVerifier:
    return make_verifier({**cloud.verifier_settings(folder), **settings}, World(clock or FakeClock(NOW)))


async def proof(cloud: GoogleCloud, binding: Binding = BINDING) -> Evidence:
    attestor = await make_attestor(cloud.node_settings, FakeClock(NOW))
    data = await attestor.attest("v1", KEY, binding, None)
    return Evidence(provider="gcp", version="v1", data=data, challenge="c")


async def attested(made: GCPVerifier, evidence: Evidence, binding: Binding = BINDING) -> Attested:
    return await made.verify_client(evidence, binding, Challenge(), NOW)


@async_test
async def test_the_instance_that_a_token_is_of(tmp_path: Path) -> None:
    async with GoogleCloud(tmp_path, NOW) as cloud:
        found = await attested(verifier(cloud, tmp_path), await proof(cloud))

    assert found.identity == f"{PROJECT}/{INSTANCE_ID}"
    assert found.provider_id == f"gce://{PROJECT}/{ZONE}/{NAME}"
    assert (found.node_name, found.strength, found.renewable) == (NAME, Strength.CLOUD, False)
    assert found.addresses == ("10.0.0.5", "203.0.113.5", "2001:db8::5")
    claims = {each.name: each for each in found.claims}
    assert claims["gcp.instanceID"].value == INSTANCE_ID
    assert claims["gcp.serviceAccount"].value == "nodes@demo-proj.iam.gserviceaccount.test"
    assert not claims["gcp.project"].tenant_controlled
    assert claims["gcp.label.pool"].tenant_controlled and claims["gcp.createdBy"].tenant_controlled


@async_test
async def test_another_key_of_the_same_machine_is_for_an_operator_to_allow(tmp_path: Path) -> None:
    async with GoogleCloud(tmp_path, NOW) as cloud:
        shown = await proof(cloud)
        assert not (await attested(verifier(cloud, tmp_path), shown)).renewable
        assert (await attested(verifier(cloud, tmp_path, reattest=True), shown)).renewable


@async_test
async def test_the_node_says_the_same_provider_id(tmp_path: Path) -> None:
    async with GoogleCloud(tmp_path, NOW) as cloud:
        attestor = await make_attestor(cloud.node_settings, FakeClock(NOW))
        found = await attested(verifier(cloud, tmp_path), await proof(cloud))

        assert await attestor.provider_id() == found.provider_id
        assert await attestor.opening("v1") == b"" and await attestor.make_key() is None


@pytest.mark.parametrize(
    "other", [Binding(b"other", "blue", b"n" * 32), Binding(b"spki", "red", b"n" * 32), Binding(b"spki", "blue")]
)
@async_test
async def test_a_token_for_another_key_cluster_or_challenge(tmp_path: Path, other: Binding) -> None:
    async with GoogleCloud(tmp_path, NOW) as cloud:
        with pytest.raises(RefusedEvidenceError) as caught:
            await attested(verifier(cloud, tmp_path), await proof(cloud), other)
    assert caught.value.step == "audience"


@async_test
async def test_a_token_for_whom_nobody_asked(tmp_path: Path) -> None:
    async with GoogleCloud(tmp_path, NOW) as cloud:
        with pytest.raises(RefusedEvidenceError) as caught:
            await verifier(cloud, tmp_path).verify_client(await proof(cloud), BINDING, None, NOW)
    assert caught.value.step == "nonce"


@pytest.mark.parametrize(
    ("change", "step"),
    [
        ({"id": "1"}, "instance"),
        (None, "instance"),
    ],
)
@async_test
async def test_an_instance_that_the_api_does_not_know(tmp_path: Path, change: dict[str, str] | None, step: str) -> None:
    async with GoogleCloud(tmp_path, NOW) as cloud:
        shown = await proof(cloud)
        cloud.instances = {} if change is None else {NAME: resource(**change)}
        with pytest.raises(RefusedEvidenceError) as caught:
            await attested(verifier(cloud, tmp_path), shown)
    assert caught.value.step == step


@async_test
async def test_a_name_that_went_to_a_newer_instance_is_asked_for_again(tmp_path: Path) -> None:
    async with GoogleCloud(tmp_path, NOW) as cloud:
        clock = FakeClock(NOW)
        made = verifier(cloud, tmp_path, clock)
        await attested(made, await proof(cloud))
        clock.advance(1)
        cloud.instances[NAME] = resource(id="7700112233445567")

        found = await attested(made, await proof(cloud))
        assert found.identity == f"{PROJECT}/7700112233445567"


@async_test
async def test_an_instance_that_runs_by_now_is_asked_for_again(tmp_path: Path) -> None:
    async with GoogleCloud(tmp_path, NOW) as cloud:
        clock, shown = FakeClock(NOW), await proof(cloud)
        made = verifier(cloud, tmp_path, clock)
        cloud.instances[NAME]["status"] = "SUSPENDED"
        with pytest.raises(UnavailableError):
            await attested(made, shown)
        cloud.instances[NAME]["status"] = "STAGING"
        clock.advance(1)

        assert (await attested(made, shown)).node_name == NAME


@async_test
async def test_a_cloud_that_does_not_answer_refuses_nobody(tmp_path: Path) -> None:
    async with GoogleCloud(tmp_path, NOW) as cloud:
        shown = await proof(cloud)
        for status, wait in ((500, 5.0), (503, 5.0), (429, 17.0)):
            cloud.fail(status, retry_after="17" if status == 429 else "")
            with pytest.raises(UnavailableError) as caught:
                await attested(verifier(cloud, tmp_path), shown)
            assert caught.value.retry_after == wait
        cloud.instances[NAME]["status"] = "TERMINATED"
        with pytest.raises(UnavailableError):
            await attested(verifier(cloud, tmp_path), shown)
        cloud.instances[NAME] = resource()
        settings = cloud.verifier_settings(tmp_path)
        (tmp_path / "access-token").write_text("revoked")
        with pytest.raises(UnavailableError, match="401"):
            await attested(make_verifier(settings, World(FakeClock(NOW))), shown)


@async_test
async def test_keys_that_are_not_published_where_settings_say(tmp_path: Path) -> None:
    async with GoogleCloud(tmp_path, NOW) as cloud:
        cloud.keys_status = 404
        with pytest.raises(UnavailableError, match="404"):
            await attested(verifier(cloud, tmp_path), await proof(cloud))


@async_test
async def test_the_api_is_asked_with_what_this_machine_has(tmp_path: Path) -> None:
    async with GoogleCloud(tmp_path, NOW) as cloud:
        clock, shown = FakeClock(NOW), await proof(cloud)
        made = verifier(cloud, tmp_path, clock, credentials="", **cloud.node_settings)
        for seconds in (0, 3000, 400):
            clock.advance(seconds)
            await made.verify_serving(await attested(made, shown), ["10.0.0.5"], NOW)
        assert cloud.granted == 2
        cloud.service_account = False
        with pytest.raises(UnavailableError, match="no access token"):
            await attested(verifier(cloud, tmp_path, credentials="", **cloud.node_settings), shown)


@async_test
async def test_machines_that_come_together_cost_one_call_each(tmp_path: Path) -> None:
    async with GoogleCloud(tmp_path, NOW) as cloud:
        made, shown = verifier(cloud, tmp_path), await proof(cloud)
        await asyncio.gather(*(attested(made, shown) for _ in range(8)))

        assert sorted(path.rpartition("/")[2] for path in cloud.calls) == ["certs", NAME]


@async_test
async def test_a_key_of_the_cloud_that_is_new(tmp_path: Path) -> None:
    async with GoogleCloud(tmp_path, NOW) as cloud:
        clock = FakeClock(NOW)
        made = verifier(cloud, tmp_path, clock)
        await attested(made, await proof(cloud))
        cloud.kid = "second"
        clock.advance(30)

        assert (await attested(made, await proof(cloud))).identity == f"{PROJECT}/{INSTANCE_ID}"


@async_test
async def test_names_and_addresses_of_serving_certificates(tmp_path: Path) -> None:
    async with GoogleCloud(tmp_path, NOW) as cloud:
        made = verifier(cloud, tmp_path)
        found = await attested(made, await proof(cloud))
        own = [*internal_names(PROJECT, ZONE, NAME), "10.0.0.5", "203.0.113.5", "2001:db8:0::5"]
        foreign = ["vm-blue-4", f"{NAME}.c.other.internal", "10.0.0.6", "metadata.google.internal"]

        assert set(await made.verify_serving(found, [*own, *foreign], NOW)) == set(own)
        assert not await made.verify_serving(found, own[:3], NOW)
        nobody = verifier(cloud, tmp_path, instances="")
        assert not await nobody.verify_serving(found, own, NOW)
        cloud.instances[NAME] = resource(id="1")
        again = verifier(cloud, tmp_path)
        assert not await again.verify_serving(found, own, NOW)


SERVING = [case for case in CASES if case["area"] == "attest-gcp" and case["when"] == "GKE serving check"]


@pytest.mark.parametrize("case", SERVING, ids=[case["id"] for case in SERVING])
@async_test
async def test_the_serving_cases_of_google(tmp_path: Path, case: dict[str, Any]) -> None:
    given = case["given"]
    names = [*given["serving_sans"]["dns"], *given["serving_sans"]["ips"]]
    addresses = given.get("instance", {}).get("ips", ["10.0.0.5"])
    listed = [resource(networkInterfaces=[{"networkIP": each} for each in addresses])]
    (tmp_path / "instances.json").write_text(json.dumps(listed))
    async with GoogleCloud(tmp_path, NOW) as cloud:
        made = verifier(cloud, tmp_path, instances=str(tmp_path / "instances.json"))
        found = await attested(made, await proof(cloud))

        belongs = await made.verify_serving(found, names, NOW)
    assert (set(belongs) == set(names)) is case["then"]["approved"]


def test_every_case_of_google_and_azure_is_played() -> None:
    known = {
        *("verify identity token", "GKE style verify", "GKE serving check", "internal DNS names"),
        *("verify attested document", "fetch intermediate"),
    }
    assert {case["when"] for case in CASES if case["area"] in ("attest-gcp", "attest-azure")} == known


@pytest.mark.parametrize("case", [case for case in CASES if case["when"] == "internal DNS names"])
def test_internal_names(case: dict[str, Any]) -> None:
    given = case["given"]
    assert list(internal_names(given["project"], given["zone"], given["name"])) == case["then"]["names"]


@async_test
async def test_the_file_of_instances_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "instances.json"
    async with GoogleCloud(tmp_path, NOW) as cloud:
        made = verifier(cloud, tmp_path, instances=str(path))
        shown = await proof(cloud)
        for text in (None, "{", "[1]", '[{"id":"1"}]'):
            if text is not None:
                path.write_text(text)
            with pytest.raises(UnavailableError):
                await attested(made, shown)
        path.write_text(json.dumps([resource(description="x" * MAX_FILE)]))
        with pytest.raises(UnavailableError, match="at most"):
            await attested(made, shown)
        path.write_text(json.dumps([resource()]))

        assert (await attested(made, shown)).addresses[0] == "10.0.0.5"


@pytest.mark.parametrize(
    ("data", "step"),
    [
        (b"{}", "structure"),
        (b'{"token":1}', "structure"),
        (b'{"token":"a","more":1}', "structure"),
        (b'{"token":"a","token":"b"}', "duplicate-key"),
        (b'{"token":"a"}', "structure"),
    ],
)
@async_test
async def test_evidence_that_is_none(tmp_path: Path, data: bytes, step: str) -> None:
    async with GoogleCloud(tmp_path, NOW) as cloud:
        with pytest.raises(RefusedEvidenceError) as caught:
            await attested(verifier(cloud, tmp_path), Evidence(provider="gcp", version="v1", data=data))
        with pytest.raises(UnsupportedVersionError):
            await attested(verifier(cloud, tmp_path), Evidence(provider="gcp", version="v2", data=data))
    assert caught.value.step == step


@async_test
async def test_what_keeps_a_node_from_a_token(tmp_path: Path) -> None:
    async with GoogleCloud(tmp_path, NOW) as cloud:
        cloud.service_account = False
        with pytest.raises(AttestationError, match="no service account"):
            await proof(cloud)
        cloud.forwarded = True
        with pytest.raises(UnavailableError, match="answered 403"):
            await proof(cloud)
        attestor = await make_attestor({"metadata": cloud.elsewhere}, FakeClock(NOW))
        with pytest.raises(UnavailableError, match="no metadata service"):
            await attestor.provider_id()


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"projects": []},
        {"projects": ["p"], "instances": "gcloud"},
        {"projects": ["p"], "keys": "http://keys.test"},
        {"projects": ["p"], "caFile": "/nowhere"},
        {"projects": ["p"], "project": "p"},
    ],
)
def test_settings_that_cannot_work(settings: dict[str, Any]) -> None:
    with pytest.raises(SettingsError):
        make_verifier(settings, World(FakeClock(NOW)))


@async_test
async def test_settings_of_a_node_that_cannot_work() -> None:
    for settings in ({"url": "http://x"}, {"metadata": "169.254.169.254"}):
        with pytest.raises(SettingsError):
            await make_attestor(settings, FakeClock(NOW))


def test_both_sides_are_installed() -> None:
    assert catalog.verifier("gcp") is make_verifier
    assert catalog.attestor("gcp") is make_attestor
