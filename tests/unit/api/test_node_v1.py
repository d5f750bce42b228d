from __future__ import annotations

from kubevouch.api.node_v1 import RuntimeClass
from kubevouch.machinery.codec import json_codec


def test_a_runtime_class_prints_as_in_go() -> None:
    assert json_codec.encode(RuntimeClass(handler="runc")) == b'{"metadata":{},"handler":"runc"}'
