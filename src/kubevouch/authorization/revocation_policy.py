"""Who may read what is revoked: everybody, as whoever is shown a certificate has to know."""

from __future__ import annotations

from functools import cache

from kubevouch.api.rbac_v1 import PolicyRule
from kubevouch.authorization.policy import Policy, cluster_role, cluster_role_binding, group
from kubevouch.revocation.publication import PREFIX
from kubevouch.wellknown import AUTHENTICATED_GROUP, UNAUTHENTICATED_GROUP

_VIEWER = "kubevouch:revocation-viewer"


@cache
def revocation_policy() -> Policy:
    """GET and POST (of OCSP) for everybody, as with ``/version``."""
    read = PolicyRule(verbs=["get", "post"], non_resource_urls=[f"{PREFIX}/crl/*", f"{PREFIX}/ocsp/*"])
    everybody = (group(AUTHENTICATED_GROUP), group(UNAUTHENTICATED_GROUP))
    return Policy((cluster_role(_VIEWER, read),), (cluster_role_binding(_VIEWER, *everybody),))
