"""What controllers do is the same wherever their server is, and attached ones need no more than what deploy/ gives."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

import peers
from asynctest import async_test
from attached_calls import Call, RecordingConfig, covers, grants, unused
from attached_world import (
    JOINING,
    account_config,
    asked,
    attached,
    foreign,
    holds,
    is_issued,
    options_for,
    signing_of,
    until,
    until_leading,
)
from controller_world import decoded
from kubectl import kubectl_of
from kubevouch import wellknown
from kubevouch.api import catalog
from kubevouch.api.certificates_v1 import (
    CertificateSigningRequest,
    CertificateSigningRequestCondition,
    CertificateSigningRequestSpec,
    has_condition,
)
from kubevouch.api.core_v1 import Node
from kubevouch.api.core_v1.nodes import NodeAddress
from kubevouch.api.kubevouch_v1alpha1.catalog import CERTIFICATE_REQUEST_POLICIES, CERTIFICATE_REVOCATIONS
from kubevouch.api.kubevouch_v1alpha1.certificate_request_policies import (
    AllowedSubject,
    AllowedTexts,
    CertificateRequestPolicy,
    CertificateRequestPolicySpec,
    PolicySelector,
)
from kubevouch.api.kubevouch_v1alpha1.certificate_revocations import (
    CertificateRevocation,
    CertificateRevocationSpec,
    RevocationTargets,
)
from kubevouch.authorization.policy import Policy
from kubevouch.client.interface import MERGE_PATCH
from kubevouch.client.leader_election import ElectionOptions
from kubevouch.controllers.catalog import select_attached
from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.pki import keys
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.subject import Subject
from kubevouch.pki.x509.subject_alt_names import SubjectAltNames
from kubevouch.policy.kubelet_serving import ServingRules
from kubevouch.server.bootstrap import own_kinds
from kubevouch.standalone.attached import manifests
from kubevouch.standalone.attached.check import Intent, judge, look
from kubevouch.standalone.attached.manifest_parts import Settings, access, documents, trees
from kubevouch.standalone.attached.options import AttachedCluster, AttachedOptions
from kubevouch.standalone.controllers import start_controllers
from kubevouch.testing.cluster import Cluster
from kubevouch.testing.waiting import wait_for
from kubevouch.util.clock import SystemClock

_DEPLOY = peers.ROOT / "deploy"
_READS = frozenset(("get", "list", "watch"))
_CSRS = catalog.CERTIFICATE_SIGNING_REQUESTS
# What the behaviours below approve and sign, and no more.
_SETTINGS = Settings(
    signers=(wellknown.KUBELET_SERVING_SIGNER, wellknown.KUBE_APISERVER_CLIENT_KUBELET_SIGNER),
    approve=("example.com/plain",),
)
_ACCESS = access(_SETTINGS)
_PROGRAMS = _SETTINGS.programs
_SIGNER = _PROGRAMS[1]


# ------------------------------------------------------------------ where the controllers are


@asynccontextmanager
async def in_process() -> AsyncIterator[Cluster]:
    async with foreign() as cluster:
        controllers = start_controllers(cluster.server, ("*",), serving=ServingRules())
        try:
            yield cluster
        finally:
            await controllers.close()


@asynccontextmanager
async def over_https() -> AsyncIterator[Cluster]:
    async with foreign() as cluster, attached(cluster, controllers=JOINING, signing=signing_of(cluster)) as found:
        await until_leading(found)
        yield cluster


@asynccontextmanager
async def deployed(calls: set[Call] | None = None) -> AsyncIterator[Cluster]:
    """With the accounts of deploy/ and the arguments of its programs, applied by kubectl."""
    async with Cluster(https=True, real_time=True) as cluster, AsyncExitStack() as stack:
        kubectl = kubectl_of(cluster, "1.37")
        for text in (documents(trees(("crds", "guards"), _SETTINGS)), documents(_ACCESS)):
            done = await asyncio.to_thread(kubectl, "apply", "-f", "-", given=text)
            assert done.returncode == 0, done.stderr
        for program in _PROGRAMS:
            options = await _options(cluster, program, calls if calls is not None else set())
            await until_leading(await stack.enter_async_context(attached(cluster, options=options)))
        yield cluster


@async_test
async def test_the_check_finds_that_the_accounts_have_all_they_need() -> None:
    async with Cluster(https=True, real_time=True) as cluster:
        kubectl = kubectl_of(cluster, "1.37")
        for what in ("crds", "controllers/access.yaml"):
            done = await asyncio.to_thread(kubectl, "apply", "-f", str(_DEPLOY / what))
            assert done.returncode == 0, done.stderr
        for program in manifests.PROGRAMS:
            config = await account_config(cluster, manifests.NAMESPACE, program.name)
            intent = Intent(select_attached(program.controllers), program.controllers)
            async with config.client(component="check") as client:
                seen = await look(client, intent, SystemClock().now())
            assert not seen.lacking
            report = judge(seen, intent)
            assert not report.missing_kinds
            assert not report.signs


async def _options(cluster: Cluster, program: manifests.Program, calls: set[Call]) -> AttachedOptions:
    config = await account_config(cluster, manifests.NAMESPACE, program.name)
    options = options_for(
        cluster,
        clusters=(AttachedCluster("", RecordingConfig.of(config, calls)),),
        controllers=program.controllers,
        election=ElectionOptions(namespace=manifests.NAMESPACE, name=program.name),
    )
    return replace(options, signing=signing_of(cluster)) if program.signs else options


# ------------------------------------------------------------------ what they do


async def _node(cluster: Cluster, name: str, address: str) -> None:
    """Is there and says so, whether or not it was there before."""
    client = cluster.client()
    with suppress(APIStatusError):
        await client.create(catalog.NODES, Node(metadata=ObjectMeta(name=name)))
    addresses = [NodeAddress(type="InternalIP", address=address), NodeAddress(type="Hostname", address=name)]
    await client.patch(
        catalog.NODES,
        name,
        {"status": {"addresses": [json_codec.to_builtins(each) for each in addresses]}},
        MERGE_PATCH,
        subresource="status",
    )


async def _ask_as_node(cluster: Cluster, csr: str, node: str, names: SubjectAltNames) -> None:
    spec = CertificateSigningRequestSpec(
        request=build_request(
            keys.generate(KeyAlgorithm.ECDSA_P256),
            Subject(common_name=f"system:node:{node}", organizations=("system:nodes",)),
            names,
        ),
        signer_name=wellknown.KUBELET_SERVING_SIGNER,
        usages=["digital signature", "server auth"],
    )
    as_node = cluster.client(f"system:node:{node}", ["system:nodes"])
    await as_node.create(_CSRS, CertificateSigningRequest(metadata=ObjectMeta(name=csr), spec=spec))


async def _approve(cluster: Cluster, name: str) -> None:
    """As people do, or kube-controller-manager beside them. Raises ``APIStatusError`` if somebody is first."""
    csr = await cluster.client().get(_CSRS, name)
    condition = CertificateSigningRequestCondition(type=wellknown.CSR_APPROVED, status="True", reason="T", message="t")
    status = msgspec.structs.replace(csr.status, conditions=[condition])
    await cluster.client().update(_CSRS, msgspec.structs.replace(csr, status=status), subresource="approval")


async def serving_certificates_are_approved_and_issued(cluster: Cluster) -> None:
    await _node(cluster, "worker-1", "10.0.0.11")
    names = SubjectAltNames(dns_names=("worker-1",), ip_addresses=(ipaddress.ip_address("10.0.0.11"),))
    await _ask_as_node(cluster, "serving-1", "worker-1", names)
    await until(cluster, "serving-1", is_issued)


async def what_nothing_justifies_yet_waits_and_is_looked_at_again(cluster: Cluster) -> None:
    await cluster.client().create(catalog.NODES, Node(metadata=ObjectMeta(name="worker-2")))
    names = SubjectAltNames(dns_names=("worker-2",), ip_addresses=(ipaddress.ip_address("10.0.0.12"),))
    await _ask_as_node(cluster, "serving-2", "worker-2", names)
    await _node(cluster, "worker-2", "10.0.0.12")
    await until(cluster, "serving-2", is_issued)


async def what_no_kubelet_may_have_is_denied(cluster: Cluster) -> None:
    await _node(cluster, "worker-5", "10.0.0.15")
    names = SubjectAltNames(dns_names=("worker-5",), ip_addresses=(ipaddress.ip_address("127.0.0.9"),))
    await _ask_as_node(cluster, "serving-5", "worker-5", names)
    await until(cluster, "serving-5", lambda csr: has_condition(csr, wellknown.CSR_DENIED))


async def an_approved_request_of_a_machine_is_issued_and_recorded(cluster: Cluster) -> None:
    await asked(cluster, "client-1", "worker-3")
    with suppress(APIStatusError):
        await _approve(cluster, "client-1")
    await until(cluster, "client-1", is_issued)


async def what_a_signer_may_not_sign_fails(cluster: Cluster) -> None:
    spec = CertificateSigningRequestSpec(
        request=build_request(keys.generate(KeyAlgorithm.ECDSA_P256), Subject(common_name="not-a-node")),
        signer_name=wellknown.KUBELET_SERVING_SIGNER,
        usages=["digital signature", "server auth"],
    )
    await cluster.client().create(_CSRS, CertificateSigningRequest(metadata=ObjectMeta(name="bad-1"), spec=spec))
    await _approve(cluster, "bad-1")
    await until(cluster, "bad-1", lambda csr: has_condition(csr, wellknown.CSR_FAILED))


async def a_revocation_says_that_it_is_in_force(cluster: Cluster) -> None:
    spec = CertificateRevocationSpec(
        revoked=RevocationTargets(users=["system:node:worker-4"]), reason="keyCompromise", message="stolen"
    )
    obj = CertificateRevocation(metadata=ObjectMeta(name="stolen"), spec=spec)
    await cluster.client().create(CERTIFICATE_REVOCATIONS, obj)
    await wait_for(
        cluster.client(), CERTIFICATE_REVOCATIONS, "stolen",
        until=lambda each: ("InForce", "True") in [(it.type, it.status) for it in each.status.conditions],
    )  # fmt: skip


async def a_policy_approves_once_its_writer_is_recorded(cluster: Cluster) -> None:
    """The guard of a server that is not ours has to be older than the policy, by the second."""
    client, name = cluster.client(), "plain"
    spec = CertificateRequestPolicySpec(
        selector=PolicySelector(signer_names=["example.com/plain"]),
        subject=AllowedSubject(common_name=AllowedTexts(patterns=["*"])),
        usages=["client auth"],
    )
    while True:
        await client.create(
            CERTIFICATE_REQUEST_POLICIES, CertificateRequestPolicy(metadata=ObjectMeta(name=name), spec=spec)
        )
        told = await wait_for(
            client, CERTIFICATE_REQUEST_POLICIES, name, until=lambda each: len(each.status.conditions) > 1
        )
        if [each.status for each in told.status.conditions] == ["True", "True"]:
            break
        await client.delete(CERTIFICATE_REQUEST_POLICIES, name)
    request = build_request(keys.generate(KeyAlgorithm.ECDSA_P256), Subject(common_name="somebody"))
    asked_for = CertificateSigningRequestSpec(
        request=request, signer_name="example.com/plain", usages=["client auth"], expiration_seconds=3600
    )
    csr = CertificateSigningRequest(metadata=ObjectMeta(name="by-policy"), spec=asked_for)
    await client.create(_CSRS, csr)
    await until(cluster, "by-policy", lambda csr: has_condition(csr, wellknown.CSR_APPROVED))


BEHAVIOURS: tuple[Callable[[Cluster], Awaitable[None]], ...] = (
    serving_certificates_are_approved_and_issued,
    what_nothing_justifies_yet_waits_and_is_looked_at_again,
    what_no_kubelet_may_have_is_denied,
    an_approved_request_of_a_machine_is_issued_and_recorded,
    what_a_signer_may_not_sign_fails,
    a_revocation_says_that_it_is_in_force,
    a_policy_approves_once_its_writer_is_recorded,
)
WAYS: dict[str, Callable[[], AbstractAsyncContextManager[Cluster]]] = {
    "in-process": in_process, "over-https": over_https, "deployed": deployed,
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_they_do_the_same_everywhere(way: str) -> None:
    @async_test
    async def scenario() -> None:
        async with WAYS[way]() as cluster:
            for behaviour in BEHAVIOURS:
                await behaviour(cluster)

    scenario()


# What is done above reaches these.
_REACHED = (
    wellknown.CSR_APPROVING_CONTROLLER,
    wellknown.CSR_SIGNING_CONTROLLER,
    wellknown.CERTIFICATE_LEDGER_CONTROLLER,
    wellknown.CERTIFICATE_POLICY_STATUS_CONTROLLER,
    wellknown.CERTIFICATE_REVOCATION_CONTROLLER,
    wellknown.NODE_REMOVAL_CONTROLLER,
    wellknown.MACHINE_INVENTORY_CONTROLLER,
)
# Allowed, and not asked for by what is done above: why each is there all the same.
_ELSEWHERE = {
    "approve signers.certificates.k8s.io": "asked of nobody, looked at when /approval is written",
    "sign signers.certificates.k8s.io": "likewise, when /status is",
    "create subjectaccessreviews.authorization.k8s.io": "whether a server refuses what is revoked that is not ours",
    "create events": "those that something happens to",
    "patch events": "likewise, again",
    "update configmaps in kube-system": "the second time",
    "create configmaps in kube-system": "some seconds after the first Node has come",
    "get leases.coordination.k8s.io in kube-node-lease": "where kubelets' client certificates are approved",
    "get machines.cluster.x-k8s.io": "where Machines are served",
    "list machines.cluster.x-k8s.io": "likewise",
    "watch machines.cluster.x-k8s.io": "likewise",
    "get validatingadmissionpolicies.admissionregistration.k8s.io": "where somebody has voted, or nothing fills in who",
    "get validatingadmissionpolicybindings.admissionregistration.k8s.io": "likewise",
}


@async_test
async def test_every_call_is_declared_and_what_is_declared_is_called() -> None:
    calls: set[Call] = set()
    async with deployed(calls) as cluster:
        for behaviour in BEHAVIOURS:
            await behaviour(cluster)
    roles = [each for each in _ACCESS if each["kind"] in ("ClusterRole", "Role")]
    names = {name.removeprefix("kubevouch:") for name in (each["metadata"]["name"] for each in roles)}
    declared = {name: _granted(roles, f"kubevouch:{name}") for name in names}
    for call in calls & {each for each in calls if each.identity in declared}:
        assert any(covers(where, rule, call) for where, rule in grants(declared[call.identity])), call
    excess = {}
    for name in _REACHED:
        known = [each for each in calls if each.identity == name or each.verb in _READS]
        # Of kinds of ours nobody but us has objects.
        left = {each for each in unused(declared[name], known) if ".kubevouch.io" not in each}
        excess[name] = sorted(left - _ELSEWHERE.keys())
    assert not {name: left for name, left in excess.items() if left}


def _granted(trees: list[dict[str, Any]], name: str) -> Policy:
    """What is written in deploy/, as the server takes it."""
    chosen = [each for each in trees if each["metadata"]["name"] == name]
    return Policy(
        cluster_roles=tuple(decoded(catalog.CLUSTER_ROLES, each) for each in chosen if each["kind"] == "ClusterRole"),
        roles=tuple(decoded(catalog.ROLES, each) for each in chosen if each["kind"] == "Role"),
    )


@async_test
async def test_a_right_that_is_left_out_is_missed() -> None:
    """Of the signer: without /status it issues nothing, and says so; with it, it does."""
    async with Cluster(https=True, real_time=True) as cluster:
        await own_kinds.ensure(cluster.server.client)
        client = cluster.client()
        role = f"kubevouch:{wellknown.CSR_SIGNING_CONTROLLER}"
        of_signer = manifests.access((_SIGNER,), names=_SETTINGS.names)
        for tree in of_signer:
            kind = tree["kind"]
            resource = next(each for each in catalog.STORED if each.kind == kind)
            obj = decoded(resource, tree)
            if tree["metadata"]["name"] == role and kind == "ClusterRole":
                rules = [each for each in obj.rules if "certificatesigningrequests/status" not in each.resources]
                assert len(rules) == len(obj.rules) - 1
                await client.create(resource, msgspec.structs.replace(obj, rules=rules))
            elif tree["metadata"]["name"] != wellknown.SIGNERS_NAMESPACE:  # the server has made it
                await client.create(resource, obj)
        calls: set[Call] = set()
        options = await _options(cluster, _SIGNER, calls)
        async with attached(cluster, options=options) as found:
            await until_leading(found)
            await asked(cluster, "client-1", "worker-1")
            await _approve(cluster, "client-1")
            await holds(lambda: any(each.resource == "certificatesigningrequests/status" for each in calls))
            assert not (await client.get(_CSRS, "client-1")).status.certificate
            whole = next(each for each in of_signer if each["metadata"]["name"] == role)
            await client.update(catalog.CLUSTER_ROLES, decoded(catalog.CLUSTER_ROLES, whole))
            await until(cluster, "client-1", is_issued)


def test_rights_to_approve_and_to_sign_are_those_for_names() -> None:
    for trees_ in (_ACCESS, access(Settings()), manifests.attestation_access()):
        for tree in trees_:
            for rule in tree.get("rules", ()):
                if "signers" in rule["resources"]:
                    assert rule["resourceNames"], tree["metadata"]["name"]
    approve = [rule for tree in access(Settings()) for rule in tree.get("rules", ()) if "signers" in rule["resources"]]
    assert [(each["verbs"], each["resourceNames"]) for each in approve] == [
        (["approve"], ["kubernetes.io/kubelet-serving"])
    ]


def test_no_account_may_both_approve_and_sign_or_read_secrets_but_those_of_signers() -> None:
    for program in _PROGRAMS:
        mine = list(_bound(_ACCESS, program.name))
        verbs = {verb for _, rule in mine for verb in rule["verbs"]}
        assert not {"approve", "sign"} <= verbs
        assert len({"approve", "sign"} & verbs) == 1
        secrets = {where for where, rule in mine if "secrets" in rule.get("resources", ())}
        assert secrets <= ({wellknown.SIGNERS_NAMESPACE} if "sign" in verbs else set())
        assert not any("*" in (*rule["verbs"], *rule["resources"], *rule["apiGroups"]) for _, rule in mine)


def _bound(trees: list[dict[str, Any]], account: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The rules of an account, each with its namespace."""
    for binding in trees:
        if any(subject["name"] == account for subject in binding.get("subjects", ())):
            ref, where = binding["roleRef"], binding["metadata"].get("namespace", "")
            for role in trees:
                meta = role["metadata"]
                if (role["kind"], meta["name"], meta.get("namespace", "")) == (ref["kind"], ref["name"], where):
                    yield from ((where, rule) for rule in role["rules"])
