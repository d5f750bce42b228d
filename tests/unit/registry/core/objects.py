"""Objects of the core kinds for tests of their strategies, in few words."""

from __future__ import annotations

import datetime as dt
from typing import Any

from decisions import BOB
from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.text.times import Time
from kubevouch.registry.interface import Context, Definition

NOW = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
THEN = Time.of(NOW - dt.timedelta(minutes=5))
CONTEXT = Context(user=BOB, now=NOW, api_version="v1")


def read(kind: type[Any], **tree: Any) -> Any:
    """An object named ``a``, five minutes old, from the tree of its other parts."""
    meta = {"name": "a", "creationTimestamp": str(THEN)} | tree.pop("metadata", {})
    return json_codec.from_tree({"metadata": meta} | tree, kind).value


def cells(definition: Definition[Any], obj: Any) -> list[object]:
    return list(definition.printer.cells(obj, NOW))
