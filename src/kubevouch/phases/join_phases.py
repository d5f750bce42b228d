"""The phases of ``join`` by kubeadm's names (1.36): those that make trust, and those that are somebody else's here."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from kubevouch.util.nearest import meant


class PhaseError(ValueError):
    """A name that is no phase, or one that does nothing here. ``hint`` has the list."""

    def __init__(self, message: str, name: str = "") -> None:
        super().__init__(message)
        self.hint = meant(name, NAMES, f"the phases are {', '.join(NAMES)}")


class Phase(StrEnum):
    """The phases in their order. A group such as ``control-plane-prepare`` is what stands before the slash."""

    PREFLIGHT = "preflight"
    DOWNLOAD_CERTS = "control-plane-prepare/download-certs"
    CERTS = "control-plane-prepare/certs"
    KUBECONFIG = "control-plane-prepare/kubeconfig"
    KUBELET_START = "kubelet-start"
    KUBELET_WAIT_BOOTSTRAP = "kubelet-wait-bootstrap"
    MARK_CONTROL_PLANE = "control-plane-join/mark-control-plane"

    @property
    def group(self) -> str:
        return self.value.partition("/")[0] if "/" in self.value else ""


ALL = frozenset(Phase)
PREPARE = frozenset({Phase.DOWNLOAD_CERTS, Phase.CERTS, Phase.KUBECONFIG})
CONTROL_PLANE = PREPARE | {Phase.MARK_CONTROL_PLANE}
"""Those that only a control plane has."""
ASK_THE_CLUSTER = PREPARE | {Phase.KUBELET_START, Phase.KUBELET_WAIT_BOOTSTRAP}
"""Those before which the cluster has to be found and proven."""

GROUPS = tuple(dict.fromkeys(each.group for each in Phase if each.group))
NAMES = tuple(dict.fromkeys(name for each in Phase for name in (each.group, each.value) if name))
# They start and watch what runs a control plane, or write files of static pods.
ELSEWHERE = frozenset(
    {
        "control-plane-prepare/control-plane", "check-etcd", "etcd-join", "control-plane-join/etcd",
        "control-plane-join/update-status", "wait-control-plane",
    }
)  # fmt: skip


def named(name: str) -> frozenset[Phase]:
    """The phases that a name of ours stands for; ``GROUP/all`` is ``GROUP``. Raises :class:`PhaseError`."""
    found = _matching(name)
    if not found and name in ELSEWHERE:
        raise PhaseError(f"the phase {name} runs a control plane, which is not done here")
    if not found:
        raise PhaseError(f"invalid phase name: {name}", name)
    return found


def without(names: Iterable[str]) -> frozenset[Phase]:
    """All but those named. A phase of kubeadm's that does nothing here may be named. Raises :class:`PhaseError`."""
    given = list(names)
    unknown = sorted(name for name in given if name not in ELSEWHERE and not _matching(name))
    if unknown:
        raise PhaseError(f"invalid phase name: {', '.join(unknown)}", unknown[0])
    return ALL.difference(*map(_matching, given))


def that_run(phases: frozenset[Phase], *, control_plane: bool, already: bool) -> list[str]:
    """The names of those of ``phases`` that do something, in their order.

    Args:
        already: the machine had joined before, so that nothing of it was done again.
    """
    mark = frozenset({Phase.MARK_CONTROL_PLANE})
    done = (phases & mark if already else phases) - (frozenset() if control_plane else CONTROL_PLANE)
    return [each.value for each in Phase if each in done]


def _matching(name: str) -> frozenset[Phase]:
    name = name.removesuffix("/all") if name.removesuffix("/all") in GROUPS else name
    return frozenset(each for each in Phase if name in (each.value, each.group) and name)
