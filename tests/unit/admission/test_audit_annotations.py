from __future__ import annotations

import pytest

from kubevouch.admission.audit_annotations import annotate
from kubevouch.admission.interface import Operation, Request
from kubevouch.api.catalog import CONFIG_MAPS
from kubevouch.authentication.interface import UserInfo
from kubevouch.testing.logs import capture_logs


def request() -> Request:
    kind = CONFIG_MAPS
    return Request(UserInfo("u"), Operation.CREATE, kind.group_resource, kind.gvk, "", "", "n", None, None)


@pytest.mark.parametrize("key", ["", "key", "a/b/c", "example.com/", "/key", "example.com/k y"])
def test_what_is_no_key_is_left_out(key: str) -> None:
    asked = request()
    with capture_logs() as logs:
        annotate(asked, key, "v")
    assert asked.annotations == {} and logs[0]["key"] == key


def test_the_first_value_stays() -> None:
    asked = request()
    with capture_logs() as logs:
        for value in ("v", "v", "other"):
            annotate(asked, "example.com/key", value)
    assert asked.annotations == {"example.com/key": "v"}
    assert [entry["event"] for entry in logs] == ["an audit annotation is there already"]
