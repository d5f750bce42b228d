"""What kube-apiserver 1.36.2 says to approvers and signers that attach to it, row by row: conditions and certificates
of signing requests, trust bundles, and who may write them. ``test_attached_cases.py`` plays a sample over HTTPS."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest

from asynctest import async_test
from controller_world import World, fixture, world
from kubevouch.api.catalog import (
    CERTIFICATE_SIGNING_REQUESTS,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CLUSTER_TRUST_BUNDLES,
)
from kubevouch.api.certificates_v1 import (
    CertificateSigningRequest,
    CertificateSigningRequestCondition,
    CertificateSigningRequestSpec,
)
from kubevouch.api.certificates_v1beta1 import ClusterTrustBundle, ClusterTrustBundleSpec
from kubevouch.api.rbac_v1 import PolicyRule
from kubevouch.authorization.policy import cluster_role, cluster_role_binding, user
from kubevouch.client.interface import Client, ListOptions
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta, OwnerReference, replace_metadata
from kubevouch.machinery.text.times import Time
from pod_requests import certificate, key_of, pem
from throwaway_ca import ThrowawayCA

BETA = "certificates.k8s.io/v1beta1=true"
SIGNER = "example.com/s"
LEAF = certificate(key_of("P-256"))
CA = ThrowawayCA().bundle.decode()
OLD_CA = ThrowawayCA("old").bundle.decode()
CERTIFICATE = 'status.certificate: Invalid value: "<certificate data>": '
CSR = 'CertificateSigningRequest.certificates.k8s.io "c1" is invalid: '


async def refusal(call: Any) -> tuple[int, str]:
    with pytest.raises(APIStatusError) as caught:
        await call
    return caught.value.code, caught.value.status.message


async def allow(at: World, who: str, *rules: tuple[str, str, tuple[str, ...]]) -> Client:
    """``who``, with verbs on resources of certificates.k8s.io, by name."""
    granted = [
        PolicyRule(
            verbs=verbs.split(), api_groups=["certificates.k8s.io"], resources=[resource], resource_names=[*names]
        )
        for verbs, resource, names in rules
    ]
    await at.client.create(CLUSTER_ROLES, cluster_role(who, *granted))
    await at.client.create(CLUSTER_ROLE_BINDINGS, cluster_role_binding(who, user(who)))
    return at.as_user(who)


# ------------------------------------------------------------------ status.certificate


async def csr(at: World, name: str = "c1", signer: str = SIGNER) -> CertificateSigningRequest:
    spec = CertificateSigningRequestSpec(
        request=fixture("client-good.csr"), signer_name=signer, usages=["digital signature", "client auth"]
    )
    made = CertificateSigningRequest(metadata=ObjectMeta(name=name), spec=spec)
    return await at.client.create(CERTIFICATE_SIGNING_REQUESTS, made)


def with_certificate(made: CertificateSigningRequest, content: bytes) -> CertificateSigningRequest:
    return msgspec.structs.replace(made, status=msgspec.structs.replace(made.status, certificate=content))


async def put_status(at: World, changed: CertificateSigningRequest) -> CertificateSigningRequest:
    return await at.client.update(CERTIFICATE_SIGNING_REQUESTS, changed, subresource="status")


ONE_LINE = f"-----BEGIN CERTIFICATE-----\n{base64.b64encode(LEAF).decode()}\n-----END CERTIFICATE-----\n"


@pytest.mark.parametrize(
    "text",
    [
        pem(LEAF),
        CA + pem(LEAF),
        pem(LEAF) * 2,
        f"prose\n{pem(LEAF)}between\n{CA}after\n",
        pem(LEAF).replace("\n", "\r\n"),
        ONE_LINE,
        pem(LEAF).rstrip("\n"),
        f"{pem(LEAF)}-----BEGIN CERTIFICATE-----\nMIIB",
        pem(LEAF + LEAF),
        pem(LEAF) * 2000,
    ],
)
@async_test
async def test_whatever_holds_certificates_is_taken(text: str) -> None:
    """Approved or not: only the discipline of signers ties the two together."""
    async with world() as at:
        stored = await put_status(at, with_certificate(await csr(at), text.encode()))
        assert stored.status.certificate == text.encode()


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (LEAF, "must contain at least one CERTIFICATE PEM block"),
        (b"hello", "must contain at least one CERTIFICATE PEM block"),
        (
            f"{pem(LEAF)}{pem(LEAF, 'EC PRIVATE KEY')}".encode(),
            'only CERTIFICATE PEM blocks are allowed, found "EC PRIVATE KEY"',
        ),
        (pem(LEAF, "X509 CRL").encode(), 'only CERTIFICATE PEM blocks are allowed, found "X509 CRL"'),
        (
            pem(LEAF, "TRUSTED CERTIFICATE").encode(),
            'only CERTIFICATE PEM blocks are allowed, found "TRUSTED CERTIFICATE"',
        ),
        (pem(LEAF).replace("-----\n", "-----\nA: b\n\n", 1).encode(), "no PEM block headers are permitted"),
        (pem(b"x" * 20).encode(), "x509: malformed certificate"),
        (pem(b"").encode(), "found CERTIFICATE PEM block containing 0 certificates"),
    ],
)
@async_test
async def test_what_holds_none_is_refused(content: bytes, why: str) -> None:
    async with world() as at:
        call = put_status(at, with_certificate(await csr(at), content))
        assert await refusal(call) == (422, f"{CSR}{CERTIFICATE}{why}")


@pytest.mark.parametrize("content", [b"", pem(certificate(key_of("P-384"))).encode()])
@async_test
async def test_a_certificate_stays(content: bytes) -> None:
    async with world() as at:
        stored = await put_status(at, with_certificate(await csr(at), pem(LEAF).encode()))
        why = "status.certificate: Forbidden: updates may not modify existing certificate content"
        assert await refusal(put_status(at, with_certificate(stored, content))) == (422, CSR + why)


@async_test
async def test_a_certificate_sent_to_the_approval_is_dropped() -> None:
    async with world() as at:
        changed = with_certificate(await csr(at), pem(LEAF).encode())
        stored = await at.client.update(CERTIFICATE_SIGNING_REQUESTS, changed, subresource="approval")
        assert stored.status.certificate == b""


# ------------------------------------------------------------------ conditions

AT = Time.parse("2001-01-01T00:00:00Z")


def condition(kind: str, **changes: Any) -> CertificateSigningRequestCondition:
    return msgspec.structs.replace(CertificateSigningRequestCondition(type=kind, status="True", reason="R"), **changes)


def decided(made: CertificateSigningRequest, *conditions: CertificateSigningRequestCondition) -> Any:
    return msgspec.structs.replace(made, status=msgspec.structs.replace(made.status, conditions=list(conditions)))


@pytest.mark.parametrize(
    ("subresource", "conditions", "text"),
    [
        ("approval", [condition("Approved", reason="", message="")], ""),
        ("approval", [condition("Approved", reason="two words é", message="m" * 200_000)], ""),
        ("approval", [condition("Own", status="Unknown")], ""),
        ("approval", [condition("Failed")], ""),
        ("status", [condition("Failed"), condition("Own", status="False")], ""),
        ("approval", [condition("Approved", status="")], "status.conditions[0].status: Required value"),
        (
            "approval",
            [condition("Denied", status="False")],
            'status.conditions[0].status: Unsupported value: "False": supported values: "True"',
        ),
        (
            "status",
            [condition("Approved")],
            'status.conditions: Forbidden: updates may not add a condition of type "Approved"',
        ),
        (
            "approval",
            [condition("Approved"), condition("Denied")],
            'status.conditions: Invalid value: "Denied": Approved and Denied conditions are mutually exclusive',
        ),
        (
            "approval",
            [condition("Approved"), condition("Approved")],
            'status.conditions[1].type: Duplicate value: "Approved"',
        ),
    ],
)
@async_test
async def test_conditions(subresource: str, conditions: list[CertificateSigningRequestCondition], text: str) -> None:
    async with world() as at:
        call = at.client.update(
            CERTIFICATE_SIGNING_REQUESTS, decided(await csr(at), *conditions), subresource=subresource
        )
        if text:
            assert await refusal(call) == (422, CSR + text)
        else:
            stored = await call
            assert [each.type for each in stored.status.conditions] == [each.type for each in conditions]


@async_test
async def test_what_stands_in_conditions_changes_and_does_not_go() -> None:
    async with world() as at:
        made = await csr(at)
        assert (await at.client.update(CERTIFICATE_SIGNING_REQUESTS, decided(made, condition("Approved")))) == made
        first = decided(made, condition("Approved", last_update_time=AT, last_transition_time=AT))
        stored = await at.client.update(CERTIFICATE_SIGNING_REQUESTS, first, subresource="approval")
        assert stored.status.conditions[0].last_update_time == AT
        other = decided(stored, condition("Approved", reason="Other"))
        stored = await at.client.update(CERTIFICATE_SIGNING_REQUESTS, other, subresource="approval")
        assert stored.status.conditions[0].reason == "Other"
        call = at.client.update(CERTIFICATE_SIGNING_REQUESTS, decided(stored), subresource="approval")
        why = 'status.conditions: Forbidden: updates may not remove a condition of type "Approved"'
        assert await refusal(call) == (422, CSR + why)


@async_test
async def test_decisions_come_in_any_order() -> None:
    async with world() as at:
        issued = await put_status(at, with_certificate(await csr(at), pem(LEAF).encode()))
        failed = await put_status(at, decided(issued, condition("Failed")))
        both = decided(failed, *failed.status.conditions, condition("Denied"))
        stored = await at.client.update(CERTIFICATE_SIGNING_REQUESTS, both, subresource="approval")
        assert [each.type for each in stored.status.conditions] == ["Failed", "Denied"]
        await csr(at, "c2")
        again = await at.client.get(CERTIFICATE_SIGNING_REQUESTS, "c2")
        again = await put_status(at, decided(again, condition("Failed")))
        late = decided(again, *again.status.conditions, condition("Approved"))
        await at.client.update(CERTIFICATE_SIGNING_REQUESTS, late, subresource="approval")


# ------------------------------------------------------------------ who may


@pytest.mark.parametrize(
    ("names", "allowed"),
    [((SIGNER,), True), (("example.com/*",), True), ((), True), (("*",), False), (("example.com/x",), False)],
)
@async_test
async def test_rights_on_signers(names: tuple[str, ...], allowed: bool) -> None:
    async with world() as at:
        made = await csr(at)
        resources = "certificatesigningrequests/approval", "certificatesigningrequests/status"
        client = await allow(
            at, "s0", *(("update", each, ()) for each in resources), ("approve sign", "signers", names)
        )
        approved = decided(made, condition("Approved"))
        call = client.update(CERTIFICATE_SIGNING_REQUESTS, approved, subresource="approval")
        where = 'certificatesigningrequests.certificates.k8s.io "c1" is forbidden: user not permitted to'
        if not allowed:
            assert await refusal(call) == (403, f'{where} approve requests with signerName "{SIGNER}"')
            # No-ops are judged here, and pass there; with them labels change.
            call = client.update(CERTIFICATE_SIGNING_REQUESTS, made, subresource="approval")
            assert (await refusal(call))[0] == 403
            labelled = replace_metadata(made, labels={"a": "b"})
            stored = await client.update(CERTIFICATE_SIGNING_REQUESTS, labelled, subresource="status")
            assert stored.metadata.labels == {"a": "b"}
            call = client.update(
                CERTIFICATE_SIGNING_REQUESTS, with_certificate(stored, pem(LEAF).encode()), subresource="status"
            )
            assert await refusal(call) == (403, f'{where} sign requests with signerName "{SIGNER}"')
            return
        signed = with_certificate(await call, pem(LEAF).encode())
        await client.update(CERTIFICATE_SIGNING_REQUESTS, signed, subresource="status")


# ------------------------------------------------------------------ trust bundles


def bundle(name: str, signer: str = "", anchors: str = CA) -> ClusterTrustBundle:
    spec = ClusterTrustBundleSpec(signer_name=signer, trust_bundle=anchors)
    return ClusterTrustBundle(metadata=ObjectMeta(name=name), spec=spec)


FOO = "example.com/foo"
PREFIXED = f"ClusterTrustBundle for signerName {FOO} must be named with prefix example.com:foo:"
NAME = "metadata.name: Invalid value: "
ANCHORS = 'spec.trustBundle: Invalid value: "<value omitted>": '
TOO_LONG = "b" * 254


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (bundle("a"), ""),
        (bundle("example.com:foo:a", FOO), ""),
        (bundle(f"example.com:foo:{'b' * 63}.{'c' * 63}.{'d' * 63}.{'e' * 61}", FOO), ""),
        (bundle("a:b"), f'{NAME}"a:b": ClusterTrustBundle without signer name must not have ":" in its name'),
        (bundle("a", FOO), f'{NAME}"a": {PREFIXED}'),
        (bundle("example.com:bar:a", FOO), f'{NAME}"example.com:bar:a": {PREFIXED}'),
        (bundle("example.com:foo:", FOO), f'{NAME}"example.com:foo:": a lowercase RFC 1123 subdomain'),
        (bundle("example.com:foo:A", FOO), f'{NAME}"example.com:foo:A": a lowercase RFC 1123 subdomain'),
        (bundle(f"example.com:foo:{TOO_LONG}", FOO), NAME),
        (bundle("a", anchors=""), f"{ANCHORS}at least one trust anchor must be provided"),
        (bundle("a", anchors="prose"), f"{ANCHORS}at least one trust anchor must be provided"),
        (bundle("a", anchors=CA + pem(LEAF, "PRIVATE KEY")), f"{ANCHORS}entry 1 has bad block type: PRIVATE KEY"),
        (bundle("a", anchors=CA.replace("-----\n", "-----\nA: b\n\n", 1)), f"{ANCHORS}entry 0 has PEM block headers"),
        (bundle("a", anchors=pem(b"x")), f"{ANCHORS}entry 0 does not parse as X.509"),
        (bundle("a", anchors=pem(LEAF)), f"{ANCHORS}entry 0 does not have the CA bit set"),
        (bundle("a", anchors=CA + OLD_CA + CA), f"{ANCHORS}duplicate trust anchor (indices [0 2])"),
        (bundle("a", anchors=f"prose\n{CA}between\n{OLD_CA}after"), ""),
        (bundle("a", anchors="x" * 1048577), "spec.trustBundle: Too long: may not be more than 1048576 bytes"),
    ],
)  # fmt: skip
@async_test
async def test_a_bundle(made: ClusterTrustBundle, text: str) -> None:
    async with world(runtime_config=BETA) as at:
        if not text:
            await at.client.create(CLUSTER_TRUST_BUNDLES, made)
            return
        code, said = await refusal(at.client.create(CLUSTER_TRUST_BUNDLES, made))
        assert code == 422
        assert said.partition(" is invalid: ")[2].lstrip("[").startswith(text)


@async_test
async def test_a_bundles_signer_stays() -> None:
    async with world(runtime_config=BETA) as at:
        made = await at.client.create(CLUSTER_TRUST_BUNDLES, bundle("example.com:foo:a", FOO))
        moved = msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, signer_name="example.com/bar"))
        _, said = await refusal(at.client.update(CLUSTER_TRUST_BUNDLES, moved))
        assert 'spec.signerName: Invalid value: "example.com/bar": field is immutable' in said
        assert "must be named with prefix example.com:bar:" in said


ATTEST = 'is forbidden: user not permitted to attest for signerName "example.com/foo"'


@async_test
async def test_who_speaks_for_a_signer() -> None:
    async with world(runtime_config=BETA) as at:
        client = await allow(at, "s0", ("create update delete", "clustertrustbundles", ()))
        _, said = await refusal(client.create(CLUSTER_TRUST_BUNDLES, bundle("example.com:foo:a", FOO)))
        assert said.endswith(ATTEST)
        await client.create(CLUSTER_TRUST_BUNDLES, bundle("a"))
        made = await at.client.create(CLUSTER_TRUST_BUNDLES, bundle("example.com:foo:a", FOO))
        _, said = await refusal(client.update(CLUSTER_TRUST_BUNDLES, replace_metadata(made, labels={"a": "b"})))
        assert said.endswith(ATTEST)
        held = replace_metadata(made, finalizers=["a.b/c"])
        made = await client.update(CLUSTER_TRUST_BUNDLES, held)
        owner = OwnerReference(api_version="v1", kind="Node", name="n", uid="u")
        made = await client.update(
            CLUSTER_TRUST_BUNDLES, replace_metadata(made, owner_references=[owner], finalizers=[])
        )
        await client.delete(CLUSTER_TRUST_BUNDLES, made.metadata.name)
        every = await allow(at, "s1", ("create", "clustertrustbundles", ()), ("attest", "signers", ("example.com/*",)))
        await every.create(CLUSTER_TRUST_BUNDLES, bundle("example.com:foo:a", FOO))


@async_test
async def test_who_reads_bundles_and_how() -> None:
    async with world(runtime_config=BETA) as at:
        for made in (bundle("a"), bundle("example.com:foo:a", FOO)):
            await at.client.create(CLUSTER_TRUST_BUNDLES, made)
        node = at.as_user("system:node:n1", "system:nodes")
        account = at.as_user("system:serviceaccount:default:app", "system:serviceaccounts")
        for client in (node, account):
            for selector, names in (
                ("", ["a", "example.com:foo:a"]),
                (f"spec.signerName={FOO}", ["example.com:foo:a"]),
                ("spec.signerName=", ["a"]),
                ("metadata.name=a", ["a"]),
            ):
                found = await client.list(CLUSTER_TRUST_BUNDLES, options=ListOptions(field_selector=selector))
                assert [each.metadata.name for each in found.items] == names
            for selector in ("metadata.namespace=x", "spec.trustBundle=x"):
                listing = client.list(CLUSTER_TRUST_BUNDLES, options=ListOptions(field_selector=selector))
                why = f"field label not supported: {selector.partition('=')[0]}"
                assert await refusal(listing) == (400, why)
        assert (await refusal(at.as_user("bob").list(CLUSTER_TRUST_BUNDLES)))[0] == 403


# ------------------------------------------------------------------ admission of requests


@async_test
async def test_a_node_may_ask_any_signer_but_those_of_kubelets() -> None:
    async with world() as at:
        node = at.as_user("system:node:other", "system:nodes")
        made = CertificateSigningRequest(
            metadata=ObjectMeta(name="c1"),
            spec=CertificateSigningRequestSpec(
                request=fixture("client-good.csr"),
                signer_name="kubernetes.io/kube-apiserver-client-kubelet",
                usages=["digital signature", "client auth"],
            ),
        )
        _, said = await refusal(node.create(CERTIFICATE_SIGNING_REQUESTS, made))
        assert said.endswith("can only create a node CSR with CN=system:node:other")
        other = msgspec.structs.replace(made.spec, signer_name="kubernetes.io/kube-apiserver-client")
        await node.create(CERTIFICATE_SIGNING_REQUESTS, msgspec.structs.replace(made, spec=other))
