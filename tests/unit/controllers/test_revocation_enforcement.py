"""Rounds of questions to a server that is not ours, which denies by the rules of the deny webhook."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any, cast

import msgspec

from aio import run
from kubevouch.api.admissionregistration_v1.policies import ValidatingAdmissionPolicy
from kubevouch.api.authorization_v1 import SubjectAccessReview, SubjectAccessReviewStatus
from kubevouch.api.kubevouch_v1alpha1.catalog import CERTIFICATE_REVOCATIONS
from kubevouch.api.kubevouch_v1alpha1.certificate_revocations import RevocationTargets
from kubevouch.api.kubevouch_v1alpha1.revoked_writes import REVOCATION_POLICY
from kubevouch.api.meta_v1 import Condition
from kubevouch.client.interface import Client, RawResponse, TransportError
from kubevouch.controllers.revocation_enforcement import (
    LOOK_SECONDS,
    MOST_ASKED,
    SOON_SECONDS,
    ObservedEnforcement,
    OwnServerEnforcement,
    look,
)
from kubevouch.machinery.errors import not_found
from kubevouch.machinery.meta import Object
from kubevouch.machinery.scheme import Resource
from kubevouch.revocation import deny
from kubevouch.revocation.enforcement import Reach
from kubevouch.revocation.revocations import Revocations
from kubevouch.testing.clock import FakeClock

OTHERS, OURS = "v1.36.0", "v1.36.0+kubevouch-1"


class Server:
    """What a kube-apiserver answers whose authorizer chain begins with the deny webhook."""

    def __init__(self) -> None:
        self.version = OTHERS
        self.revocations = Revocations.none()
        self.is_asked = True
        self.fails_closed = False
        self.is_away = False
        self.questions = 0
        self.policy: Sequence[tuple[Resource[Any], Object]] = ()

    async def raw(self, method: str, path: str) -> RawResponse:
        if self.is_away:
            raise TransportError("no answer")
        assert (method, path) == ("GET", "/version")
        return RawResponse(200, body=msgspec.json.encode({"gitVersion": self.version}))

    async def get(self, resource: Resource[Any], name: str, _namespace: str = "") -> Any:
        if self.is_away:
            raise TransportError("no answer")
        found = next((obj for of, obj in self.policy if of is resource and obj.metadata.name == name), None)
        if found is None:
            raise not_found(resource.group_resource, name)
        return found

    async def create(self, _resource: object, review: SubjectAccessReview) -> SubjectAccessReview:
        self.questions += 1
        why = deny.why(review.spec, self.revocations, lambda _: None) if self.is_asked else ""
        denied = bool(why) or (self.fails_closed and bool(review.spec.extra))
        return SubjectAccessReview(
            spec=review.spec, status=SubjectAccessReviewStatus(allowed=not denied, denied=denied, reason=why)
        )


class World:
    def __init__(self) -> None:
        self.server, self.clock = Server(), FakeClock(dt.datetime(2026, 11, 22, tzinfo=dt.UTC))
        self.changed: list[str] = []
        self.wanted = 0
        self.observed = self.lead()

    def lead(self) -> ObservedEnforcement:
        def soon() -> None:
            self.wanted += 1

        return ObservedEnforcement(cast("Client", self.server), self.clock, self.changed.append, soon)

    def revoke(self, *names: str) -> None:
        """In force in the webhook, and known to the controller."""
        for name in names:
            tree = {"metadata": {"name": name}, "spec": {"reason": "keyCompromise", "revoked": {"nodes": [name]}}}
            self.server.revocations.changed(name, CERTIFICATE_REVOCATIONS.codec.from_tree(tree).value)
        self.say(*names)

    def say(self, *names: str, former: Condition | None = None) -> list[str]:
        found = [self.observed.condition(reach(name), former) for name in names]
        return [f"{each.status} {each.reason}" for each in found]

    def look(self) -> float:
        self.changed.clear()
        return run(self.observed.look())


def reach(name: str) -> Reach:
    return Reach(name, RevocationTargets(nodes=[name]), 1)


def test_it_is_said_what_each_round_has_seen() -> None:
    it = World()
    it.revoke("a")
    assert it.wanted == 1 and it.say("a") == ["Unknown NotAsked"]
    assert it.look() == LOOK_SECONDS and it.changed == ["a"] and it.say("a") == ["True Refused"]
    assert it.look() == LOOK_SECONDS and it.changed == []
    it.server.is_asked = False
    it.look()
    assert it.changed == ["a"] and it.say("a") == ["False NothingEnforces"]
    it.server.fails_closed = True
    it.look()
    assert it.changed == ["a"] and it.say("a") == ["Unknown RefusesEverybody"]
    it.server.is_asked, it.server.fails_closed = True, False
    it.look()
    assert it.changed == ["a"] and it.say("a") == ["True Refused"]


def test_the_admission_policy_refuses_writes_alone_and_counts_as_it_is_shipped() -> None:
    it = World()
    it.revoke("a")
    it.server.is_asked = False
    it.look()
    assert it.say("a") == ["False NothingEnforces"]
    it.server.policy = REVOCATION_POLICY
    it.look()
    assert it.changed == ["a"] and it.say("a") == ["False WritesOnly"]
    (resource, policy), binding = REVOCATION_POLICY
    spec = cast("ValidatingAdmissionPolicy", policy).spec
    weaker = msgspec.structs.replace(spec.validations[0], expression="true")
    changed = msgspec.structs.replace(spec, validations=[weaker])
    it.server.policy = ((resource, msgspec.structs.replace(policy, spec=changed)), binding)
    it.look()
    assert it.changed == ["a"] and it.say("a") == ["False NothingEnforces"]
    it.server.policy, it.server.is_asked = REVOCATION_POLICY, True
    it.look()
    assert it.say("a") == ["True Refused"]


def test_a_new_one_is_asked_about_again_soon() -> None:
    it = World()
    it.say("a")
    assert it.look() == SOON_SECONDS and it.say("a") == ["False NothingEnforces"]
    it.revoke("a")
    assert it.look() == LOOK_SECONDS and it.say("a") == ["True Refused"]
    it.server.is_asked = False
    it.clock.advance(60)
    assert it.look() == LOOK_SECONDS


def test_a_server_of_ours_refuses_by_itself() -> None:
    it = World()
    it.server.version = OURS
    it.look()
    assert it.say("a") == ["True Refused"] and it.server.questions == 0
    assert OwnServerEnforcement().condition(reach("a"), None).status == "True"
    assert run(look(cast("Client", it.server), reach("a"), it.clock)).status == "True"


def test_one_server_that_cannot_be_asked_is_said_within_a_minute() -> None:
    it = World()
    it.revoke("a")
    it.look()
    it.say("a")
    it.server.is_away = True
    it.clock.advance(LOOK_SECONDS)
    assert it.look() == SOON_SECONDS and it.say("a") == ["True Refused"]
    it.clock.advance(LOOK_SECONDS)
    it.look()
    assert it.changed == ["a"] and it.say("a") == ["Unknown NotAsked"]


def test_who_begins_to_lead_takes_nothing_back_before_it_could_ask() -> None:
    it = World()
    it.revoke("a")
    it.look()
    former = it.observed.condition(reach("a"), None)
    it.observed = it.lead()
    assert it.say("a", former=former) == ["True Refused"]
    it.server.is_away = True
    it.look()
    assert it.say("a", former=former) == ["Unknown NotAsked"]


def test_many_have_their_turn_and_a_round_is_bounded() -> None:
    it = World()
    names = [f"node-{number}" for number in range(3 * MOST_ASKED)]
    it.revoke(*names)
    for _ in range(3):
        it.clock.advance(1)
        before = it.server.questions
        it.look()
        assert it.server.questions - before <= 2 * MOST_ASKED + 1
        it.say(*it.changed)
    assert set(it.say(*names)) == {"True Refused"}
    # What is seen of some ends what was seen of the others.
    it.clock.advance(1)
    it.server.is_asked = False
    it.look()
    said = it.say(*names)
    assert said.count("False NothingEnforces") == MOST_ASKED and said.count("Unknown NotAsked") == 2 * MOST_ASKED
    it.observed.forget(names[0])
    assert it.say(names[0]) == ["Unknown NotAsked"]


def test_a_person_asks_the_same() -> None:
    it = World()
    it.revoke("a")

    def asked(name: str) -> str:
        found = run(look(cast("Client", it.server), reach(name), it.clock))
        return f"{found.status} {found.reason}"

    assert (asked("a"), asked("b")) == ("True Refused", "False NothingEnforces")
    it.server.fails_closed = True
    assert asked("a") == "Unknown RefusesEverybody"
