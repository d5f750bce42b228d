from __future__ import annotations

from kubevouch.api.resource_v1 import ResourceSlice
from kubevouch.machinery.codec import json_codec


def test_an_empty_slice_prints_as_in_go() -> None:
    assert json_codec.encode(ResourceSlice()) == (
        b'{"metadata":{},"spec":{"driver":"","pool":{"name":"","generation":0,"resourceSliceCount":0}}}'
    )
