"""What of the recorded requests is answered differently on purpose: the list of which the documentation is made."""

from __future__ import annotations

import fnmatch
import tomllib
from dataclasses import dataclass
from pathlib import Path

from contract.api_surface.rows import Row

_LIST = Path(__file__).parents[3] / "docs" / "compatibility.toml"


@dataclass(frozen=True, slots=True)
class Difference:
    """``status`` is ours; ``requests`` are a method and a path each, in which ``*`` stands for anything."""

    requests: tuple[str, ...]
    status: int

    def covers(self, row: Row) -> bool:
        request = f"{row.method} {row.path}"
        return any(fnmatch.fnmatchcase(request, each) for each in self.requests)


def differences() -> list[Difference]:
    listed = tomllib.loads(_LIST.read_text())["request"]
    return [Difference(tuple(each["requests"]), each["status"]) for each in listed]
