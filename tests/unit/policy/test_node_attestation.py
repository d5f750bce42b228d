"""policy/node_attestation.py: the rules around every proof, and what of the table is denied, and what waits."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kubevouch.api.attested import Attested, Claim, Strength
from kubevouch.api.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestSpec
from kubevouch.api.core_v1.nodes import Node, NodeCondition, NodeSpec, NodeStatus
from kubevouch.config import attestation_config
from kubevouch.config.attestation_config import AttestationConfiguration, AttestorSettings, NodeGroup
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.pki import keys
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509 import provider_id, x509_request
from kubevouch.pki.x509.certificate_extensions import Extension
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.subject import Subject
from kubevouch.pki.x509.subject_alt_names import SubjectAltNames
from kubevouch.policy import node_attestation
from kubevouch.policy.facts import facts_of
from kubevouch.policy.inventory import Identity, Machine
from kubevouch.policy.node_attestation import NotYetError, RequestRefusedError, Wanted

VECTORS = Path(__file__).parents[2] / "vectors" / "node.jsonl"
NODE_CASES = {case["id"]: case for case in map(json.loads, VECTORS.read_text().splitlines())}
CAPI = [case for case in NODE_CASES.values() if case["area"] == "capi" and case["when"].startswith("verify client CSR")]
SIGNER = "cluster.x-k8s.io/kube-apiserver-client-kubelet-tpm"
BOOTSTRAP = ("system:bootstrappers", "system:bootstrappers:kubeadm:default-node-token", "system:authenticated")
NOW = dt.datetime(2031, 3, 1, 12, tzinfo=dt.UTC)
KEY = keys.generate(KeyAlgorithm.ECDSA_P256)


def config(text: str = "") -> AttestationConfiguration:
    head = "apiVersion: kubevouch.io/v1alpha1\nkind: AttestationConfiguration\n"
    return attestation_config.decode((head + "attestors: [{provider: tpm}, {provider: aws}]\n" + text).encode())


def read(
    pem: bytes = b"",
    *,
    username: str = "system:bootstrap:p9k2zq",
    groups: tuple[str, ...] = BOOTSTRAP,
    usages: tuple[str, ...] = ("digital signature", "client auth"),
    signer: str = SIGNER,
    by: AttestationConfiguration | None = None,
    **request: Any,
) -> Wanted:
    pem = pem or built(**request)
    spec = CertificateSigningRequestSpec(
        request=pem, signer_name=signer, username=username, groups=list(groups), usages=list(usages)
    )
    parsed = x509_request.parse_pem(pem)
    facts = facts_of(CertificateSigningRequest(metadata=ObjectMeta(name="r", uid="u"), spec=spec), parsed)
    return node_attestation.read(facts, parsed, by or config())


def built(
    name: str = "system:node:worker-7", organizations: tuple[str, ...] = ("system:nodes",), key: Any = KEY, **more: Any
) -> bytes:
    return build_request(key, Subject(common_name=name, organizations=organizations), **more)


def proof(identity: str = "m-1", provider: str = "tpm", strength: Strength = Strength.TPM, **more: Any) -> Attested:
    return Attested(provider=provider, version="v1", identity=identity, strength=strength, **more)


def claim(name: str, value: str, *, tenant: bool = False) -> Claim:
    return Claim(name=name, value=value, source="cloud", strength=Strength.CLOUD, tenant_controlled=tenant)


def wanted(provider_id: str = "", *, own: bool = False) -> Wanted:
    return Wanted(node_name="worker-7", provider="tpm", own=own, provider_id=provider_id)


def node(*, ready: bool, provider_id: str = "") -> Node:
    conditions = [NodeCondition(type="Ready", status="True" if ready else "Unknown")]
    return Node(metadata=ObjectMeta(name="worker-7"), spec=NodeSpec(provider_id=provider_id),
                status=NodeStatus(conditions=conditions))  # fmt: skip


def judged(case: dict[str, Any]) -> str:
    """``approved``, ``denied`` or ``retry``, by all the rules of the table in their order."""
    given = case["given"]
    request = NODE_CASES[given["request"]]["given"]["pem"].encode()
    said, now = given.get("machine", {}), dt.timedelta(seconds=given.get("waited_s", 0))
    machines = []
    if said.get("exists"):
        ready = said.get("BootstrapReady", True)
        machines.append(
            Machine(node_name=said.get("nodeName", ""), provider_id=said.get("providerID", ""), ready=ready)
        )
    proofs = (proof(provider_id=given.get("attested_providerID", "")),)
    standing = given.get("existing_node")
    existing = node(ready=standing["ready"], provider_id=standing["providerID"]) if standing else None
    required = config("machines: Required\n")
    try:
        asked = read(
            request, username=given["username"], groups=tuple(given["groups"]), usages=tuple(given["usages"]),
            signer=given.get("signerName", SIGNER), by=required,
        )  # fmt: skip
        named = [each for each in machines if each.node_name == asked.node_name]
        node_attestation.verify_own_name(asked, machines)
        node_attestation.machine_of(asked, named, required, now)
        node_attestation.verify_machine(asked, proofs, "0" * 64, named)
        node_attestation.verify_node(asked, existing, proofs, claimed=False, vouched=False)
    except NotYetError:
        return "retry"
    except RequestRefusedError:
        return "denied"
    return "approved"


@pytest.mark.parametrize("case", CAPI, ids=[case["id"] for case in CAPI])
def test_the_table_is_kept_as_the_cases_say(case: dict[str, Any]) -> None:
    then = case["then"]
    if "use_instead" in then:
        # The literal rule of the proposal: it would refuse this first join.
        assert judged(case) == "approved"
        return
    expected = "approved" if then.get("approved") else "denied" if then.get("denied") else "retry"
    assert judged(case) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "approved"),
        ({"machine": {"exists": True, "BootstrapReady": False, "nodeName": "worker-7"}}, "retry"),
        ({"machine": {"exists": False}, "waited_s": 3600}, "denied"),
        ({"machine": {"exists": True, "nodeName": "worker-8", "providerID": "demo://7"}}, "denied"),
        ({"machine": {"exists": True, "nodeName": "worker-7", "providerID": "demo://8"}}, "denied"),
        ({"attested_providerID": "demo://8"}, "denied"),
        ({"request": "fx-csr-client-with-dns"}, "denied"),
        ({"request": "fx-csr-two-orgs"}, "denied"),
        ({"request": "fx-csr-no-org"}, "denied"),
        ({"request": "fx-csr-bare-cn"}, "denied"),
        ({"request": "fx-csr-asks-ca"}, "denied"),
        ({"groups": ["system:bootstrappers", "system:authenticated"]}, "denied"),
        ({"username": "system:node:worker-7", "groups": ["system:nodes", "system:authenticated"]}, "approved"),
        ({"username": "system:node:worker-9", "groups": ["system:nodes", "system:authenticated"]}, "denied"),
        ({"usages": ["digital signature", "key encipherment", "client auth"]}, "approved"),
        ({"usages": ["client auth"]}, "denied"),
        ({"existing_node": {"name": "worker-7", "ready": False, "providerID": "demo://5"}}, "approved"),
        ({"existing_node": {"name": "worker-7", "ready": True, "providerID": "demo://7"}}, "approved"),
    ],
)  # fmt: skip
def test_each_row_of_the_table_decides_by_itself(given: dict[str, Any], expected: str) -> None:
    assert judged({"given": NODE_CASES["capi-014"]["given"] | given}) == expected


def refusal(**changes: Any) -> str:
    with pytest.raises(RequestRefusedError) as caught:
        read(**changes)
    return caught.value.step


@pytest.mark.parametrize(
    ("changes", "step"),
    [
        # 3. Who asks.
        ({"groups": ("system:bootstrappers", "system:authenticated")}, "requester"),
        ({"username": "system:node:worker-8", "groups": ("system:nodes",)}, "requester"),
        ({"username": "system:node:worker-7", "groups": ("system:authenticated",)}, "requester"),
        ({"username": "kubernetes-admin", "groups": ("system:masters", BOOTSTRAP[1])}, "requester"),
        ({"username": "system:node:", "groups": BOOTSTRAP}, "requester"),
        # 5. What for.
        ({"usages": ("digital signature", "client auth", "server auth")}, "usages"),
        ({"usages": ("client auth",)}, "usages"),
        ({"usages": ("digital signature", "client auth", "cert sign")}, "usages"),
        # 6. Whose.
        ({"name": "worker-7"}, "subject"),
        ({"name": "system:node:"}, "subject"),
        ({"name": "system:node:Worker-7"}, "subject"),
        ({"name": "system:node:a/../b"}, "subject"),
        ({"name": "system:node:worker-7\n"}, "subject"),
        ({"organizations": ("system:nodes", "system:masters")}, "subject"),
        ({"organizations": ()}, "subject"),
        # 7. Nothing beside.
        ({"alt_names": SubjectAltNames(dns_names=("worker-7",))}, "alt-names"),
        ({"extensions": (Extension("2.5.29.19", True, bytes.fromhex("30030101ff")),)}, "extensions"),
        ({"extensions": (Extension("1.2.3", False, b"\x05\x00"),)}, "extensions"),
        ({"extensions": (Extension(provider_id.OID, False, b"\x30\x00"),)}, "provider-id"),
    ],
)  # fmt: skip
def test_what_a_request_may_not_say(changes: dict[str, Any], step: str) -> None:
    assert refusal(**changes) == step


def test_a_request_of_a_key_that_somebody_else_has_is_refused() -> None:
    pem = built()
    broken = x509_request.parse_pem(pem).contents[:-1] + b"\x00"
    from kubevouch.pki.x509 import pem as armour

    assert refusal(pem=armour.encode(armour.CERTIFICATE_REQUEST, broken)) == "proof-of-possession"


@pytest.mark.parametrize(
    "usages", [("digital signature", "client auth"), ("key encipherment", "digital signature", "client auth")]
)
def test_a_renewal_comes_from_the_node_itself_and_a_first_request_from_a_token(usages: tuple[str, ...]) -> None:
    assert not read(usages=usages).own
    assert read(username="system:node:worker-7", groups=("system:nodes",), usages=usages).own
    assert read(extensions=(provider_id.extension("aws:///a/i-1"),)).provider_id == "aws:///a/i-1"


def test_others_may_let_their_own_groups_in() -> None:
    own = config("requesterGroups: [site:machines]\nrequestersWithoutToken: true\n")
    assert read(username="factory", groups=("site:machines",), by=own).node_name == "worker-7"
    with pytest.raises(RequestRefusedError):
        read(username="factory", groups=BOOTSTRAP, by=own)


# ------------------------------------------------------------------ machines


def test_a_machine_that_nobody_expects_waits_and_then_is_refused() -> None:
    required = config("machines: Required\nmachineGraceSeconds: 60\n")
    with pytest.raises(NotYetError):
        node_attestation.machine_of(wanted(), (), required, dt.timedelta(seconds=59))
    with pytest.raises(RequestRefusedError, match="none came for 60 s"):
        node_attestation.machine_of(wanted(), (), required, dt.timedelta(seconds=60))
    assert node_attestation.machine_of(wanted(), (), config(), dt.timedelta()) is None


def test_a_machine_waits_until_it_may_join_and_only_by_what_its_cluster_takes() -> None:
    late = Machine(node_name="worker-7", ready=False, waits_for="BootstrapReady")
    with pytest.raises(NotYetError, match="BootstrapReady"):
        node_attestation.machine_of(wanted(), (late,), config(), dt.timedelta(days=1))
    other = Machine(node_name="worker-7", attestors=("aws",))
    with pytest.raises(RequestRefusedError) as caught:
        node_attestation.machine_of(wanted(), (other,), config(), dt.timedelta())
    assert caught.value.step == "machine-attestor"


def expected(machine: Machine, asked: str, shown: Attested) -> None:
    node_attestation.verify_own_name(wanted(asked), (machine,))
    node_attestation.verify_machine(wanted(asked), (shown,), "0" * 64, (machine,))


@pytest.mark.parametrize(
    ("machine", "asked", "shown", "step"),
    [
        (Machine(node_name="worker-7", provider_id="demo://7"), "demo://8", proof(), "provider-id"),
        (Machine(node_name="worker-7", provider_id="demo://7"), "", proof(provider_id="demo://8"), "provider-id"),
        (Machine(node_name="worker-7"), "demo://7", proof(provider_id="demo://8"), "provider-id"),
        (Machine(node_name="worker-7", identities=(Identity("tpm", "m-2"),)), "", proof(), "machine-identity"),
        (Machine(node_name="worker-7", identities=(Identity("aws", "m-1"),)), "", proof(), "machine-identity"),
        (Machine(node_name="worker-7", keys=("1" * 64,)), "", proof(), "machine-key"),
        (Machine(node_name="worker-8", identities=(Identity("tpm", "m-1"),)), "", proof(), "machine-name"),
    ],
)
def test_what_was_proven_is_what_is_expected(machine: Machine, asked: str, shown: Attested, step: str) -> None:
    with pytest.raises(RequestRefusedError) as caught:
        expected(machine, asked, shown)
    assert caught.value.step == step
    fits = Machine(node_name="worker-7", provider_id="demo://7", identities=(Identity("tpm", "m-1"),), keys=("0" * 64,))
    expected(fits, "demo://7", proof(provider_id="demo://7"))


# ------------------------------------------------------------------ names


def named(template: str, *claims: Claim, evidence: str = "") -> str:
    settings = AttestorSettings(provider="aws", node_name=template)
    return node_attestation.expected_name(settings, proof(claims=claims), evidence)


def test_a_name_is_made_of_claims() -> None:
    assert named("{aws.region}-{aws.id}", claim("aws.region", "eu-1"), claim("aws.id", "i-0a")) == "eu-1-i-0a"
    assert named("", evidence="worker-7") == "worker-7"
    assert named("") == ""
    node_attestation.verify_name(wanted(), "")
    node_attestation.verify_name(wanted(), "worker-7")
    with pytest.raises(RequestRefusedError, match="worker-8"):
        node_attestation.verify_name(wanted(), "worker-8")


@pytest.mark.parametrize(
    "value",
    ["", "a/b", "..", "a..b", "%2e", "A", "a_b", "-a", "a-", "ä", "a b", "a\n", "a\x00", "x" * 254, "{b}", "１"],
)
def test_a_name_that_is_none_is_refused_and_never_made_to_fit(value: str) -> None:
    with pytest.raises(RequestRefusedError) as caught:
        named("{tag}", claim("tag", value))
    assert caught.value.step == "node-name"
    if value:
        with pytest.raises(RequestRefusedError):
            named("", evidence=value)


def test_a_name_is_made_of_nothing_that_a_tenant_can_write() -> None:
    with pytest.raises(RequestRefusedError, match="rents"):
        named("{tag}", claim("tag", "cp-1", tenant=True))
    with pytest.raises(RequestRefusedError, match="got 0 claims"):
        named("{tag}")
    with pytest.raises(RequestRefusedError, match="got 2 claims"):
        named("{tag}", claim("tag", "a"), claim("tag", "b"))
    with pytest.raises(RequestRefusedError, match="rents"):
        named("{tag}", claim("tag", "a"), claim("tag", "a", tenant=True))


# ------------------------------------------------------------------ nodes


def test_nobody_takes_over_a_node_that_lives() -> None:
    def verify(
        existing: Node | None, shown: Attested, *, claimed: bool = False, vouched: bool = False, own: bool = False
    ) -> None:
        node_attestation.verify_node(wanted(own=own), existing, (shown,), claimed=claimed, vouched=vouched)

    theirs = node(ready=True, provider_id="demo://5")
    for shown, more in ((proof(provider_id="demo://7"), {"claimed": True, "vouched": True}), (proof(), {})):
        with pytest.raises(RequestRefusedError) as caught:
            verify(theirs, shown, **more)
        assert caught.value.step == "live-node"
    verify(None, proof())
    verify(node(ready=False), proof())
    verify(theirs, proof(provider_id="demo://5"))
    for word in ("claimed", "vouched", "own"):
        verify(node(ready=True), proof(), **{word: True})


# ------------------------------------------------------------------ strength


def test_the_group_says_what_has_to_be_proven() -> None:
    text = (
        "groups:\n- {name: cp, nodeNames: ['cp-*'], strength: tpm, providers: [tpm]}\n"
        "- {name: spot, claims: {pool: spot}, allOf: [tpm, aws]}\n"
    )
    groups = config(text)
    cp, spot = groups.groups
    assert node_attestation.group_of(groups, "cp-1", None, ()) == cp
    assert node_attestation.group_of(groups, "xcp-1", None, ()).name == ""
    assert node_attestation.group_of(groups, "w-1", Machine(node_name="w-1", group="cp"), ()) == cp
    assert (
        node_attestation.group_of(groups, "w-1", None, (proof(claims=(claim("pool", "spot", tenant=True),)),)) == spot
    )
    weak, strong = proof(provider="aws", strength=Strength.CLOUD), proof()
    for group, proofs, step in (
        (cp, (weak,), "provider"),
        (cp, (proof(strength=Strength.KEY), weak), "strength"),
        (spot, (strong,), "combination"),
        (spot, (weak,), "combination"),
    ):
        with pytest.raises(RequestRefusedError) as caught:
            node_attestation.verify_strength(group, proofs)
        assert caught.value.step == step
    node_attestation.verify_strength(cp, (strong,))
    node_attestation.verify_strength(spot, (strong, weak))


def test_a_machine_is_called_back_where_others_say_that_it_is() -> None:
    group = NodeGroup(name="edge", callback=True)
    answered = proof("10.0.0.7", "callback", Strength.TOKEN, addresses=("10.0.0.7",))
    cloud = proof("i-1", "aws", Strength.CLOUD, addresses=("10.0.0.7", "10.0.1.7"))
    elsewhere = proof("i-1", "aws", Strength.CLOUD, addresses=("10.0.0.8",))
    known = Machine(node_name="n", addresses=("10.0.0.7",))
    node_attestation.verify_callback(group, known, (answered,))
    node_attestation.verify_callback(group, None, (cloud, answered))
    node_attestation.verify_callback(NodeGroup(name="other"), None, (cloud,))
    for machine, proofs in (
        (known, (cloud,)),
        (None, (answered,)),
        (None, (elsewhere, answered)),
        (Machine(node_name="n", addresses=("10.0.0.8",)), (answered,)),
        (Machine(node_name="n"), (answered, msgspec.structs.replace(answered, identity="another"))),
    ):
        with pytest.raises(RequestRefusedError) as caught:
            node_attestation.verify_callback(group, machine, proofs)
        assert caught.value.step == "callback"


def test_a_proof_that_does_not_count_for_a_group_lengthens_nothing() -> None:
    groups = config("groups: [{name: cp, nodeNames: [cp], providers: [aws]}]\n")
    proofs = (proof(), proof(provider="aws", strength=Strength.CLOUD))
    assert node_attestation.seconds_for(groups, groups.groups[0], proofs, NOW) == 7 * 86_400


def test_a_lifetime_is_by_strength_and_ends_sooner_for_old_evidence() -> None:
    usual = node_attestation.group_of(config(), "w", None, ())
    old = proof(made_at=NOW - dt.timedelta(days=1))
    assert node_attestation.seconds_for(config(), usual, (proof(),), NOW) == 14 * 86_400
    assert node_attestation.seconds_for(config(), usual, (old,), NOW) == 13 * 86_400
    assert (
        node_attestation.seconds_for(config(), usual, (proof(made_at=NOW + dt.timedelta(days=1)),), NOW) == 14 * 86_400
    )
    with pytest.raises(RequestRefusedError, match="too old"):
        node_attestation.seconds_for(config(), usual, (proof(made_at=NOW - dt.timedelta(days=14)),), NOW)


def test_labels_are_of_claims_that_nobody_contradicts_and_that_fit() -> None:
    claims = (
        claim("r", "eu"),
        claim("r", "eu"),
        claim("z", "a"),
        claim("z", "b"),
        claim("long", "x" * 64),
        claim("t", "a b"),
    )
    labels = {"l/r": "r", "l/z": "z", "l/long": "long", "l/t": "t", "l/none": "none"}
    assert node_attestation.labels_for(labels, claims) == {"l/r": "eu"}


def test_a_closed_label_is_of_no_claim_that_a_tenant_writes() -> None:
    claims = (claim("tag", "db", tenant=True), claim("region", "eu"))
    pool, role = "node-restriction.kubernetes.io/pool", "node-role.kubernetes.io/x"
    labels, closed = {pool: "tag", "example.com/pool": "tag", role: "region"}, {pool, role}
    assert node_attestation.labels_for(labels, claims, closed) == {"example.com/pool": "db", role: "eu"}
    # Nor of one beside it that says the same.
    assert pool not in node_attestation.labels_for(labels, (*claims, claim("tag", "db")), closed)


def test_which_signers_are_of_the_family() -> None:
    assert node_attestation.is_client(SIGNER)
    assert node_attestation.is_serving("cluster.x-k8s.io/kubelet-serving-tpm")
    for name in (
        "kubernetes.io/kube-apiserver-client-kubelet",
        "cluster.x-k8s.io/kube-apiserver-client-kubelet-",
        "a/b",
    ):
        assert not node_attestation.is_client(name)
        assert not node_attestation.is_serving(name)
