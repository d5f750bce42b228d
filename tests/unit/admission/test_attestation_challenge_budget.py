"""admission/attestation_challenge_budget.py: which challenges are too many, and from where they are said to come."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from decisions import admission_request
from kubevouch.admission.attestation_challenge_budget import (
    BYTES_BUDGET,
    SOURCE_BYTES_BUDGET,
    AttestationChallengeBudget,
    OpenChallenges,
)
from kubevouch.admission.interface import Operation
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS
from kubevouch.api.kubevouch_v1alpha1.attestation_challenges import (
    MAX_OPENING,
    AttestationChallenge,
    AttestationChallengeSpec,
    AttestationChallengeStatus,
)
from kubevouch.api.kubevouch_v1alpha1.catalog import ATTESTATION_CHALLENGES
from kubevouch.authentication.interface import UserInfo
from kubevouch.machinery.custom_object import CustomObject
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.machinery.text.times import Time
from kubevouch.records.token_bounds import SOURCE_ADDRESS_ANNOTATION

A, B, C = "198.51.100.7", "203.0.113.1", "192.0.2.9"
TOKEN = UserInfo("system:bootstrap:abcdef", groups=("system:bootstrappers",))
NODE = UserInfo("system:node:worker-1", groups=("system:nodes",))
CHALLENGES = ATTESTATION_CHALLENGES.group_resource


def challenge(source: str = "", key: str = "0" * 64, user: UserInfo = TOKEN, **more: Any) -> AttestationChallenge:
    annotations = {SOURCE_ADDRESS_ANNOTATION: source} if source else {}
    status = AttestationChallengeStatus(used_by=more.pop("used_by", ""))
    meta = ObjectMeta(annotations=annotations, creation_timestamp=Time(more.pop("created", 0)))
    spec = AttestationChallengeSpec(provider="tpm", version="v1", key_fingerprint=key, requester=user.name, **more)
    return AttestationChallenge(metadata=meta, spec=spec, status=status)


class Asked:
    """Challenges as they come: refused, or stored and counted."""

    def __init__(self, **budgets: int) -> None:
        self.open = OpenChallenges()
        self.plugin = AttestationChallengeBudget(self.open, **budgets)
        self._number = 0

    def admit(self, user: UserInfo, source: str, key: str = "", old: Any = None, **metadata: Any) -> Any:
        tree = {"spec": {"keyFingerprint": key or f"{self._number:064x}"}}
        obj = CustomObject(metadata=ObjectMeta(**metadata), content=tree)
        operation = Operation.CREATE if old is None else Operation.UPDATE
        request = admission_request(operation, ATTESTATION_CHALLENGES, obj, old, user=user)
        return asyncio.run(self.plugin.admit(msgspec.structs.replace(request, source=source)))

    def ask(self, source: str, key: str = "", user: UserInfo = TOKEN, **spec: Any) -> int:
        """200, or the code of the refusal."""
        self._number += 1
        key = key or f"{self._number:064x}"
        try:
            self.admit(user, source, key)
        except APIStatusError as err:
            return err.code
        self.open.changed(f"c{self._number}", challenge(source, key, user, created=self._number, **spec))
        return 200


def test_only_what_writes_challenges_is_looked_at() -> None:
    plugin = Asked().plugin
    assert plugin.handles(Operation.CREATE, CHALLENGES, "") and plugin.handles(Operation.UPDATE, CHALLENGES, "")
    assert not plugin.handles(Operation.UPDATE, CHALLENGES, "status")
    assert not plugin.handles(Operation.DELETE, CHALLENGES, "")
    assert not plugin.handles(Operation.CREATE, CERTIFICATE_SIGNING_REQUESTS.group_resource, "")


def test_from_where_it_came_is_what_the_server_says() -> None:
    asked, forged = Asked(), {SOURCE_ADDRESS_ANNOTATION: B, "a": "b"}
    for user in (TOKEN, NODE):
        assert asked.admit(user, A, annotations=forged).metadata.annotations == forged | {SOURCE_ADDRESS_ANNOTATION: A}
    assert asked.admit(UserInfo("jane"), A, annotations=forged).metadata.annotations == {"a": "b"}
    stored = CustomObject(metadata=ObjectMeta(annotations={SOURCE_ADDRESS_ANNOTATION: A}))
    changed = asked.admit(UserInfo("jane"), C, old=stored, annotations=forged)
    assert changed.metadata.annotations == forged | {SOURCE_ADDRESS_ANNOTATION: A}


def test_so_many_of_an_address_and_so_many_for_a_key() -> None:
    asked = Asked(source=3, key=2)
    assert [asked.ask(A, "a" * 64), asked.ask(A, "a" * 64), asked.ask(A, "a" * 64)] == [200, 200, 429]
    assert [asked.ask(A), asked.ask(A)] == [200, 429]
    # Another token does not help; another address does, and a network of addresses is one.
    assert asked.ask(A, user=UserInfo("system:bootstrap:bbbbbb")) == 429
    assert [asked.ask(f"2001:db8::{each}") for each in range(4)] == [200, 200, 200, 429]
    asked.open.changed("c1", None)
    assert asked.ask(A) == 200


def test_so_many_bytes_of_an_address() -> None:
    asked, large = Asked(), b"x" * MAX_OPENING
    most = SOURCE_BYTES_BUDGET // ((MAX_OPENING + 2) // 3 * 4) + 1
    assert [asked.ask(A, opening=large) for _ in range(most + 1)] == [200] * most + [429]
    assert asked.ask(B, opening=large) == 200


def test_what_was_answered_counts_no_more() -> None:
    asked = Asked(source=1)
    assert asked.ask(A) == 200
    asked.open.changed("c1", challenge(A, used_by="uid"))
    assert asked.ask(A) == 200


@pytest.mark.parametrize(("user", "budget"), [(NODE, 2), (UserInfo("jane"), 3)])
def test_so_many_of_whoever_is_alone(user: UserInfo, budget: int) -> None:
    asked = Asked(node=2, default=3, source=1, key=1)
    assert [asked.ask(A, "a" * 64, user) for _ in range(budget + 1)] == [200] * budget + [429]


def test_administrators_have_no_budget() -> None:
    asked = Asked(default=0)
    assert asked.ask(A, user=UserInfo("root", groups=("system:masters",))) == 200


def test_of_a_full_token_the_largest_source_is_refused_and_a_smaller_one_is_let_in() -> None:
    asked = Asked(default=4)
    assert [asked.ask(A) for _ in range(3)] + [asked.ask(B)] == [200] * 4
    assert (asked.ask(A), asked.ask(B), asked.ask(C)) == (429, 200, 200)
    assert asked.open.are_too_many(TOKEN.name, 4)
    # Whoever has as many as the largest displaces nobody.
    assert asked.ask(B) == 200
    assert asked.ask(B) == 429


def test_bytes_of_a_token() -> None:
    asked = Asked()
    for number in range(BYTES_BUDGET // MAX_OPENING):
        asked.open.changed(f"x{number}", challenge(A, opening=b"x" * MAX_OPENING))
    assert asked.open.are_too_many(TOKEN.name) and asked.ask(A) == 429
    assert asked.ask(B) == 200


def test_another_server_says_nothing_of_addresses() -> None:
    open_ = OpenChallenges(trusts_annotations=False)
    open_.load([challenge(A), challenge(B)])
    assert open_.objects.count_from(A, b"") == (0, 0)
