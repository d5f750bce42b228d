from __future__ import annotations

from typing import Any

import msgspec
import pytest

from asynctest import async_test
from decisions import BOB, rights_of
from kubevouch.api.rbac_v1 import PolicyRule
from kubevouch.authentication.interface import UserInfo
from kubevouch.authorization.impersonation import Impersonated, Impersonator, legacy_permissions
from kubevouch.authorization.interface import Attributes, Decision, Verdict
from kubevouch.authorization.policy import rule
from kubevouch.machinery.errors import APIStatusError

AUTHENTICATION = "authentication.k8s.io"
ALICE = UserInfo("alice")
ACCOUNT = UserInfo("system:serviceaccount:shop:robot")
NODE = UserInfo("system:node:worker-1")
AGENT = UserInfo(
    "system:serviceaccount:shop:agent",
    groups=("system:serviceaccounts",),
    extra={"authentication.kubernetes.io/node-name": ("worker-1",)},
)
DEVS = ("system:authenticated",)


def acts(mode: str, resource: str = "pods", verb: str = "list") -> PolicyRule:
    return rule(f"impersonate-on:{mode}:{verb}", "", resource)


def as_(mode: str, resources: str, *names: str) -> PolicyRule:
    return rule(f"impersonate:{mode}", AUTHENTICATION, resources, names)


def legacy(resources: str, *names: str, group: str = "") -> PolicyRule:
    return rule("impersonate", group, resources, names)


async def outcome(wanted: UserInfo, *rights: PolicyRule, who: UserInfo = BOB) -> Impersonated | str:
    """As whom ``who`` may list the pods of a namespace, or why not."""
    asked = Attributes(who, "list", "", "v1", "pods", namespace="shop")
    try:
        return await Impersonator(rights_of(who, *rights)).impersonate(asked, wanted)
    except APIStatusError as err:
        return err.status.message


FIRST_REFUSAL = (
    'pods is forbidden: User "bob" cannot impersonate-on:user-info:list resource "pods" in API group "" '
    'in the namespace "shop"'
)


# ------------------------------------------------------------------ the legacy mode


@pytest.mark.parametrize(
    ("wanted", "rights", "user"),
    [
        (ALICE, [legacy("users")], UserInfo("alice", groups=DEVS)),
        (ALICE, [legacy("users", "alice")], UserInfo("alice", groups=DEVS)),
        (
            UserInfo("alice", groups=("devs", "ops")),
            [legacy("users", "alice"), legacy("groups", "devs", "ops")],
            UserInfo("alice", groups=("devs", "ops", *DEVS)),
        ),
        (
            UserInfo("alice", uid="7"),
            [legacy("users"), legacy("uids", "7", group=AUTHENTICATION)],
            UserInfo("alice", "7", DEVS),
        ),
        (
            UserInfo("alice", extra={"scopes": ("a", "b")}),
            [legacy("users"), legacy("userextras/scopes", "a", "b", group=AUTHENTICATION)],
            UserInfo("alice", groups=DEVS, extra={"scopes": ("a", "b")}),
        ),
        (
            ACCOUNT,
            [legacy("serviceaccounts", "robot")],
            UserInfo(ACCOUNT.name, groups=("system:serviceaccounts", "system:serviceaccounts:shop", *DEVS)),
        ),
        (
            UserInfo("system:anonymous"),
            [legacy("users")],
            UserInfo("system:anonymous", groups=("system:unauthenticated",)),
        ),
        (
            UserInfo("alice", groups=("system:masters",)),
            [legacy("users"), legacy("groups", "system:masters")],
            UserInfo("alice", groups=("system:masters", *DEVS)),
        ),
        (NODE, [legacy("users")], UserInfo(NODE.name, groups=DEVS)),
    ],
)
@async_test
async def test_legacy_mode(wanted: UserInfo, rights: list[PolicyRule], user: UserInfo) -> None:
    assert await outcome(wanted, *rights) == Impersonated(user)


@pytest.mark.parametrize(
    ("wanted", "rights"),
    [
        (ALICE, []),
        (ALICE, [legacy("users", "carol")]),
        (ALICE, [legacy("users", group=AUTHENTICATION)]),
        (ALICE, [legacy("serviceaccounts")]),
        (UserInfo("alice", groups=("devs",)), [legacy("users")]),
        (UserInfo("alice", groups=("devs", "ops")), [legacy("users"), legacy("groups", "devs")]),
        (UserInfo("alice", groups=("system:masters",)), [legacy("users"), legacy("groups", "devs")]),
        (UserInfo("alice", uid="7"), [legacy("users uids")]),
        (
            UserInfo("alice", extra={"scopes": ("a", "b")}),
            [legacy("users"), legacy("userextras/scopes", "a", group=AUTHENTICATION)],
        ),
        (
            UserInfo("alice", extra={"scopes": ("a",)}),
            [legacy("users"), legacy("userextras", group=AUTHENTICATION)],
        ),
    ],
)
@async_test
async def test_first_mode_that_applies_says_why_not(wanted: UserInfo, rights: list[PolicyRule]) -> None:
    assert await outcome(wanted, *rights) == FIRST_REFUSAL


@async_test
async def test_where_no_other_mode_applies_the_legacy_one_says_why_not() -> None:
    wanted = UserInfo(ACCOUNT.name, groups=("devs",))
    assert await outcome(wanted, legacy("serviceaccounts")) == (
        'groups "devs" is forbidden: User "bob" cannot impersonate resource "groups" in API group "" '
        "at the cluster scope"
    )
    assert await outcome(wanted, legacy("users")) == (
        'serviceaccounts "robot" is forbidden: User "bob" cannot impersonate resource "serviceaccounts" '
        'in API group "" in the namespace "shop"'
    )


def test_questions_of_the_legacy_mode() -> None:
    wanted = UserInfo("alice", "7", ("devs",), {"scopes": ("a", "b")})
    questions: list[dict[str, Any]] = [
        {"resource": "users", "name": "alice"},
        {"group": AUTHENTICATION, "resource": "uids", "name": "7"},
        {"resource": "groups", "name": "devs"},
        {"group": AUTHENTICATION, "resource": "userextras", "subresource": "scopes", "name": "a"},
        {"group": AUTHENTICATION, "resource": "userextras", "subresource": "scopes", "name": "b"},
    ]
    assert list(legacy_permissions(BOB, wanted)) == [
        Attributes(BOB, "impersonate", api_version="v1", **question) for question in questions
    ]


# ------------------------------------------------------------------ the constrained modes


@pytest.mark.parametrize(
    ("wanted", "rights", "user"),
    [
        (ALICE, [as_("user-info", "users", "alice")], UserInfo("alice", groups=DEVS)),
        (
            UserInfo("alice", "7", ("devs",), {"example.com/scopes": ("a",)}),
            [
                as_("user-info", "users"),
                as_("user-info", "uids", "7"),
                as_("user-info", "groups", "devs"),
                as_("user-info", "userextras/example.com/scopes", "a"),
            ],
            UserInfo("alice", "7", ("devs", *DEVS), {"example.com/scopes": ("a",)}),
        ),
        (
            UserInfo("alice", groups=("a", "b", "c", "d")),
            [as_("user-info", "users"), as_("user-info", "groups", "*")],
            UserInfo("alice", groups=("a", "b", "c", "d", *DEVS)),
        ),
        (
            UserInfo("alice", groups=("a", "b", "c", "d")),
            [as_("user-info", "users"), as_("user-info", "groups", "a", "b", "c", "d")],
            UserInfo("alice", groups=("a", "b", "c", "d", *DEVS)),
        ),
    ],
)
@async_test
async def test_user_info_mode(wanted: UserInfo, rights: list[PolicyRule], user: UserInfo) -> None:
    assert await outcome(wanted, acts("user-info"), *rights) == Impersonated(user, "impersonate:user-info")
    assert await outcome(wanted, *rights) == FIRST_REFUSAL
    assert await outcome(wanted, acts("user-info", "nodes"), *rights) == FIRST_REFUSAL
    assert await outcome(wanted, acts("user-info", verb="get"), *rights) == FIRST_REFUSAL


def about(resource: str, name: str, why: str = "", subresource: str = "") -> str:
    """The refusal of an identity's part in the user-info mode."""
    shown = f"{resource}/{subresource}" if subresource else resource
    return (
        f'{resource}.{AUTHENTICATION} {name}is forbidden: User "bob" cannot impersonate:user-info resource "{shown}" '
        f'in API group "{AUTHENTICATION}" at the cluster scope{why}'
    )


EMPTY_VALUE = ": impersonating the empty string value in extra is not allowed"
NO_VALUES = ": impersonating empty values in extra is not allowed"


@pytest.mark.parametrize(
    ("wanted", "refused"),
    [
        (UserInfo("carol"), about("users", '"carol" ')),
        (UserInfo("alice", uid="8"), about("uids", '"8" ')),
        (UserInfo("alice", groups=("ops",)), about("groups", '"ops" ')),
        (UserInfo("alice", groups=("devs", "ops", "x", "y")), about("groups", '"ops" ')),
        (
            UserInfo("alice", groups=("system:masters",)),
            about("groups", '"system:masters" ', ": impersonating the system:masters group is not allowed"),
        ),
        (
            UserInfo("alice", groups=("devs", "")),
            about("groups", "", ": impersonating the empty string group is not allowed"),
        ),
        (
            UserInfo("alice", extra={"": ("a",)}),
            about("userextras", "", ": impersonating the empty string key in extra is not allowed"),
        ),
        (
            UserInfo("alice", extra={"example.com/Scopes": ("a",)}),
            about(
                "userextras", "", ': impersonating a non-lowercase key in extra is not allowed: "example.com/Scopes"'
            ),
        ),
        (
            UserInfo("alice", extra={"scopes": ("a",)}),
            about(
                "userextras",
                "",
                (
                    ': impersonating an invalid key in extra is not allowed: extra.key: Invalid value: "scopes": '
                    'must be a domain-prefixed path (such as "acme.io/foo")'
                ),
            ),
        ),
        (UserInfo("alice", extra={"example.com/s": ()}), about("userextras", "", NO_VALUES)),
        (UserInfo("alice", extra={"example.com/s": ("a", "")}), about("userextras", "", EMPTY_VALUE)),
        (
            UserInfo("alice", extra={"example.com/s": ("a", "b")}),
            about("userextras", '"b" ', subresource="example.com/s"),
        ),
    ],
)
@async_test
async def test_each_part_of_an_identity_needs_its_right(wanted: UserInfo, refused: str) -> None:
    rights = [
        acts("user-info"),
        as_("user-info", "users", "alice"),
        as_("user-info", "uids", "7"),
        as_("user-info", "groups", "devs", "system:masters", ""),
        as_("user-info", "userextras/example.com/s userextras/", "a"),
    ]
    assert await outcome(wanted, *rights) == refused


@async_test
async def test_service_account_mode() -> None:
    groups = ("system:serviceaccounts", "system:serviceaccounts:shop", *DEVS)
    rights = [acts("serviceaccount"), as_("serviceaccount", "serviceaccounts", "robot")]
    constraint = "impersonate:serviceaccount"
    assert await outcome(ACCOUNT, *rights) == Impersonated(UserInfo(ACCOUNT.name, groups=groups), constraint)
    for other in (UserInfo("system:serviceaccount:shop:other"), UserInfo(ACCOUNT.name, groups=("devs",))):
        assert isinstance(await outcome(other, *rights), str)
    assert isinstance(await outcome(ACCOUNT, acts("user-info"), as_("user-info", "users serviceaccounts")), str)


@async_test
async def test_node_mode() -> None:
    rights = [acts("arbitrary-node"), as_("arbitrary-node", "nodes", "worker-1")]
    as_node = UserInfo(NODE.name, groups=("system:nodes", *DEVS))
    assert await outcome(NODE, *rights) == Impersonated(as_node, "impersonate:arbitrary-node")
    assert isinstance(await outcome(UserInfo("system:node:worker-2"), *rights), str)
    assert isinstance(await outcome(UserInfo(NODE.name, groups=("system:masters",)), *rights), str)
    assert isinstance(await outcome(NODE, acts("user-info"), as_("user-info", "users nodes")), str)


@async_test
async def test_own_node_mode_is_for_service_accounts_on_that_node() -> None:
    rights = [acts("associated-node"), as_("associated-node", "nodes", "*")]
    as_node = UserInfo(NODE.name, groups=("system:nodes", *DEVS))
    assert await outcome(NODE, *rights, who=AGENT) == Impersonated(as_node, "impersonate:associated-node")
    elsewhere = UserInfo(AGENT.name, extra={"authentication.kubernetes.io/node-name": ("worker-2",)})
    two = UserInfo(AGENT.name, extra={"authentication.kubernetes.io/node-name": ("worker-1", "worker-2")})
    person = UserInfo("carol", extra=AGENT.extra)
    for who in (elsewhere, two, person, UserInfo(AGENT.name)):
        assert isinstance(await outcome(NODE, *rights, who=who), str)
    assert isinstance(await outcome(UserInfo("system:node:worker-2"), *rights, who=AGENT), str)


class Asked:
    """Refuses the questions that it is told to, and remembers all."""

    def __init__(self, *refused: Attributes) -> None:
        self.refused = refused
        self.questions: list[Attributes] = []

    async def authorize(self, attributes: Attributes) -> Verdict:
        self.questions.append(attributes)
        refused = attributes in self.refused
        return Verdict(Decision.DENY, "because", "of this") if refused else Verdict(Decision.ALLOW)


LIST: dict[str, Any] = {"api_version": "v1", "resource": "pods", "namespace": "shop"}
ON_OWN_NODE = UserInfo(
    AGENT.name,
    groups=AGENT.groups,
    extra={
        "authentication.kubernetes.io/associated-node-keys": ("a.example/x", "authentication.kubernetes.io/node-name")
    },
)


@pytest.mark.parametrize(
    ("who", "wanted", "mode", "asker", "identity"),
    [
        (BOB, ALICE, "user-info", BOB, {"resource": "users", "name": "alice"}),
        (BOB, NODE, "arbitrary-node", BOB, {"resource": "nodes", "name": "worker-1"}),
        (BOB, ACCOUNT, "serviceaccount", BOB, {"resource": "serviceaccounts", "namespace": "shop", "name": "robot"}),
        (
            UserInfo(AGENT.name, groups=AGENT.groups, extra={**AGENT.extra, "a.example/x": ("y",)}),
            NODE,
            "associated-node",
            ON_OWN_NODE,
            {"resource": "nodes", "name": "*"},
        ),
    ],
)
@async_test
async def test_two_questions_are_asked(
    who: UserInfo, wanted: UserInfo, mode: str, asker: UserInfo, identity: dict[str, str]
) -> None:
    """Of whoever sends the request; for one's own node it counts that one has a node, and not which."""
    asked = Asked()
    found = await Impersonator(asked).impersonate(Attributes(who, "list", **LIST), wanted)
    assert found.constraint == f"impersonate:{mode}"
    assert asked.questions == [
        Attributes(asker, f"impersonate-on:{mode}:list", **LIST),
        Attributes(asker, f"impersonate:{mode}", AUTHENTICATION, "v1", **identity),
    ]


@async_test
async def test_a_refusal_says_what_the_authorizer_says() -> None:
    question = Attributes(BOB, "impersonate-on:user-info:list", **LIST)
    legacy_question = Attributes(BOB, "impersonate", api_version="v1", resource="users", name="alice")
    with pytest.raises(APIStatusError, match=r' in the namespace "shop": of this: because$'):
        await Impersonator(Asked(question, legacy_question)).impersonate(Attributes(BOB, "list", **LIST), ALICE)


@async_test
async def test_nobody_vouches_for_the_anonymous() -> None:
    found = await Impersonator(Asked()).impersonate(Attributes(BOB, "list", **LIST), UserInfo("system:anonymous"))
    assert found == Impersonated(
        UserInfo("system:anonymous", groups=("system:unauthenticated",)), "impersonate:user-info"
    )


@pytest.mark.parametrize(
    ("extra", "at_once"),
    [
        ({"a.example/x": ("1", "2", "3")}, False),
        ({"a.example/x": ("1", "2", "3", "4")}, True),
        ({"a.example/x": ("1", "2"), "a.example/y": ("3", "4")}, True),
    ],
)
@async_test
async def test_one_right_for_many_extra_values(extra: dict[str, tuple[str, ...]], at_once: bool) -> None:
    question = Attributes(BOB, "impersonate:user-info", AUTHENTICATION, "v1", "userextras")
    all_of_them = msgspec.structs.replace(question, subresource="*", name="*")
    each = [
        msgspec.structs.replace(question, subresource=key, name=value)
        for key, values in extra.items()
        for value in values
    ]
    wanted = UserInfo("alice", extra=extra)
    asked = Asked()
    await Impersonator(asked).impersonate(Attributes(BOB, "list", **LIST), wanted)
    assert asked.questions[2:] == ([all_of_them] if at_once else each)
    one_by_one = Asked(all_of_them)
    await Impersonator(one_by_one).impersonate(Attributes(BOB, "list", **LIST), wanted)
    assert one_by_one.questions[2:] == ([all_of_them, *each] if at_once else each)


@pytest.mark.parametrize(
    ("key", "fault"),
    [
        ("/x", '"/x": must be a domain-prefixed path (such as "acme.io/foo")'),
        ("a.example/", '"a.example/": must be a domain-prefixed path (such as "acme.io/foo")'),
        ("A/x", '"A": a lowercase RFC 1123 subdomain must'),
        ("a.example/é", '"é": Invalid path (regex used for validation is'),
        ("a.example/x/y", ""),
    ],
)
@async_test
async def test_keys_of_extra(key: str, fault: str) -> None:
    wanted = UserInfo("alice", extra={key: ("1",)})
    legacy_question = Attributes(BOB, "impersonate", api_version="v1", resource="users", name="alice")
    attempt = Impersonator(Asked(legacy_question)).impersonate(Attributes(BOB, "list", **LIST), wanted)
    if not fault:
        assert (await attempt).user.extra == wanted.extra
        return
    with pytest.raises(APIStatusError) as refused:
        await attempt
    assert f"impersonating an invalid key in extra is not allowed: extra.key: Invalid value: {fault}" in str(
        refused.value
    )
