"""What attached controllers need: the rights of those whom they act as, from the one place that declares them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kubevouch import wellknown
from kubevouch.api.catalog import STORED
from kubevouch.authorization.controller_policy import kubernetes_controller_policy, kubevouch_controller_policy
from kubevouch.authorization.policy import Policy
from kubevouch.client.cache.informer import InformerFactory
from kubevouch.controllers import catalog
from kubevouch.controllers.catalog import Entry
from kubevouch.controllers.interface import Context
from kubevouch.signers.authorities import NamedAuthorities
from kubevouch.signers.keys import KeyOptions
from kubevouch.util.clock import SystemClock

_LEADER_PREFIX = "system::leader-locking-"


def identities(selected: Sequence[Entry], words: Sequence[str]) -> tuple[str, ...]:
    """As whom the controllers act when they are built as attached ones are, sorted.

    They are built over clients that ask nobody: what a controller connects as, it says at no other place.
    """
    found: set[str] = set()
    nobody: Any = None

    def connect(name: str) -> Any:
        found.add(name)
        return nobody

    context = Context(
        connect=connect,
        informers=InformerFactory(nobody, SystemClock()),
        clock=SystemClock(),
        root_ca=lambda: "",
        trust_bundles={wellknown.KUBE_APISERVER_SERVING_SIGNER: lambda: ""},
        resources=STORED,
        named_authorities=NamedAuthorities(None, KeyOptions(), SystemClock()),
        approves_kubelet_clients=catalog.is_named(wellknown.CSR_APPROVING_CONTROLLER, words),
    )
    for each in catalog.build(selected, context):
        each.close()
    return tuple(sorted(found))


def policy_of(identity: str) -> Policy:
    """What one controller may do, without what its own Lease would need: attached controllers share one."""
    policy = kubevouch_controller_policy() + kubernetes_controller_policy()
    cluster_names = [each.role_ref.name for each in policy.cluster_role_bindings if _is_for(each.subjects, identity)]
    names = [
        (each.metadata.namespace, each.role_ref.name)
        for each in policy.role_bindings
        if _is_for(each.subjects, identity) and not each.role_ref.name.startswith(_LEADER_PREFIX)
    ]
    return Policy(
        cluster_roles=tuple(each for each in policy.cluster_roles if each.metadata.name in cluster_names),
        roles=tuple(each for each in policy.roles if (each.metadata.namespace, each.metadata.name) in names),
    ).unmarked()


def _is_for(subjects: Sequence[Any], identity: str) -> bool:
    return any(each.name == identity and each.namespace == wellknown.KUBE_SYSTEM_NAMESPACE for each in subjects)
