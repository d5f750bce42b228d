"""The ``authorizer``: questions that an expression puts to the cluster's authorizer.

An evaluation does not wait. It raises :class:`Unanswered` with the question; whoever evaluates gets the answer and
evaluates again. A check costs so much that an evaluation within its budget asks at most twice.

Source: k8s.io/apiserver/pkg/cel/library/authz.go (Kubernetes 1.36).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec.structs import replace

from kubevouch.cel.functions import method, opaque
from kubevouch.cel.values import EvaluationError, Opaque, Run
from kubevouch.machinery.text import names

AUTHORIZER = "kubernetes.authorization.Authorizer"
RESOURCE_CHECK = "kubernetes.authorization.ResourceCheck"
_GROUP_CHECK = "kubernetes.authorization.GroupCheck"
_PATH_CHECK = "kubernetes.authorization.PathCheck"
_DECISION = "kubernetes.authorization.Decision"
_CHECK_COST = 350_000


class Question(msgspec.Struct, frozen=True):
    """What is asked of the authorizer. ``service_account`` is a namespace and a name; None asks for the requester."""

    verb: str
    service_account: tuple[str, str] | None = None
    path: str = ""
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    field_selector: str = ""
    label_selector: str = ""


class Answer(msgspec.Struct, frozen=True):
    """The authorizer's."""

    allowed: bool
    reason: str = ""
    error: str = ""


class Unanswered(Exception):
    """The evaluation cannot go on without an answer."""

    def __init__(self, question: Question) -> None:
        super().__init__("unanswered")
        self.question = question


@opaque(AUTHORIZER)
@dataclass(frozen=True)
class Authorizer(Opaque):
    """Where questions start."""

    service_account: tuple[str, str] | None = None


@opaque(_GROUP_CHECK)
@dataclass(frozen=True)
class GroupCheck(Opaque):
    """A question that lacks its resource."""

    question: Question


@opaque(RESOURCE_CHECK)
@dataclass(frozen=True)
class ResourceCheck(Opaque):
    """A question that lacks its verb."""

    question: Question


@opaque(_PATH_CHECK)
@dataclass(frozen=True)
class PathCheck(Opaque):
    """A question about a path that lacks its verb."""

    question: Question


@opaque(_DECISION)
@dataclass(frozen=True)
class Decision(Opaque):
    """An answer."""

    answer: Answer


@method("path", f"{AUTHORIZER} string")
def _path(authorizer: Authorizer, path: str) -> PathCheck:
    if not path.strip():
        raise EvaluationError("path must not be empty")
    return PathCheck(Question("", authorizer.service_account, path=path))


@method("group", f"{AUTHORIZER} string")
def _group(authorizer: Authorizer, group: str) -> GroupCheck:
    return GroupCheck(Question("", authorizer.service_account, group=group))


@method("serviceAccount", f"{AUTHORIZER} string string")
def _service_account(_: Authorizer, namespace: str, name: str) -> Authorizer:
    if names.subdomain_name(name, False):
        raise EvaluationError("Invalid service account name")
    if names.dns_label_name(namespace, False):
        raise EvaluationError("Invalid service account namespace")
    return Authorizer((namespace, name))


@method("resource", f"{_GROUP_CHECK} string")
def _resource(check: GroupCheck, resource: str) -> ResourceCheck:
    if not resource.strip():
        raise EvaluationError("resource must not be empty")
    return ResourceCheck(replace(check.question, resource=resource))


def _part(name: str, attribute: str) -> None:
    def narrowed(check: ResourceCheck, value: str) -> ResourceCheck:
        part: dict[str, Any] = {attribute: value}
        return ResourceCheck(replace(check.question, **part))

    method(name, f"{RESOURCE_CHECK} string")(narrowed)


for _name, _attribute in (
    ("subresource", "subresource"),
    ("namespace", "namespace"),
    ("name", "name"),
    ("fieldSelector", "field_selector"),
    ("labelSelector", "label_selector"),
):
    _part(_name, _attribute)


@method("check", f"{_PATH_CHECK} string")
@method("check", f"{RESOURCE_CHECK} string")
def _check(check: PathCheck | ResourceCheck, verb: str, *, run: Run) -> Decision:
    run.spend(_CHECK_COST)
    question = replace(check.question, verb=verb)
    answer = run.answers.get(question)
    if answer is None:
        raise Unanswered(question)
    return Decision(answer)


method("allowed", _DECISION)(lambda decision: decision.answer.allowed)
method("reason", _DECISION)(lambda decision: decision.answer.reason)
method("errored", _DECISION)(lambda decision: bool(decision.answer.error))
method("error", _DECISION)(lambda decision: decision.answer.error)
