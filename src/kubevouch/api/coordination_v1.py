"""coordination.k8s.io/v1: Lease.

Source: k8s.io/api/coordination/v1, pkg/apis/coordination/validation (Kubernetes 1.36).
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from kubevouch.machinery import field
from kubevouch.machinery.declaration import Int32, Struct, always, wire
from kubevouch.machinery.field import FieldError
from kubevouch.machinery.meta import Object
from kubevouch.machinery.text.times import MicroTime

GROUP = "coordination.k8s.io"


class LeaseSpec(Struct):
    """Who holds a Lease, and for how long."""

    holder_identity: Annotated[str | None, wire(1, "Who holds it now.")] = None
    lease_duration_seconds: Annotated[
        Int32 | None, wire(2, "How long others wait after renewTime before they take it.")
    ] = None
    acquire_time: Annotated[MicroTime | None, wire(3, "When the holder took it.")] = None
    renew_time: Annotated[MicroTime | None, wire(4, "When the holder last renewed it.")] = None
    lease_transitions: Annotated[Int32 | None, wire(5, "How often it went from one holder to another.")] = None
    strategy: Annotated[str | None, wire(6, "How a coordinator picks the holder; not supported here.")] = None
    preferred_holder: Annotated[str | None, wire(7, "To whom the holder should hand it over; not supported here.")] = (
        None
    )


class Lease(Object):
    """A claim that lapses unless its holder renews it: heartbeats of nodes, election of leaders."""

    spec: Annotated[LeaseSpec, wire(2, "Who holds it, and for how long.")] = always(LeaseSpec)


def drop_disabled_fields(new: Lease, old: Lease | None = None) -> Lease:
    """Without the fields of coordinated leader election, which is off by default, unless the stored Lease uses them."""
    if new.spec.strategy is None and new.spec.preferred_holder is None:
        return new
    if old is not None and (old.spec.strategy is not None or old.spec.preferred_holder is not None):
        return new
    return msgspec.structs.replace(new, spec=msgspec.structs.replace(new.spec, strategy=None, preferred_holder=None))


def validate_lease(lease: Lease) -> list[FieldError]:
    """What is wrong with a Lease, metadata apart."""
    spec = lease.spec
    errors = []
    if spec.lease_duration_seconds is not None and spec.lease_duration_seconds <= 0:
        errors.append(field.invalid("spec.leaseDurationSeconds", spec.lease_duration_seconds, "must be greater than 0"))
    if spec.lease_transitions is not None and spec.lease_transitions < 0:
        errors.append(
            field.invalid("spec.leaseTransitions", spec.lease_transitions, "must be greater than or equal to 0")
        )
    if spec.preferred_holder and not spec.strategy:
        errors.append(field.forbidden("spec.preferredHolder", "may only be specified if `strategy` is defined"))
    return errors


def validate_lease_update(new: Lease, _old: Lease) -> list[FieldError]:
    """What is wrong with a change of a Lease, metadata apart."""
    return validate_lease(new)
