"""Which requests a webhook or a policy is about, by rules and selectors; no I/O.

Source: k8s.io/apiserver/pkg/admission/plugin/webhook/predicates, plugin/policy/matching (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

from kubevouch.admission.interface import Request, Version
from kubevouch.api.admissionregistration_v1.matching import (
    ANY,
    CLUSTER,
    EQUIVALENT,
    NAMESPACED,
    MatchResources,
    NamedRuleWithOperations,
    Rule,
)
from kubevouch.api.catalog import NAMESPACES
from kubevouch.api.core_v1.namespaces import Namespace
from kubevouch.machinery import errors
from kubevouch.machinery.meta import LabelSelector as LabelSelectorStruct
from kubevouch.machinery.text.selectors import EVERYTHING, LabelSelector, SelectorError, label_selector_of

NamespaceGetter = Callable[[str], Namespace | None]


def namespace_of(request: Request) -> str:
    """The namespace as webhooks and policies see it: that of a Namespace is itself."""
    return request.name if request.resource == NAMESPACES.group_resource else request.namespace


class Matcher:
    """Rules and selectors.

    Args:
        rules: one must match; None matches all, as a binding does that has none.
        excluded: none may match.
        equivalent: a rule for another version of the same objects matches too.
    """

    def __init__(
        self,
        rules: Sequence[Rule] | None,
        excluded: Sequence[Rule],
        equivalent: bool,
        namespace_selector: LabelSelectorStruct | None,
        object_selector: LabelSelectorStruct | None,
    ) -> None:
        self._rules = rules
        self._excluded = excluded
        self._equivalent = equivalent
        self._namespace_struct = namespace_selector
        self._object_struct = object_selector

    @classmethod
    def of(cls, match: MatchResources) -> Matcher:
        """The matcher of a policy or a binding."""
        return cls(
            match.resource_rules or None,
            match.exclude_resource_rules,
            match.match_policy == EQUIVALENT,
            match.namespace_selector,
            match.object_selector,
        )

    @property
    def plurals(self) -> frozenset[str]:
        """Requests for other resources than these never match, unless ``*`` is among them."""
        if self._rules is None:
            return frozenset((ANY,))
        return frozenset(text.partition("/")[0] for rule in self._rules for text in rule.resources)

    @cached_property
    def _namespace_selector(self) -> LabelSelector:
        return _selector(self._namespace_struct)

    @cached_property
    def _object_selector(self) -> LabelSelector:
        return _selector(self._object_struct)

    def match(self, request: Request, namespace_named: NamespaceGetter) -> Version | None:
        """The version in which the request is to be shown, or None when it is none of our business.

        Raises:
            APIStatusError: 404 for its namespace, 500 for a selector that is none.
        """
        if _match_rules(self._excluded, request, self._equivalent) is not None:
            return None
        if self._rules is None:
            version: Version | None = request.versions[0]
        else:
            version = _match_rules(self._rules, request, self._equivalent)
        if version is None or not self._selects_object(request):
            return None
        return version if self._selects_namespace(request, namespace_named) else None

    def _selects_object(self, request: Request) -> bool:
        selector = self._object_selector
        return selector.empty or any(
            selector.matches(each.metadata.labels) for each in (request.obj, request.old) if each is not None
        )

    def _selects_namespace(self, request: Request, namespace_named: NamespaceGetter) -> bool:
        name, selector = namespace_of(request), self._namespace_selector
        # What belongs to no namespace is never exempted.
        return not name or selector.empty or selector.matches(_namespace_labels(request, name, namespace_named))


def _selector(struct: LabelSelectorStruct | None) -> LabelSelector:
    try:
        return EVERYTHING if struct is None else label_selector_of(struct)
    except SelectorError as err:
        raise errors.internal(str(err)) from err


def _namespace_labels(request: Request, name: str, namespace_named: NamespaceGetter) -> Mapping[str, str]:
    if request.resource == NAMESPACES.group_resource and not request.subresource and request.obj is not None:
        # The cache does not have its new labels yet.
        labels: Mapping[str, str] = request.obj.metadata.labels
        return labels
    namespace = namespace_named(name)
    if namespace is None:
        raise errors.not_found(NAMESPACES.group_resource, name)
    return namespace.metadata.labels


def _match_rules(rules: Sequence[Rule], request: Request, equivalent: bool) -> Version | None:
    asked, *others = request.versions
    if any(rule_matches(rule, request, asked) for rule in rules):
        return asked
    if not equivalent:
        return None
    return next((other for rule in rules for other in others if rule_matches(rule, request, other)), None)


def rule_matches(rule: Rule, request: Request, version: Version) -> bool:
    """Whether the rule is about the request when it is seen as one for ``version``."""
    resource = version.resource
    return (
        _in_scope(rule.scope, request)
        and (ANY in rule.operations or request.operation in rule.operations)
        and (ANY in rule.api_groups or resource.group in rule.api_groups)
        and (ANY in rule.api_versions or resource.version in rule.api_versions)
        and any(_is_resource(text, resource.plural, request.subresource) for text in rule.resources)
        and _is_named(rule, request)
    )


def _in_scope(scope: str | None, request: Request) -> bool:
    if scope == NAMESPACED:
        return bool(request.namespace)
    return scope != CLUSTER or not request.namespace


def _is_resource(text: str, plural: str, subresource: str) -> bool:
    resource, _, sub = text.partition("/")
    return resource in (ANY, plural) and sub in (ANY, subresource)


def _is_named(rule: Rule, request: Request) -> bool:
    if not isinstance(rule, NamedRuleWithOperations) or not rule.resource_names:
        return True
    return request.name in rule.resource_names
