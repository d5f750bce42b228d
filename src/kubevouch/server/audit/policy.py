"""Which requests are recorded, and how much of them: the ``audit.k8s.io/v1`` Policy file.

    AuditPolicyError      the text is no policy; ``str()`` is Kubernetes' sentence

Source: k8s.io/apiserver/pkg/audit/policy, pkg/apis/audit/validation (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from kubevouch.authorization.interface import Attributes
from kubevouch.machinery import field
from kubevouch.machinery.codec import yamltext
from kubevouch.machinery.field import FieldError
from kubevouch.machinery.text.names import subdomain_name
from kubevouch.server.audit.options import API_VERSION
from kubevouch.server.secrecy import SECRET_BODIES
from kubevouch.util.logger import get_logger

MAX_FILE_BYTES = 4 << 20

log = get_logger("audit")


class Level(StrEnum):
    """How much of a request is recorded."""

    NONE = "None"
    METADATA = "Metadata"
    REQUEST = "Request"
    REQUEST_RESPONSE = "RequestResponse"

    @property
    def rank(self) -> int:
        return _LEVELS.index(self)


class Stage(StrEnum):
    """When an event is recorded; RESPONSE_STARTED is for long-running requests only."""

    REQUEST_RECEIVED = "RequestReceived"
    RESPONSE_STARTED = "ResponseStarted"
    RESPONSE_COMPLETE = "ResponseComplete"
    PANIC = "Panic"


_LEVELS = list(Level)


class GroupResources(msgspec.Struct, frozen=True, rename="camel"):
    """Resources of one group: ``pods``, ``pods/log``, ``*``, ``pods/*``, ``*/status``; none listed means all."""

    group: str = ""
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()


class PolicyRule(msgspec.Struct, frozen=True, rename="camel"):
    """One rule. A filter that is empty lets everything pass."""

    level: str = ""
    users: tuple[str, ...] = ()
    user_groups: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()
    resources: tuple[GroupResources, ...] = ()
    namespaces: tuple[str, ...] = ()
    non_resource_urls: tuple[str, ...] = msgspec.field(default=(), name="nonResourceURLs")
    omit_stages: tuple[str, ...] = ()
    omit_managed_fields: bool | None = None


class Policy(msgspec.Struct, frozen=True, rename="camel"):
    """A policy file. The first rule that matches counts; without one nothing is recorded."""

    api_version: str = ""
    kind: str = ""
    metadata: dict[str, Any] = {}
    rules: tuple[PolicyRule, ...] = ()
    omit_stages: tuple[str, ...] = ()
    omit_managed_fields: bool = False


class AuditPolicyError(ValueError):
    """The text is no policy that can be used."""


class AuditDecision(msgspec.Struct, frozen=True):
    """What is recorded of one request."""

    level: Level
    omit_stages: frozenset[str] = frozenset()
    omit_managed_fields: bool = False


NOTHING = AuditDecision(Level.NONE)


def decide(policy: Policy, attributes: Attributes) -> AuditDecision:
    """The decision of the first rule that matches a request."""
    for rule in policy.rules:
        if _matches(rule, attributes):
            level = Level(rule.level)
            if (attributes.group, attributes.resource, attributes.subresource) in SECRET_BODIES:
                level = min(level, Level.METADATA, key=lambda each: each.rank)
            omit = rule.omit_managed_fields
            return AuditDecision(
                level,
                frozenset((*policy.omit_stages, *rule.omit_stages)),
                policy.omit_managed_fields if omit is None else omit,
            )
    return NOTHING


def _matches(rule: PolicyRule, attributes: Attributes) -> bool:
    user = attributes.user
    if rule.users and user.name not in rule.users:
        return False
    if rule.user_groups and not any(group in rule.user_groups for group in user.groups):
        return False
    if rule.verbs and attributes.verb not in rule.verbs:
        return False
    if rule.namespaces or rule.resources:
        return attributes.is_resource_request and _matches_resource(rule, attributes)
    if rule.non_resource_urls:
        return not attributes.is_resource_request and any(
            _matches_path(attributes.path, spec) for spec in rule.non_resource_urls
        )
    return True


def _matches_resource(rule: PolicyRule, attributes: Attributes) -> bool:
    if rule.namespaces and attributes.namespace not in rule.namespaces:
        return False
    return not rule.resources or any(_covers(each, attributes) for each in rule.resources)


def _covers(listed: GroupResources, attributes: Attributes) -> bool:
    if listed.group != attributes.group:
        return False
    if not listed.resources:
        return True
    if listed.resource_names and attributes.name not in listed.resource_names:
        return False
    resource, subresource = attributes.resource, attributes.subresource
    wanted = {f"{resource}/{subresource}" if subresource else resource, "*", f"{resource}/*"}
    if subresource:
        wanted.add(f"*/{subresource}")
    return any(name in wanted for name in listed.resources)


def _matches_path(path: str, spec: str) -> bool:
    return spec in ("*", path) or (spec.endswith("*") and path.startswith(spec.rstrip("*")))


# ------------------------------------------------------------------ reading


def parse_policy(text: bytes) -> Policy:
    """The policy in a YAML or JSON text. Unknown and repeated fields are passed over with a warning.

    Raises:
        AuditPolicyError: it cannot be read, is of another kind, has no rules, or a rule is invalid.
    """
    if len(text) > MAX_FILE_BYTES:
        raise AuditPolicyError(f"failed decoding: the file is larger than {MAX_FILE_BYTES} bytes")
    try:
        tree, repeated = yamltext.loads(text)
        policy = msgspec.convert(tree, Policy)
    except (yamltext.YAMLError, msgspec.ValidationError) as err:
        raise AuditPolicyError(f"failed decoding: {err}") from err
    if policy.api_version != API_VERSION or policy.kind != "Policy":
        raise AuditPolicyError(
            f'failed decoding: no kind "{policy.kind}" is registered for version "{policy.api_version}"'
        )
    faults = [*repeated, *_unknown_fields(tree, Policy, "")]
    if faults:
        log.warning("Audit policy contains errors, falling back to lenient decoding", err="; ".join(faults))
    problems = validate_policy(policy)
    if problems:
        raise AuditPolicyError(field.aggregate(problems))
    if not policy.rules:
        raise AuditPolicyError("loaded illegal policy with 0 rules")
    return policy


def _unknown_fields(tree: Any, struct: type[msgspec.Struct], path: str) -> Iterator[str]:
    known = dict(zip(struct.__struct_encode_fields__, struct.__struct_fields__, strict=True))
    for key, value in tree.items():
        if key not in known:
            yield f'unknown field "{path}{key}"'
        elif (nested := _NESTED.get((struct, key))) is not None:
            for index, item in enumerate(value or ()):
                yield from _unknown_fields(item, nested, f"{path}{key}[{index}].")


_NESTED: dict[tuple[type, str], type[msgspec.Struct]] = {
    (Policy, "rules"): PolicyRule,
    (PolicyRule, "resources"): GroupResources,
}


def validate_policy(policy: Policy) -> list[FieldError]:
    """What is wrong with a policy, in Kubernetes' words."""
    problems = _validate_stages(policy.omit_stages, "omitStages")
    for index, rule in enumerate(policy.rules):
        problems += _validate_rule(rule, f"rules[{index}]")
    return problems


def _validate_rule(rule: PolicyRule, path: str) -> list[FieldError]:
    problems: list[FieldError] = []
    if not rule.level:
        problems.append(field.required(f"{path}.level"))
    elif rule.level not in _LEVELS:
        problems.append(field.not_supported(f"{path}.level", rule.level, [str(level) for level in Level]))
    for url in rule.non_resource_urls:
        problems += _validate_url(url, f"{path}.nonResourceURLs")
    for index, listed in enumerate(rule.resources):
        problems += _validate_resources(listed, f"{path}.resources[{index}]")
    problems += _validate_stages(rule.omit_stages, f"{path}.omitStages")
    if rule.non_resource_urls and (rule.resources or rule.namespaces):
        problems.append(
            field.invalid(
                f"{path}.nonResourceURLs",
                list(rule.non_resource_urls),
                "rules cannot apply to both regular resources and non-resource URLs",
            )
        )
    return problems


def _validate_url(url: str, path: str) -> list[FieldError]:
    if url == "*":
        return []
    problems = []
    if not url.startswith("/"):
        problems.append(field.invalid(path, url, "non-resource URL rules must begin with a '/' character"))
    if "*" in url[:-1]:
        problems.append(
            field.invalid(path, url, "non-resource URL wildcards '*' must be the final character of the rule")
        )
    return problems


def _validate_resources(listed: GroupResources, path: str) -> list[FieldError]:
    problems = []
    faults = subdomain_name(listed.group, False) if listed.group else []
    if faults:
        problems.append(field.invalid(f"{path}.group", listed.group, ",".join(faults)))
    if listed.resource_names and not listed.resources:
        problems.append(
            field.invalid(
                f"{path}.resourceNames",
                list(listed.resource_names),
                "using resourceNames requires at least one resource",
            )
        )
    return problems


def _validate_stages(stages: Sequence[str], path: str) -> list[FieldError]:
    known = [str(stage) for stage in Stage]
    return [
        field.not_supported(f"{path}[{index}]", stage, known)
        for index, stage in enumerate(stages)
        if stage not in known
    ]
