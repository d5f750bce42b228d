"""What attached controllers need: the rights of those whom they act as, from the one place that declares them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import structs

from kubevouch import wellknown
from kubevouch.api.catalog import STORED
from kubevouch.api.rbac_v1 import ClusterRole, PolicyRule, Role
from kubevouch.authorization.controller_policy import kubernetes_controller_policy, kubevouch_controller_policy
from kubevouch.authorization.policy import EVENTS, Policy
from kubevouch.client.cache.informer import InformerFactory
from kubevouch.config.attestation_config import AttestationConfiguration
from kubevouch.controllers import catalog
from kubevouch.controllers.attestation import Attestation
from kubevouch.controllers.catalog import Entry
from kubevouch.controllers.interface import Context, Management
from kubevouch.signers.authorities import NamedAuthorities
from kubevouch.signers.keys import KeyOptions
from kubevouch.util.clock import SystemClock

_LEADER_PREFIX = "system::leader-locking-"


R = TypeVar("R", ClusterRole, Role)

_WRITTEN_EVENTS = structs.replace(EVENTS, api_groups=[""], verbs=["create", "patch"])


class SignerNames(msgspec.Struct, frozen=True):
    """For which signers attached controllers may act. kube-apiserver asks for the right with the name.

    Args:
        approve: whose requests they may approve or deny; by default those that are approved without being configured.
        sign: whose certificates they may write down, and whose CA they may publish.

    ``example.com/*`` stands for every signer of a domain.
    """

    approve: tuple[str, ...] = (wellknown.KUBELET_SERVING_SIGNER,)
    sign: tuple[str, ...] = ()


DEFAULT_NAMES = SignerNames()


def identities(
    selected: Sequence[Entry],
    words: Sequence[str],
    *,
    attests: bool = False,
    has_ledger_file: bool = False,
    elsewhere: set[str] | None = None,
) -> tuple[str, ...]:
    """As whom the controllers act when they are built as attached ones are, sorted.

    Args:
        attests: machines prove what they are (``--attestation-config``).
        has_ledger_file: the ledger is in a file, whose checkpoints are published (``--ledger FILE``).
        elsewhere: is given those as whom the cluster is asked in which Cluster API is (``--cluster-api``).

    They are built over clients that ask nobody: what a controller connects as, it says at no other place.
    """
    found: set[str] = set()
    nobody: Any = None

    def connect(name: str) -> Any:
        found.add(name)
        return nobody

    def connect_elsewhere(name: str) -> Any:
        if elsewhere is not None:
            elsewhere.add(name)
        return nobody

    management = Management("", "", connect_elsewhere, InformerFactory(nobody, SystemClock()), dt.timedelta())
    context = Context(
        connect=connect,
        informers=InformerFactory(nobody, SystemClock()),
        clock=SystemClock(),
        root_ca=lambda: "",
        trust_bundles={wellknown.KUBE_APISERVER_SERVING_SIGNER: lambda: ""},
        resources=STORED,
        named_authorities=NamedAuthorities(None, KeyOptions(), SystemClock()),
        attestation=Attestation(AttestationConfiguration(), {}) if attests else None,
        management=None if elsewhere is None else management,
        approves_kubelet_clients=catalog.is_named(wellknown.CSR_APPROVING_CONTROLLER, words),
    )
    for each in catalog.build(selected, context):
        each.close()
    if has_ledger_file and wellknown.LEDGER_CHECKPOINT_CONTROLLER in {each.name for each in selected}:
        # It is built only over a ledger in a file that is open.
        found.add(wellknown.LEDGER_CHECKPOINT_CONTROLLER)
    return tuple(sorted(found))


def policy_of(identity: str, signers: SignerNames = DEFAULT_NAMES) -> Policy:
    """What one controller may do, without what its own Lease would need: attached controllers share one.

    Args:
        signers: what is allowed for every signer in a cluster of our own is allowed for these.
    """
    if identity != wellknown.CSR_SIGNING_CONTROLLER:  # the only one with Kubernetes' own signers
        own = tuple(each for each in signers.sign if not each.startswith("kubernetes.io/"))
        signers = structs.replace(signers, sign=own)
    policy = kubevouch_controller_policy() + kubernetes_controller_policy()
    cluster_names = [each.role_ref.name for each in policy.cluster_role_bindings if _is_for(each.subjects, identity)]
    names = [
        (each.metadata.namespace, each.role_ref.name)
        for each in policy.role_bindings
        if _is_for(each.subjects, identity) and not each.role_ref.name.startswith(_LEADER_PREFIX)
    ]
    cluster_roles = (each for each in policy.cluster_roles if each.metadata.name in cluster_names)
    roles = (each for each in policy.roles if (each.metadata.namespace, each.metadata.name) in names)
    return Policy(
        cluster_roles=tuple(_exact(each, signers) for each in cluster_roles),
        roles=tuple(_exact(each, signers) for each in roles),
    ).unmarked()


def _exact(role: R, names: SignerNames) -> R:
    """Of events only what is written: one is made or counted up, in the core group. Of signers only the named ones."""
    return structs.replace(role, rules=[found for each in role.rules or () for found in _exact_rule(each, names)])


def _exact_rule(rule: PolicyRule, names: SignerNames) -> Iterator[PolicyRule]:
    if rule == EVENTS:
        yield _WRITTEN_EVENTS
    elif rule.resources == ["signers"] and not rule.resource_names:
        named = sorted(names.approve if rule.verbs == ["approve"] else names.sign)
        if named:  # without a name, a rule is about every signer
            yield structs.replace(rule, resource_names=named)
    else:
        yield rule


def _is_for(subjects: Sequence[Any], identity: str) -> bool:
    return any(each.name == identity and each.namespace == wellknown.KUBE_SYSTEM_NAMESPACE for each in subjects)
