"""What table cells have in common (pkg/printers/internalversion; Kubernetes 1.36)."""

from __future__ import annotations

import datetime as dt

from kubevouch.machinery.text import gotext
from kubevouch.machinery.text.times import MicroTime, Time
from kubevouch.registry.interface import Column

UNKNOWN = "<unknown>"
NONE = "<none>"
UNSET = "<unset>"

NAME = Column("Name", format="name", description="Name of the object, unique within its namespace or the cluster.")
AGE = Column("Age", description="Time since the object was created.")
CREATED_AT = Column("Created At", type="date", description="When the object was created.")


def age(moment: Time | MicroTime | None, now: dt.datetime) -> str:
    """Time since ``moment`` as kubectl prints it; ``<unknown>`` without one."""
    if moment is None:
        return UNKNOWN
    return gotext.human_duration((now - moment.datetime()).total_seconds())


def created_at(moment: Time | None) -> str | None:
    return None if moment is None else str(moment)


def or_none(text: str) -> str:
    return text or NONE
