"""What node recovery adds to a cluster's roles and bindings: only where it is turned on.

Source: kubevouch's own; docs/adr/0010-recovery-is-a-request-of-its-own-user.md.
"""

from __future__ import annotations

from functools import cache

from kubevouch.api.rbac_v1 import PolicyRule
from kubevouch.authorization.policy import (
    Policy,
    cluster_role,
    cluster_role_binding,
    group,
    namespaced_role,
    role_binding,
    rule,
    service_account,
)
from kubevouch.pki.recognizers import RECOVERED_NODE_CLIENT
from kubevouch.records.node_recovery import CHALLENGE_PATH, NAMESPACE, RECOVERERS_GROUP, SESSION_PATH
from kubevouch.wellknown import AUTHENTICATED_GROUP, NODE_RECOVERY_CONTROLLER, UNAUTHENTICATED_GROUP

_REQUESTS = "certificatesigningrequests"
_ASK, _RECOVER = "kubevouch:node-recovery-challenge", "kubevouch:node-recovery"


@cache
def recovery_policy() -> Policy:
    """Everybody may ask for a challenge; who has answered one may make a request, and have it approved."""
    ask = PolicyRule(verbs=["post"], non_resource_urls=[CHALLENGE_PATH, SESSION_PATH])
    group_name = "certificates.k8s.io"
    recover = (
        rule("create get list watch", group_name, _REQUESTS),
        rule("create", group_name, f"{_REQUESTS}/{RECOVERED_NODE_CLIENT.subresource}"),
    )
    keeper = f"system:controller:{NODE_RECOVERY_CONTROLLER}"
    return Policy(
        cluster_roles=(cluster_role(_ASK, ask), cluster_role(_RECOVER, *recover)),
        cluster_role_bindings=(
            cluster_role_binding(_ASK, group(AUTHENTICATED_GROUP), group(UNAUTHENTICATED_GROUP)),
            cluster_role_binding(_RECOVER, group(RECOVERERS_GROUP)),
        ),
        roles=(namespaced_role(NAMESPACE, keeper, rule("create get update", "", "configmaps")),),
        role_bindings=(role_binding(NAMESPACE, keeper, service_account(NODE_RECOVERY_CONTROLLER)),),
    )
