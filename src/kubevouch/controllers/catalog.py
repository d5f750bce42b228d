"""Which controllers exist, what else they are called, and which of them a list such as ``*,-csrcleaner`` turns on.

    UnknownControllerError    a list names what there is not; the text is kube-controller-manager's

Names and aliases: cmd/kube-controller-manager/names/controller_names.go (Kubernetes 1.36). There ``*`` leaves
bootstrap-signer-controller and token-cleaner-controller out; here it means all. certificate-ledger-controller is ours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum

import msgspec
from msgspec.structs import replace

from kubevouch.controllers import (
    approval_bindings,
    bootstrap_signer,
    certificate_ledger,
    certificate_policy_status,
    certificate_revocations,
    certificate_signers,
    cluster_trust_bundle_publisher,
    clusterrole_aggregation,
    crl_publisher,
    csr_approving,
    csr_cleaner,
    csr_signing,
    decision_protection,
    garbage_collector,
    join_status,
    ledger_checkpoint,
    machine_inventory,
    namespace,
    node_attestation,
    node_lifecycle,
    node_recovery,
    pod_certificate_cleaner,
    pod_certificates,
    removed_nodes,
    resource_quota,
    root_ca_publisher,
    service_account,
    token_cleaner,
    token_rotation,
    token_uses,
    validating_admission_policy_status,
)
from kubevouch.controllers.cluster_api import controller as cluster_api
from kubevouch.controllers.interface import Context, Controller
from kubevouch.machinery.text.gotext import quote

ALL = "*"


class UnknownControllerError(ValueError):
    """A list names what there is not; ``words`` says what."""

    def __init__(self, words: Sequence[str]) -> None:
        super().__init__("\n".join(f"{quote(word)} is not in the list of known controllers" for word in words))
        self.words = words


class Attached(Enum):
    """How a controller goes with an API server that is another process, as that of an existing cluster."""

    SAFE = "safe"
    """Nobody else does this; ``*`` means these."""
    TWIN = "twin"
    """kube-controller-manager does this, or what it is about: to be named, and the other one to be switched off."""
    NEVER = "never"
    """It works with what only a server in the same process has."""


class Entry(msgspec.Struct, frozen=True):
    """``build`` gives None when what the context has leaves nothing to do."""

    name: str
    alias: str
    build: Callable[[Context], Controller | None]
    attached: Attached = Attached.SAFE


CONTROLLERS: tuple[Entry, ...] = (
    # Before the approvers, who ask it.
    Entry(machine_inventory.NAME, "machineinventory", machine_inventory.build),
    Entry(cluster_api.NAME, "clusterapi", cluster_api.build),
    Entry(approval_bindings.NAME, "approvalbindings", approval_bindings.build),
    Entry(csr_approving.NAME, "csrapproving", csr_approving.build),
    Entry(node_attestation.NAME, "nodeattestation", node_attestation.build),
    Entry(certificate_policy_status.NAME, "certificaterequestpolicy-status", certificate_policy_status.build),
    Entry(csr_signing.NAME, "csrsigning", csr_signing.build),
    Entry(certificate_signers.NAME, "certificatesigners", certificate_signers.build),
    Entry(csr_cleaner.NAME, "csrcleaner", csr_cleaner.build, Attached.TWIN),
    Entry(pod_certificates.NAME, "podcertificaterequestsigning", pod_certificates.build),
    Entry(pod_certificate_cleaner.NAME, "podcertificaterequestcleaner", pod_certificate_cleaner.build, Attached.TWIN),
    Entry(certificate_ledger.NAME, "certificateledger", certificate_ledger.build),
    Entry(ledger_checkpoint.NAME, "ledgercheckpoint", ledger_checkpoint.build),
    Entry(certificate_revocations.NAME, "certificaterevocations", certificate_revocations.build),
    Entry(decision_protection.NAME, "decisionprotection", decision_protection.build),
    Entry(crl_publisher.NAME, "crlpublisher", crl_publisher.build, Attached.NEVER),
    Entry(bootstrap_signer.NAME, "bootstrapsigner", bootstrap_signer.build, Attached.TWIN),
    Entry(token_cleaner.NAME, "tokencleaner", token_cleaner.build, Attached.TWIN),
    Entry(token_rotation.NAME, "tokenrotation", token_rotation.build, Attached.TWIN),
    Entry(token_uses.NAME, "tokenuses", token_uses.build, Attached.TWIN),
    Entry(join_status.NAME, "joinstatus", join_status.build, Attached.TWIN),
    Entry(node_recovery.NAME, "noderecovery", node_recovery.build, Attached.NEVER),
    Entry(removed_nodes.NAME, "noderemoval", removed_nodes.build),
    Entry(node_lifecycle.NAME, "nodelifecycle", node_lifecycle.build, Attached.TWIN),
    Entry(resource_quota.NAME, "resourcequota", resource_quota.build, Attached.NEVER),
    Entry(root_ca_publisher.NAME, "root-ca-cert-publisher", root_ca_publisher.build, Attached.TWIN),
    Entry(
        cluster_trust_bundle_publisher.NAME,
        "kube-apiserver-serving-clustertrustbundle-publisher",
        cluster_trust_bundle_publisher.build,
        Attached.TWIN,
    ),
    Entry(namespace.NAME, "namespace", namespace.build, Attached.TWIN),
    Entry(service_account.NAME, "serviceaccount", service_account.build, Attached.TWIN),
    Entry(clusterrole_aggregation.NAME, "clusterrole-aggregation", clusterrole_aggregation.build, Attached.TWIN),
    Entry(
        validating_admission_policy_status.NAME,
        "validatingadmissionpolicy-status",
        validating_admission_policy_status.build,
        Attached.TWIN,
    ),
    # The last, so that the caches it shares are read with the rights of those who need less.
    Entry(garbage_collector.NAME, "garbagecollector", garbage_collector.build, Attached.TWIN),
)


STANDING_BY = frozenset({certificate_revocations.NAME, crl_publisher.NAME})
"""Those that also work where another server leads: its ledger knows what no other one does, and its paths are asked for
CRLs like those of any other server."""


def select(words: Sequence[str], every: Callable[[Entry], bool] = lambda _: True) -> tuple[Entry, ...]:
    """The controllers that a ``--controllers`` list turns on, in the catalog's order.

    ``name`` turns one on, ``-name`` off, ``*`` all of ``every`` that are not named; the first word about a controller
    counts.

    Raises:
        UnknownControllerError: for all unknown words.
    """
    names = {each.alias: each.name for each in CONTROLLERS} | {each.name: each.name for each in CONTROLLERS}
    chosen: dict[str, bool] = {}
    unknown = []
    for word in words:
        if word == ALL:
            continue
        bare = word.removeprefix("-")
        name = names.get(bare)
        if name is None:
            unknown.append(bare)
        else:
            chosen.setdefault(name, bare == word)
    if unknown:
        raise UnknownControllerError(unknown)
    return tuple(each for each in CONTROLLERS if chosen.get(each.name, ALL in words and every(each)))


def select_attached(words: Sequence[str]) -> tuple[Entry, ...]:
    """As :func:`select`, for a server that is another process.

    CertificateSigners are signed for by the controller that also signs for Kubernetes' own names, so that one runs
    where they are looked after, unless a word turns it off. Which names it signs is no matter of whether it runs:
    see :func:`signs_kubernetes_names`.

    Raises:
        UnknownControllerError: for all unknown words.
    """
    selected = select(words, lambda each: each.attached is Attached.SAFE)
    names = {each.name for each in selected}
    if certificate_signers.NAME in names and csr_signing.NAME not in names and not _is_off(csr_signing.NAME, words):
        names.add(csr_signing.NAME)
    return tuple(each for each in CONTROLLERS if each.name in names)


def signs_kubernetes_names(words: Sequence[str]) -> bool:
    """Whether attached controllers sign under ``kubernetes.io/*``, given a CA.

    kube-controller-manager has these names wherever it runs, and of two certificates one is in no object and holds. So
    they are taken only by whoever names the controller, and not by ``*``.
    """
    return is_named(csr_signing.NAME, words) and not _is_off(csr_signing.NAME, words)


def _is_off(controller: str, words: Sequence[str]) -> bool:
    """Whether the first word about a controller turns it off."""
    entry = next(each for each in CONTROLLERS if each.name == controller)
    first = next((word for word in words if word.removeprefix("-") in (entry.name, entry.alias)), "")
    return first.startswith("-")


def is_named(controller: str, words: Sequence[str]) -> bool:
    """Whether a list turns a controller on by its own name, and not by ``*``."""
    return any(each.name == controller and bool({each.name, each.alias} & set(words)) for each in CONTROLLERS)


def build(selected: Sequence[Entry], context: Context) -> list[Controller]:
    """The controllers, over ``context``."""
    context = replace(context, running=frozenset(each.name for each in selected))
    built = (each.build(context) for each in selected)
    return [controller for controller in built if controller is not None]
