"""Query parameters."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import unquote_plus

MAX_QUERY_FIELDS = 200


def _plain(text: str) -> str:
    """Without the escapes of a form: most texts have none."""
    return unquote_plus(text) if "%" in text or "+" in text else text


class Query:
    """Query parameters, read as leniently as Go reads them."""

    __slots__ = ("_values", "raw")

    def __init__(self, raw: str = "", values: Mapping[str, list[str]] | None = None) -> None:
        self.raw = raw
        if values is not None:
            self._values: Mapping[str, list[str]] = values
            return
        parsed: dict[str, list[str]] = {}
        if raw:
            for part in [part for part in raw.split("&") if ";" not in part][:MAX_QUERY_FIELDS]:
                if part:
                    key, _, value = part.partition("=")
                    parsed.setdefault(_plain(key), []).append(_plain(value))
        self._values = parsed

    def get(self, name: str, default: str = "") -> str:
        found = self._values.get(name)
        return found[0] if found else default

    def all(self, name: str) -> list[str]:
        return self._values.get(name, [])

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def flag(self, name: str) -> bool:
        """Kubernetes' booleans: anything but ``false`` and ``0``, also an empty value, is true."""
        return name in self._values and self.get(name).lower() not in ("false", "0")
