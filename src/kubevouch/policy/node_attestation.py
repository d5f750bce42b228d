"""What a request with evidence has to keep to, whatever the method: the rules that no verifier may forget.

Source: the Cluster API proposal "Kubelet authentication" (2021), "Client CSR flow". Its text would refuse every first
join (the common name is to be the requester's user name), which holds for renewals only.

    RequestRefusedError    proven to be wrong, for ever; ``step`` names the rule
    NotYetError            not now: somebody has yet to say something
"""

from __future__ import annotations

import datetime as dt
import fnmatch
import re
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from kubevouch.api.attested import Attested, Claim, Strength, at_least
from kubevouch.api.core_v1.nodes import Node
from kubevouch.api.kubevouch_v1alpha1.node_identities import AttestedClaim, NodeIdentity
from kubevouch.config.attestation_config import (
    CALLBACK,
    INSECURE,
    LEAST_LIFETIME,
    REQUIRED,
    AttestationConfiguration,
    AttestorSettings,
    NodeGroup,
    lifetimes_of,
    requester_groups_of,
)
from kubevouch.machinery.text import names
from kubevouch.pki.errors import ParseError, PolicyError, SignatureError
from kubevouch.pki.node_user import node_name_of
from kubevouch.pki.policy import attestation_provider, rules_signer, verify_shape
from kubevouch.pki.x509 import provider_id, x509_request
from kubevouch.pki.x509.public_key import KeyKind
from kubevouch.pki.x509.x509_request import CertificateRequest
from kubevouch.policy.facts import RequestFacts
from kubevouch.policy.inventory import Machine, may_be_called
from kubevouch.policy.node_identities import strongest
from kubevouch.policy.unattested import Objection
from kubevouch.wellknown import (
    BOOTSTRAP_USER_PREFIX,
    CONDITION_TRUE,
    KUBE_APISERVER_CLIENT_KUBELET_SIGNER,
    KUBELET_SERVING_SIGNER,
    NODES_GROUP,
)

_PLACE = re.compile(r"\{([A-Za-z0-9._-]+)\}")
_KEYS = frozenset({KeyKind.RSA, KeyKind.ECDSA, KeyKind.ED25519, KeyKind.ML_DSA})
_LEAST_RSA_BITS = 2048
_SHOWN = 128
_OF_REQUEST = frozenset(
    {
        "requester", "usages", "subject", "alt-names", "extensions", "key", "proof-of-possession", "size", "structure",
        "duplicate-key", "provider", "challenge", "challenge-used", "challenge-expired", "evidence-age", "banned",
        "machine-unknown", "machine-attestor",
    }
)  # fmt: skip
"""Steps that a machine fails which is slow, was started again, or asks in a wrong form."""


class RequestRefusedError(Exception):
    """Proven to be wrong, for ever; ``step`` names the rule in one word."""

    def __init__(self, step: str, message: str) -> None:
        super().__init__(message)
        self.step = step


class NotYetError(Exception):
    """Not now; ``step`` names what it waits for. ``retry``: of it no event may tell."""

    def __init__(self, step: str, message: str, *, retry: bool = False) -> None:
        super().__init__(message)
        self.step = step
        self.retry = retry


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What a request for a client certificate asks for.

    Args:
        own: it comes from the node itself.
        provider_id: that it names itself; empty for none.
    """

    node_name: str
    provider: str
    own: bool
    provider_id: str = ""


def is_client(signer_name: str) -> bool:
    """Whether it is a signer for client certificates of machines that have proven what they are."""
    return bool(attestation_provider(signer_name)) and rules_signer(signer_name) == KUBE_APISERVER_CLIENT_KUBELET_SIGNER


def is_serving(signer_name: str) -> bool:
    """As :func:`is_client`, for serving certificates."""
    return bool(attestation_provider(signer_name)) and rules_signer(signer_name) == KUBELET_SERVING_SIGNER


def read(facts: RequestFacts, request: CertificateRequest, config: AttestationConfiguration) -> Wanted:
    """What the request asks for, held to all that can be seen of it alone.

    Raises:
        RequestRefusedError: ``requester``, ``usages``, ``subject``, ``alt-names``, ``extensions``, ``key``,
            ``proof-of-possession``, ``provider-id``.
    """
    name = node_name_of(facts.subject.common_name)
    own = facts.username == facts.subject.common_name
    # 3. Who asks: a machine with a bootstrap token, or the node itself.
    _verify_requester(facts, config, own=own)
    # 5. to 7. What it asks for: a client certificate of one node and nothing beside.
    _verify_shape(facts, request)
    if not name:
        raise RequestRefusedError("subject", f"{facts.subject.common_name[:_SHOWN]!r} names no node")
    # 8. A key that is worth something, and that whoever has made the request has.
    _verify_key(request)
    return Wanted(
        node_name=name, provider=attestation_provider(facts.signer_name), own=own, provider_id=_provider_id(request)
    )


def _verify_requester(facts: RequestFacts, config: AttestationConfiguration, *, own: bool) -> None:
    if own:
        if NODES_GROUP not in facts.groups:
            raise RequestRefusedError("requester", f"{facts.username} is not in the group {NODES_GROUP}")
        return
    if node_name_of(facts.username):
        raise RequestRefusedError("requester", f"{facts.username} asks for the certificate of another node")
    groups = requester_groups_of(config)
    if not facts.username.startswith(BOOTSTRAP_USER_PREFIX) and not config.requesters_without_token:
        raise RequestRefusedError("requester", f"{facts.username[:_SHOWN]} is neither the node nor a bootstrap token")
    if not set(groups) & set(facts.groups):
        raise RequestRefusedError(
            "requester", f"{facts.username[:_SHOWN]} is in none of the groups {', '.join(groups)}"
        )


def _verify_shape(facts: RequestFacts, request: CertificateRequest) -> None:
    try:
        verify_shape(facts.signer_name, request, facts.usages)
    except PolicyError as err:
        text = str(err)
        step = "usages" if text.startswith("usages") else "alt-names" if "subjectAltName" in text else "subject"
        raise RequestRefusedError(step, text) from err
    subject = facts.subject
    if subject.unknown or len(request.subject.attributes) != 2:
        raise RequestRefusedError("subject", "expected one common name and one organization, and nothing else")
    if facts.is_ca:
        raise RequestRefusedError("extensions", "the request is for a CA")
    strange = [each for each in facts.extensions if each != provider_id.OID]
    if strange or len(facts.extensions) > 1:
        raise RequestRefusedError("extensions", f"got the extension {(*strange, provider_id.OID)[0]}, expected none")


def _verify_key(request: CertificateRequest) -> None:
    key = request.public_key
    if key.kind not in _KEYS or (key.kind is KeyKind.RSA and key.bits < _LEAST_RSA_BITS):
        raise RequestRefusedError("key", f"got {key.name}, expected P-256 or better, or RSA of {_LEAST_RSA_BITS} bits")
    if key.kind is KeyKind.ECDSA and key.bits < 256:
        raise RequestRefusedError("key", f"got {key.name}, expected P-256 or better")
    try:
        x509_request.verify_signature(request, post_quantum=True)
    except SignatureError as err:
        raise RequestRefusedError("proof-of-possession", str(err)) from err


def _provider_id(request: CertificateRequest) -> str:
    try:
        return provider_id.provider_id_of(request)
    except ParseError as err:
        raise RequestRefusedError("provider-id", str(err)) from err


# ------------------------------------------------------------------ machine


def machine_of(
    wanted: Wanted,
    machines: Iterable[Machine],
    config: AttestationConfiguration,
    waited: dt.timedelta,
) -> Machine | None:
    """The machine that the request is from, as the inventory has it; None where it need not have it.

    Args:
        machines: what the sources say of whatever has this name, provider id or identity.
        waited: since the request came.

    Raises:
        NotYetError: ``machine-unknown``, ``machine-not-ready``
        RequestRefusedError: ``machine-unknown`` once it has waited long enough; ``machine-attestor``
    """
    found = [each for each in machines if may_be_called(each, wanted.node_name)]
    # 1. It is expected.
    if not found:
        if config.machines != REQUIRED:
            return None
        message = f"no machine is expected as node {wanted.node_name}"
        if waited >= dt.timedelta(seconds=config.machine_grace_seconds):
            raise RequestRefusedError(
                "machine-unknown", f"{message}, and none came for {int(waited.total_seconds())} s"
            )
        raise NotYetError("machine-unknown", message, retry=True)
    machine = next((each for each in found if each.node_name == wanted.node_name), found[0])
    # 2. It is ready to join.
    late = next((each for each in found if not each.ready), None)
    if late is not None:
        raise NotYetError(
            "machine-not-ready", f"{_source(late)} is not ready: {late.waits_for or 'it may not join yet'}"
        )
    # 4. Its cluster takes this method.
    for each in found:
        if each.attestors is not None and wanted.provider not in each.attestors:
            accepted = ", ".join(each.attestors) or "none"
            raise RequestRefusedError("machine-attestor", f"{_source(each)} accepts {accepted}, got {wanted.provider}")
    return machine


def verify_own_name(wanted: Wanted, proven: Iterable[Machine]) -> None:
    """6. That the machines which the inventory has of what was proven may be called so: nobody waits to be another one.

    Raises:
        RequestRefusedError: ``machine-name``
    """
    for each in proven:
        if not may_be_called(each, wanted.node_name):
            name = each.node_name or "a machine of another name"
            raise RequestRefusedError(
                "machine-name", f"the machine is {_source(each)}, {name}, and asks to be {wanted.node_name}"
            )


def verify_machine(wanted: Wanted, proofs: Sequence[Attested], key: str, machines: Iterable[Machine]) -> None:
    """That what was proven is what the inventory expects of this name.

    Args:
        key: hexadecimal SHA-256 of the SubjectPublicKeyInfo.
        machines: what the inventory has of this name.

    Raises:
        RequestRefusedError: ``provider-id``, ``machine-identity``, ``machine-key``
    """
    # 11. The request, the proof and the inventory say the same provider id.
    said = {wanted.provider_id, *(each.provider_id for each in proofs)} - {""}
    for each in machines:
        if not may_be_called(each, wanted.node_name):
            continue
        said |= {each.provider_id} - {""}
        _verify_identity(each, proofs)
        if each.keys and key not in each.keys:
            raise RequestRefusedError("machine-key", f"{_source(each)} has other keys")
    if len(said) > 1:
        raise RequestRefusedError("provider-id", f"got {' and '.join(sorted(said))[:_SHOWN]}, expected one provider id")


def _verify_identity(machine: Machine, proofs: Sequence[Attested]) -> None:
    known = {each.provider: each.identity for each in machine.identities}
    for each in proofs:
        expected = known.get(each.provider, each.identity)
        if expected != each.identity:
            raise RequestRefusedError(
                "machine-identity", f"{_source(machine)} is {each.provider} {expected[:_SHOWN]}, got {each.identity}"
            )
    if known and not any(each.provider in known for each in proofs):
        raise RequestRefusedError("machine-identity", f"{_source(machine)} is known by {', '.join(sorted(known))} only")


def _source(machine: Machine) -> str:
    return machine.source or "the machine"


# ------------------------------------------------------------------ name


def expected_name(attestor: AttestorSettings | None, proof: Attested, evidence_name: str) -> str:
    """The name that the proof gives the machine; empty where it gives none.

    Args:
        attestor: the settings of the method; their template comes before the name in the evidence.
        evidence_name: what the verifier makes of the evidence.

    Raises:
        RequestRefusedError: ``node-name``: a claim is missing or is one that a tenant can write, or the name is none.
    """
    template = attestor.node_name if attestor is not None else ""
    name = _filled(template, proof.claims) if template else evidence_name
    # After it was put together, and never made to fit (CVE-2021-27099).
    if (template or name) and names.subdomain(name):
        raise RequestRefusedError("node-name", f"{name[:_SHOWN]!r} is not the name of a node")
    return name


def _filled(template: str, claims: Iterable[Claim]) -> str:
    by_name: dict[str, list[Claim]] = {}
    for each in claims:
        by_name.setdefault(each.name, []).append(each)

    def value(match: re.Match[str]) -> str:
        found = by_name.get(match[1], [])
        values = {each.value for each in found}
        if len(values) != 1:
            raise RequestRefusedError(
                "node-name", f"got {len(values)} claims {match[1]}, expected one to make a name of"
            )
        if any(each.tenant_controlled for each in found):
            raise RequestRefusedError(
                "node-name", f"{match[1]} is what whoever rents the machine can write: it makes no name"
            )
        return values.pop()

    return _PLACE.sub(value, template)


def verify_name(wanted: Wanted, expected: str) -> None:
    """6. The name that is asked for is the machine's. Raises :class:`RequestRefusedError`: ``node-name``."""
    if expected and expected != wanted.node_name:
        raise RequestRefusedError("node-name", f"the machine is {expected}, and asks to be {wanted.node_name}")


# ------------------------------------------------------------------ node


def verify_node(wanted: Wanted, node: Node | None, proofs: Sequence[Attested], *, claimed: bool, vouched: bool) -> None:
    """12. Nobody takes over a Node that lives.

    Args:
        claimed: the name belongs to this very machine already.
        vouched: the inventory says that this machine has the name.

    Raises:
        RequestRefusedError: ``live-node``
    """
    if node is None:
        return
    theirs, ours = node.spec.provider_id, _proven_provider_id(proofs)
    if ours and theirs and ours != theirs and _is_ready(node):
        raise RequestRefusedError("live-node", f"node {wanted.node_name} is ready and is {theirs[:_SHOWN]}, got {ours}")
    if claimed or vouched or wanted.own or (ours and ours == theirs) or not _is_ready(node):
        return
    raise RequestRefusedError(
        "live-node",
        f"node {wanted.node_name} is ready, and nothing says that it is this machine: it joins as itself with the "
        "certificate that it has, or the Node is deleted first",
    )


def is_node(node: Node | None, proofs: Sequence[Attested]) -> bool:
    """Whether the Node is the machine that was proven, by its provider id."""
    return node is not None and bool(node.spec.provider_id) and node.spec.provider_id == _proven_provider_id(proofs)


def _proven_provider_id(proofs: Sequence[Attested]) -> str:
    return next((each.provider_id for each in proofs if each.provider_id), "")


def _is_ready(node: Node) -> bool:
    return any(each.type == "Ready" and each.status == CONDITION_TRUE for each in node.status.conditions)


# ------------------------------------------------------------------ strength


def group_of(
    config: AttestationConfiguration, node_name: str, machine: Machine | None, proofs: Sequence[Attested]
) -> NodeGroup:
    """What the machine has to prove: the group that the inventory says, else the first that fits; else the usual."""
    usual = NodeGroup(name="", strength=config.strength)
    said = machine.group if machine is not None else ""
    by_name = {each.name: each for each in config.groups}
    if said in by_name:
        return by_name[said]
    claims = {(each.name, each.value) for proof in proofs for each in proof.claims}
    for group in config.groups:
        if any(fnmatch.fnmatchcase(node_name, pattern) for pattern in group.node_names):
            return group
        if group.claims and set(group.claims.items()) <= claims:
            return group
    return usual


def verify_strength(group: NodeGroup, proofs: Sequence[Attested]) -> None:
    """That the proofs are worth what the group asks for.

    Raises:
        RequestRefusedError: ``strength``, ``provider``, ``combination``
    """
    shown = [each.provider for each in proofs]
    where = f"group {group.name}" if group.name else "this cluster"
    missing = [each for each in group.all_of if each not in shown]
    if missing:
        raise RequestRefusedError("combination", f"{where} asks for a proof by {', '.join(missing)} as well")
    counted = [each for each in proofs if not group.providers or each.provider in group.providers]
    if not counted:
        accepted = ", ".join(group.providers)
        raise RequestRefusedError("provider", f"{where} accepts {accepted}, got {', '.join(shown)}")
    wanted = Strength(group.strength)
    if not any(at_least(each.strength, wanted) for each in counted):
        got = strongest(counted)
        raise RequestRefusedError("strength", f"{where} asks for a proof worth {wanted} or more, got {got}")


def verify_callback(group: NodeGroup, machine: Machine | None, proofs: Sequence[Attested]) -> None:
    """That a machine of a group that is called back has answered from where it is known to be.

    The machine itself has said where to call it. Only here it counts who else says that it is there.

    Raises:
        RequestRefusedError: ``callback``
    """
    if not group.callback:
        return
    answered = {each for proof in proofs if proof.provider == CALLBACK for each in _places(proof)}
    if not answered:
        raise RequestRefusedError("callback", f"group {group.name} asks for a proof by {CALLBACK} as well")
    known = {each for proof in proofs if proof.provider != CALLBACK for each in _places(proof)}
    if machine is not None:
        known |= {*machine.addresses, *machine.dns_names}
    if not answered & known:
        told = ", ".join(sorted(known)[:8]) or "no address"
        raise RequestRefusedError("callback", f"the machine answered at {', '.join(sorted(answered))}, known is {told}")


def _places(proof: Attested) -> tuple[str, ...]:
    return (*proof.addresses, *proof.dns_names)


def seconds_for(
    config: AttestationConfiguration, group: NodeGroup, proofs: Sequence[Attested], now: dt.datetime
) -> int:
    """For how long the machine may have a certificate: by what its proof is worth, less what it is old.

    Raises:
        RequestRefusedError: ``evidence-age``: too little would be left.
    """
    counted = [each for each in proofs if not group.providers or each.provider in group.providers]
    lifetimes = lifetimes_of(config)
    left = max(lifetimes[each.strength] - _age(each, now) for each in counted)
    if left < LEAST_LIFETIME:
        raise RequestRefusedError("evidence-age", f"the proof is too old: it would give {max(left, 0)} seconds")
    return left


def serving_objection(facts: RequestFacts, named: NodeIdentity | None) -> Objection | None:
    """Why an attested signer gives nobody this serving certificate, or not yet; None for nothing.

    The names in it are judged as with ``kubernetes.io/kubelet-serving``.
    """
    provider = attestation_provider(facts.signer_name)
    # "An insecure provider CANNOT implement certificate rotation or kubelet serving certificate signing."
    if provider == INSECURE or (named is not None and named.status.strength == Strength.INSECURE):
        text = "the node has proven nothing (insecure), and such a node never gets a serving certificate"
        return Objection("insecure", text, denied=True)
    if named is None or not named.status.identity or facts.username != facts.subject.common_name:
        return Objection("not-attested", f"{facts.username[:_SHOWN]} is no node that has proven what it is")
    if named.status.provider != provider:
        text = f"node {named.metadata.name} has proven what it is by {named.status.provider}, and not by {provider}"
        return Objection("not-attested", text)
    return None


def serving_seconds(config: AttestationConfiguration, named: NodeIdentity) -> int:
    """For how long a node may have a serving certificate: as its client certificate."""
    return lifetimes_of(config)[Strength(named.status.strength)]


def _age(proof: Attested, now: dt.datetime) -> int:
    return 0 if proof.made_at is None else max(0, int((now - proof.made_at).total_seconds()))


def is_of_machine(step: str) -> bool:
    """Whether a refusal says something of the machine, and not only of how, or when, it asked."""
    return step not in _OF_REQUEST


def labels_for(
    wanted: Mapping[str, str], claims: Iterable[Claim | AttestedClaim], closed: Collection[str] = ()
) -> dict[str, str]:
    """The labels that a Node gets of claims; what no label can hold, or two sources contradict, gives none.

    Args:
        wanted: by label, the name of the claim.
        closed: labels that no node may set on itself; nor may whoever rents the machine and writes its tags.
    """
    values: dict[str, set[str]] = {}
    tenants: set[str] = set()
    for each in claims:
        values.setdefault(each.name, set()).add(each.value)
        if each.tenant_controlled:
            tenants.add(each.name)
    found = {
        label: values.get(claim, set()) for label, claim in wanted.items() if not (label in closed and claim in tenants)
    }
    return {
        label: next(iter(value))
        for label, value in found.items()
        if len(value) == 1 and not names.label_value(next(iter(value)))
    }
