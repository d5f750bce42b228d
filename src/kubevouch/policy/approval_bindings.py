"""Which of kubeadm's bindings that approve nodes without a proof are taken away, and which are put back.

What is taken away is written down first, and only what stands there is put back: a binding that somebody else has
deleted stays deleted.

Source: cmd/kubeadm/app/phases/bootstraptoken/node/tlsbootstrap.go (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
from msgspec import structs

from kubevouch import wellknown
from kubevouch.api.rbac_v1 import ClusterRoleBinding
from kubevouch.config.attestation_config import BINDINGS, BOOTSTRAP, RENEWAL
from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.codec.json_codec import UnmarshalError
from kubevouch.machinery.meta import ObjectMeta

EVERY = frozenset(BINDINGS)
_CLIENTS = "system:certificates.k8s.io:certificatesigningrequests"
ROLES: Mapping[str, str] = {BOOTSTRAP: f"{_CLIENTS}:nodeclient", RENEWAL: f"{_CLIENTS}:selfnodeclient"}
"""Which role approves what: a first certificate, or the next one."""
NAMES: Mapping[str, str] = {
    BOOTSTRAP: "kubeadm:node-autoapprove-bootstrap",
    RENEWAL: "kubeadm:node-autoapprove-certificate-rotation",
}
"""kubeadm's bindings to them."""
_GROUPS: Mapping[str, str] = {
    BOOTSTRAP: wellknown.DEFAULT_NODE_TOKEN_GROUP,
    RENEWAL: wellknown.NODES_GROUP,
}


class Plan(msgspec.Struct, frozen=True):
    """What to do.

    Args:
        record: what has to be written down before anything else, by what it approves; None if that stands there.
        remove: the bindings to take away.
        restore: those to put back.
        forget: what is written down no longer once that is done.
        kept: what is not put back: it is written down as something that kubeadm does not make.
        others: names of bindings that approve likewise and are not kubeadm's: somebody's own, to be told of.
    """

    record: Mapping[str, str] | None = None
    remove: tuple[ClusterRoleBinding, ...] = ()
    restore: tuple[ClusterRoleBinding, ...] = ()
    forget: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    others: tuple[str, ...] = ()


def plan(away: frozenset[str], recorded: Mapping[str, str], present: Iterable[ClusterRoleBinding]) -> Plan:
    """What is to be done so that those of ``away``, and no others that were taken away, are gone.

    Args:
        away: of :data:`EVERY`.
        recorded: what was taken away, by what it approves, as :func:`written` makes it.
        present: all bindings that there are.
    """
    there = {each.metadata.name: each for each in present}
    found = {what: there[NAMES[what]] for what in sorted(away) if NAMES[what] in there}
    remove = {what: binding for what, binding in found.items() if _approves(binding) == what}
    restore, forget, kept = [], [], []
    for what, text in recorded.items():
        if what in away:
            continue
        binding = _read(what, text)
        is_there = NAMES.get(what) in there
        if binding is None and not is_there:
            kept.append(what)
            continue
        forget.append(what)
        if binding is not None and not is_there:
            restore.append(binding)
    kubeadms = NAMES.values()
    others = tuple(sorted(name for name, each in there.items() if name not in kubeadms and _approves(each) in away))
    # What was taken first counts: another one of the name may be anybody's.
    added = {what: written(each) for what, each in remove.items() if _read(what, recorded.get(what, "")) is None}
    record = {**recorded, **added}
    return Plan(
        None if record == recorded else record,
        tuple(remove.values()),
        tuple(restore),
        tuple(forget),
        tuple(kept),
        others,
    )


def written(binding: ClusterRoleBinding) -> str:
    """What is kept of a binding."""
    meta = binding.metadata
    kept = structs.replace(
        binding, metadata=ObjectMeta(name=meta.name, labels=meta.labels, annotations=meta.annotations)
    )
    return json_codec.encode_sorted(json_codec.to_builtins(kept)).decode()


def _read(what: str, text: str) -> ClusterRoleBinding | None:
    """None of what kubeadm would not make: whoever can write the record is to get nobody approved by it."""
    try:
        binding = json_codec.decode(text.encode(), ClusterRoleBinding)
    except UnmarshalError:
        return None
    if binding.metadata.name != NAMES.get(what) or _approves(binding) != what:
        return None
    groups = [each.name for each in binding.subjects or () if each.kind == "Group"]
    return binding if groups == [_GROUPS[what]] and len(binding.subjects or ()) == 1 else None


def _approves(binding: ClusterRoleBinding) -> str | None:
    """What a binding approves; None of one that is about other things."""
    return next((what for what, role in ROLES.items() if binding.role_ref.name == role), None)
