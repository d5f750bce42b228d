"""Attribute-based access control: a policy file with one rule a line.

    PolicyFileError       the file cannot be used; ``str()`` is Kubernetes' sentence

Source: pkg/auth/authorizer/abac, pkg/apis/abac (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from kubevouch.authentication.interface import UserInfo
from kubevouch.authorization.interface import Attributes, Decision, Rule, Rules, Verdict
from kubevouch.machinery.codec import gojson
from kubevouch.machinery.text.gotext import quote
from kubevouch.util.logger import get_logger
from kubevouch.wellknown import AUTHENTICATED_GROUP

GROUP = "abac.authorization.kubernetes.io"
MAX_FILE_BYTES = 16 << 20

log = get_logger("authorization.abac")

_READ_ONLY = ("get", "list", "watch")
_ALL = "*"


class PolicyFileError(ValueError):
    """A line of the policy file is no policy."""


class Policy(msgspec.Struct, frozen=True):
    """One line. An empty field matches nothing but an empty attribute; ``*`` matches everything."""

    user: str = ""
    group: str = ""
    readonly: bool = False
    api_group: str = ""
    resource: str = ""
    namespace: str = ""
    non_resource_path: str = ""

    def is_for(self, user: UserInfo) -> bool:
        """Both user and group have to match where both are given; a policy with neither is for nobody."""
        if not self.user and not self.group:
            return False
        if self.user and self.user != user.name:
            return False
        return not self.group or self.group in user.groups

    def allows(self, attributes: Attributes) -> bool:
        """Subresources are not looked at: a policy for a resource grants them too."""
        if self.readonly and attributes.verb not in _READ_ONLY:
            return False
        if not attributes.is_resource_request:
            return _matches_path(self.non_resource_path, attributes.path)
        return all(
            wanted in (_ALL, got)
            for wanted, got in (
                (self.namespace, attributes.namespace),
                (self.resource, attributes.resource),
                (self.api_group, attributes.group),
            )
        )


def _matches_path(pattern: str, path: str) -> bool:
    return pattern == path or (pattern.endswith("*") and path.startswith(pattern.rstrip("*")))


class ABACAuthorizer:
    """Allows what a policy allows and has no opinion on the rest."""

    def __init__(self, policies: Iterable[Policy]) -> None:
        self._policies = tuple(policies)

    async def authorize(self, attributes: Attributes) -> Verdict:
        if any(policy.is_for(attributes.user) and policy.allows(attributes) for policy in self._policies):
            return Verdict(Decision.ALLOW)
        return Verdict(Decision.NO_OPINION, "No policy matched.")

    async def rules_for(self, user: UserInfo, namespace: str) -> Rules:
        resource_rules: list[Rule] = []
        path_rules: list[Rule] = []
        for policy in self._policies:
            if not policy.is_for(user):
                continue
            verbs = _READ_ONLY if policy.readonly else (_ALL,)
            if policy.namespace in (_ALL, namespace):
                resource_rules.append(Rule(verbs, (policy.api_group,), (policy.resource,)))
            if policy.non_resource_path:
                path_rules.append(Rule(verbs, non_resource_urls=(policy.non_resource_path,)))
        return Rules(tuple(resource_rules + path_rules))


# ------------------------------------------------------------------ the file


def parse_policy_file(path: str, contents: bytes) -> list[Policy]:
    """The policies in a file; blank lines and lines that begin with ``#`` are passed over.

    Args:
        path: for messages.

    Raises:
        PolicyFileError: for the first line that is no policy.
    """
    if len(contents) > MAX_FILE_BYTES:
        raise PolicyFileError(f"error reading policy file {path}: got {len(contents)} bytes, at most {MAX_FILE_BYTES}")
    policies = []
    unversioned = 0
    for number, line in enumerate(contents.split(b"\n"), 1):
        text = line.removesuffix(b"\r")
        if not text.strip() or text.strip().startswith(b"#"):
            continue
        try:
            document = _object(text)
            if document.get("apiVersion") and document.get("kind"):
                policies.append(_versioned(document))
            else:
                unversioned += 1
                policies.append(_unversioned(document))
        except ValueError as err:
            shown = text.decode("utf-8", "replace")
            raise PolicyFileError(f"error reading policy file {path}, line {number}: {shown}: {err}") from err
    if unversioned:
        log.warning("policy file has lines of the old format without a version", path=path, lines=unversioned)
    return policies


def _object(line: bytes) -> dict[str, Any]:
    try:
        tree = gojson.loads(line)
    except gojson.JSONSyntaxError as err:
        raise ValueError(f"couldn't get version/kind; json parse error: {err}") from err
    if not isinstance(tree, dict):
        raise ValueError("couldn't get version/kind; json parse error: got no JSON object")
    return tree


def _versioned(document: dict[str, Any]) -> Policy:
    version, kind = document["apiVersion"], document["kind"]
    if (version, kind) != (f"{GROUP}/v1beta1", "Policy"):
        raise ValueError(f"no kind {quote(str(kind))} is registered for version {quote(str(version))}")
    spec = document.get("spec") or {}
    if not isinstance(spec, dict):
        raise ValueError("got no JSON object for spec")
    policy = Policy(
        user=_text(spec, "user"),
        group=_text(spec, "group"),
        readonly=_flag(spec, "readonly"),
        api_group=_text(spec, "apiGroup"),
        resource=_text(spec, "resource"),
        namespace=_text(spec, "namespace"),
        non_resource_path=_text(spec, "nonResourcePath"),
    )
    return _without_wildcard_subject(policy)


def _unversioned(document: dict[str, Any]) -> Policy:
    """The format before there were versions, in which what is left out matches all."""
    user, group = _text(document, "user"), _text(document, "group")
    namespace, resource = _text(document, "namespace"), _text(document, "resource")
    policy = Policy(
        user=user,
        group=group if user or group else AUTHENTICATED_GROUP,
        readonly=_flag(document, "readonly"),
        api_group=_ALL,
        resource=resource or _ALL,
        namespace=namespace or _ALL,
        non_resource_path="" if namespace or resource else _ALL,
    )
    return _without_wildcard_subject(policy)


def _without_wildcard_subject(policy: Policy) -> Policy:
    """Everybody means everybody who has authenticated, so that ``*`` does not let the anonymous user in."""
    if _ALL not in (policy.user, policy.group):
        return policy
    return Policy(
        group=AUTHENTICATED_GROUP,
        readonly=policy.readonly,
        api_group=policy.api_group,
        resource=policy.resource,
        namespace=policy.namespace,
        non_resource_path=policy.non_resource_path,
    )


def _text(document: dict[str, Any], key: str) -> str:
    value = document.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError(f"got {type(value).__name__} for {key}, expected a string")
    return value


def _flag(document: dict[str, Any], key: str) -> bool:
    value = document.get(key)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise ValueError(f"got {type(value).__name__} for {key}, expected true or false")
    return value
