"""Sees to it that a signer signs nothing that somebody else signs, such as kube-controller-manager.

Three things are seen: a certificate that is not ours comes into a request of one of our names; the Lease of
kube-controller-manager moves; an approved request lies and nobody signs it. ``policy.other_signers`` says what follows.
Source: kubevouch's own.
"""

from __future__ import annotations

from collections.abc import Callable

from kubevouch import wellknown
from kubevouch.api.catalog import LEASES
from kubevouch.api.certificates_v1 import CertificateSigningRequest
from kubevouch.api.coordination_v1 import Lease
from kubevouch.client.cache.informer import SharedInformer
from kubevouch.client.interface import Client
from kubevouch.controllers.interface import Context, SigningMetrics
from kubevouch.machinery.meta import replace_metadata
from kubevouch.pki.policy import KUBERNETES_SIGNERS
from kubevouch.policy import other_signers
from kubevouch.policy.other_signers import Turn, Turns
from kubevouch.signers.registry import Signers
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger

log = get_logger("controllers.other_signers")

_LOOK_AGAIN_SECONDS = 1.0


class OtherSigners:
    """An event handler of requests; asked before each signature.

    Args:
        lease: of kube-controller-manager, under whose names nothing is signed before it is known; None where none of
            those is signed.
        look: has the controller look at a request of this name.
    """

    def __init__(
        self,
        signers: Signers,
        clock: Clock,
        metrics: SigningMetrics,
        lease: SharedInformer[Lease] | None,
        look: Callable[[CertificateSigningRequest], None],
    ) -> None:
        self._signers = signers
        self._clock = clock
        self._metrics = metrics
        self._lease = lease
        self._look = look
        self._turns = Turns(KUBERNETES_SIGNERS)
        # By the uid of the request that has shown it.
        self._untold: dict[str, str] = {}
        if lease is not None:
            lease.add_handler(_Terms(self._turns.manager_came))

    def wait(self, csr: CertificateSigningRequest) -> float:
        """Seconds for which an approved request is to be left to others; 0 if it is to be signed now."""
        name = csr.spec.signer_name
        if self._lease is not None and name in KUBERNETES_SIGNERS and not self._lease.synced:
            return _LOOK_AGAIN_SECONDS
        before = self._turns.of(name)
        left = self._turns.wait(name, csr.metadata.uid, self._clock.monotonic())
        if not left and before is Turn.ASIDE:
            self._signers.resume(name)
            log.warning(
                "nobody else has signed for a while; the signer signs again", signer=name, csr=csr.metadata.name,
                seconds=other_signers.RETURN_SECONDS,
            )  # fmt: skip
        elif not left and before is Turn.WATCHED:
            log.info("nobody else signs; the signer does", signer=name, csr=csr.metadata.name)
        return left

    def untold(self, csr: CertificateSigningRequest) -> str:
        """What is to be told on this request; once."""
        return self._untold.pop(csr.metadata.uid, "")

    def marked(self, csr: CertificateSigningRequest, certificate: bytes) -> CertificateSigningRequest:
        """The request with what says that this certificate was signed here."""
        mark = {wellknown.SIGNED_ANNOTATION: other_signers.signed_mark(certificate)}
        marked: CertificateSigningRequest = replace_metadata(csr, annotations={**csr.metadata.annotations, **mark})
        return marked

    # -------------------------------------------------------------- what happens to requests

    def on_add(self, obj: CertificateSigningRequest, *, initial: bool) -> None:
        """What was there before is no sign of what happens now."""
        if not initial:
            self._looked_at(obj)

    def on_update(self, old: CertificateSigningRequest, new: CertificateSigningRequest) -> None:
        if not old.status.certificate:
            self._looked_at(new)

    def on_delete(self, obj: CertificateSigningRequest, *, missed: bool) -> None:  # noqa: ARG002
        self._turns.forget(obj.spec.signer_name, obj.metadata.uid)
        self._untold.pop(obj.metadata.uid, None)

    def _looked_at(self, csr: CertificateSigningRequest) -> None:
        name = csr.spec.signer_name
        if not csr.status.certificate or name not in self._signers:
            return
        self._turns.forget(name, csr.metadata.uid)
        if not other_signers.is_signed_elsewhere(csr):
            return
        self._metrics.signed_elsewhere(name)
        if not self._turns.signed_elsewhere(name):
            return
        why = (
            f"somebody else has signed {csr.metadata.name}, and of two certificates one is in no object and holds: "
            f"{name} is left to them"
        )
        self._signers.stand_aside(name, why)
        self._untold[csr.metadata.uid] = why
        log.error("somebody else signs; the signer stands aside", signer=name, csr=csr.metadata.name)
        self._look(csr)


class _Terms:
    """An event handler of one Lease. Args: ``began``: is told when its holder has it anew."""

    def __init__(self, began: Callable[[], None]) -> None:
        self._began = began

    def on_add(self, obj: Lease, *, initial: bool) -> None:  # noqa: ARG002
        if other_signers.begins(None, obj.spec):
            self._began()

    def on_update(self, old: Lease, new: Lease) -> None:
        if other_signers.begins(old.spec, new.spec):
            self._began()

    def on_delete(self, obj: Lease, *, missed: bool) -> None:
        """Whoever had it has to make another one first."""


def manager_lease(context: Context, client: Client) -> SharedInformer[Lease] | None:
    """Of kube-controller-manager, where one of its names is signed."""
    if not any(name in context.signers for name in KUBERNETES_SIGNERS):
        return None
    return context.informers.informer(
        LEASES, client=client, namespace=wellknown.KUBE_SYSTEM_NAMESPACE,
        field_selector=f"metadata.name={wellknown.KUBE_CONTROLLER_MANAGER}",
    )  # fmt: skip
