"""What of the recorded requests is answered differently on purpose."""

from __future__ import annotations

import fnmatch
import tomllib
from dataclasses import dataclass
from pathlib import Path

from contract.api_surface.rows import Row

_LIST = Path(__file__).with_name("differences.toml")


@dataclass(frozen=True, slots=True)
class Difference:
    """``status`` is ours; ``requests`` are a method and a path each, in which ``*`` stands for anything."""

    requests: tuple[str, ...]
    status: int
    reason: str

    def covers(self, row: Row) -> bool:
        request = f"{row.method} {row.path}"
        return any(fnmatch.fnmatchcase(request, each) for each in self.requests)


def differences() -> list[Difference]:
    listed = tomllib.loads(_LIST.read_text())["difference"]
    return [Difference(tuple(each["requests"]), each["status"], each["reason"]) for each in listed]


def as_markdown(listed: list[Difference]) -> str:
    """The table of ``docs/compatibility.md``."""
    lines = ["| requests | answer | why |", "|---|---|---|"]
    for each in listed:
        requests = ", ".join(f"`{request}`" for request in each.requests)
        lines.append(f"| {requests} | {each.status} | {each.reason} |")
    return "\n".join(lines)
