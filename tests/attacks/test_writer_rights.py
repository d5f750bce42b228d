"""Objects that a privileged controller carries out for whoever writes them: nobody gets more by writing one.

Each kind is asked about twice: where the server is ours (WriterRights), and where it is not (the admission policies of
deploy/crds/guards.yaml), each without the other.
"""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from asynctest import async_test
from certificate_requests import SIGNER, ask, policy, rights
from controller_world import NOW, World, world
from kubevouch import wellknown
from kubevouch.admission.writer_rights import WriterRights
from kubevouch.api.catalog import (
    CERTIFICATE_SIGNING_REQUESTS,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    EVENTS,
    MUTATING_ADMISSION_POLICY_BINDINGS,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
)
from kubevouch.api.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestSpec
from kubevouch.api.kubevouch_v1alpha1.allowed_machines import AllowedMachine, AllowedMachineSpec
from kubevouch.api.kubevouch_v1alpha1.catalog import (
    ALLOWED_MACHINES,
    CERTIFICATE_REQUEST_POLICIES,
    CERTIFICATE_SIGNERS,
    NODE_IDENTITIES,
)
from kubevouch.api.kubevouch_v1alpha1.certificate_request_policies import (
    APPROVE,
    AUDIT,
    REQUIRE,
    AllowedSubject,
    AllowedTexts,
    CertificateRequestPolicy,
    CertificateRequestPolicySpec,
    PolicySelector,
)
from kubevouch.api.kubevouch_v1alpha1.node_identities import ExpectedHardware, NodeIdentity, NodeIdentitySpec
from kubevouch.api.kubevouch_v1alpha1.writer_guards import WRITER_ANNOTATION, WRITER_GUARDS, WRITERS, Writer, writer_of
from kubevouch.api.meta_v1 import Condition
from kubevouch.api.rbac_v1 import PolicyRule
from kubevouch.authorization.policy import cluster_role, cluster_role_binding, group, user
from kubevouch.client.interface import Client
from kubevouch.controllers import certificate_policy_status, csr_approving
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import Object, ObjectMeta, replace_metadata
from kubevouch.machinery.scheme import Resource
from kubevouch.machinery.text.times import Time
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.subject import Subject
from signer_world import signer

KUBELETS = wellknown.KUBE_APISERVER_CLIENT_KUBELET_SIGNER
ADMINISTRATORS = "kubeadm:cluster-admins"
CODE, GUARDS = "the server's code", "the guards"
OURS = PolicyRule(verbs=["*"], api_groups=["kubevouch.io"], resources=[
    "certificaterequestpolicies", "certificatesigners", "allowedmachines", "nodeidentities",
])  # fmt: skip
REQUESTS = PolicyRule(
    verbs=["create", "get"], api_groups=["certificates.k8s.io"], resources=["certificatesigningrequests"]
)


def may(verb: str, *names: str, kind: str = "signers", of: str = "certificates.k8s.io") -> PolicyRule:
    return PolicyRule(verbs=[verb], api_groups=[of], resources=[kind], resource_names=list(names))


@contextlib.asynccontextmanager
async def held_by(what: str) -> AsyncIterator[World]:
    """A server in which only one of the two holds writers to their rights."""
    async with world(disabled_admission=(WriterRights.name,) if what == GUARDS else ()) as at:
        if what == CODE:
            for guard in WRITER_GUARDS:
                with contextlib.suppress(APIStatusError):  # that one is no ValidatingAdmissionPolicy
                    await at.client.delete(VALIDATING_ADMISSION_POLICY_BINDINGS, guard.metadata.name)
        yield at


async def grant(at: World, who: str, *rules: PolicyRule) -> Client:
    await at.client.create(CLUSTER_ROLES, cluster_role(f"r-{who}", *rules))
    await at.client.create(CLUSTER_ROLE_BINDINGS, cluster_role_binding(f"r-{who}", user(who)))
    return at.as_user(who)


def written(name: str, *signers: str, **spec: Any) -> CertificateRequestPolicy:
    every = AllowedTexts(patterns=["**"])
    declared = CertificateRequestPolicySpec(
        **{
            "selector": PolicySelector(signer_names=list(signers)),
            "subject": AllowedSubject(common_name=every, organizations=every),
            "usages": ["client auth"],
            **spec,
        }
    )
    return CertificateRequestPolicy(metadata=ObjectMeta(name=name), spec=declared)


async def wants(
    at: World, name: str, subject: Subject, signer_name: str = SIGNER, by: str = "mallory", usage: str = "client auth"
) -> None:
    key = ec.derive_private_key(int.from_bytes(name.encode()), ec.SECP256R1())
    request = build_request(key, subject)
    spec = CertificateSigningRequestSpec(request=request, signer_name=signer_name, usages=[usage])
    csr = CertificateSigningRequest(metadata=ObjectMeta(name=name), spec=spec)
    await at.as_user(by).create(CERTIFICATE_SIGNING_REQUESTS, csr)


async def conditions(at: World, name: str) -> list[str]:
    return [each.type for each in (await at.client.get(CERTIFICATE_SIGNING_REQUESTS, name)).status.conditions]


async def authorized(at: World, name: str = "p") -> Condition:
    found = (await at.client.get(CERTIFICATE_REQUEST_POLICIES, name)).status.conditions
    return next(each for each in found if each.type == "Authorized")


# ------------------------------------------------------------------ who may write


@pytest.mark.parametrize("held", [CODE, GUARDS])
@pytest.mark.parametrize(
    ("allowed", "signers", "passes"),
    [
        ((), [SIGNER], False),
        ((), ["*"], False),
        (("example.com/hosts",), [SIGNER], True),
        (("example.com/hosts",), [SIGNER, "example.com/other"], False),
        (("example.com/hosts",), ["example.com/*"], False),
        (("example.com/*",), ["example.com/*"], True),
        (("example.com/*",), [SIGNER, "example.com/other"], True),
        (("example.com/*",), ["example.org/hosts"], False),
        (("example.com/*",), ["*"], False),
        (("*",), ["*"], False),
    ],
)
@async_test
async def test_a_policy_needs_a_writer_who_may_approve_for_each_signer(
    held: str, allowed: Sequence[str], signers: Sequence[str], passes: bool
) -> None:
    async with held_by(held) as at:
        mallory = await grant(at, "mallory", OURS, *([may("approve", *allowed)] if allowed else []))
        made = mallory.create(CERTIFICATE_REQUEST_POLICIES, written("p", *signers))
        if passes:
            assert writer_of(await made) == Writer("mallory", ("system:authenticated",))
            return
        with pytest.raises(APIStatusError, match="approve"):
            await made


@pytest.mark.parametrize("held", [CODE, GUARDS])
@async_test
async def test_a_policy_that_approves_nothing_is_anybodys_until_it_approves(held: str) -> None:
    async with held_by(held) as at:
        mallory = await grant(at, "mallory", OURS)
        for name, spec in (("audit", {"mode": AUDIT}), ("require", {"effect": REQUIRE})):
            made = await mallory.create(CERTIFICATE_REQUEST_POLICIES, written(name, "*", **spec))
            changed = msgspec.structs.replace(made.spec, mode="Enforce", effect=APPROVE)
            with pytest.raises(APIStatusError, match="approve"):
                await mallory.update(CERTIFICATE_REQUEST_POLICIES, msgspec.structs.replace(made, spec=changed))


@pytest.mark.parametrize("held", [CODE, GUARDS])
@async_test
async def test_a_policy_of_another_is_neither_changed_nor_taken_over(held: str) -> None:
    async with held_by(held) as at:
        mallory = await grant(at, "mallory", OURS)
        made = await at.client.create(CERTIFICATE_REQUEST_POLICIES, written("p", SIGNER))
        root = writer_of(made)
        wider = msgspec.structs.replace(made.spec, usages=["client auth", "server auth"])
        with pytest.raises(APIStatusError, match="approve"):
            await mallory.update(CERTIFICATE_REQUEST_POLICIES, msgspec.structs.replace(made, spec=wider))
        forged = replace_metadata(made, annotations={WRITER_ANNOTATION: "root\nsystem:masters"})
        with pytest.raises(APIStatusError, match="approve"):
            await mallory.update(CERTIFICATE_REQUEST_POLICIES, forged)
        # What does not change what it approves is as free as before.
        labelled = await mallory.update(CERTIFICATE_REQUEST_POLICIES, replace_metadata(made, labels={"a": "b"}))
        assert writer_of(labelled) == root


@async_test
async def test_without_the_guard_nobody_writes_a_policy_in_anothers_name() -> None:
    async with world() as at:
        ops = await grant(at, "ops", OURS, may("approve", "example.com/*"))
        await at.client.delete(MUTATING_ADMISSION_POLICY_BINDINGS, WRITERS)
        for annotations in ({}, {WRITER_ANNOTATION: "root\nsystem:masters"}):
            forged = replace_metadata(written("p", SIGNER), annotations=annotations)
            with pytest.raises(APIStatusError, match="the writer is not recorded"):
                await ops.create(CERTIFICATE_REQUEST_POLICIES, forged)


EXPECTED = NodeIdentity(
    metadata=ObjectMeta(name="n1"),
    spec=NodeIdentitySpec(expect_new_hardware=ExpectedHardware(until=Time.of(NOW + dt.timedelta(hours=1)))),
)
LISTED = AllowedMachine(metadata=ObjectMeta(name="n1"), spec=AllowedMachineSpec(node_name="n1"))
ADDRESSED = AllowedMachine(
    metadata=ObjectMeta(name="n1"), spec=AllowedMachineSpec(node_name="n1", addresses=["10.0.0.1"])
)
OF_A_SECRET, OF_A_FILE = signer(), signer(ca={"name": "production"})
PUBLISHED = signer(trust={"clusterTrustBundle": True})
SIGN = may("sign", "example.com/web")
READ_CA = may("get", "web-ca", kind="secrets", of="")
USE_CA = may("use", "production", kind="certificateauthorities", of="kubevouch.io")


@pytest.mark.parametrize("held", [CODE, GUARDS])
@pytest.mark.parametrize(
    ("resource", "obj", "needed"),
    [
        (ALLOWED_MACHINES, LISTED, [may("approve", KUBELETS)]),
        (ALLOWED_MACHINES, ADDRESSED, [may("approve", KUBELETS), may("approve", "kubernetes.io/kubelet-serving")]),
        (NODE_IDENTITIES, EXPECTED, [may("approve", KUBELETS)]),
        (CERTIFICATE_SIGNERS, OF_A_SECRET, [SIGN, READ_CA]),
        (CERTIFICATE_SIGNERS, OF_A_FILE, [SIGN, USE_CA]),
        (CERTIFICATE_SIGNERS, PUBLISHED, [SIGN, READ_CA, may("attest", "example.com/*")]),
    ],
    ids=["machine", "machine-with-addresses", "new-hardware", "signer-of-a-secret", "signer-of-a-file", "published"],
)
@async_test
async def test_what_a_controller_does_for_its_writer_needs_the_writers_right(
    held: str, resource: Resource[Any], obj: Object, needed: Sequence[PolicyRule]
) -> None:
    """Each right is needed: without any one of them, nothing is written."""
    async with held_by(held) as at:
        for number, missing in enumerate(needed):
            mallory = await grant(at, f"mallory-{number}", OURS, *(rule for rule in needed if rule is not missing))
            with pytest.raises(APIStatusError, match=rf"(may not|right to|verb) {(missing.verbs or [])[0]}"):
                await mallory.create(resource, obj)
        ops = await grant(at, "ops", OURS, *needed)
        await ops.create(resource, obj)


@async_test
async def test_rights_are_asked_for_what_changes_and_not_for_what_stands() -> None:
    """A node's name stays known, its labels are anybody's, and a ban needs no right to approve."""
    async with world() as at:
        mallory = await grant(at, "mallory", OURS)
        made = await at.client.create(NODE_IDENTITIES, EXPECTED)
        made = await mallory.update(NODE_IDENTITIES, replace_metadata(made, labels={"a": "b"}))
        banned = msgspec.structs.replace(made.spec, banned=True)
        made = await mallory.update(NODE_IDENTITIES, msgspec.structs.replace(made, spec=banned))
        later = ExpectedHardware(until=Time.of(NOW + dt.timedelta(days=99)))
        longer = msgspec.structs.replace(made.spec, expect_new_hardware=later)
        with pytest.raises(APIStatusError, match="approve"):
            await mallory.update(NODE_IDENTITIES, msgspec.structs.replace(made, spec=longer))


# ------------------------------------------------------------------ when it is used


@async_test
async def test_a_writer_who_loses_the_right_approves_nothing_any_more() -> None:
    async with world() as at:
        ops = await grant(at, "ops", OURS, may("approve", "example.com/*"))
        await rights(at, "mallory", policy="p")
        await ops.create(CERTIFICATE_REQUEST_POLICIES, written("p", SIGNER))
        running = await at.run(csr_approving.NAME, certificate_policy_status.NAME)
        await wants(at, "before", Subject(common_name="a"))
        await running.settle()
        assert await conditions(at, "before") == ["Approved"]
        assert (await authorized(at)).status == "True"
        await at.client.delete(CLUSTER_ROLE_BINDINGS, "r-ops")
        await wants(at, "after", Subject(common_name="b"))
        await running.settle()
        assert await conditions(at, "after") == []
        await at.clock.run(certificate_policy_status.LOOK_AGAIN_SECONDS)
        await running.settle()
        told = await authorized(at)
        assert (told.status, told.reason) == ("False", "WriterMayNotApprove")
        assert told.message == f"it approves nothing: got ops, expected the right to approve for {SIGNER}"
        events = [each for each in (await at.client.list(EVENTS)).items if each.involved_object.name == "p"]
        assert [(each.type, each.reason) for each in events] == [("Warning", "WriterMayNotApprove")]


@async_test
async def test_a_policy_without_a_record_approves_nothing_and_says_why() -> None:
    """One that got past admission: by a restore, or written into the store."""
    async with world() as at:
        await rights(at, "mallory", policy="p")
        stamped = Time.of(NOW + dt.timedelta(hours=1))
        await at.put(CERTIFICATE_REQUEST_POLICIES, replace_metadata(written("p", "*"), creation_timestamp=stamped))
        running = await at.run(csr_approving.NAME, certificate_policy_status.NAME)
        await wants(at, "x", Subject(common_name="a"))
        await running.settle()
        assert await conditions(at, "x") == []
        told = await authorized(at)
        assert (told.status, told.reason) == ("False", "NoWriter")


@async_test
async def test_a_policy_from_before_stays_in_force_loudly_and_makes_no_administrators() -> None:
    async with world() as at:
        await rights(at, "mallory", policy="p")
        before = Time.of(NOW - dt.timedelta(days=9))
        scheduler, node = "system:kube-scheduler", "system:node:n1"
        named = AllowedTexts(patterns=[ADMINISTRATORS, "ops", "system:nodes", "*"])
        subject = AllowedSubject(
            common_name=AllowedTexts(patterns=[scheduler, "system:node:*", "*"]), organizations=named
        )
        old = replace_metadata(written("p", SIGNER, subject=subject), creation_timestamp=before)
        await at.put(CERTIFICATE_REQUEST_POLICIES, old)
        await admins(at, "ops")
        running = await at.run(csr_approving.NAME, certificate_policy_status.NAME)
        await wants(at, "plain", Subject(common_name="a"))
        await wants(at, "node", Subject(common_name=node, organizations=("system:nodes",)))
        await wants(at, "kubeadm", Subject(common_name="a", organizations=(ADMINISTRATORS,)))
        await wants(at, "ops", Subject(common_name="a", organizations=("ops",)))
        await wants(at, "scheduler", Subject(common_name=scheduler))
        await running.settle()
        assert [await conditions(at, each) for each in ("plain", "node")] == [["Approved"], ["Approved"]]
        assert [await conditions(at, each) for each in ("kubeadm", "ops", "scheduler")] == [[], [], []]
        told = await authorized(at)
        assert (told.status, told.reason) == ("Unknown", "WriterNotRecorded")
        assert f"{WRITER_ANNOTATION}=me" in told.message
        # Once somebody answers for it, that is the writer. Such names need a policy that was created since.
        stored = await at.client.get(CERTIFICATE_REQUEST_POLICIES, "p")
        taken = await at.client.update(
            CERTIFICATE_REQUEST_POLICIES, replace_metadata(stored, annotations={WRITER_ANNOTATION: "me"})
        )
        assert writer_of(taken) != Writer("me")
        await running.settle()
        assert (await authorized(at)).status == "True"
        assert [await conditions(at, each) for each in ("kubeadm", "ops", "scheduler")] == [[], [], []]


@async_test
async def test_a_record_that_was_sent_before_writers_were_recorded_makes_no_administrators() -> None:
    async with world() as at:
        await rights(at, "mallory", policy="p")
        await admins(at, "ops")
        subject = AllowedSubject(
            common_name=AllowedTexts(patterns=["a", "system:kube-scheduler"]),
            organizations=AllowedTexts(patterns=["ops"]),
        )
        forged = replace_metadata(
            written("p", SIGNER, subject=subject), creation_timestamp=Time.of(NOW - dt.timedelta(days=9)),
            annotations={WRITER_ANNOTATION: "root\nsystem:masters"},
        )  # fmt: skip
        await at.put(CERTIFICATE_REQUEST_POLICIES, forged)
        running = await at.run(csr_approving.NAME)
        await wants(at, "ops", Subject(common_name="a", organizations=("ops",)))
        await wants(at, "scheduler", Subject(common_name="system:kube-scheduler"))
        await running.settle()
        assert [await conditions(at, each) for each in ("ops", "scheduler")] == [[], []]


async def admins(at: World, *groups: str) -> None:
    for each in groups:
        binding = cluster_role_binding("cluster-admin", group(each))
        await at.client.create(CLUSTER_ROLE_BINDINGS, replace_metadata(binding, name=f"admins-{each}"))


# ------------------------------------------------------------------ what it approves


@pytest.mark.parametrize(
    ("subject", "patterns", "approved"),
    [
        (Subject(common_name="a", organizations=(ADMINISTRATORS,)), ["**"], False),
        (Subject(common_name="a", organizations=(ADMINISTRATORS,)), ["kubeadm:*"], False),
        (Subject(common_name="a", organizations=("team", "system:masters")), ["**"], False),
        (Subject(common_name="a", organizations=("system:nodes",)), ["system:*"], False),
        (Subject(common_name="a", organizations=("system:nodes",)), ["**", "system:nodes"], True),
        (Subject(common_name="system:kube-scheduler"), ["**"], False),
        (Subject(common_name="system:kube-scheduler"), ["system:*", "*:*", "system:**"], False),
        (Subject(common_name="system:kube-scheduler"), ["system:kube-scheduler"], True),
        (Subject(common_name="system:serviceaccount:kube-system:x"), ["system:**", "system:serviceaccount:**"], False),
        (Subject(common_name="system:serviceaccount:kube-system:x"), ["system:serviceaccount:*:*"], False),
        (Subject(common_name="system:serviceaccount:a:x"), ["system:serviceaccount:a:*"], True),
        (Subject(common_name="system:node:n1"), ["*:*:*", "system:*:*"], False),
        (Subject(common_name="system:node:n1"), ["system:node:*"], True),
        # Administrators of this cluster, whatever they are called.
        (Subject(common_name="a", organizations=("ops",)), ["**"], False),
        (Subject(common_name="a", organizations=("ops",)), ["*", "ops"], True),
        (Subject(common_name="a", organizations=("team",)), ["**"], True),
    ],
)  # fmt: skip
@async_test
async def test_a_wildcard_covers_none_of_kubernetes_own_names_and_no_administrator(
    subject: Subject, patterns: list[str], approved: bool
) -> None:
    async with world() as at:
        await admins(at, "ops")
        await rights(at, "mallory", policy="p")
        every, plain = AllowedTexts(patterns=patterns), AllowedTexts(patterns=["a", "team"])
        of_names = "system" in subject.common_name
        allowed = AllowedSubject(common_name=every if of_names else plain, organizations=plain if of_names else every)
        await at.client.create(CERTIFICATE_REQUEST_POLICIES, written("p", SIGNER, subject=allowed))
        running = await at.run(csr_approving.NAME)
        await wants(at, "x", subject)
        await running.settle()
        assert await conditions(at, "x") == (["Approved"] if approved else [])


@pytest.mark.parametrize("usage", ["any", "digital signature", "client auth"])
@async_test
async def test_what_a_server_takes_for_a_clients_certificate_makes_no_administrator(usage: str) -> None:
    """``any`` says so, and a certificate without extended usages is for every purpose."""
    async with world() as at:
        await admins(at, "ops")
        await rights(at, "mallory", policy="p")
        await at.client.create(CERTIFICATE_REQUEST_POLICIES, written("p", SIGNER, usages=[usage, "server auth"]))
        running = await at.run(csr_approving.NAME)
        await wants(at, "x", Subject(common_name="a", organizations=("ops",)), usage=usage)
        await wants(at, "serves", Subject(common_name="a", organizations=("ops",)), usage="server auth")
        await running.settle()
        assert [await conditions(at, each) for each in ("x", "serves")] == [[], ["Approved"]]


@async_test
async def test_a_requirement_denies_nothing_for_a_name_that_is_not_written_out() -> None:
    """Policies that stand do not begin to deny nodes."""
    async with world() as at:
        await rights(at, "alice")
        await policy(at, effect=APPROVE)
        every = AllowedTexts(patterns=["**"])
        subject = AllowedSubject(common_name=every, organizations=every)
        await at.client.create(
            CERTIFICATE_REQUEST_POLICIES, written("strict", "*", subject=subject, effect=REQUIRE, usages=[])
        )
        running = await at.run(csr_approving.NAME)
        await wants(at, "x", Subject(common_name="system:node:n1", organizations=("system:nodes",)), by="alice")
        await ask(at, "host")
        await running.settle()
        assert [await conditions(at, each) for each in ("x", "host")] == [[], ["Approved"]]
