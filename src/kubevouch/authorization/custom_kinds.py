"""The garbage collector may delete the objects of kinds that came at run time.

Kubernetes gives it a role over everything. Here its role names the built-in kinds, without their subresources, so that
it can neither approve nor sign; what definitions add cannot be named beforehand, and RBAC has no word for a resource of
any name that leaves subresources out.
"""

from __future__ import annotations

from kubevouch.api.catalog import SCHEME
from kubevouch.authorization.interface import Attributes, Decision, Verdict
from kubevouch.wellknown import GARBAGE_COLLECTOR_CONTROLLER, KUBE_SYSTEM_NAMESPACE, SERVICE_ACCOUNT_USER_PREFIX

_USER = f"{SERVICE_ACCOUNT_USER_PREFIX}{KUBE_SYSTEM_NAMESPACE}:{GARBAGE_COLLECTOR_CONTROLLER}"
_VERBS = frozenset({"delete", "get", "list", "patch", "watch"})
_BUILT_IN = frozenset({"*"} | {kind.group for kind in SCHEME.kinds})
_ALLOW = Verdict(Decision.ALLOW, "the garbage collector looks after custom resources")
_NO_OPINION = Verdict(Decision.NO_OPINION)


class CustomKindCollectorAuthorizer:
    """Allows it to read, patch and delete objects of groups that are not built in, and nobody anything else."""

    async def authorize(self, attributes: Attributes) -> Verdict:
        asked = attributes.user.name == _USER and attributes.verb in _VERBS and not attributes.subresource
        custom = asked and attributes.is_resource_request and attributes.group not in _BUILT_IN
        return _ALLOW if custom else _NO_OPINION
