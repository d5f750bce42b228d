"""Whether somebody may approve, sign or attest for a signer.

Source: pkg/certauthorization (Kubernetes 1.36).
"""

from __future__ import annotations

from kubevouch.api.certificates_v1 import GROUP
from kubevouch.authentication.interface import UserInfo
from kubevouch.authorization.interface import Attributes, Authorizer, Decision


async def may_use_signer(authorizer: Authorizer, user: UserInfo, verb: str, signer_name: str) -> bool:
    """Whether ``user`` has ``verb`` on ``signers`` of this name or, failing that, of the name ``<domain>/*``.

    The second name is asked for literally: a rule with resourceNames has to spell it so. An authorizer that fails has
    not allowed anything.
    """
    for name in (signer_name, f"{signer_name.partition('/')[0]}/*"):
        attributes = Attributes(user, verb, GROUP, "*", "signers", name=name)
        if (await authorizer.authorize(attributes)).decision is Decision.ALLOW:
            return True
    return False
