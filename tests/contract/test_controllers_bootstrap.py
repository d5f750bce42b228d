"""Cases of ``controllers.jsonl`` about bootstrap tokens, cluster-info, the root CA and the designs, on a real server.

Those about leader election are not played: controllers run in the process of their server only.
"""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from asynctest import async_test
from controller_world import FIXTURES, Case, World, answer, cases, fixture, ids, world
from excused import excused
from kubevouch import wellknown
from kubevouch.api.catalog import (
    CERTIFICATE_SIGNING_REQUESTS,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CLUSTER_TRUST_BUNDLES,
    CONFIG_MAPS,
    NAMESPACES,
    SECRETS,
)
from kubevouch.api.certificates_v1 import (
    CertificateSigningRequest,
    CertificateSigningRequestCondition,
    CertificateSigningRequestSpec,
)
from kubevouch.api.certificates_v1beta1 import ClusterTrustBundle, ClusterTrustBundleSpec
from kubevouch.api.core_v1 import ConfigMap, Namespace, Secret
from kubevouch.api.core_v1.namespaces import ACTIVE
from kubevouch.api.rbac_v1 import ClusterRole, ClusterRoleBinding, PolicyRule, RoleRef, Subject
from kubevouch.authentication.interface import UserInfo
from kubevouch.client.cache.informer import InformerFactory
from kubevouch.client.interface import ListOptions
from kubevouch.controllers import (
    bootstrap_signer,
    catalog,
    cluster_trust_bundle_publisher,
    root_ca_publisher,
    token_cleaner,
)
from kubevouch.controllers.cluster_trust_bundle_publisher import ClusterTrustBundlePublisher
from kubevouch.controllers.controller import QueueController
from kubevouch.controllers.interface import Context, Request
from kubevouch.controllers.root_ca_publisher import RootCAError, RootCAFile, RootCAPublisher
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.machinery.text.times import Time
from kubevouch.pki import jws
from kubevouch.pki.errors import SignatureError
from kubevouch.pki.x509 import x509_request
from kubevouch.records.bootstrap_tokens import TokenSyntaxError, groups_of, parse_token
from kubevouch.reviews.csr_review import names_of
from kubevouch.server.flow_control.public_reads import PublicReads
from kubevouch.server.flow_control.sources import SourceBudget
from kubevouch.server.query import Query
from kubevouch.server.request_info import parse as parse_request
from kubevouch.standalone.controllers import RunningControllers
from kubevouch.testing.logs import capture_logs
from throwaway_ca import ThrowawayCA

BOOTSTRAP_SIGNER = cases("bootstrapsigner")
TOKEN_CLEANER = cases("tokencleaner")
ROOT_CA = [case for case in cases("rootca") if "ctb" not in case["id"]]
BUNDLES = [case for case in cases("rootca") if "ctb" in case["id"]]
DESIGN = cases("design")

DIFFERENT = excused() & {case["id"] for case in (*BOOTSTRAP_SIGNER, *TOKEN_CLEANER, *ROOT_CA, *BUNDLES, *DESIGN)}


def _doing(chosen: list[Case], action: str) -> list[Case]:
    return [case for case in chosen if case["when"]["action"] == action and case["id"] not in DIFFERENT]


def _now(case: Case) -> dt.datetime:
    return dt.datetime.fromisoformat(case["when"].get("now", "2026-11-21T12:00:00Z"))


def _secret(given: Case) -> Secret:
    deleted = given.get("deletionTimestamp")
    return Secret(
        metadata=ObjectMeta(
            name=given["name"],
            namespace=given["namespace"],
            uid=given["uid"],
            deletion_timestamp=None if deleted is None else Time.parse(deleted),
            finalizers=[] if deleted is None else ["example.com/hold"],
        ),
        type=given["type"],
        data={key: value.encode() for key, value in given["data_utf8"].items()},
    )


def _queue(running: RunningControllers) -> Any:
    (controller,) = running.manager.controllers
    assert isinstance(controller, QueueController)
    return controller.queue


async def _without(at: World, resource: Any, name: str, namespace: str) -> None:
    try:
        await at.client.delete(resource, name, namespace)
    except APIStatusError as err:
        if err.code != 404:
            raise


# ------------------------------------------------------------------ bootstrap-signer-controller

SIGNED = _doing(BOOTSTRAP_SIGNER, "sync")
JWS = _doing(BOOTSTRAP_SIGNER, "compute-jws")
VERIFIED = _doing(BOOTSTRAP_SIGNER, "verify-jws")
SIGNER_EVENTS = _doing(BOOTSTRAP_SIGNER, "deliver-event")


async def _put_cluster_info(at: World, given: Case) -> None:
    await _without(at, CONFIG_MAPS, "cluster-info", "kube-public")
    if given["configmap"] is not None:
        meta = ObjectMeta(name="cluster-info", namespace="kube-public", uid="u")
        await at.put(CONFIG_MAPS, ConfigMap(metadata=meta, data=given["configmap"]["data"]))
    for secret in given["secrets"]:
        await at.put(SECRETS, _secret(secret))


@pytest.mark.parametrize("case", SIGNED, ids=ids(SIGNED))
@async_test
async def test_signing_cluster_info(case: Case) -> None:
    given, then = case["given"], case["then"]
    async with world(_now(case)) as at:
        await _put_cluster_info(at, given)
        if "put_http_status" in given:
            at.failures["PUT"] = answer(given["put_http_status"])
        with capture_logs() as logs:
            running = await at.run(bootstrap_signer.NAME)
        assert _queue(running).requeues(bootstrap_signer.CLUSTER_INFO) == 0
        match then["outcome"]:
            case "updated":
                (written,) = at.writes("PUT")
                stored = await at.client.get(CONFIG_MAPS, "cluster-info", "kube-public")
                assert written.data == stored.data == then["data_after"]
            case "no-op":
                assert at.calls == []
            case "no-op-after-attempt":
                assert len(at.writes()) == 1
                assert then["log"] in [line["event"] for line in logs]
            case other:
                raise AssertionError(f"a case with the outcome {other}")


@async_test
async def test_a_signature_ends_with_its_token() -> None:
    (case,) = _doing(BOOTSTRAP_SIGNER, "wait")
    async with world(_now(case)) as at:
        await _put_cluster_info(at, case["given"])
        running = await at.run(bootstrap_signer.NAME)
        assert at.calls == []
        await at.clock.run(case["when"]["seconds"])
        await running.settle()
        stored = await at.client.get(CONFIG_MAPS, "cluster-info", "kube-public")
        assert stored.data == case["then"]["data_after"]


@async_test
async def test_a_failed_signature_is_made_good_within_a_minute() -> None:
    """No retry, as in Kubernetes; there it waits for somebody else's change."""
    (case,) = [case for case in SIGNED if "put_http_status" in case["given"]]
    async with world(_now(case)) as at:
        await _put_cluster_info(at, case["given"])
        at.failures["PUT"] = answer(500)
        running = await at.run(bootstrap_signer.NAME)
        at.failures.clear()
        await at.clock.run(60)
        await running.settle()
        stored = await at.client.get(CONFIG_MAPS, "cluster-info", "kube-public")
        assert "jws-kubeconfig-abc123" in stored.data


@pytest.mark.parametrize("case", JWS, ids=ids(JWS))
def test_jws(case: Case) -> None:
    given = case["given"]
    assert jws.sign(given["content"].encode(), given["id"], given["secret"]) == case["then"]["jws"]


@pytest.mark.parametrize("case", VERIFIED, ids=ids(VERIFIED))
def test_jws_that_does_not_verify(case: Case) -> None:
    given = case["given"]
    assert case["then"]["valid"] is False
    with pytest.raises(SignatureError):
        jws.verify(given["jws"], given["content"].encode(), given["id"], given["secret"])


# ------------------------------------------------------------------ events


class Queued:
    """Counts what a controller's triggers ask for, while no worker runs."""

    def __init__(self, at: World, build: Any, root_ca: Any = None) -> None:
        self.factory = InformerFactory(at.client, at.clock)
        self.controller = build(Context(lambda _: at.client, self.factory, at.clock, root_ca=root_ca))

    def deliver(self, kind: str, obj: Any) -> list[Request]:
        """The requests that an event makes."""
        for informer in self.factory.informers:
            if not isinstance(obj, informer.resource.type):
                continue
            for registration in informer._registrations:
                handler = registration.handler
                if kind == "ADDED":
                    handler.on_add(obj, initial=False)
                elif kind == "MODIFIED":
                    handler.on_update(obj, obj)
                else:
                    handler.on_delete(obj, missed=False)
        return list(self.controller.queue._dirty)


def _event(text: str) -> tuple[str, Any]:
    """``Namespace x MODIFIED phase Active``, ``Secret kube-system/x (Opaque) ADDED``, …"""
    kind, place, *rest = text.split()
    namespace, _, name = place.rpartition("/")
    meta = ObjectMeta(name=name, namespace=namespace)
    event = next(word for word in rest if word in ("ADDED", "MODIFIED", "DELETED"))
    if kind == "Namespace":
        namespace_object = Namespace(metadata=meta)
        phase = rest[rest.index("phase") + 1] if "phase" in rest else ACTIVE
        status = msgspec.structs.replace(namespace_object.status, phase=phase)
        return event, msgspec.structs.replace(namespace_object, status=status)
    if kind == "ConfigMap":
        return event, ConfigMap(metadata=meta)
    token = rest[0].strip("()") if rest[0].startswith("(") else wellknown.BOOTSTRAP_TOKEN_SECRET
    return event, Secret(metadata=meta, type=token)


@pytest.mark.parametrize("case", SIGNER_EVENTS, ids=ids(SIGNER_EVENTS))
@async_test
async def test_what_makes_the_bootstrap_signer_look(case: Case) -> None:
    async with world() as at:
        requests = Queued(at, bootstrap_signer.build).deliver(*_event(case["given"]["event"]))
        assert len(requests) == case["then"]["queue_adds"]
        if "key" in case["then"]:
            assert f"{requests[0].namespace}/{requests[0].name}" == case["then"]["key"]


# ------------------------------------------------------------------ token-cleaner-controller

CLEANED = _doing(TOKEN_CLEANER, "sync")
CLEANER_EVENTS = _doing(TOKEN_CLEANER, "deliver-event")


@pytest.mark.parametrize("case", CLEANED, ids=ids(CLEANED))
@async_test
async def test_cleaning_tokens(case: Case) -> None:
    given, then = case["given"], case["then"]
    secret = _secret(given["secret"])
    meta = secret.metadata
    async with world(_now(case)) as at:
        if "delete_http_status" in given:
            at.failures["DELETE"] = answer(given["delete_http_status"])
        await at.put(SECRETS, secret)
        with capture_logs() as logs:
            running = await at.run(token_cleaner.NAME)
        queue, request = _queue(running), Request(meta.name, meta.namespace)
        assert queue.requeues(request) == 0
        deletions = at.writes("DELETE")
        errors = [line["event"] for line in logs if line["log_level"] in ("warning", "error")]
        assert errors == ([then["log"]] if "log" in then else [])
        there = [each.metadata.name for each in (await at.client.list(SECRETS, meta.namespace)).items]
        match then["outcome"]:
            case "kept":
                assert meta.name in there
                assert len(deletions) == (1 if at.failures else 0)
            case "deleted":
                ((name, options),) = deletions
                assert name == meta.name and meta.name not in there
                assert options.preconditions.uid == then["preconditions"]["uid"]
            case "gone":
                assert len(deletions) == 1
            case other:
                raise AssertionError(f"a case with the outcome {other}")
        if then.get("requeue_after_s") is not None:
            assert queue._due[request] - at.clock.monotonic() == pytest.approx(then["requeue_after_s"])


@pytest.mark.parametrize("case", CLEANER_EVENTS, ids=ids(CLEANER_EVENTS))
@async_test
async def test_what_makes_the_token_cleaner_look(case: Case) -> None:
    async with world() as at:
        requests = Queued(at, token_cleaner.build).deliver("ADDED", _secret(case["given"]["secret"]))
        assert len(requests) == case["then"]["queue_adds"]


@async_test
async def test_a_shortened_life_counts() -> None:
    (case,) = _doing(TOKEN_CLEANER, "deliver-events")
    first, second = (_secret(each) for each in case["given"]["secret_events"])
    async with world(_now(case)) as at:
        await at.put(SECRETS, first)
        running = await at.run(token_cleaner.NAME)
        stored = await at.client.get(SECRETS, first.metadata.name, "kube-system")
        await at.client.update(SECRETS, msgspec.structs.replace(stored, data=second.data))
        await running.settle()
        wait = case["then"]["next_check_after_s"]
        await at.clock.run(wait - 1)
        assert at.writes("DELETE") == []
        await at.clock.run(1.001)
        await running.settle()
        assert len(at.writes("DELETE")) == 1


def test_controllers_are_turned_on_by_alias() -> None:
    (case,) = _doing(TOKEN_CLEANER, "start")
    chosen = {entry.name for entry in catalog.select(case["given"]["flags"]["--controllers"].split(","))}
    for name, running in case["then"]["running"].items():
        assert (name in chosen) is running


# ------------------------------------------------------------------ root-ca-certificate-publisher-controller

PUBLISHED = _doing(ROOT_CA, "sync")
ROOT_CA_EVENTS = _doing(ROOT_CA, "deliver-event")


@pytest.mark.parametrize("case", PUBLISHED, ids=ids(PUBLISHED))
@async_test
async def test_publishing_the_root_ca(case: Case) -> None:
    """One reconciliation over the server's own state: the bundle of these cases is no certificate."""
    given, then = case["given"], case["then"]
    namespace = given["namespace"]
    async with world() as at:
        await _without(at, CONFIG_MAPS, wellknown.ROOT_CA_CONFIGMAP, namespace)
        for method in ("post", "put"):
            if f"{method}_http_status" in given:
                at.failures[method.upper()] = answer(given[f"{method}_http_status"], given.get("cause", ""))
        if given["configmap"] is not None:
            meta = ObjectMeta(
                name=wellknown.ROOT_CA_CONFIGMAP,
                namespace=namespace,
                uid="u",
                annotations=given["configmap"].get("annotations", {}),
            )
            await at.put(CONFIG_MAPS, ConfigMap(metadata=meta, data=given["configmap"]["data"]))
        running = at.start(root_ca_publisher.NAME)
        (controller,) = running.manager.controllers
        assert isinstance(controller, QueueController)
        assert isinstance(controller._reconciler, RootCAPublisher)
        controller._reconciler._root_ca = lambda: case["when"]["root_ca"]
        with capture_logs() as logs:
            await running.settle()
        failed = [line["name"] for line in logs if line["event"] == "reconcile failed"]
        # Every namespace is published to; this case is about one of them.
        mine = [obj for obj in at.writes() if obj.metadata.namespace == namespace]
        match then["outcome"]:
            case "no-op":
                assert mine == [] and failed == []
            case "updated" | "created":
                (written,) = mine
                assert written.data == then["data"]
                assert written.metadata.annotations == then["annotations"]
            case "no-op-after-attempt":
                assert len(mine) == 1 and failed == []
            case "error":
                assert len(mine) == 1 and namespace in failed
            case other:
                raise AssertionError(f"a case with the outcome {other}")
        assert controller.queue.requeues(Request(namespace)) == (1 if then["outcome"] == "error" else 0)


@pytest.mark.parametrize("case", ROOT_CA_EVENTS, ids=ids(ROOT_CA_EVENTS))
@async_test
async def test_what_makes_the_publisher_look(case: Case) -> None:
    async with world() as at:
        queued = Queued(at, root_ca_publisher.build, root_ca=lambda: "fake")
        assert len(queued.deliver(*_event(case["given"]["event"]))) == case["then"]["queue_adds"]


def test_a_root_ca_file_without_a_certificate_is_refused() -> None:
    (case,) = [case for case in ROOT_CA if case["id"] == "ctl-rootca-bad-root-ca-file"]
    name = case["given"]["flags"]["--root-ca-file"]
    with pytest.raises(RootCAError) as refusal:
        RootCAFile(FIXTURES / name)
    assert str(refusal.value).replace(str(FIXTURES / name), name).startswith(case["then"]["error_prefix"])


@async_test
async def test_the_bundle_is_published_verbatim_and_again_when_it_changes(tmp_path: Path) -> None:
    first = next(case for case in ROOT_CA if case["when"]["action"] == "start-and-sync")
    then = next(case for case in ROOT_CA if case["when"]["action"] == "wait-reload")
    path = tmp_path / "ca.crt"
    path.write_bytes(fixture(first["given"]["flags"]["--root-ca-file"]))
    async with world() as at:
        running = at.start(root_ca_publisher.NAME)
        (controller,) = running.manager.controllers
        assert isinstance(controller, QueueController)
        assert isinstance(controller._reconciler, RootCAPublisher)
        controller._reconciler._root_ca = RootCAFile(path)
        for case, wait in ((first, 0.0), (then, 61.0)):
            if wait:
                path.write_bytes(fixture(case["given"]["file_replaced_by"]))
            await at.clock.run(wait)
            await running.settle()
            stored = await at.client.get(CONFIG_MAPS, wellknown.ROOT_CA_CONFIGMAP, "default")
            wanted = case["then"]["data_equals_fixture"]
            assert stored.data == {key: fixture(name).decode() for key, name in wanted.items()}


# ------------------------------------------------------------------ kube-apiserver-serving-clustertrustbundle-publisher

SYNCED = _doing(BUNDLES, "sync")
STARTED = _doing(BUNDLES, "start")


@pytest.mark.parametrize("case", SYNCED, ids=ids(SYNCED))
@async_test
async def test_publishing_a_trust_bundle(case: Case) -> None:
    anchors = fixture(case["when"]["ca_fixture"]).decode()
    async with world(runtime_config="certificates.k8s.io/v1beta1=true") as at:
        for given in case["given"]["clustertrustbundles"]:
            spec = ClusterTrustBundleSpec(
                signer_name=given["spec"]["signerName"],
                trust_bundle=fixture(given["spec"]["trustBundle_fixture"]).decode(),
            )
            bundle = ClusterTrustBundle(metadata=ObjectMeta(name=given["name"]), spec=spec)
            await at.client.create(CLUSTER_TRUST_BUNDLES, bundle)
        running = at.start(case["when"]["controller"])
        (controller,) = running.manager.controllers
        assert isinstance(controller, QueueController)
        assert isinstance(controller._reconciler, ClusterTrustBundlePublisher)
        controller._reconciler._anchors = dict.fromkeys(controller._reconciler._anchors, lambda: anchors)
        await running.settle()
        written = [f"PUT {bundle.metadata.name}" for bundle in at.writes("PUT")]
        assert written + [f"DELETE {name}" for name, _ in at.writes("DELETE")] == case["then"]["api_calls"]


@pytest.mark.parametrize("case", STARTED, ids=ids(STARTED))
@async_test
async def test_starting_to_publish_trust_bundles(case: Case) -> None:
    given, then = case["given"], case["then"]
    served = ",".join(f"{each}=true" for each in given.get("served", ()) if each.endswith("v1beta1"))
    async with world(runtime_config=served) as at:
        if given.get("ca") == "":
            factory = InformerFactory(at.client, at.clock)
            assert cluster_trust_bundle_publisher.build(Context(lambda _: at.client, factory, at.clock)) is None
        running = at.start(cluster_trust_bundle_publisher.NAME)
        assert bool(running.manager.controllers) is then.get("running", True)
        await running.settle()
        if "uses" in then:
            assert at.writes("POST") and CLUSTER_TRUST_BUNDLES.api_version == then["uses"]


@async_test
async def test_a_new_namespace_gets_what_belongs_in_it_and_a_deleted_one_goes() -> None:
    async with world() as at:
        running = await at.run("*")
        await at.client.create(NAMESPACES, Namespace(metadata=ObjectMeta(name="team")))
        await running.settle()
        maps = (await at.client.list(CONFIG_MAPS, "team")).items
        assert [each.metadata.name for each in maps] == [wellknown.ROOT_CA_CONFIGMAP]
        await at.client.delete(NAMESPACES, "team")
        await running.settle()
        with pytest.raises(APIStatusError) as gone:
            await at.client.get(NAMESPACES, "team")
        assert gone.value.code == 404
        assert (await at.client.list(CONFIG_MAPS, "team")).items == []


# ------------------------------------------------------------------ what the designs promised


async def _grant(at: World, user: str, *rules: PolicyRule) -> None:
    meta = ObjectMeta(name="granted")
    await at.client.create(CLUSTER_ROLES, ClusterRole(metadata=meta, rules=list(rules)))
    subject = Subject(kind="User", api_group="rbac.authorization.k8s.io", name=user)
    ref = RoleRef(api_group="rbac.authorization.k8s.io", kind="ClusterRole", name="granted")
    await at.client.create(CLUSTER_ROLE_BINDINGS, ClusterRoleBinding(metadata=meta, subjects=[subject], role_ref=ref))


def _request(name: str, signer_name: str, request: str = "client-good.csr", **more: Any) -> CertificateSigningRequest:
    spec = CertificateSigningRequestSpec(
        request=fixture(request), signer_name=signer_name, usages=["digital signature", "client auth"], **more
    )
    return CertificateSigningRequest(metadata=ObjectMeta(name=name), spec=spec)


APPROVALS = _doing(DESIGN, "approve")
CREATIONS = _doing(DESIGN, "create-csr")


@pytest.mark.parametrize("case", APPROVALS, ids=ids(APPROVALS))
@async_test
async def test_approving_needs_the_signer(case: Case) -> None:
    given, when, then = case["given"], case["when"], case["then"]
    async with world() as at:
        signers = [right.removeprefix("approve ") for right in given["rights"]]
        group = CERTIFICATE_SIGNING_REQUESTS.group
        may_update = PolicyRule(verbs=["update"], api_groups=[group], resources=["certificatesigningrequests/approval"])
        may_approve = PolicyRule(verbs=["approve"], api_groups=[group], resources=["signers"], resource_names=signers)
        await _grant(at, given["user"], may_update, may_approve)
        csr = await at.client.create(
            CERTIFICATE_SIGNING_REQUESTS, _request(when.get("csr", "csr-1"), when["signerName"])
        )
        condition = CertificateSigningRequestCondition(type="Approved", status="True", reason="R")
        approved = msgspec.structs.replace(csr, status=msgspec.structs.replace(csr.status, conditions=[condition]))
        user = at.as_user(given["user"])
        if then["outcome"] == "allowed":
            await user.update(CERTIFICATE_SIGNING_REQUESTS, approved, subresource="approval")
            return
        with pytest.raises(APIStatusError) as refusal:
            await user.update(CERTIFICATE_SIGNING_REQUESTS, approved, subresource="approval")
        assert refusal.value.code == then.get("http_status", 403)
        assert str(refusal.value) == then.get("message", str(refusal.value))


@pytest.mark.parametrize("case", CREATIONS, ids=ids(CREATIONS))
@async_test
async def test_creating_requests(case: Case) -> None:
    given, then = case["given"], case["then"]
    csr = _request(
        given.get("csr", "csr-1"),
        given.get("signerName", wellknown.KUBE_APISERVER_CLIENT_SIGNER),
        given.get("fixture", "client-good.csr"),
        expiration_seconds=given.get("expirationSeconds"),
    )
    async with world() as at:
        if then["outcome"] == "created":
            await at.client.create(CERTIFICATE_SIGNING_REQUESTS, csr)
            return
        with pytest.raises(APIStatusError) as refusal:
            await at.client.create(CERTIFICATE_SIGNING_REQUESTS, csr)
        assert refusal.value.code == then["http_status"]
        assert str(refusal.value) == then.get("message", str(refusal.value))


@async_test
async def test_selecting_by_signer_name() -> None:
    (case,) = _doing(DESIGN, "list")
    async with world() as at:
        for name, signer_name in case["given"]["csrs"].items():
            await at.client.create(CERTIFICATE_SIGNING_REQUESTS, _request(name, signer_name))
        options = ListOptions(field_selector=case["when"]["fieldSelector"])
        found = await at.client.list(CERTIFICATE_SIGNING_REQUESTS, "", options)
        assert [csr.metadata.name for csr in found.items] == case["then"]["names"]


@async_test
async def test_anonymous_reads_cluster_info_and_nothing_else() -> None:
    (case,) = _doing(DESIGN, "get")
    assert case["given"]["user"] == wellknown.ANONYMOUS_USER
    async with world() as at:
        anonymous = at.server.api.loopback(
            UserInfo(wellknown.ANONYMOUS_USER, groups=(wellknown.UNAUTHENTICATED_GROUP,)), "test"
        )
        allowed = []
        for place in case["when"]["objects"]:
            namespace, _, name = place.split("/")
            await _without(at, CONFIG_MAPS, name, namespace)
            await at.client.create(CONFIG_MAPS, ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace)))
            try:
                await anonymous.get(CONFIG_MAPS, name, namespace)
            except APIStatusError as err:
                if err.code != 403:
                    raise
                allowed.append(False)
            else:
                allowed.append(True)
        assert allowed == case["then"]["allowed"]


def test_a_token_is_matched_as_a_whole() -> None:
    (case,) = _doing(DESIGN, "parse-token")
    assert case["then"]["valid"] is False
    with pytest.raises(TokenSyntaxError):
        parse_token(case["given"]["token"])


def test_extra_groups_of_a_token() -> None:
    (case,) = _doing(DESIGN, "authenticate")
    secret = Secret(data={key: value.encode() for key, value in case["given"]["secret_data"].items()})
    assert set(case["then"]["groups_include"]) <= set(groups_of(secret))


@async_test
async def test_an_unexpired_token_is_kept() -> None:
    (case,) = _doing(DESIGN, "create-secret")
    secret = _secret(case["given"]["secret"])
    async with world() as at:
        running = await at.run(token_cleaner.NAME)
        await at.put(SECRETS, secret)
        await running.settle()
        await at.clock.run(case["then"]["secret_present_after_s"])
        await running.settle()
        assert (await at.client.get(SECRETS, secret.metadata.name, "kube-system")).data == secret.data


def test_what_a_person_is_shown_of_a_request() -> None:
    (case,) = _doing(DESIGN, "inspect")
    then = case["then"]
    request = x509_request.parse_pem(fixture(case["given"]["fixture"]))
    assert (request.subject.common_name, list(request.subject.organizations)) == (
        then["subject"]["CN"], then["subject"]["O"]
    )  # fmt: skip
    assert names_of(request.alt_names) == [*then["hostnames"], *then["ip_addresses"]]
    shown = f"sha256:{request.public_key.fingerprint().hex()}"
    assert re.fullmatch("sha256:[0-9a-f]{64}", shown)


def test_anybody_may_not_read_without_end() -> None:
    (case,) = _doing(DESIGN, "get cluster-info")
    rates = case["given"]
    source, everybody = (SourceBudget(rates[f"limit_{which}_per_s"], 1) for which in ("per_source", "global"))
    reads = PublicReads(source, everybody)
    read = parse_request("GET", "/api/v1/namespaces/kube-public/configmaps/cluster-info", Query())
    anybody = UserInfo(wellknown.ANONYMOUS_USER)
    count = rates["anonymous_requests_per_s"]
    waits = [reads.wait(read, anybody, "192.0.2.1", number / count) for number in range(count)]
    assert waits[0] == 0 and all(waits[1:])  # each is a Retry-After


DURATIONS = _doing(DESIGN, "count")


@pytest.mark.parametrize("case", DURATIONS, ids=ids(DURATIONS))
@async_test
async def test_counting_durations(case: Case) -> None:
    given, then = case["given"], case["then"]
    label = then.get("label_signerName", given["signerName"])
    async with world() as at:
        csr = await at.client.create(
            CERTIFICATE_SIGNING_REQUESTS,
            _request("timed", given["signerName"], expiration_seconds=given["expirationSeconds"]),
        )
        begin = at.clock.now()
        end = begin + dt.timedelta(seconds=given.get("certificate_span_s", given["expirationSeconds"]))
        issued = ThrowawayCA().issue(not_before=begin, not_after=end).certificate
        for _ in range(2):  # the second write sets no certificate
            status = msgspec.structs.replace(csr.status, certificate=issued)
            csr = msgspec.structs.replace(csr, status=status)
            csr = await at.client.update(CERTIFICATE_SIGNING_REQUESTS, csr, subresource="status")
        counted = [
            at.server.api.metrics.registry.get_sample_value(
                f"apiserver_certificates_registry_csr_{which}_duration_total", {"signerName": label}
            )
            or 0
            for which in ("requested", "honored")
        ]
        assert counted == [then.get("requested_plus", 1), then.get("honored_plus", 1)]


def test_every_case_is_played_or_named() -> None:
    alone = {
        "ctl-bootstrapsigner-expiry-without-event-kubevouch",
        "ctl-tokencleaner-shortened-life",
        "ctl-tokencleaner-enabled-by-alias",
        "ctl-rootca-bad-root-ca-file",
        "ctl-rootca-bundle-published-verbatim",
        "ctl-rootca-file-change-kubevouch-reloads",
        "ctl-seed-002-field-selector",
        "ctl-seed-003-anonymous-reads-only-cluster-info",
        "ctl-seed-003-unexpired-kept",
        "ctl-seed-003-token-full-match",
        "ctl-seed-003-groups-key-shipped",
        "ctl-seed-000-derived-info",
        "ctl-seed-003-rate-limit-anonymous",
    }
    lists = (
        SIGNED, JWS, VERIFIED, SIGNER_EVENTS, CLEANED, CLEANER_EVENTS, PUBLISHED, ROOT_CA_EVENTS, APPROVALS, CREATIONS,
        SYNCED, STARTED, DURATIONS,
    )  # fmt: skip
    played = {case["id"] for chosen in lists for case in chosen} | alone
    everything = {case["id"] for case in (*BOOTSTRAP_SIGNER, *TOKEN_CLEANER, *ROOT_CA, *BUNDLES, *DESIGN)}
    assert played | DIFFERENT == everything
