"""The formats of strings that are checked; others are passed over."""

from __future__ import annotations

from collections.abc import Callable

KNOWN: dict[str, Callable[[str], bool]] = {}
