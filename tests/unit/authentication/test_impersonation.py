from __future__ import annotations

import pytest

from kubevouch.authentication.impersonation import (
    requested,
    resulting_user,
    service_account_of,
    unescape_extra_key,
)
from kubevouch.authentication.interface import UserInfo
from kubevouch.machinery.errors import APIStatusError


def test_no_headers_no_impersonation() -> None:
    assert requested({}) is None
    assert requested({"impersonate-user": [""], "user-agent": ["x"]}) is None


def test_one_extra_in_two_spellings() -> None:
    wanted = requested(
        {"impersonate-user": ["carol"], "impersonate-extra-a%2fb": ["1"], "impersonate-extra-a/b": ["2"]}
    )
    assert wanted is not None
    assert wanted.extra == {"a/b": ("1", "2")}


def test_all_headers() -> None:
    wanted = requested(
        {
            "impersonate-user": ["carol", "ignored"],
            "impersonate-uid": ["u"],
            "impersonate-group": ["b", "a", "b"],
            "impersonate-extra-team%2fx": ["one", "two"],
            "impersonate-extra-empty": [],
        }
    )
    assert wanted == UserInfo("carol", "u", ("b", "a", "b"), {"team/x": ("one", "two")})


@pytest.mark.parametrize(
    ("headers", "shown"),
    [
        ({"impersonate-group": ["g"]}, '{Name:"", UID:"", Groups:[]string{"g"}, Extra:map[string][]string(nil)}'),
        ({"impersonate-uid": ["u"]}, '{Name:"", UID:"u", Groups:[]string(nil), Extra:map[string][]string(nil)}'),
        (
            {"impersonate-extra-b": ["2"], "impersonate-extra-a": ["1"]},
            '{Name:"", UID:"", Groups:[]string(nil), Extra:map[string][]string{"a":[]string{"1"}, "b":[]string{"2"}}}',
        ),
        ({"impersonate-extra-": []}, '{Name:"", UID:"", Groups:[]string(nil), Extra:map[string][]string(nil)}'),
    ],
)
def test_nothing_without_a_user_name(headers: dict[str, list[str]], shown: str) -> None:
    with pytest.raises(APIStatusError) as caught:
        requested(headers)
    assert caught.value.code == 400
    assert caught.value.status.message == f"requested &user.DefaultInfo{shown} without impersonating a user name"


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("Team", "team"),
        ("a%2Fb", "a/b"),
        ("a%zz", "a%zz"),
        ("a%2", "a%2"),
        ("a+b", "a+b"),
        ("%2f%z", "%2f%z"),
        ("%2f%", "%2f%"),
    ],
)
def test_extra_keys_are_decoded_where_that_works(key: str, expected: str) -> None:
    assert unescape_extra_key(key) == expected


@pytest.mark.parametrize(
    ("wanted", "groups"),
    [
        (UserInfo("carol"), ("system:authenticated",)),
        (UserInfo("carol", groups=("a",)), ("a", "system:authenticated")),
        (UserInfo("carol", groups=("system:authenticated",)), ("system:authenticated",)),
        (UserInfo("carol", groups=("system:unauthenticated",)), ("system:unauthenticated",)),
        (UserInfo("system:anonymous"), ("system:unauthenticated",)),
        (UserInfo("system:anonymous", groups=("a",)), ("a", "system:unauthenticated")),
        (
            UserInfo("system:serviceaccount:ns:sa"),
            ("system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"),
        ),
        (UserInfo("system:serviceaccount:ns:sa", groups=("a",)), ("a", "system:authenticated")),
        (UserInfo("system:node:n", groups=()), ("system:authenticated",)),
    ],
)
def test_resulting_groups(wanted: UserInfo, groups: tuple[str, ...]) -> None:
    assert resulting_user(wanted) == UserInfo(wanted.name, groups=groups)


def test_what_was_asked_for_is_what_results() -> None:
    wanted = UserInfo("carol", "u", ("a", "system:authenticated"), {"team": ("one",)})
    assert resulting_user(wanted) == wanted


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("system:serviceaccount:ns:sa.x", ("ns", "sa.x")),
        ("system:serviceaccount:ns:", None),
        ("system:serviceaccount::sa", None),
        ("system:serviceaccount:ns:sa:x", None),
        ("system:serviceaccount:NS:sa", None),
        ("system:serviceaccount:ns-:sa", None),
        ("system:serviceaccount:a.b:sa", None),
        ("alice", None),
    ],
)
def test_service_account_of(name: str, expected: tuple[str, str] | None) -> None:
    assert service_account_of(name) == expected
