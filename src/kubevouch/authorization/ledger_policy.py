"""Who may keep the checkpoints of the ledger: whoever has a credential. And what a ledger in the cluster takes."""

from __future__ import annotations

from functools import cache

from kubevouch.authorization.policy import Policy, group, namespaced_role, role_binding, rule
from kubevouch.wellknown import (
    AUTHENTICATED_GROUP,
    KUBE_PUBLIC_NAMESPACE,
    LEDGER_CHECKPOINT_CONFIGMAP,
    LEDGER_HEAD_CONFIGMAP,
    LEDGER_NAMESPACE,
)

_ROLE = "kubevouch:ledger-checkpoint"
CLUSTER_LEDGER = "cluster-ledger"


@cache
def ledger_policy() -> Policy:
    """A checkpoint says how many entries there are, and nothing of what is in them."""
    reads = rule("get", "", "configmaps", [LEDGER_CHECKPOINT_CONFIGMAP])
    return Policy(
        roles=(namespaced_role(KUBE_PUBLIC_NAMESPACE, _ROLE, reads),),
        role_bindings=(role_binding(KUBE_PUBLIC_NAMESPACE, _ROLE, group(AUTHENTICATED_GROUP)),),
    )


@cache
def cluster_ledger_policy() -> Policy:
    """Of who writes the ledger in the cluster: to append, and to note its head. Nobody who writes it may delete.

    A segment that is full is immutable, so that these rights change no entry but those of the last segment.
    """
    return Policy(
        roles=(
            namespaced_role(
                LEDGER_NAMESPACE,
                CLUSTER_LEDGER,
                # Names are made as it grows. There is nothing else in the namespace.
                rule("create get list update", "", "configmaps"),
            ),
            namespaced_role(
                KUBE_PUBLIC_NAMESPACE, CLUSTER_LEDGER, rule("get update", "", "configmaps", [LEDGER_HEAD_CONFIGMAP])
            ),
        )
    )
