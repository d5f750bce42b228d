"""Who may ask to be asked: machines that join, and nodes that prove again what they are."""

from __future__ import annotations

from functools import cache

from kubevouch.authorization.policy import Policy, cluster_role, cluster_role_binding, group, rule
from kubevouch.wellknown import DEFAULT_NODE_TOKEN_GROUP, NODES_GROUP

_ROLE = "kubevouch:attestation"
_JOINING = "kubevouch:node-bootstrapper"


@cache
def attestation_policy() -> Policy:
    """Challenges hold no secrets, and what makes them one, their status, nobody of these may write."""
    asks = rule("create get watch", "kubevouch.io", "attestationchallenges")
    machines = (group(DEFAULT_NODE_TOKEN_GROUP), group(NODES_GROUP))
    return Policy((cluster_role(_ROLE, asks),), (cluster_role_binding(_ROLE, *machines),))


@cache
def attested_joining_policy() -> Policy:
    """What machines need in a cluster that somebody else has made: to ask to be asked, and to ask for a certificate.

    kubeadm binds the same role to the same group. It does so for the approval of requests without a proof, too, which
    this leaves out.
    """
    joining = cluster_role_binding(_JOINING, group(DEFAULT_NODE_TOKEN_GROUP), role="system:node-bootstrapper")
    return (attestation_policy() + Policy(cluster_role_bindings=(joining,))).unmarked()
