"""What is revoked, out of an informer: where the API server is not in this process."""

from __future__ import annotations

from kubevouch.api.kubevouch_v1alpha1.certificate_revocations import CertificateRevocation
from kubevouch.client.cache.informer import SharedInformer
from kubevouch.revocation.revocations import Revocations


class _Followed:
    def __init__(self, revocations: Revocations) -> None:
        self._revocations = revocations

    def on_add(self, obj: CertificateRevocation, *, initial: bool) -> None:  # noqa: ARG002
        self._revocations.changed(obj.metadata.name, obj)

    def on_update(self, old: CertificateRevocation, new: CertificateRevocation) -> None:  # noqa: ARG002
        self._revocations.changed(new.metadata.name, new)

    def on_delete(self, obj: CertificateRevocation, *, missed: bool) -> None:  # noqa: ARG002
        self._revocations.changed(obj.metadata.name, None)


def follow(informer: SharedInformer[CertificateRevocation]) -> Revocations:
    """The set that the informer fills; it has loaded once the informer has, and its handlers have heard of all."""
    found = Revocations()
    informer.add_handler(_Followed(found), resync_seconds=0)
    found.loaded = lambda: informer.synced
    return found
