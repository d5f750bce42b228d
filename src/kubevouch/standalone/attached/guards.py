"""The guards of our kinds on an existing cluster: which ones its API server can hold, and whether they are there."""

from __future__ import annotations

from kubevouch.api.admissionregistration_v1.policies import ValidatingAdmissionPolicy
from kubevouch.api.catalog import MUTATING_ADMISSION_POLICIES, VALIDATING_ADMISSION_POLICIES
from kubevouch.api.kubevouch_v1alpha1.guard_versions import MUTATING_BETA, GuardVersion, guards_for
from kubevouch.client.discovery import Discovered
from kubevouch.client.interface import Client
from kubevouch.client.stored import find
from kubevouch.controllers.guards import Guards
from kubevouch.util.clock import Clock

FILES = {
    GuardVersion.MUTATING: "deploy/crds/guards.yaml",
    GuardVersion.MUTATING_BETA: "deploy/guards/v1beta1.yaml",
    GuardVersion.VALIDATING: "deploy/guards/validating.yaml",
}


def version_served(found: Discovered) -> GuardVersion:
    """What the API server serves now; a version that is turned off is none."""
    if found.serves(MUTATING_ADMISSION_POLICIES):
        return GuardVersion.MUTATING
    if found.serves(MUTATING_BETA):
        return GuardVersion.MUTATING_BETA
    return GuardVersion.VALIDATING if found.serves(VALIDATING_ADMISSION_POLICIES) else GuardVersion.NONE


async def faults(client: Client, clock: Clock, version: GuardVersion) -> tuple[str, ...]:
    """What is wrong with the guards that this API server could hold; empty if all of them hold.

    Raises:
        APIStatusError, TransportError
    """
    guards, found = Guards(client, clock, is_own_server=False), []
    for resource, obj in guards_for(version):
        if isinstance(obj, ValidatingAdmissionPolicy):
            found.append(await guards.fault(obj.metadata.name))
        elif resource in (MUTATING_ADMISSION_POLICIES, MUTATING_BETA):
            there = await find(client, resource, obj.metadata.name)
            found.append("" if there is not None else f"no MutatingAdmissionPolicy {obj.metadata.name}")
    return tuple(filter(None, found))
