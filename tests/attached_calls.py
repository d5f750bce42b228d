"""What attached controllers ask of a server, by whom they act as, to hold it against what they are allowed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from kubevouch.api.rbac_v1 import PolicyRule
from kubevouch.authorization.policy import Policy
from kubevouch.client.rest_config import RESTConfig
from kubevouch.machinery.scheme import Resource

_COPY = frozenset(("get", "list", "watch"))
_VERBS = {"delete_collection": "deletecollection"}
_RECORDED = frozenset(("get", "list", "watch", "create", "update", "patch", "delete", "delete_collection"))


class Call(NamedTuple):
    """One request; ``resource`` has the subresource, and ``name`` is empty where the request names none."""

    identity: str
    verb: str
    group: str
    resource: str
    namespace: str
    name: str


class Recorder:
    """A client that writes down what is asked of it."""

    def __init__(self, client: Any, identity: str, calls: set[Call]) -> None:
        self._client = client
        self._identity = identity
        self._calls = calls

    async def __aenter__(self) -> Recorder:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.close()

    def __getattr__(self, verb: str) -> Any:
        method = getattr(self._client, verb)
        if verb not in _RECORDED:
            return method

        def call(resource: Resource[Any], *arguments: Any, **more: Any) -> Any:
            self._note(verb, resource, arguments, more)
            return method(resource, *arguments, **more)

        return call

    def _note(self, verb: str, resource: Resource[Any], arguments: tuple[Any, ...], more: dict[str, Any]) -> None:
        subresource = more.get("subresource", "")
        namespace, name = more.get("namespace", ""), ""
        first: Any = arguments[0] if arguments else ""
        if verb in ("create", "update"):
            namespace, name = first.metadata.namespace, first.metadata.name if verb == "update" else ""
        elif verb in ("list", "watch", "delete_collection"):
            namespace = first or namespace
            # Servers take the selector of a name for the name, when they ask who may.
            selectors = (getattr(each, "field_selector", "") for each in (*arguments, *more.values()))
            chosen = next(filter(None, selectors), "")
            name = chosen.removeprefix("metadata.name=") if chosen.startswith("metadata.name=") else ""
        else:
            name = first
            after = arguments[3:4] if verb == "patch" else arguments[1:2]
            namespace = after[0] if after else namespace
        plural = f"{resource.plural}/{subresource}" if subresource else resource.plural
        where = namespace if resource.namespaced else ""
        self._calls.add(Call(self._identity, _VERBS.get(verb, verb), resource.group, plural, where, name))


class RecordingConfig(RESTConfig, frozen=True):
    """Makes clients that write down what is asked of them."""

    calls: set[Call] = msgspec.field(default_factory=set)

    def client(self, *, component: str, **more: Any) -> Any:
        return Recorder(RESTConfig.client(self, component=component, **more), component, self.calls)

    @classmethod
    def of(cls, config: RESTConfig, calls: set[Call]) -> RecordingConfig:
        return cls(config.options, config.tls, config.credentials, calls=calls)


def grants(policy: Policy) -> Iterator[tuple[str, PolicyRule]]:
    """The rules of a policy, each with the namespace it is for; an empty one is all."""
    yield from (("", rule) for role in policy.cluster_roles for rule in role.rules or ())
    yield from ((role.metadata.namespace, rule) for role in policy.roles for rule in role.rules or ())


def covers(where: str, rule: PolicyRule, call: Call) -> bool:
    names = rule.resource_names
    return (
        where in ("", call.namespace)
        and call.verb in (rule.verbs or ())
        and call.group in rule.api_groups
        and call.resource in rule.resources
        and (not names or call.name in names)
    )


def unused(policy: Policy, calls: Iterable[Call]) -> Iterator[str]:
    """What is allowed and was asked by nobody: ``verb resource.group``, with the namespace of a role.

    Who keeps a copy of a collection needs all three verbs for that, and of those who share one the first one reads it.
    """
    calls = tuple(calls)
    for where, rule in grants(policy):
        for group in rule.api_groups:
            for resource in rule.resources:
                asked = {
                    each.verb for each in calls
                    if covers(where, rule, each) and (each.group, each.resource) == (group, resource)
                }  # fmt: skip
                if asked & _COPY:
                    asked |= _COPY
                for verb in set(rule.verbs or ()) - asked:
                    yield f"{verb} {resource}.{group}".rstrip(".") + (f" in {where}" if where else "")
