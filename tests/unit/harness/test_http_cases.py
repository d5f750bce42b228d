"""The parts of the HTTP case runner that need no server."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from contract.http_cases import mini_protobuf
from contract.http_cases.case_text import Fixtures, get_path, matches, rename, shares_nothing, shift_time
from contract.http_cases.comparison import Comparison
from contract.http_cases.objects import rbac_objects, role_rule
from contract.http_cases.reply import Reply

CSR: dict[str, Any] = {
    "apiVersion": "certificates.k8s.io/v1",
    "kind": "CertificateSigningRequest",
    "metadata": {"name": "x", "labels": {"a": "b"}},
    "spec": {"request": "AAEC", "usages": ["a", "b"], "expirationSeconds": -1, "extra": {"k": ["v1", "v2"]}},
    "status": {"conditions": [{"type": "A", "status": "True", "lastUpdateTime": "2026-01-01T00:00:00Z"}]},
}


def _reply(status: int, body: bytes, *, watch: bool = False, **headers: str) -> Reply:
    return Reply(status, CIMultiDictProxy(CIMultiDict(headers)), body, watch=watch)


def test_an_envelope_is_read_as_it_was_written() -> None:
    assert mini_protobuf.envelope(CSR).hex().startswith("6b387300")
    assert mini_protobuf.open_envelope(mini_protobuf.envelope(CSR)) == CSR


def test_watch_frames_are_read_one_by_one() -> None:
    event = mini_protobuf.field(1, b"ADDED") + mini_protobuf.field(
        2, mini_protobuf.field(1, mini_protobuf.envelope(CSR))
    )
    frame = len(event).to_bytes(4, "big") + event
    assert list(mini_protobuf.watch_frames(frame * 2)) == [{"type": "ADDED", "object": CSR}] * 2


@pytest.mark.parametrize(
    ("path", "value"),
    [("a.0.[b.c]", 1), ("a.{n=x}.[b.c]", 1), ("a.{n=y}.[b.c]", "$absent"), ("items.0.x", "$absent"), ("z", "$absent")],
)
def test_paths(path: str, value: object) -> None:
    assert get_path({"a": [{"b.c": 1, "n": "x"}], "items": []}, path) == value


@pytest.mark.parametrize(
    ("want", "got", "equal"),
    [
        ({"a": "$any", "b": "$absent"}, {"a": None}, True),
        ({"a": "$any"}, {"a": 1, "b": 2}, False),
        ({"a": "$any"}, {}, False),
        (1, True, False),
        (["$age", "$re:^x"], ["3m5s", "xyz"], True),
        (["$age"], ["soon"], False),
        ([1, 2], [1], False),
    ],
)
def test_what_counts_as_equal(want: object, got: object, equal: bool) -> None:
    assert matches(want, got) is equal


def test_a_run_renames_the_names_of_a_case_and_nothing_else() -> None:
    case = {
        "id": "i",
        "given": {"user": {"name": "alice"}, "token": "abc123.0123", "other": "ABC123"},
        "when": {"path": "/x/c1/status", "query": "f%3Dc1", "body": {"$base64file": "csr-alice.pem"}},
        "then": {"message": 'r "c1" not found', "base64": "a/c1+"},
    }
    renamed = rename(case, "zz")
    assert renamed["when"] == {
        "path": "/x/c1-zz/status",
        "query": "f%3Dc1-zz",
        "body": {"$base64file": "csr-alice.pem"},
    }
    assert renamed["given"] == {"user": {"name": "alice-zz"}, "token": "zz.0123", "other": "ZZ"}
    assert renamed["then"] == {"message": 'r "c1-zz" not found', "base64": "a/c1+"}


@pytest.mark.parametrize(
    ("path", "alone"), [("/apis/x/v1/things/c1", False), ("/apis/x/v1/things", True), ("/api/v1/nodes/worker-7", True)]
)
def test_cases_about_more_than_their_own_names_run_alone(path: str, alone: bool) -> None:
    case = {"given": {}, "when": {"method": "GET", "path": path}, "then": {}}
    assert shares_nothing(case) is not alone


def test_the_rbac_shorthand() -> None:
    assert role_rule("list csr names [c1]") == {
        "apiGroups": ["certificates.k8s.io"],
        "resources": ["certificatesigningrequests"],
        "verbs": ["list"],
        "resourceNames": ["c1"],
    }
    assert role_rule("get */status in certificates.k8s.io")["resources"] == ["*/status"]
    assert "resourceNames" not in role_rule("approve signers, no resourceNames")
    made = rbac_objects(["role{create csr}", "view to group g", "Node authorizer"], {"name": "u"}, "t")
    assert [obj["kind"] for obj in made] == ["ClusterRole", "ClusterRoleBinding", "ClusterRoleBinding"]
    with pytest.raises(ValueError, match="unknown rbac shorthand"):
        rbac_objects(["something else"], None, "t")


def test_times_move_and_keep_their_offset() -> None:
    day = dt.timedelta(days=1)
    assert shift_time("2026-06-01T03:00:00+02:00", day) == "2026-06-02T03:00:00+02:00"
    assert shift_time("tomorrow", day) == "tomorrow"


def test_markers_stand_for_values(tmp_path: Path) -> None:
    (tmp_path / "a.pem").write_bytes(b"\x00\x01")
    fixtures = Fixtures(tmp_path)
    assert fixtures.expand({"x": {"$base64file": "a.pem"}, "y": ["$NAME/$OTHER"]}, {"NAME": 5}) == {
        "x": "AAE=",
        "y": ["5/$OTHER"],
    }
    assert fixtures.expand({"$repeat": ["ab", 2]}) == "abab"


def test_a_comparison_names_everything_that_differs() -> None:
    body = b'{"kind":"Status","reason":"NotFound","message":"no","details":{"causes":[{"reason":"R","field":"f"}]}}'
    reply = _reply(404, body, Vary="Accept")
    then = {
        "status": 404,
        "reason": "NotFound",
        "message_exact": "no",
        "causes": [["R", "f"]],
        "headers": {"Vary": "Accept"},
        "headers_absent": ["ETag"],
        "fields": {"message": "$changed", "kind": "$same", "other": "$absent"},
    }
    stored = {"kind": "Status", "message": "yes"}
    assert Comparison(then, reply, stored).run() == []
    changes: list[dict[str, Any]] = [
        {"status": 200}, {"reason": "Gone"}, {"message_exact": "No"}, {"causes": []}, {"headers": {"Vary": "x"}},
        {"headers_absent": ["Vary"]}, {"fields": {"message": "$same"}}, {"fields": {"kind": "$changed"}},
        {"body_contains": "absent"}, {"body_exact": ""}, {"bytes_prefix_hex": "00"}, {"names": ["a"]},
        {"events": ["ADDED x"]},
    ]  # fmt: skip
    for change in changes:
        assert len(Comparison({**then, **change}, reply, stored).run()) == 1, change


def test_first_events_have_no_order_and_plain_bookmarks_do_not_count() -> None:
    lines = [
        b'{"type":"ADDED","object":{"metadata":{"name":"b"}}}',
        b'{"type":"ADDED","object":{"metadata":{"name":"a"}}}',
        b'{"type":"BOOKMARK","object":{"metadata":{}}}',
        b'{"type":"DELETED","object":{"metadata":{"name":"b"}}}',
    ]
    reply = _reply(200, b"\n".join(lines), watch=True)
    assert Comparison({"status": 200, "events": ["ADDED a", "ADDED b", "DELETED b"]}, reply, {}).run() == []
    assert Comparison({"status": 200, "events": ["ADDED a", "DELETED b"]}, reply, {}).run() != []
