"""controllers/certificate_signers.py: an object becomes a signer, its CA is known first, and faults stay its own."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from asynctest import async_test
from controller_world import NOW, answer, fixture
from kubevouch.api.catalog import CLUSTER_TRUST_BUNDLES, CONFIG_MAPS, EVENTS, SECRETS
from kubevouch.api.kubevouch_v1alpha1.catalog import CERTIFICATE_SIGNERS
from kubevouch.api.kubevouch_v1alpha1.certificate_signers import CertificateSigner
from kubevouch.controllers.interface import RESYNC_SECONDS
from kubevouch.machinery.errors import APIStatusError
from kubevouch.pki import authority, issuance, keys
from kubevouch.pki.authority import CertificateAuthority
from kubevouch.pki.errors import IssuedMismatchError
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509.subject import Subject
from kubevouch.pki.x509.x509_certificate import Certificate, parse_bundle
from kubevouch.signers.catalog import SigningOptions
from kubevouch.signers.definition import rules_of
from kubevouch.standalone.controllers import start_controllers
from kubevouch.testing.logs import capture_logs
from kubevouch.wellknown import SIGNERS_NAMESPACE
from signer_world import BUNDLES, SIGNER, Signers, new_ca, secret, signer, signers
from signer_worlds import PLAIN, https_peer

CA = new_ca("web CA")
TRUST: dict[str, Any] = {"clusterTrustBundle": True, "configMap": True}
HOUR = 3600


async def published(at: Signers, name: str = "web") -> list[Certificate]:
    found = await at.at.client.get(CONFIG_MAPS, f"trust-{name}", SIGNERS_NAMESPACE)
    return parse_bundle(found.data["ca.crt"].encode())


@async_test
async def test_an_object_and_a_secret_make_a_signer() -> None:
    async with signers(signer(), secret(CA)) as at:
        (leaf,) = await at.issued(dns_names=("b.example.com",))
        assert leaf.issuer_name == CA.certificate.subject_name
        assert leaf.not_after == NOW + dt.timedelta(hours=1)
        ready = await at.ready()
        assert (ready.status, ready.reason) == ("True", "Signing") and "web CA" in ready.message
        name = await at.ask(Subject(common_name="evilexample.com"))
        assert await at.failure(name) == 'subject common name "evilexample.com" is not permitted'
        assert await at.issued(signer_name="example.com/other") == []


@async_test
async def test_whoever_waits_is_served_when_the_signer_comes_and_other_rules_hold_at_once() -> None:
    async with signers() as at:
        waiting = await at.ask()
        assert await at.chain(waiting) == []
        await at.make(signer())
        assert (await at.ready()).reason == "CAMissing"
        await at.make(secret(CA))
        assert await at.chain(waiting)
        obj = await at.get()
        spec = msgspec.structs.replace(obj.spec, subject=signer(subject={"commonNames": ["x"]}).spec.subject)
        await at.at.client.update(CERTIFICATE_SIGNERS, msgspec.structs.replace(obj, spec=spec))
        await at.settle()
        assert "is not permitted" in await at.failure(await at.ask())
        assert await at.issued(Subject(common_name="x"))


@async_test
async def test_a_ca_that_is_not_seen_yet_is_no_error_and_one_that_stays_away_is() -> None:
    def levels(logs: Sequence[Mapping[str, Any]]) -> list[str]:
        return [each["log_level"] for each in logs if each.get("why") == "CAMissing"]

    async with signers() as at:
        with capture_logs() as logs:
            await at.make(signer())
            assert (await at.ready()).reason == "CAMissing"
            assert levels(logs) == ["info"]
            await at.later(RESYNC_SECONDS + 1)
            assert levels(logs) == ["info", "error"]
            await at.later(RESYNC_SECONDS + 1)
            assert levels(logs) == ["info", "error"]
    async with signers(signer(), secret(CA)) as at:
        await at.ready()
        with capture_logs() as logs:
            await at.later(60)
            await at.at.client.delete(SECRETS, "web-ca", SIGNERS_NAMESPACE)
            await at.ready()
        assert levels(logs) == ["error"]


@async_test
async def test_a_signer_that_is_deleted_signs_no_more() -> None:
    async with signers(signer(), secret(CA)) as at:
        assert await at.issued()
        await at.at.client.delete(CERTIFICATE_SIGNERS, "web")
        await at.settle()
        assert await at.issued() == []


@async_test
async def test_without_its_secret_it_signs_no_more() -> None:
    async with signers(signer(), secret(CA)) as at:
        assert await at.issued()
        await at.at.client.delete(SECRETS, "web-ca", SIGNERS_NAMESPACE)
        assert (await at.ready()).reason == "CAMissing"
        assert await at.issued() == []


# ------------------------------------------------------------------ names


@pytest.mark.parametrize(
    "name", ["kubernetes.io/kubelet-serving", "a.kubernetes.io/b", "kubernetes.io/x", "nodomain/x"]
)
def test_a_name_of_kubernetes_is_refused_by_the_schema(name: str) -> None:
    @async_test
    async def attempt() -> None:
        async with signers() as at:
            with pytest.raises(APIStatusError, match=r"spec\.signerName"):
                await at.make(signer(signerName=name))

    attempt()


@async_test
async def test_of_two_with_one_name_the_older_has_it_and_then_the_other() -> None:
    async with signers(signer(), secret(CA)) as at:
        await at.ready()
        other = new_ca("other CA")
        await at.later(5)
        await at.make(signer("also", ca={"secretName": "other"}), secret(other, name="other"))
        taken = await at.ready("also")
        assert taken.reason == "NameTaken" and "CertificateSigner web" in taken.message
        (leaf,) = await at.issued()
        assert leaf.issuer_name == CA.certificate.subject_name
        await at.at.client.delete(CERTIFICATE_SIGNERS, "web")
        assert (await at.ready("also")).status == "True"
        (leaf,) = await at.issued()
        assert leaf.issuer_name == other.certificate.subject_name


# ------------------------------------------------------------------ bad specs and CAs


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"subject": {"commonNames": ["*a"]}}, "spec.subject.commonNames"),
        ({"lifetime": {"defaultSeconds": 7200, "maxSeconds": 3600}}, "less than defaultSeconds"),
        ({"usages": {"permitted": ["cert sign"]}}, "spec.authorities.allowed"),
        ({"extensions": {"permitted": ["2.5.29.19"]}}, "never copied"),
        ({"altNames": {"required": True}}, "no name is permitted"),
    ],
)
def test_a_spec_that_cannot_be_meant_says_so(changes: dict[str, Any], message: str) -> None:
    @async_test
    async def attempt() -> None:
        async with signers(signer(**changes), secret(CA)) as at:
            ready = await at.ready()
            assert (ready.status, ready.reason) == ("False", "Invalid") and message in ready.message
            assert await at.issued() == []

    attempt()


def weak() -> CertificateAuthority:
    return CertificateAuthority.load(fixture("ca-rsa.crt"), fixture("ca-rsa.key"), certificate_file="a", key_file="b")


def no_ca() -> CertificateAuthority:
    key = keys.generate(KeyAlgorithm.ECDSA_P256)
    spec = authority.LeafSpec(common_name="leaf", purposes=("server auth",))
    return CertificateAuthority(authority.issue_leaf(CA, spec, key, now=NOW), key)


BAD: dict[str, tuple[Any, str]] = {
    "ended": (secret(new_ca("old", NOW - dt.timedelta(days=2), validity=dt.timedelta(days=1))), "has ended"),
    "not begun": (secret(new_ca("young", NOW + dt.timedelta(days=2))), "begins at"),
    "no CA": (secret(no_ca()), "is no CA"),
    "another key": (secret(CA, values={"tls.key": keys.to_pem(new_ca("b").key)}), "private key does not match"),
    "another kind of key": (
        secret(CA, values={"tls.key": keys.to_pem(new_ca("b", algorithm=KeyAlgorithm.RSA_2048).key)}),
        "private key type does not match",
    ),
    "garbage": (secret(CA, values={"tls.crt": b"garbage"}), "tls.crt"),
    "no key": (secret(CA, values={"tls.key": b"-----BEGIN X-----\n-----END X-----\n"}), "tls.crt"),
    "too many": (secret(CA, *[CA.certificate] * 20), "16 at most"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_ca_says_so_and_others_go_on(what: str) -> None:
    bad, message = BAD[what]

    @async_test
    async def attempt() -> None:
        good = signer("good", signerName="example.com/good", ca={"secretName": "good-ca"})
        async with signers(signer(), bad, good, secret(new_ca("good"), name="good-ca")) as at:
            ready = await at.ready()
            assert (ready.status, ready.reason) == ("False", "CAUnusable") and message in ready.message, ready.message
            assert await at.issued() == []
            assert await at.issued(signer_name="example.com/good")
            events = (await at.at.client.list(EVENTS, "default")).items
            assert [each.reason for each in events if each.involved_object.name == "web"] == ["CAUnusable"]

    attempt()


@async_test
async def test_another_type_of_secret_is_no_ca() -> None:
    opaque = msgspec.structs.replace(secret(CA), type="Opaque")
    async with signers(signer(), opaque) as at:
        assert "expected kubernetes.io/tls" in (await at.ready()).message


@async_test
async def test_a_secret_that_is_being_exchanged_stops_nobody() -> None:
    async with signers(signer(), secret(CA)) as at:
        assert await at.issued()
        await at.put_secret(secret(CA, values={"tls.key": b"half of it"}))
        assert (await at.ready()).reason == "CAUnusable"
        assert await at.issued()
        await at.put_secret(secret(CA))
        assert (await at.ready()).status == "True"


@async_test
async def test_a_ca_that_ends_while_it_signs() -> None:
    async with signers(signer(), secret(new_ca("short", validity=dt.timedelta(hours=1)))) as at:
        (leaf,) = await at.issued()
        assert leaf.not_after == NOW + dt.timedelta(hours=1)
        await at.later(HOUR + 60)
        assert "has ended" in (await at.ready()).message
        assert await at.issued() == []


# ------------------------------------------------------------------ trust, chains, roll-over


@async_test
async def test_a_ca_is_published_before_it_signs() -> None:
    async with signers(secret(CA), runtime_config=BUNDLES) as at:
        at.at.failures["POST"] = answer(403)
        await at.make(signer(trust=TRUST))
        assert await at.issued() == []
        assert (await at.ready()).reason == "TrustNotPublished"
        at.at.failures.clear()
        await at.later(61)
        assert await at.issued()
        assert await published(at) == [CA.certificate]
        (bundle,) = (await at.at.client.list(CLUSTER_TRUST_BUNDLES)).items
        assert bundle.spec.signer_name == SIGNER and bundle.spec.trust_bundle == CA.certificate.pem().decode()
        assert bundle.metadata.owner_references[0].name == "web"


async def issuers(at: Signers, signer_name: str = SIGNER) -> list[str]:
    chain = await at.issued(signer_name=signer_name)
    return [each.issuer.common_name for each in chain] if chain else []


@async_test
async def test_the_next_ca_waits_out_the_overlap_and_the_former_one_stays_trusted_as_long_as_it_matters() -> None:
    former, later = new_ca("former"), new_ca("later")
    spec = signer(trust={"configMap": True, "overlapSeconds": HOUR})
    async with signers(spec, secret(former)) as at:
        assert await issuers(at) == ["former"]
        await at.put_secret(secret(later))
        assert (await at.ready()).reason == "RollingOver"
        assert {each.contents for each in await published(at)} == {
            former.certificate.contents, later.certificate.contents,
        }  # fmt: skip
        assert await issuers(at) == ["former"]
        await at.later(HOUR - 1)
        await at.settle()
        assert await issuers(at) == ["former"]
        await at.later(2)
        assert (await at.ready()).reason == "Signing"
        assert await issuers(at) == ["later"]
        assert len(await published(at)) == 2
        # The longest life is two hours: then nothing of the former one is left.
        await at.later(2 * HOUR + 1)
        await at.settle()
        assert await published(at) == [later.certificate]


@async_test
async def test_after_a_restart_nobody_signs_early_and_a_former_key_fills_the_gap() -> None:
    former, later = new_ca("former"), new_ca("later")
    spec = signer(trust={"configMap": True, "overlapSeconds": HOUR})
    async with signers(spec, secret(former)) as at:
        assert await issuers(at) == ["former"]
        await at.put_secret(secret(later))
        await at.settle()
        await at.restart()
        assert await issuers(at) == []
        assert (await at.ready()).reason == "WaitingForTrust"
        both = {"former.crt": former.certificate.pem(), "former.key": keys.to_pem(former.key)}
        await at.put_secret(secret(later, values=both))
        assert await issuers(at) == ["former"]
        await at.later(HOUR + 1)
        await at.settle()
        assert await issuers(at) == ["later"]


@async_test
async def test_a_next_ca_that_is_withdrawn_is_forgotten() -> None:
    former, later = new_ca("former"), new_ca("later")
    async with signers(signer(trust={"configMap": True, "overlapSeconds": HOUR}), secret(former)) as at:
        await at.settle()
        await at.put_secret(secret(later))
        await at.settle()
        await at.put_secret(secret(former))
        await at.settle()
        assert await published(at) == [former.certificate]
        await at.later(2 * HOUR)
        assert await issuers(at) == ["former"]


@async_test
async def test_intermediates_stand_in_the_status_in_order_and_their_root_is_published() -> None:
    root, middle, issuing = new_ca("root"), new_ca("middle"), new_ca("issuing")
    middle_certificate = authority.cross_sign(root, middle.certificate, now=NOW)
    issuing_certificate = authority.cross_sign(
        CertificateAuthority(middle_certificate, middle.key), issuing.certificate, now=NOW
    )
    ca = CertificateAuthority(issuing_certificate, issuing.key)
    text = b"the issuing one\n" + ca.certificate.pem() + b"and above it\n" + root.certificate.pem()
    held = secret(ca, values={"tls.crt": text + middle_certificate.pem()})
    plain = signer("plain", signerName="example.com/plain", chain=False)
    async with signers(signer(trust={"configMap": True}), plain, held) as at:
        assert await issuers(at) == ["issuing", "middle", "root"]
        assert await published(at) == [root.certificate]
        assert await issuers(at, "example.com/plain") == ["issuing"]


@async_test
async def test_a_cross_signed_next_root_leads_to_the_former_one() -> None:
    former, later = new_ca("former"), new_ca("later")
    cross = authority.cross_sign(former, later.certificate, now=NOW)
    async with signers(signer(), secret(former)) as at:
        await at.settle()
        await at.put_secret(secret(later, cross))
        assert await issuers(at) == ["later", "former"]


# ------------------------------------------------------------------ stopping


@async_test
async def test_a_signer_that_made_what_was_not_allowed_stops_until_somebody_lifts_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def differs(*_: object, **__: object) -> None:
        raise IssuedMismatchError(("it is a CA",))

    other = signer("other", signerName="example.com/other")
    async with signers(signer(), other, secret(CA)) as at:
        with monkeypatch.context() as patch:
            patch.setattr(issuance, "verify_draft", differs)
            name = await at.ask()
            await at.settle()
        ready = await at.ready()
        assert ready.reason == "Stopped" and "it is a CA" in ready.message
        assert await at.issued() == [] and await at.issued(signer_name="example.com/other")
        events = (await at.at.client.list(EVENTS, "default")).items
        assert {"SignerStopped", "Stopped"} <= {each.reason for each in events}
        await at.restart()
        assert (await at.ready()).reason == "Stopped" and await at.issued() == []
        obj = await at.get()
        status = msgspec.structs.replace(
            obj.status, conditions=[each for each in obj.status.conditions if each.type != "Stopped"]
        )
        changed: CertificateSigner = msgspec.structs.replace(obj, status=status)
        await at.at.client.update(CERTIFICATE_SIGNERS, changed, subresource="status")
        assert (await at.ready()).status == "True"
        await at.later(1000)
        assert await at.chain(name)


@async_test
async def test_the_metrics_say_who_signs_and_how_long_the_ca_lasts() -> None:
    lost = signer("lost", signerName="example.com/lost", ca={"secretName": "lost"})
    async with signers(signer(), secret(CA), lost) as at:
        await at.settle()

        def told() -> dict[str, dict[str, float]]:
            families = at.at.server.api.metrics.signing.collect()
            return {each.name: {sample.labels["signer"]: sample.value for sample in each.samples} for each in families}

        ready, ends = told()["kubevouch_signer_ready"], told()["kubevouch_signer_ca_end_seconds"]
        assert (ready[SIGNER], ready["example.com/lost"], ready["kubernetes.io/kubelet-serving"]) == (1, 0, 1)
        assert ends[SIGNER] == CA.certificate.not_after.timestamp() and "example.com/lost" not in ends
        assert "kubernetes.io/kubelet-serving" in ends
        await at.at.client.delete(CERTIFICATE_SIGNERS, "lost")
        await at.settle()
        assert "example.com/lost" not in told()["kubevouch_signer_ready"]


# ------------------------------------------------------------------ CAs of the operator


def put(folder: Path, name: str, ca: CertificateAuthority) -> None:
    (folder / f"{name}.crt").write_bytes(ca.certificate.pem())
    (folder / f"{name}.key").unlink(missing_ok=True)
    (folder / f"{name}.key").touch(mode=0o600)
    (folder / f"{name}.key").write_bytes(keys.to_pem(ca.key))


async def restart_with(at: Signers, signing: SigningOptions) -> None:
    assert at.running is not None
    await at.running.close()
    controllers = ("csrsigning", "certificatesigners")
    at.running = start_controllers(at.at.server, controllers, signing=signing)
    await at.settle()


@async_test
async def test_a_ca_in_the_operator_s_directory_is_published_before_it_signs_too(tmp_path: Path) -> None:
    former, later = new_ca("former"), new_ca("later")
    put(tmp_path, "web", former)
    spec = signer(ca={"name": "web"}, trust={"configMap": True, "overlapSeconds": HOUR})
    async with signers(spec, signer("lost", signerName="example.com/b", ca={"name": "b"})) as at:
        await restart_with(at, SigningOptions(named=tmp_path, clock=at.at.clock))
        assert await issuers(at) == ["former"] and (await at.ready("lost")).reason == "CAMissing"
        put(tmp_path, "web", later)
        await at.later(61)
        assert (await at.ready()).reason == "RollingOver" and len(await published(at)) == 2
        assert await issuers(at) == ["former"]
        await at.later(HOUR)
        assert await issuers(at) == ["later"]
        (tmp_path / "web.key").unlink()
        await at.later(61)
        assert await issuers(at) == [] and (await at.ready()).reason == "CAMissing"
        assert at.running is not None
        await at.running.close()


@async_test
async def test_a_ca_of_another_program_in_the_operator_s_directory(tmp_path: Path) -> None:
    """By the rules of the object: nobody but the operator says which program is asked, and who it is."""
    folder = tmp_path / "signers"
    folder.mkdir(mode=0o700)
    async with (
        https_peer(tmp_path, *PLAIN, webhook={"kubeconfigFile": "webhook.conf"}) as (_, peer),
        signers(signer(ca={"name": "web"})) as at,
    ):
        peer.authority, peer.clock, peer.rules = CA, at.at.clock, rules_of(signer().spec)
        (folder / "web.crt").write_bytes(CA.certificate.pem())
        authority = {"name": "web", "trustFile": "web.crt", "webhook": {"kubeconfigFile": "../webhook.conf"}}
        settings = {
            "apiVersion": "signing.kubevouch.io/v1alpha1",
            "kind": "SigningConfiguration",
            "authorities": [authority],
        }
        (folder / "web.yaml").write_text(json.dumps(settings))
        await restart_with(at, SigningOptions(named=folder, clock=at.at.clock))
        assert await issuers(at) == ["web CA"]
        assert len(peer.server.seen) == 1
        assert at.running is not None
        await at.running.close()
