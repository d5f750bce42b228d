"""Who may keep the checkpoints of the ledger: whoever has a credential."""

from __future__ import annotations

from functools import cache

from kubevouch.authorization.policy import Policy, group, namespaced_role, role_binding, rule
from kubevouch.wellknown import AUTHENTICATED_GROUP, KUBE_PUBLIC_NAMESPACE, LEDGER_CHECKPOINT_CONFIGMAP

_ROLE = "kubevouch:ledger-checkpoint"


@cache
def ledger_policy() -> Policy:
    """A checkpoint says how many entries there are, and nothing of what is in them."""
    reads = rule("get", "", "configmaps", [LEDGER_CHECKPOINT_CONFIGMAP])
    return Policy(
        roles=(namespaced_role(KUBE_PUBLIC_NAMESPACE, _ROLE, reads),),
        role_bindings=(role_binding(KUBE_PUBLIC_NAMESPACE, _ROLE, group(AUTHENTICATED_GROUP)),),
    )
