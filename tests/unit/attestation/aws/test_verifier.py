"""The two sides together, over servers that behave like the metadata service, STS and EC2."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from asynctest import async_test
from cloud_servers import aws
from cloud_servers.aws import Cloud, Instance, MetadataService
from kubevouch.attestation.aws.attestor import AWSAttestor, make_attestor
from kubevouch.attestation.aws.evidence import NAME, Form, Proof, binding_digest
from kubevouch.attestation.aws.verifier import AWSVerifier, make_verifier
from kubevouch.attestation.interface import (
    AttestationError,
    Attested,
    Binding,
    Challenge,
    Claim,
    Evidence,
    RefusedEvidenceError,
    SettingsError,
    Strength,
    UnavailableError,
    UnsupportedVersionError,
)
from kubevouch.pki import keys
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.testing.clock import FakeClock
from kubevouch.util.clock import Clock
from scripted_server import ScriptedServer, reply

NOW = dt.datetime(2026, 11, 22, 6, tzinfo=dt.UTC)
KEY = keys.generate(KeyAlgorithm.ECDSA_P256)
BINDING = Binding(spki=keys.public_key_of(KEY).canonical_info, cluster_id="blue", nonce=b"n" * 32)
ID = "i-0abc000000000000a"


@dataclass(frozen=True)
class Around:
    clock: Clock
    client: None = None


@dataclass
class World:
    clock: FakeClock
    cloud: Cloud
    metadata: MetadataService
    machine: Instance
    settings: dict[str, Any] = field(default_factory=dict)

    async def attestor(self, **settings: str) -> AWSAttestor:
        return await make_attestor({"metadataEndpoint": self.metadata.url, **settings}, self.clock)

    def verifier(self, **settings: Any) -> AWSVerifier:
        return make_verifier({**self.settings, **settings}, Around(self.clock))

    async def proof(self, binding: Binding = BINDING, **settings: str) -> Proof:
        attestor = await self.attestor(**settings)
        return msgspec.json.decode(await attestor.attest("v1", KEY, binding, None), type=Proof)

    async def judge(self, proof: Proof, binding: Binding = BINDING, **settings: Any) -> Attested:
        verifier = self.verifier(**settings)
        challenge = Challenge() if verifier.needs_challenge else None
        return await verifier.verify_client(evidence(proof), binding, challenge, self.clock.now())


def evidence(proof: Proof, version: str = "v1") -> Evidence:
    return Evidence(provider=NAME, version=version, data=msgspec.json.encode(proof), challenge="c")


@asynccontextmanager
async def world(folder: Path, **machine: Any) -> AsyncIterator[World]:
    clock, instance = FakeClock(NOW), Instance(**machine)
    async with Cloud(folder, clock.now) as cloud, MetadataService(instance, clock.now) as metadata:
        cloud.instances.append(instance)
        settings = {
            "accounts": ["111122223333"],
            "roles": ["node-role"],
            "certificates": {"eu-west-1": {"rsa2048": aws.region_certificate("eu-west-1")}},
            "caFile": str(cloud.ca_file),
            "connectTo": cloud.connect_to,
            "metadataEndpoint": metadata.url,
        }
        yield World(clock, cloud, metadata, instance, settings)


@async_test
async def test_an_instance_proves_itself_for_one_key(tmp_path: Path) -> None:
    async with world(tmp_path, tags={"aws:autoscaling:groupName": "workers", "group": "control-plane"}) as there:
        proof = await there.proof()
        attested = await there.judge(proof)
        assert (attested.identity, attested.strength) == (f"111122223333/eu-west-1/{ID}", Strength.CLOUD)
        assert (attested.renewable, attested.provider_id) == (False, f"aws:///eu-west-1a/{ID}")
        # Whatever runs on the machine can sign a call for a key of its own.
        assert (await there.judge(proof, reattest=True)).renewable
        there.cloud.asked.clear()
        assert (attested.addresses, attested.dns_names) == (("10.0.0.17",), ())
        assert await (await there.attestor()).provider_id() == attested.provider_id
        assert Claim("aws.role", "node-role", "aws-sts", Strength.CLOUD) in attested.claims
        asked = await there.judge(proof, instances="api")
        assert there.cloud.asked == ["sts", "ec2"]
        assert asked.dns_names == ("ip-10-0-0-17.eu-west-1.compute.internal",)
        tags = {each.name: each.tenant_controlled for each in asked.claims if each.name.startswith("aws.tag/")}
        assert tags == {"aws.tag/aws:autoscaling:groupName": False, "aws.tag/group": True}
        verifier = there.verifier()
        names = await verifier.verify_serving(asked, ["10.0.0.17", "10.0.0.18", asked.dns_names[0]], NOW)
        assert names == {"10.0.0.17": NAME, asked.dns_names[0]: NAME}
        assert verifier.machine_name(asked) == ""


@async_test
async def test_what_was_shown_for_one_key_is_nothing_for_another(tmp_path: Path) -> None:
    async with world(tmp_path) as there:
        proof = await there.proof()
        for other in (
            Binding(b"another key", "blue", b"n" * 32),
            Binding(BINDING.spki, "green", b"n" * 32),
            Binding(BINDING.spki, "blue", b"m" * 32),
        ):
            with pytest.raises(RefusedEvidenceError, match=r"^binding"):
                await there.judge(proof, other)
        there.clock.advance(16 * 60)
        with pytest.raises(RefusedEvidenceError, match=r"^time"):
            await there.judge(proof)
        assert there.cloud.asked == []


@async_test
async def test_another_machine_s_document_and_another_machine_s_role(tmp_path: Path) -> None:
    """Both are machines of the account with the same role: each can read its own document and sign its own calls."""
    async with world(tmp_path) as there:
        own = await there.proof()
        thief = Instance(id="i-0bad0000000000009")
        there.cloud.instances.append(thief)
        async with MetadataService(thief, there.clock.now) as metadata:
            theirs = await there.proof(metadataEndpoint=metadata.url)
        mixed = msgspec.structs.replace(own, request=theirs.request)
        with pytest.raises(RefusedEvidenceError, match=rf"^session: the call is by {thief.id}, expected {ID}"):
            await there.judge(mixed)
        person = aws.Role("arn:aws:sts::111122223333:assumed-role/admins/jane")
        there.cloud.roles.append(person)
        there.machine.role = person
        with pytest.raises(RefusedEvidenceError, match=r"^role: got role admins, expected node-role"):
            await there.judge(await there.proof())


@async_test
async def test_a_call_that_sts_refuses_and_one_that_it_cannot_answer_now(tmp_path: Path) -> None:
    async with world(tmp_path) as there:
        proof = await there.proof()
        for status, code in ((503, "ServiceUnavailable"), (429, "x"), (400, "Throttling"), (500, "InternalFailure")):
            there.cloud.failures.append((status, code))
            with pytest.raises(UnavailableError):
                await there.judge(proof)
        there.cloud.failures.append((403, "ExpiredToken"))
        with pytest.raises(RefusedEvidenceError, match=r"^signature: STS answered 403 ExpiredToken"):
            await there.judge(proof)
        there.machine.role.secret_key = "rotated"
        with pytest.raises(RefusedEvidenceError, match=r"^signature: STS answered 403 SignatureDoesNotMatch"):
            await there.judge(proof)
    with pytest.raises(UnavailableError):
        await there.judge(proof)


@async_test
async def test_an_instance_is_what_ec2_says_of_it_now(tmp_path: Path) -> None:
    async with world(tmp_path) as there:
        proof = await there.proof()
        there.cloud.asked.clear()
        verifier = there.verifier(instances="api")

        async def judged() -> Attested:
            return await verifier.verify_client(evidence(proof), BINDING, Challenge(), there.clock.now())

        await judged()
        await judged()
        assert there.cloud.asked == ["sts", "ec2", "sts"]
        there.machine.state = "terminated"
        there.clock.advance(61)
        with pytest.raises(RefusedEvidenceError, match=r"^instance-state"):
            await judged()
        there.machine.state, there.machine.root_attached = "running", there.machine.started + dt.timedelta(hours=1)
        with pytest.raises(RefusedEvidenceError, match=r"^root-volume"):
            await there.judge(proof, instances="api")
        assert await there.judge(proof, instances="api", checkRootVolume=False)
        there.cloud.instances.clear()
        there.cloud.roles.append(there.machine.role)
        with pytest.raises(RefusedEvidenceError, match=r"^instance: "):
            await there.judge(proof, instances="api")
        there.machine.role_name = ""
        with pytest.raises(UnavailableError, match="no credentials for EC2: the metadata service answered 404"):
            await there.judge(proof, instances="api")


@async_test
async def test_instances_and_credentials_of_files(tmp_path: Path) -> None:
    async with world(tmp_path) as there:
        proof = await there.proof()
        instances, credentials = tmp_path / "instances.json", tmp_path / "credentials.json"
        instances.write_text('{"Reservations": []}')
        with pytest.raises(RefusedEvidenceError, match=r"^instance: "):
            await there.judge(proof, instances=str(instances))
        with pytest.raises(UnavailableError, match=r"credentials\.json: no credentials"):
            await there.judge(proof, instances="api", credentials=str(credentials))
        role = there.machine.role
        given = {"AccessKeyId": role.access_key, "SecretAccessKey": role.secret_key, "Token": role.session_token}
        credentials.write_text(json.dumps(given))
        there.metadata.asked.clear()
        assert await there.judge(proof, instances="api", credentials=str(credentials))
        assert there.metadata.asked == []


@async_test
async def test_the_document_alone_counts_once_where_the_settings_say_so(tmp_path: Path) -> None:
    async with world(tmp_path) as there:
        proof = await there.proof(freshness="firstUse")
        assert proof.request is None
        attested = await there.judge(proof, freshness="firstUse", roles=[], reattest=True)
        assert (attested.strength, attested.renewable) == (Strength.FIRST_USE, False)
        assert there.cloud.asked == []
        with pytest.raises(RefusedEvidenceError, match=r"^call"):
            await there.judge(proof)


@async_test
async def test_a_token_of_eks_with_the_binding_in_place_of_the_cluster(tmp_path: Path) -> None:
    async with world(tmp_path) as there:
        whole = await there.proof()
        name = binding_digest(BINDING.spki, BINDING.cluster_id, BINDING.nonce).hex()
        proof = msgspec.structs.replace(whole, request=None, token=aws.eks_token(there.machine.role, name, NOW))
        assert (await there.judge(proof)).strength == Strength.CLOUD
        other = msgspec.structs.replace(proof, token=aws.eks_token(there.machine.role, "another", NOW))
        # The server sets the header itself, so that STS finds it to be another than the signed one.
        with pytest.raises(RefusedEvidenceError, match=r"^signature: STS answered 403 SignatureDoesNotMatch"):
            await there.judge(other)
        with pytest.raises(RefusedEvidenceError, match=r"^call"):
            await there.judge(msgspec.structs.replace(proof, request=whole.request))


@async_test
async def test_evidence_of_another_form(tmp_path: Path) -> None:
    async with world(tmp_path) as there:
        proof = await there.proof()
        verifier = there.verifier()
        with pytest.raises(UnsupportedVersionError):
            await verifier.verify_client(evidence(proof, "v2"), BINDING, Challenge(), NOW)
        with pytest.raises(RefusedEvidenceError, match=r"^nonce"):
            await verifier.verify_client(evidence(proof), BINDING, None, NOW)
        for data in (b"{}", b"[]", msgspec.json.encode({**msgspec.to_builtins(proof), "more": 1})):
            shown = Evidence(provider=NAME, version="v1", data=data, challenge="c")
            with pytest.raises(RefusedEvidenceError, match=r"^structure"):
                await verifier.verify_client(shown, BINDING, Challenge(), NOW)
        bare = await there.proof(form="signature")
        with pytest.raises(RefusedEvidenceError, match=r"^form"):
            await there.judge(bare)
        known = {"eu-west-1": {"signature": aws.region_certificate("eu-west-1")}}
        assert await there.judge(bare, forms=["signature"], certificates=known)
        assert bare.form is Form.SIGNATURE


@async_test
async def test_certificates_of_a_folder_need_no_restart(tmp_path: Path) -> None:
    async with world(tmp_path) as there:
        proof = await there.proof()
        verifier = there.verifier(certificates={}, certificatesFolder=str(tmp_path / "aws"))

        async def judged() -> Attested:
            return await verifier.verify_client(evidence(proof), BINDING, Challenge(), NOW)

        with pytest.raises(RefusedEvidenceError, match=r"^region"):
            await judged()
        path = tmp_path / "aws" / "eu-west-1" / "rsa2048.pem"
        path.parent.mkdir(parents=True)
        path.write_text("no certificate")
        with pytest.raises(UnavailableError, match="no certificates can be read"):
            await judged()
        path.write_text(aws.region_certificate("eu-west-2") + aws.region_certificate("eu-west-1"))
        assert await judged()


@pytest.mark.parametrize(
    ("region", "settings", "host"),
    [
        ("cn-north-1", {}, "sts.cn-north-1.amazonaws.com.cn"),
        ("eu-west-1", {"stsHost": "sts-fips.eu-west-1.amazonaws.com"}, "sts-fips.eu-west-1.amazonaws.com"),
    ],
)
@async_test
async def test_the_call_is_for_the_sts_of_the_region(
    tmp_path: Path, region: str, settings: dict[str, str], host: str
) -> None:
    async with world(tmp_path, region=region, zone=f"{region}a") as there:
        proof = await there.proof(BINDING, **settings)
        assert proof.request is not None
        assert (proof.request.url, proof.request.headers["host"]) == (f"https://{host}/", host)


SETTINGS: dict[str, tuple[dict[str, Any], str]] = {
    "no accounts": ({"accounts": []}, "expected numbers of twelve digits"),
    "a number for an account": ({"accounts": [111122223333]}, "Expected `str`"),
    "a short account": ({"accounts": ["1"]}, "expected numbers of twelve digits"),
    "no roles": ({"roles": []}, "expected roles"),
    "no certificates": ({"certificates": {}}, "expected certificates or certificatesFolder"),
    "a region that is none": ({"certificates": {"../x": {}}}, "expected regions"),
    "a form that is none": ({"certificates": {"eu-west-1": {"x": ""}}}, "Invalid enum value 'x'"),
    "an empty certificate": ({"certificates": {"eu-west-1": {"rsa2048": ""}}}, "eu-west-1/rsa2048"),
    "another partition": ({"partition": "azure"}, "expected one of aws, "),
    "a relative path": ({"instances": "file"}, "expected an absolute path"),
    "a relative path of credentials": ({"instances": "api", "credentials": "file"}, "expected an absolute path"),
    "a name that is none": ({"role": ["x"]}, "unknown field `role`"),
}


@pytest.mark.parametrize("case", SETTINGS)
def test_settings_that_cannot_work(case: str) -> None:
    settings, words = SETTINGS[case]
    good = {
        "accounts": ["111122223333"],
        "roles": ["node-role"],
        "certificates": {"eu-west-1": {"rsa2048": aws.region_certificate("eu-west-1")}},
    }
    make_verifier(good, Around(FakeClock(NOW)))
    with pytest.raises(SettingsError, match=words):
        make_verifier({**good, **settings}, Around(FakeClock(NOW)))


# ------------------------------------------------------------------ the metadata service


@async_test
async def test_a_metadata_service_that_does_not_answer_as_it_should(tmp_path: Path) -> None:
    async with world(tmp_path) as there:
        attestor = await there.attestor()
        for status, error in ((503, UnavailableError), (403, AttestationError), (404, AttestationError)):
            there.metadata.failures.append(status)
            with pytest.raises(error):
                await attestor.provider_id()
        assert await attestor.provider_id()
        there.metadata.failures.append(401)  # the token is of a service that was there before
        assert await attestor.provider_id()
        there.machine.role_name = ""
        with pytest.raises(AttestationError, match="answered 404"):
            await attestor.attest("v1", KEY, BINDING, None)
        there.machine.role_name = " "
        with pytest.raises(AttestationError, match="the instance has no role"):
            await attestor.attest("v1", KEY, BINDING, None)
    with pytest.raises(UnavailableError):
        await attestor.provider_id()


@pytest.mark.parametrize(("status", "text"), [(200, "<html> a portal"), (200, ""), (404, "nothing"), (200, "é")])
@async_test
async def test_somebody_else_at_the_address_of_the_metadata_service(status: int, text: str) -> None:
    async with ScriptedServer(None, [reply(text, status)]) as server:
        attestor = await make_attestor({"metadataEndpoint": server.url}, FakeClock(NOW))
        with pytest.raises(AttestationError, match=f"answered {status} to the request for a token"):
            await attestor.provider_id()


@async_test
async def test_nothing_is_asked_without_a_token_and_credentials_are_kept(tmp_path: Path) -> None:
    async with world(tmp_path) as there:
        attestor = await there.attestor()
        await attestor.attest("v1", KEY, BINDING, None)
        first = list(there.metadata.asked)
        assert first[0] == "PUT /latest/api/token"
        await attestor.attest("v1", KEY, BINDING, None)
        again = there.metadata.asked[len(first) :]
        assert again == [f"GET /latest/dynamic/instance-identity/{each}" for each in ("document", "rsa2048")]
        there.clock.advance(6 * 3600 - 299)
        await attestor.attest("v1", KEY, BINDING, None)
        assert there.metadata.asked[-1] == "GET /latest/meta-data/iam/security-credentials/node-role"


def test_settings_of_the_node_that_are_not_known() -> None:
    import aio

    for settings in ({"form": "x"}, {"freshness": "x"}, {"region": "eu-west-1"}):
        with pytest.raises(SettingsError):
            aio.run(make_attestor(settings, FakeClock(NOW)))
