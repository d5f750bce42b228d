"""What clients hear when the store fails: what a kube-apiserver says when its etcd does (Kubernetes 1.36)."""

from __future__ import annotations

from kubevouch.machinery import errors
from kubevouch.machinery.errors import APIStatusError
from kubevouch.storage.interface import StoreDamaged, StoreRefused, StoreTimeout, StoreUnavailable
from kubevouch.util.logger import get_logger

log = get_logger("registry")


def status_of(err: StoreUnavailable) -> APIStatusError:
    """The client learns nothing of the server's files; what etcd says is repeated word for word."""
    if isinstance(err, StoreTimeout):
        return errors.timeout("request did not complete within the allotted timeout")
    if isinstance(err, StoreRefused):
        return errors.untyped(err.got)
    if isinstance(err, StoreDamaged):
        log.error("store damaged", err=str(err))
        return errors.internal("the store is damaged here; the server's log says where")
    # A store's log tells once of a medium that fails.
    return errors.internal("the store cannot be written; the server's log says why")
