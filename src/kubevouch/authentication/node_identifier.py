"""Which users are nodes.

Source: pkg/auth/nodeidentifier (Kubernetes 1.36).
"""

from __future__ import annotations

from kubevouch.authentication.interface import UserInfo
from kubevouch.pki import node_user
from kubevouch.wellknown import NODE_USER_PREFIX, NODES_GROUP


def node_name_of(user: UserInfo) -> str | None:
    """The node that ``user`` is, or None for everybody else.

    Name and group have to agree: a certificate with one of them alone is no node's. The answer is empty when no
    node can have the name after the prefix; who asks has to refuse that. (To Kubernetes any such text is a node.)
    """
    if not user.name.startswith(NODE_USER_PREFIX) or NODES_GROUP not in user.groups:
        return None
    return node_user.node_name_of(user.name)
