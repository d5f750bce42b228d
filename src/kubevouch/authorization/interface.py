"""The contract of authorizers (k8s.io/apiserver/pkg/authorization/authorizer, Kubernetes 1.36)."""

from __future__ import annotations

from enum import Enum
from typing import Protocol

import msgspec
from msgspec import Struct

from kubevouch.authentication.interface import UserInfo


class Attributes(Struct, frozen=True):
    """What is asked. For a request about a resource ``path`` is empty; otherwise only ``verb`` and ``path`` count.

    ``api_version`` may be ``*``; ``name`` is empty where the request names no object.
    """

    user: UserInfo
    verb: str
    group: str = ""
    api_version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""
    field_selector: str = ""
    label_selector: str = ""

    @property
    def is_resource_request(self) -> bool:
        return not self.path


class Decision(Enum):
    """The three answers. Only ALLOW allows."""

    ALLOW = "allow"
    DENY = "deny"
    NO_OPINION = "no opinion"


class Verdict(msgspec.Struct, frozen=True):
    """A decision and why; ``error`` is what kept the authorizer from a better answer."""

    decision: Decision
    reason: str = ""
    error: str = ""


class Rule(msgspec.Struct, frozen=True):
    """One thing a user may do, as SelfSubjectRulesReview lists it. Resource and non-resource rules do not mix."""

    verbs: tuple[str, ...]
    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()
    non_resource_urls: tuple[str, ...] = ()


class Rules(msgspec.Struct, frozen=True):
    """All that a user may do in a namespace, as far as an authorizer can list it."""

    rules: tuple[Rule, ...]
    incomplete: bool = False
    error: str = ""


class Authorizer(Protocol):
    """Decides from attributes alone."""

    async def authorize(self, attributes: Attributes) -> Verdict:
        """Never raises for a denial; an internal failure goes into ``Verdict.error``."""
        ...


class RuleResolver(Protocol):
    """An authorizer that can list what it allows."""

    async def rules_for(self, user: UserInfo, namespace: str) -> Rules: ...


class ResolvingAuthorizer(Authorizer, RuleResolver, Protocol):
    """An authorizer that can also list what it allows."""
