"""The test kit: a real API server inside a test, a clock that a test moves, and the behaviour suites of plug-ins.

    from kubevouch.testing import Cluster

Importing the package loads nothing of the server: names are looked up on first use, because pytest imports the package
for every test run on a machine where kubevouch is installed.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kubevouch.machinery.errors import APIStatusError as APIStatusError
    from kubevouch.testing.clock import FakeClock as FakeClock
    from kubevouch.testing.cluster import Cluster as Cluster
    from kubevouch.testing.cluster import ClusterError as ClusterError
    from kubevouch.testing.crds import DefinitionSourceError as DefinitionSourceError
    from kubevouch.testing.faults import Fault as Fault
    from kubevouch.testing.faults import FaultError as FaultError
    from kubevouch.testing.faults import Faults as Faults
    from kubevouch.testing.manifests import ManifestError as ManifestError
    from kubevouch.testing.verbs import Verbs as Verbs
    from kubevouch.testing.waiting import WaitTimeout as WaitTimeout
    from kubevouch.testing.waiting import has_condition as has_condition
    from kubevouch.testing.waiting import wait_for as wait_for
    from kubevouch.testing.waiting import wait_for_deletion as wait_for_deletion

_HOMES = {
    "APIStatusError": "waiting",
    "Cluster": "cluster",
    "ClusterError": "cluster",
    "FakeClock": "clock",
    "DefinitionSourceError": "crds",
    "Fault": "faults",
    "FaultError": "faults",
    "Faults": "faults",
    "ManifestError": "manifests",
    "Verbs": "verbs",
    "WaitTimeout": "waiting",
    "has_condition": "waiting",
    "wait_for": "waiting",
    "wait_for_deletion": "waiting",
}

__all__ = [
    "APIStatusError", "Cluster", "ClusterError", "DefinitionSourceError", "FakeClock", "Fault", "FaultError", "Faults",
    "ManifestError", "Verbs", "WaitTimeout", "has_condition", "wait_for", "wait_for_deletion",
]  # fmt: skip


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)
