"""AttestationConfiguration: by which methods machines prove what they are, and what such a proof is worth.

What is left out is the safe choice: no method but those that are named, no way to a certificate without a proof, no
name made of what a tenant can write. Paths are read from where the program was started.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import msgspec

from kubevouch.api.attested import Strength
from kubevouch.config import config_file
from kubevouch.machinery import field
from kubevouch.machinery.declaration import Int64, RawJSON, Struct, always, wire
from kubevouch.machinery.field import FieldError
from kubevouch.machinery.text import names
from kubevouch.wellknown import DEFAULT_NODE_TOKEN_GROUP

KIND = "AttestationConfiguration"
API_VERSION = "kubevouch.io/v1alpha1"
REQUIRED, OPTIONAL = MACHINES = ("Required", "Optional")
BOOTSTRAP, RENEWAL = BINDINGS = ("bootstrap", "renewal")
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
STRENGTHS = tuple(map(str, Strength))
CALLBACK = "callback"
"""The method by which a machine answers from the address at which it is known."""
INSECURE = "insecure"
"""The method that proves nothing: it has a signer for client certificates, and none for serving certificates."""
MAX_ATTESTORS = 16
MAX_GROUPS = 64
LEAST_LIFETIME, MOST_LIFETIME = 600, 31_536_000
"""Seconds: what Kubernetes' signers give at least, and a year."""

_PLACE = re.compile(r"\{([A-Za-z0-9._-]+)\}")


class AttestorSettings(Struct):
    """One method that counts."""

    provider: Annotated[str, wire(1, "The method, as in the names of its signers.", required=True)] = always(str)
    settings: Annotated[RawJSON, wire(2, "Of the method, in its own form.")] = RawJSON(b"{}")
    node_name: Annotated[
        str,
        wire(3, "The name of the Node, with names of claims in braces: {aws.region}-{aws.instanceId}. Claims that a "
             "tenant can write are refused. Empty takes the name that evidence or inventory give, and else the one "
             "that is asked for."),
    ] = ""  # fmt: skip


class NodeGroup(Struct):
    """What machines of a group have to prove. The first group that a machine is in counts."""

    name: Annotated[str, wire(1, "As AllowedMachine's group, and in decisions.", required=True)] = always(str)
    node_names: Annotated[list[str], wire(2, "Names of Nodes that are in it; a * stands for any part.")] = []
    claims: Annotated[
        dict[str, str], wire(3, "Claims that a machine in it has, all of them; what a tenant can write counts, too.")
    ] = {}
    strength: Annotated[str, wire(4, "How much one of the proofs has to be worth.")] = str(Strength.TOKEN)
    providers: Annotated[list[str], wire(5, "Methods that count; none means all.")] = []
    all_of: Annotated[list[str], wire(6, "Methods of which each has to be shown in the same request.")] = []
    callback: Annotated[
        bool, wire(7, "A proof by callback has to be shown, too, from an address that inventory or cloud know of it.")
    ] = False


class Lifetime(Struct):
    """How long a certificate is given for, by what the proof is worth."""

    strength: Annotated[str, wire(1, "What the proof is worth.", required=True)] = always(str)
    seconds: Annotated[Int64, wire(2, "The most that it is given for, counted from when the evidence was made.",
                                   required=True)] = always(int)  # fmt: skip


class FailedTaint(Struct):
    """A taint of the Node."""

    key: Annotated[str, wire(1, "Its key.")] = "kubevouch.io/attestation-failed"
    value: Annotated[str, wire(2, "Its value.")] = ""
    effect: Annotated[str, wire(3, "Its effect.")] = "NoSchedule"


class FailedRenewal(Struct):
    """What becomes of a node that proves at its renewal that it is something else, or nothing."""

    revoke: Annotated[bool, wire(1, "Its certificates are revoked.")] = False
    taint: Annotated[FailedTaint | None, wire(2, "Its Node gets this taint; None leaves it as it is.")] = None


class Fallbacks(Struct):
    """Weaker ways to a certificate. Each use is written into events and into the audit log."""

    bootstrap_token: Annotated[
        bool, wire(1, "A bootstrap token gives a name that no machine has proven itself for, as without attestation.")
    ] = False
    self_renewal: Annotated[
        bool, wire(2, "A node that has proven more than that it had a token renews by the certificate that it has.")
    ] = False


class AttestationConfiguration(Struct):
    """The file."""

    attestors: Annotated[list[AttestorSettings], wire(1, "Methods that count.", required=True)] = []
    machines: Annotated[str, wire(2, "Whether a machine has to be in the inventory: Required or Optional.")] = OPTIONAL
    machine_grace_seconds: Annotated[
        Int64, wire(3, "How long a request waits for its machine to become known before it is denied.")
    ] = 600
    groups: Annotated[list[NodeGroup], wire(4, "What machines of a group have to prove.")] = []
    strength: Annotated[str, wire(5, "How much a proof has to be worth of a machine that is in no group.")] = str(
        Strength.TOKEN
    )
    lifetimes: Annotated[list[Lifetime], wire(6, "Where they are others than the usual ones.")] = []
    on_failed_renewal: Annotated[FailedRenewal, wire(7, "What becomes of a node whose renewal is refused.")] = (
        FailedRenewal()
    )
    node_labels: Annotated[
        dict[str, str], wire(8, "Labels that Nodes get of claims: the label, and the name of the claim.")
    ] = {}
    remove_bindings: Annotated[
        list[str],
        wire(9, "Of kubeadm's bindings that approve without a proof, which are removed and kept away: bootstrap, "
             "renewal."),
    ] = []  # fmt: skip
    fallbacks: Annotated[Fallbacks, wire(10, "Weaker ways to a certificate; none by default.")] = Fallbacks()
    requester_groups: Annotated[
        list[str],
        wire(12, "Groups of which a machine that joins is in one; none means that of kubeadm's tokens for nodes."),
    ] = []
    requesters_without_token: Annotated[
        bool, wire(13, "Machines may come as another user than that of a bootstrap token, in one of these groups.")
    ] = False


USUAL_LIFETIMES: Mapping[Strength, int] = {
    Strength.INSECURE: 86_400,
    Strength.TOKEN: 86_400,
    Strength.FIRST_USE: 86_400,
    Strength.KEY: 7 * 86_400,
    Strength.CLOUD: 7 * 86_400,
    Strength.TPM: 14 * 86_400,
    Strength.MEASURED: 30 * 86_400,
}
"""Seconds; by what a proof is worth."""


def decode(text: bytes) -> AttestationConfiguration:
    """Raises :class:`kubevouch.config.config_file.ConfigFileError`."""
    return config_file.decode(text, KIND, {API_VERSION: AttestationConfiguration}, _problems)


def settings_of(attestor: AttestorSettings) -> Mapping[str, Any]:
    """What the method is told, in builtins."""
    settings: Mapping[str, Any] = msgspec.json.decode(attestor.settings.raw)
    return settings


def lifetimes_of(config: AttestationConfiguration) -> Mapping[Strength, int]:
    """Seconds, by what a proof is worth."""
    return {**USUAL_LIFETIMES, **{Strength(each.strength): each.seconds for each in config.lifetimes}}


def requester_groups_of(config: AttestationConfiguration) -> tuple[str, ...]:
    """Groups of which a machine that joins is in one."""
    return tuple(config.requester_groups) or (DEFAULT_NODE_TOKEN_GROUP,)


def places_of(template: str) -> tuple[str, ...]:
    """The claims that a template of a name is made of."""
    return tuple(_PLACE.findall(template))


def _problems(config: AttestationConfiguration) -> Iterator[FieldError]:
    if not config.attestors:
        yield field.required("attestors", "no machine could prove anything")
    if len(config.attestors) > MAX_ATTESTORS:
        yield field.too_many("attestors", len(config.attestors), MAX_ATTESTORS)
    providers = [each.provider for each in config.attestors]
    for number, attestor in enumerate(config.attestors):
        yield from _attestor_problems(attestor, f"attestors[{number}]", providers[:number])
    if config.machines not in MACHINES:
        yield field.not_supported("machines", config.machines, MACHINES)
    if not 0 <= config.machine_grace_seconds <= 86_400:
        yield field.invalid("machineGraceSeconds", config.machine_grace_seconds, "expected 0 to 86400")
    if len(config.groups) > MAX_GROUPS:
        yield field.too_many("groups", len(config.groups), MAX_GROUPS)
    known = [each.name for each in config.groups]
    for number, group in enumerate(config.groups):
        yield from _group_problems(group, f"groups[{number}]", known[:number], providers)
    if config.strength not in STRENGTHS:
        yield field.not_supported("strength", config.strength, STRENGTHS)
    yield from _lifetime_problems(config.lifetimes)
    taint = config.on_failed_renewal.taint
    if taint is not None:
        where = "onFailedRenewal.taint"
        yield from (field.invalid(f"{where}.key", taint.key, why) for why in names.qualified_name(taint.key))
        yield from (field.invalid(f"{where}.value", taint.value, why) for why in names.label_value(taint.value))
        if taint.effect not in EFFECTS:
            yield field.not_supported(f"{where}.effect", taint.effect, EFFECTS)
    for label, claim in config.node_labels.items():
        yield from (field.invalid("nodeLabels", label, why) for why in names.qualified_name(label))
        if not claim:
            yield field.required(f"nodeLabels[{label}]", "expected the name of a claim")
    for number, binding in enumerate(config.remove_bindings):
        if binding not in BINDINGS:
            yield field.not_supported(f"removeBindings[{number}]", binding, BINDINGS)


def _attestor_problems(attestor: AttestorSettings, where: str, before: list[str]) -> Iterator[FieldError]:
    yield from (
        field.invalid(f"{where}.provider", attestor.provider, why) for why in names.dns_label(attestor.provider)
    )
    if attestor.provider in before:
        yield field.duplicate(f"{where}.provider", attestor.provider)
    if not isinstance(msgspec.json.decode(attestor.settings.raw), dict):
        yield field.invalid(f"{where}.settings", attestor.settings.raw.decode()[:64], "expected a mapping")
    if attestor.node_name:
        shape = _PLACE.sub("x", attestor.node_name)
        if not places_of(attestor.node_name):
            why = "expected the name of a claim in braces: otherwise every machine would have one name"
            yield field.invalid(f"{where}.nodeName", attestor.node_name, why)
        yield from (field.invalid(f"{where}.nodeName", attestor.node_name, why) for why in names.subdomain(shape))


def _group_problems(group: NodeGroup, where: str, before: list[str], providers: list[str]) -> Iterator[FieldError]:
    yield from (field.invalid(f"{where}.name", group.name, why) for why in names.dns_label(group.name))
    if group.name in before:
        yield field.duplicate(f"{where}.name", group.name)
    if group.strength not in STRENGTHS:
        yield field.not_supported(f"{where}.strength", group.strength, STRENGTHS)
    if group.callback and CALLBACK not in providers:
        yield field.not_supported(f"{where}.callback", CALLBACK, providers)
    for name, chosen in (("providers", group.providers), ("allOf", group.all_of)):
        for number, each in enumerate(chosen):
            if each not in providers:
                yield field.not_supported(f"{where}.{name}[{number}]", each, providers)


def _lifetime_problems(lifetimes: list[Lifetime]) -> Iterator[FieldError]:
    known: set[str] = set()
    for number, each in enumerate(lifetimes):
        where = f"lifetimes[{number}]"
        if each.strength not in STRENGTHS:
            yield field.not_supported(f"{where}.strength", each.strength, STRENGTHS)
        if each.strength in known:
            yield field.duplicate(f"{where}.strength", each.strength)
        known.add(each.strength)
        if not LEAST_LIFETIME <= each.seconds <= MOST_LIFETIME:
            yield field.invalid(f"{where}.seconds", each.seconds, f"expected {LEAST_LIFETIME} to {MOST_LIFETIME}")
