"""Expressions that cost as much as they may keep nobody waiting, in every place that evaluates some.

Whether anybody waits is said by the fixture ``no_stalls``, which is part of every test.
"""

from __future__ import annotations

import pytest

from admission_webhook import config_map
from admission_world import POLICIES, binding, install, policy, post, tree_of, with_cluster
from asynctest import async_test
from kubevouch.admission.dynamic import questions
from kubevouch.authentication.interface import UserInfo
from kubevouch.authentication.jwt_claims import user_of
from kubevouch.authorization.interface import Attributes, Decision
from kubevouch.authorization.webhook import WebhookAuthorizer, WebhookSettings
from kubevouch.cel.environment import BOOL, TURN, Environment, Turn, TurnOver
from kubevouch.cel.values import Lazy
from kubevouch.client.interface import Client
from kubevouch.config.authentication_config import AuthenticationConfiguration
from kubevouch.config.authentication_config_rules import validate
from kubevouch.machinery.codec import json_codec
from kubevouch.testing.clock import FakeClock
from stalls import monitored

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
_TEN = "[0,1,2,3,4,5,6,7,8,9]"
# Loops in a loop, some 400,000 steps: 0.2 s and more.
LONG = f"{_TEN}.all(a,{_TEN}.all(b,{_TEN}.all(c,{_TEN}.all(d,[0,1,2].all(e,a+b+c+d+e>=0)))))"


def test_policies_at_their_limit() -> None:
    async def scenario(client: Client) -> None:
        for number in range(3):
            name = f"p{number}"
            variables = [{"name": "v", "expression": LONG}]
            rules = policy({"expression": LONG}, {"expression": "variables.v"}, name=name, variables=variables)
            await install(client, rules, binding("Deny", name=f"b{number}", policy_name=name))
        assert (await post(client, CONFIG_MAPS, config_map())).status == 201

    with_cluster(scenario)


def test_all_policies_together_have_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "REQUEST_BUDGET", 1_000_000)

    async def scenario(client: Client) -> None:
        for number in range(3):
            rules = policy({"expression": LONG}, name=f"p{number}")
            await install(client, rules, binding("Deny", name=f"b{number}", policy_name=f"p{number}"))
        answer = await post(client, CONFIG_MAPS, config_map())
        assert answer.status == 422
        assert "running out of cost budget" in tree_of(answer)["message"]

    with_cluster(scenario)


def test_policies_of_many_expressions() -> None:
    async def scenario(client: Client) -> None:
        # Compiled when it is written, when its types are checked and when it is first in force.
        rules = policy(*({"expression": f"object.data.size() != {number}"} for number in range(300)))
        await install(client, rules, binding())
        assert (await post(client, CONFIG_MAPS, config_map(a="b", c="d"))).status == 422

    with_cluster(scenario)


def test_the_longest_expressions_compile_elsewhere() -> None:
    async def scenario(client: Client) -> None:
        longest = "[" + ",".join("1" * 4900) + "].size() > 0"
        assert (await post(client, POLICIES, policy(*({"expression": longest},) * 20))).status == 201

    with_cluster(scenario)


# ------------------------------------------------------------------ one turn


def test_a_turn_bounds_what_is_evaluated_in_it_together() -> None:
    short = Environment({}).compile(f"{_TEN}.all(a, a >= 0)", (BOOL,))
    turn, evaluated = Turn(TURN), 0
    while turn.left > TURN // 20:
        assert short.holds({}, turn=turn)
        evaluated += 1
    assert 0 < evaluated < TURN // 20
    with pytest.raises(TurnOver):
        [short.holds({}, turn=turn) for _ in range(TURN // 20)]
    turn.renew()
    assert short.holds({}, turn=turn)


def test_a_turn_bounds_evaluations_in_the_course_of_others() -> None:
    turn = Turn(TURN)
    program = Environment({}).compile(LONG, (BOOL,))
    begun = 0

    def nest(depth: int) -> None:
        nonlocal begun
        begun += 1
        environment = Environment({"variables": "map(string, dyn)"})
        outer = environment.compile(f"{_TEN}.all(a, {_TEN}.all(b, a + b >= 0)) && variables.v", (BOOL,))
        outer.holds({"variables": Lazy(lambda _: nest(depth + 1))}, turn=turn)

    with pytest.raises(TurnOver):
        nest(0)
    assert begun < 50
    with pytest.raises(TurnOver):
        program.holds({}, turn=Turn(TURN))
    assert program.holds({})


@pytest.mark.parametrize(
    "call",
    [
        "timestamp(x) == timestamp(x)", "duration(x) == duration(x)", "isIP(x)", "isCIDR(x)", "isURL(x)",
        "isQuantity(x)", "isSemver(x)", "x.lowerAscii() == x", "x.split('').size() > 0", "x.findAll('a').size() > 0",
        "x.replace('a', 'b') == x", "x.matches('(a|b)+$')", "format.dns1123Label().validate(x).hasValue()",
        "strings.quote(x) == x",
    ],
)  # fmt: skip
def test_a_long_text_is_no_single_step(call: str) -> None:
    """Of 1 MiB, as an object may hold one."""
    program = Environment({"x": "string"}).compile(call, (BOOL,))
    with pytest.raises(TurnOver):
        program.holds({"x": "a" * (1 << 20)}, turn=Turn(TURN))


# ------------------------------------------------------------------ configuration files


def test_claims_are_mapped_within_a_turn() -> None:
    tree = {
        "jwt": [
            {
                "issuer": {"url": "https://issuer", "audiences": ["a"]},
                "claimMappings": {"username": {"expression": f"{LONG} ? claims.sub : ''"}},
            }
        ]
    }
    found, errors = validate(json_codec.from_tree(tree, AuthenticationConfiguration).value)
    assert not errors
    with pytest.raises(TurnOver):
        user_of(found.authenticators[0], {"sub": "jane"}, Turn(TURN))
    assert user_of(found.authenticators[0], {"sub": "jane"}).name == "jane"


class NeverAsked:
    """A webhook whose conditions do not hold."""

    async def close(self) -> None:
        """It has no connection."""


@async_test
async def test_conditions_of_an_authorization_webhook() -> None:
    never = Environment({"request": "map(string, dyn)"}).compile(f"!({LONG})", (BOOL,))
    settings = WebhookSettings("w", conditions=(never,) * 3)
    authorizer = WebhookAuthorizer(NeverAsked(), settings, FakeClock())  # type: ignore[arg-type]  # it is not asked
    with monitored():
        verdict = await authorizer.authorize(Attributes(UserInfo("jane"), "get", path="/"))
    assert verdict.decision is Decision.NO_OPINION
