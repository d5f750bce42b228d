"""The revocation of what a node holds that was taken out of service: a hold, for its name may be given back to it."""

from __future__ import annotations

import datetime as dt
import hashlib

from kubevouch.api.kubevouch_v1alpha1.certificate_revocations import (
    HOLD,
    CertificateRevocation,
    CertificateRevocationSpec,
    RevocationTargets,
)
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.machinery.text.times import Time

_LONGEST = 200
_REMOVED, _BANNED = "node", "banned"


def of_node(node_name: str, moment: dt.datetime, why: str, by: str, *, banned: bool = False) -> CertificateRevocation:
    """What was issued to the node until ``moment``, at whole seconds. The same again has the same name.

    Args:
        banned: for a ban, which is taken back by itself: who lifts the one leaves the other in force.
    """
    shown = node_name if len(node_name) <= _LONGEST else hashlib.sha256(node_name.encode()).hexdigest()
    until = moment.replace(microsecond=0)
    return CertificateRevocation(
        metadata=ObjectMeta(name=f"{_BANNED if banned else _REMOVED}-{shown}-{int(until.timestamp())}"),
        spec=CertificateRevocationSpec(
            revoked=RevocationTargets(nodes=[node_name], issued_until=Time.of(until)),
            reason=HOLD,
            message=why,
            requested_by=by,
        ),
    )


def is_of_node(obj: CertificateRevocation, node_name: str, *, banned: bool = False) -> bool:
    """Whether it is such a hold, of this node and of nothing else."""
    targets = obj.spec.revoked
    if obj.metadata.name.startswith(f"{_BANNED}-") != banned:
        return False
    return obj.spec.reason == HOLD and targets == RevocationTargets(
        nodes=[node_name], issued_until=targets.issued_until
    )
