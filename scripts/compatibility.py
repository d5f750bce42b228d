"""Makes docs/compatibility.md from docs/compatibility.toml and from the catalog of kinds."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

from kubevouch.api import catalog
from kubevouch.authorization.interface import Authorizer
from kubevouch.authorization.param_access import ParamAccess
from kubevouch.authorization.rbac_escalation import EscalationGuard
from kubevouch.registry.catalog import definitions
from kubevouch.server.runtime_config import RuntimeConfig

_MADE = "<!-- Made by scripts/reference.py from docs/compatibility.toml; make reference makes it again. -->"
_LIST = Path(__file__).resolve().parents[1] / "docs" / "compatibility.toml"


_INTRODUCTION = """\
The server answers as kube-apiserver 1.36 does. The cases and requests that were recorded from a real one are part of
the test command (`tests/contract/test_http_cases.py`, `tests/contract/test_api_surface.py`). What is known to differ
is listed here with its reason and, where there is one, the test that holds it."""
_SERVED = """\
Kinds marked *empty* can be listed and watched, for clients do; nothing runs, so creating one is refused, and the one
Service there is can only be read. Those
marked *off* are there with `--runtime-config`. ServiceAccounts have `/token`."""
_REQUESTS = """\
The requests that kubelet, kubeadm, kube-controller-manager, kubectl and Kubernetes' end-to-end tests make of
kube-apiserver 1.36 were recorded; all are answered with the same status and media type
(`tests/contract/test_api_surface.py`), but for these:"""

_ATTACHED = """\
What `kubevouch controllers` finds in [a cluster that exists](howto/attached.md), by its version. `make real` tries it
against Kubernetes' own programs: all of `tests/real` passes against kube-apiserver 1.36.2 with etcd 3.6. Older ones are
played by the same program with `--emulated-version`; what it cannot play has not been tried, and the row says what its
API promises."""
_BUILDS = """\
A distribution may change what kube-apiserver answers. Nothing here rests on these; the comparison lets them pass:"""
_TRIED = {"itself": "yes", "emulated": "with `--emulated-version`", "no": "no"}


def page() -> str:
    listed = tomllib.loads(_LIST.read_text())
    parts = [
        "# Compatibility with Kubernetes", _MADE, _INTRODUCTION,
        "## What is served", _table(("group and version", "kinds"), _served()), _SERVED,
        "## Differences", _differences(listed, "server", "Kubernetes"),
        "## Requests that are answered differently", _REQUESTS,
        _table(("requests", "answer", "why"), map(_request, listed["request"])),
        "## The node's side", _differences(listed, "node", "kubelet, kubeadm"),
        "## Clusters that exist", _ATTACHED,
        _table(("Kubernetes", "what works", "what it lacks", "guards", "tried"), map(_version, listed["version"])),
        "### Builds of others", _BUILDS,
        _table(("build", "differs from Kubernetes"), ((each["name"], each["unlike"]) for each in listed["build"])),
    ]  # fmt: skip
    return "\n\n".join(parts) + "\n"


def _served() -> Iterator[tuple[str, ...]]:
    # Nobody is asked anything: the definitions only say which kinds there are.
    stored = definitions(cast(EscalationGuard, None), cast(ParamAccess, None), cast(Authorizer, None))
    empty = {definition.resource for definition in stored if definition.refuses_creation} | {*catalog.OLDER.values()}
    usual, groups = RuntimeConfig(), dict[str, list[str]]()
    for resource in (
        *catalog.STORED,
        *catalog.VIEWS,
        *catalog.EMPTY.values(),
        *catalog.OLDER.values(),
        catalog.COMPONENT_STATUSES,
        *catalog.REVIEWS,
    ):
        mark = " (*empty*)" if resource in empty else "" if usual.serves(resource) else " (*off*)"
        groups.setdefault(resource.api_version, []).append(resource.kind + mark)
    for name, kinds in sorted(groups.items()):
        yield f"`{name}`", ", ".join(sorted(kinds))


def _differences(listed: dict[str, Any], side: str, theirs: str) -> str:
    rows = (
        (each["where"], each["kubernetes"], each["ours"], each["why"], _test(each))
        for each in listed["difference"]
        if each["side"] == side
    )
    return _table(("where", theirs, "kubevouch", "why", "test"), rows)


def _version(each: dict[str, Any]) -> tuple[str, ...]:
    guards = "yes" if each["guards"] else "no"
    return each["kubernetes"], each["works"], each["lacks"], guards, _TRIED[each["tried"]]


def _test(each: dict[str, Any]) -> str:
    return f"`{each['test'].removeprefix('tests/')}`" if "test" in each else ""


def _request(each: dict[str, Any]) -> tuple[str, ...]:
    return ", ".join(f"`{request}`" for request in each["requests"]), str(each["status"]), each["why"]


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = (head, ("---",) * len(head), *rows)
    return "\n".join(f"| {' | '.join(line)} |".replace(" |  |", " | |") for line in lines)
