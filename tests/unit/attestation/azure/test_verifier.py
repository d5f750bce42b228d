"""A machine of Azure's proves what it is: both sides, over its metadata service, the directory and the API."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from asynctest import async_test
from cloud_servers import azure
from cloud_servers.azure import NAME, RESOURCE_ID, SUBSCRIPTION, TENANT, VM_ID, AzureCloud
from kubevouch.attestation import catalog
from kubevouch.attestation.azure import evidence as azure_evidence
from kubevouch.attestation.azure.attestor import make_attestor
from kubevouch.attestation.azure.verifier import AzureVerifier, make_verifier
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
from token_keys import private_key

NOW = dt.datetime(2031, 3, 1, 12, tzinfo=dt.UTC)
KEY = keys.generate(KeyAlgorithm.ECDSA_P256)
BINDING = Binding(b"spki", "blue", b"n" * 32)
CANONICAL = RESOURCE_ID.replace("Demo-RG", "demo-rg")
WITH_TOKEN: dict[str, Any] = {"managedIdentity": "required", "tenants": [TENANT]}


@dataclass
class World:
    clock: FakeClock
    client: Client | None = None


def verifier(cloud: AzureCloud, folder: Path, clock: FakeClock | None = None, **settings: Any) -> AzureVerifier:
    return make_verifier({**cloud.verifier_settings(folder), **settings}, World(clock or FakeClock(NOW)))


async def proof(cloud: AzureCloud, binding: Binding = BINDING, **settings: str) -> Evidence:
    attestor = await make_attestor({**cloud.node_settings, **settings}, FakeClock(NOW))
    data = await attestor.attest("v1", KEY, binding, None)
    return Evidence(provider="azure", version="v1", data=data, challenge="c")


def shown(document: dict[str, str], **more: str) -> Evidence:
    data: dict[str, Any] = {"document": document, "resourceId": RESOURCE_ID, **more}
    return Evidence(provider="azure", version="v1", data=msgspec.json.encode(data), challenge="c")


async def attested(made: AzureVerifier, evidence: Evidence, binding: Binding = BINDING) -> Attested:
    return await made.verify_client(evidence, binding, Challenge(), NOW)


async def refused(made: AzureVerifier, evidence: Evidence, binding: Binding = BINDING) -> str:
    with pytest.raises(RefusedEvidenceError) as caught:
        await attested(made, evidence, binding)
    return caught.value.step


@async_test
async def test_the_machine_that_a_document_is_of(tmp_path: Path) -> None:
    async with AzureCloud(tmp_path, NOW) as cloud:
        made = verifier(cloud, tmp_path)
        found = await attested(made, await proof(cloud))
        await attested(made, await proof(cloud))

        assert found.identity == f"{SUBSCRIPTION}/{VM_ID}"
        assert found.provider_id == f"azure://{CANONICAL}"
        assert (found.node_name, found.strength, found.renewable) == ("node-z", Strength.CLOUD, False)
        tags = [each for each in found.claims if each.tenant_controlled]
        assert [each.name for each in tags] == ["azure.tag.pool"]
        assert found.addresses == ("10.1.0.4", "203.0.113.9")
        # The issuer's certificate did not come along, and is kept.
        assert len(cloud.fetched) == 1


@async_test
async def test_the_token_of_its_identity_beside_it(tmp_path: Path) -> None:
    async with AzureCloud(tmp_path, NOW) as cloud:
        made = verifier(cloud, tmp_path, **WITH_TOKEN)
        found = await attested(made, await proof(cloud, managedIdentity="true"))

        claims = {each.name: each.value for each in found.claims}
        assert (claims["azure.tenant"], claims["azure.resourceGroup"]) == (TENANT, "demo-rg")
        assert await refused(made, await proof(cloud)) == "token"
        document = cloud.document(azure_evidence.nonce(BINDING))
        other = RESOURCE_ID.replace("0000-1111", "0000-9999")
        assert await refused(made, shown(document, token=cloud.token(xms_mirid=other))) == "resource"
        assert await refused(made, shown(document, token=cloud.token(tid=VM_ID))) == "tenant"
        assert await refused(made, shown(document, token=cloud.token(xms_mirid=f"{RESOURCE_ID}y"))) == "resource"
        # Without the API nothing says that document and token are of one machine.
        offline = verifier(cloud, tmp_path, machines="", **WITH_TOKEN)
        less = await attested(offline, await proof(cloud, managedIdentity="true"))
        assert (less.provider_id, less.node_name) == ("", "")
        assert "azure.resourceGroup" not in {each.name for each in less.claims}


@async_test
async def test_the_identity_of_a_scale_set_is_that_of_all_its_machines(tmp_path: Path) -> None:
    async with AzureCloud(tmp_path, NOW) as cloud:
        pool = RESOURCE_ID.replace(f"virtualMachines/{NAME}", "virtualMachineScaleSets/pool")
        one = f"{pool}/virtualMachines/3"
        cloud.machines = {one.lower(): azure.resource(id=one)}
        document = cloud.document(azure_evidence.nonce(BINDING))
        token = cloud.token(xms_mirid=pool)
        made = verifier(cloud, tmp_path, **WITH_TOKEN)

        found = await attested(made, shown(document, token=token, resourceId=one))
        assert found.provider_id == f"azure://{one.replace('Demo-RG', 'demo-rg')}"
        for other in (f"{pool}2/virtualMachines/3", RESOURCE_ID, pool):
            assert await refused(made, shown(document, token=token, resourceId=other)) == "resource"


@async_test
async def test_both_sides_say_the_same_provider_id(tmp_path: Path) -> None:
    async with AzureCloud(tmp_path, NOW) as cloud:
        attestor = await make_attestor(cloud.node_settings, FakeClock(NOW))
        assert await attestor.provider_id() == f"azure://{CANONICAL}"
        assert await attestor.opening("v1") == b"" and await attestor.make_key() is None


@pytest.mark.parametrize("other", [Binding(b"other", "blue", b"n" * 32), Binding(b"spki", "blue", b"m" * 32)])
@async_test
async def test_a_document_for_another_key_or_challenge(tmp_path: Path, other: Binding) -> None:
    async with AzureCloud(tmp_path, NOW) as cloud:
        assert await refused(verifier(cloud, tmp_path), await proof(cloud), other) == "nonce"
        with pytest.raises(RefusedEvidenceError):
            await verifier(cloud, tmp_path).verify_client(await proof(cloud), BINDING, None, NOW)


@async_test
async def test_signers_who_are_not_azure(tmp_path: Path) -> None:
    async with AzureCloud(tmp_path, NOW) as cloud:
        nonce = azure_evidence.nonce(BINDING)
        assert await refused(verifier(cloud, tmp_path), shown(cloud.document(nonce, key=private_key(3)))) == "signature"
        other_form = {**cloud.document(nonce), "encoding": "PKCS7"}
        assert await refused(verifier(cloud, tmp_path), shown(other_form)) == "structure"
        for name, step in (
            ("metadata.azure.com", ""),
            ("METADATA.azure.com", ""),
            ("*.metadata.azure.com", ""),
            ("metadata.azure.com.evil.test", "signer"),
            ("evilmetadata.azure.com", "signer"),
            ("a.b.metadata.azure.com", "signer"),
            (".metadata.azure.com", "signer"),
            ("metadata.azure.us", "signer"),
        ):
            cloud.signer = azure.certificate("metadata.azure.com", 2, ("issuing", 1), ca=False, san=name)
            made = verifier(cloud, tmp_path)
            document = shown(cloud.document(nonce, along=True))
            if step:
                assert await refused(made, document) == step, name
            else:
                await attested(made, document)
        sovereign = verifier(cloud, tmp_path, domains=["metadata.azure.us"])
        await attested(sovereign, shown(cloud.document(nonce, along=True)))


@async_test
async def test_intermediates_come_from_where_settings_permit(tmp_path: Path) -> None:
    async with AzureCloud(tmp_path, NOW) as cloud:
        nonce = azure_evidence.nonce(BINDING)
        path = azure.ISSUER_URL.partition(azure.CERTIFICATE_HOST)[2]

        async def outcome(aia: str, body: bytes | None = None) -> str:
            cloud.signer = azure.certificate("s", 2, ("issuing", 1), ca=False, san="metadata.azure.com", aia=aia)
            if body is not None:
                cloud.certificates[path] = body
            return await refused(verifier(cloud, tmp_path), shown(cloud.document(nonce)))

        for url in ("http://169.254.169.254/x", "", azure.ISSUER_URL.replace("pkiops", "pkiopt")):
            assert await outcome(url) == "chain"
        assert not cloud.fetched
        other = azure.certificate("issuing", 3, ("root", 0), ca=True).public_bytes(Encoding.DER)
        for body in (b"", b"<html>", other, b"x" * 100):
            assert await outcome(azure.ISSUER_URL, body) == "chain"
        del cloud.certificates[path]
        assert await outcome(azure.ISSUER_URL) == "chain"
        cloud.certificates[path] = bytes(20_000)
        with pytest.raises(UnavailableError):
            await attested(verifier(cloud, tmp_path), shown(cloud.document(nonce)))
        asked = len(cloud.fetched)
        offline = verifier(cloud, tmp_path, intermediates=[])
        assert await refused(offline, shown(cloud.document(nonce))) == "chain"
        await attested(offline, shown(cloud.document(nonce, along=True)))
        assert len(cloud.fetched) == asked


@async_test
async def test_a_chain_without_end_costs_four_fetches(tmp_path: Path) -> None:
    async with AzureCloud(tmp_path, NOW) as cloud:
        folder = azure.ISSUER_URL.rpartition("/")[0]
        for number in range(8):
            key, above = (1, 3) if number % 2 else (3, 1)
            each = azure.certificate(
                f"ca-{number}", key, (f"ca-{number + 1}", above), ca=True, aia=f"{folder}/{number + 1}.crt"
            )
            place = f"{folder}/{number}.crt".partition(azure.CERTIFICATE_HOST)[2]
            cloud.certificates[place] = each.public_bytes(Encoding.DER)
        cloud.signer = azure.certificate("s", 2, ("ca-0", 3), ca=False, san="metadata.azure.com", aia=f"{folder}/0.crt")
        document = shown(cloud.document(azure_evidence.nonce(BINDING)))

        assert await refused(verifier(cloud, tmp_path), document) == "chain"
        assert len(cloud.fetched) == 4


@async_test
async def test_a_machine_that_the_api_does_not_know(tmp_path: Path) -> None:
    async with AzureCloud(tmp_path, NOW) as cloud:
        shown_before = await proof(cloud)
        cloud.machines[RESOURCE_ID.lower()] = azure.resource(vm_id="aaaaaaaa-bbbb-cccc-dddd-000000000002")
        assert await refused(verifier(cloud, tmp_path), shown_before) == "vm"
        cloud.machines.clear()
        assert await refused(verifier(cloud, tmp_path), shown_before) == "vm"
        document = cloud.document(azure_evidence.nonce(BINDING))
        for resource_id in ("", "/subscriptions/../x", RESOURCE_ID.replace("0000-1111", "0000-9999")):
            evidence = msgspec.json.encode({"document": document, "resourceId": resource_id})
            made = verifier(cloud, tmp_path)
            assert await refused(made, msgspec.structs.replace(shown_before, data=evidence)) == "vm"


@async_test
async def test_groups_of_machines_that_may_join(tmp_path: Path) -> None:
    async with AzureCloud(tmp_path, NOW) as cloud:
        evidence = await proof(cloud)
        await attested(verifier(cloud, tmp_path, resourceGroups=["DEMO-rg"]), evidence)
        assert await refused(verifier(cloud, tmp_path, resourceGroups=["demo"]), evidence) == "resource-group"


@async_test
async def test_a_cloud_that_does_not_answer_refuses_nobody(tmp_path: Path) -> None:
    async with AzureCloud(tmp_path, NOW) as cloud:
        evidence = await proof(cloud)
        for status, wait in ((500, 5.0), (429, 17.0)):
            cloud.fail(status, retry_after="17" if status == 429 else "")
            with pytest.raises(UnavailableError) as caught:
                await attested(verifier(cloud, tmp_path), evidence)
            assert caught.value.retry_after == wait
        settings = cloud.verifier_settings(tmp_path)
        (tmp_path / "access-token").write_text("revoked")
        with pytest.raises(UnavailableError, match="401"):
            await attested(make_verifier(settings, World(FakeClock(NOW))), evidence)


@async_test
async def test_the_api_is_asked_with_what_this_machine_has(tmp_path: Path) -> None:
    async with AzureCloud(tmp_path, NOW) as cloud:
        shown_once = await proof(cloud)
        made = verifier(cloud, tmp_path, credentials="", **cloud.node_settings)
        assert (await attested(made, shown_once)).node_name == "node-z"
        cloud.identity = False
        with pytest.raises(UnavailableError, match="no access token"):
            await attested(verifier(cloud, tmp_path, credentials="", **cloud.node_settings), shown_once)


@async_test
async def test_names_and_addresses_of_serving_certificates(tmp_path: Path) -> None:
    async with AzureCloud(tmp_path, NOW) as cloud:
        made = verifier(cloud, tmp_path)
        found = await attested(made, await proof(cloud))
        asked = ["node-z", "10.1.0.4", "203.0.113.9", "10.1.0.5", "node-y", "metadata.azure.com"]

        assert set(await made.verify_serving(found, asked, NOW)) == {"node-z", "10.1.0.4", "203.0.113.9"}
        cloud.machines.clear()
        assert not await verifier(cloud, tmp_path).verify_serving(found, asked, NOW)
        assert not await verifier(cloud, tmp_path, machines="").verify_serving(found, asked, NOW)


@async_test
async def test_the_file_of_machines(tmp_path: Path) -> None:
    path = tmp_path / "machines.json"
    async with AzureCloud(tmp_path, NOW) as cloud:
        made = verifier(cloud, tmp_path, machines=str(path))
        evidence = await proof(cloud)
        for text in ("{", "[1]", '[{"id":"x","vmId":"y"}]'):
            path.write_text(text)
            with pytest.raises(UnavailableError):
                await attested(made, evidence)
        foreign = json.dumps(azure.listed()).replace("0000-1111", "0000-9999")
        path.write_text(foreign)
        assert await refused(made, evidence) == "vm"
        path.write_text(json.dumps(azure.listed()))
        found = await attested(made, evidence)

        assert found.provider_id == f"azure://{CANONICAL}"
        names = await made.verify_serving(found, ["10.1.0.4", "10.1.0.5", "10.1.0.6", NAME], NOW)
        assert set(names) == {"10.1.0.4", "10.1.0.5", NAME}


@pytest.mark.parametrize(
    ("data", "step"),
    [
        (b"{}", "structure"),
        (b'{"document":{"encoding":"pkcs7","signature":""},"more":1}', "structure"),
        (b'{"document":{"encoding":"pkcs7","signature":"","signature":""}}', "duplicate-key"),
        (b'{"document":{"encoding":"jws","signature":"AA=="}}', "structure"),
        (b'{"document":{"encoding":"pkcs7","signature":"%%"}}', "structure"),
        (b'{"document":{"encoding":"pkcs7","signature":"MIIBAA=="}}', "structure"),
    ],
)
@async_test
async def test_evidence_that_is_none(tmp_path: Path, data: bytes, step: str) -> None:
    async with AzureCloud(tmp_path, NOW) as cloud:
        made = verifier(cloud, tmp_path)
        assert await refused(made, Evidence(provider="azure", version="v1", data=data)) == step
        with pytest.raises(UnsupportedVersionError):
            await attested(made, Evidence(provider="azure", version="v0", data=data))


@async_test
async def test_what_keeps_a_node_from_a_proof(tmp_path: Path) -> None:
    async with AzureCloud(tmp_path, NOW) as cloud:
        cloud.identity = False
        with pytest.raises(AttestationError, match="Identity not found"):
            await proof(cloud, managedIdentity="true")
        await proof(cloud)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"subscriptions": []},
        {"roots": ""},
        {"roots": "x"},
        {"rootsFile": "/nowhere"},
        {"machines": "az"},
        {"managedIdentity": "required"},
        {"machines": "", "resourceGroups": ["g"]},
        {"machines": "", "resourceGroups": ["g"], **WITH_TOKEN},
        {"intermediates": ["http://169.254.169.254"]},
        {"intermediates": ["http://a.test/../"]},
        {"intermediates": ["http://a.test/./"]},
        {"intermediates": ["ftp://a.test/"]},
        {"keys": "http://a.test"},
        {"region": "x"},
    ],
)
@async_test
async def test_settings_that_cannot_work(tmp_path: Path, settings: dict[str, Any]) -> None:
    async with AzureCloud(tmp_path, NOW) as cloud:
        whole = {**cloud.verifier_settings(tmp_path), **settings} if settings else {}
        with pytest.raises(SettingsError):
            make_verifier(whole, World(FakeClock(NOW)))


@async_test
async def test_settings_of_a_node_that_cannot_work() -> None:
    for settings in ({"url": "http://x"}, {"metadata": "169.254.169.254"}, {"managedIdentity": "yes"}):
        with pytest.raises(SettingsError):
            await make_attestor(settings, FakeClock(NOW))


def test_both_sides_are_installed() -> None:
    assert catalog.verifier("azure") is make_verifier
    assert catalog.attestor("azure") is make_attestor
