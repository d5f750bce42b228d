"""One scrape of several processes that are one server. Pure.

Counters and histograms add up. Of gauges those add up that say what a process has or does; the others say how the
cluster is, as each process knows it, and the highest stands for all.
"""

from __future__ import annotations

from collections.abc import Iterable

SUMMED_GAUGES = frozenset({
    "process_virtual_memory_bytes",
    "process_resident_memory_bytes",
    "process_open_fds",
    "workqueue_depth",
    "workqueue_unfinished_work_seconds",
    "apiserver_current_inflight_requests",
    "apiserver_longrunning_requests",
    "apiserver_flowcontrol_current_executing_requests",
    "apiserver_flowcontrol_current_inqueue_requests",
    "apiserver_flowcontrol_nominal_limit_seats",
    "apiserver_current_inqueue_requests",
    "kubevouch_cache_bytes",
    "kubevouch_cache_watchers",
    "kubevouch_connections",
})  # fmt: skip


def merged(texts: Iterable[str]) -> str:
    """Expositions in Prometheus' text format 0.0.4, written as this program writes them, as one."""
    return _merged(texts, gauges=True)


def counted(texts: Iterable[str]) -> str:
    """As :func:`merged`, of processes that are gone: what they had and were is over, and what they counted stays.

    A sum that fell with each of them would be taken for a server that has begun to count anew.
    """
    return _merged(texts, gauges=False)


def _merged(texts: Iterable[str], *, gauges: bool) -> str:
    heads: dict[str, list[str]] = {}
    samples: dict[str, dict[str, float]] = {}
    for text in texts:
        name, adds, stays = "", True, True
        # Only line feeds end a line: label values may hold whatever else str.splitlines() takes for an end.
        for line in text.split("\n"):
            if line.startswith("# HELP "):
                name = line.split(" ", 3)[2]
                heads.setdefault(name, []).append(line)
            elif line.startswith("# TYPE "):
                is_gauge = line.endswith(" gauge")
                adds, stays = not is_gauge or name in SUMMED_GAUGES, gauges or not is_gauge
                heads[name].append(line)
            elif line and stays:
                series, _, number = line.rpartition(" ")
                family = samples.setdefault(name, {})
                value, before = float(number), family.get(series)
                family[series] = value if before is None else before + value if adds else max(before, value)
    lines = []
    for name, head in heads.items():
        if not gauges and name not in samples:
            continue
        lines += head[:2]
        lines += [f"{series} {_number(value)}" for series, value in samples.get(name, {}).items()]
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    return {"inf": "+Inf", "-inf": "-Inf", "nan": "NaN"}.get(repr(value)) or repr(value)
