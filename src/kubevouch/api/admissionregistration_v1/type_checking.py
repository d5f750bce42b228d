"""What is doubtful about a policy's expressions, seen with the kinds that it matches.

Source: k8s.io/apiserver/pkg/admission/plugin/policy/validating/typechecking.go (Kubernetes 1.36).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from kubevouch.api.admission_v1 import AdmissionRequest
from kubevouch.api.admissionregistration_v1 import expressions
from kubevouch.api.admissionregistration_v1.matching import Rule
from kubevouch.api.admissionregistration_v1.policies import (
    ExpressionWarning,
    ParamKind,
    ValidatingAdmissionPolicySpec,
    Variable,
)
from kubevouch.api.core_v1.namespaces import Namespace
from kubevouch.cel.environment import (
    ANY,
    AUTHORIZER,
    RESOURCE_CHECK,
    Environment,
    ExpressionError,
    Members,
    VariableType,
)
from kubevouch.cel.types import Type
from kubevouch.machinery.scheme import GroupVersion, GroupVersionKind
from kubevouch.structural.open_types import open_type
from kubevouch.structural.schema import compile_schema

MAX_TYPES = 10


class Checkable(Protocol):
    """A kind that is served. Its type is a declared struct, or that of its schema."""

    @property
    def gvk(self) -> GroupVersionKind: ...

    @property
    def plural(self) -> str: ...

    @property
    def type(self) -> VariableType: ...


class CustomKind(msgspec.Struct, frozen=True):
    """A kind that came at run time."""

    gvk: GroupVersionKind
    plural: str
    type: Type


def custom_kind(gvk: GroupVersionKind, plural: str, tree: Mapping[str, Any]) -> CustomKind:
    """The kind of whose objects ``tree`` is the schema. Raises :class:`structural.schema.TooDeep`."""
    return CustomKind(gvk, plural, open_type(compile_schema(tree), gvk.kind, whole=True))


def versions_in_question(spec: ValidatingAdmissionPolicySpec) -> list[GroupVersion]:
    """The versions of groups whose kinds the rules name, and that of the parameters; sorted."""
    rules = spec.match_constraints.resource_rules if spec.match_constraints else []
    found = {GroupVersion(group, version) for rule in rules for group, version, _ in _named(rule)}
    if spec.param_kind is not None:
        found.add(GroupVersion.parse(spec.param_kind.api_version))
    return sorted(found)


def warnings_for(spec: ValidatingAdmissionPolicySpec, served: Sequence[Checkable]) -> list[ExpressionWarning]:
    """The warnings for all validations; a kind that is not ``served`` gives none."""
    checks = [_Check(spec, resource, served) for resource in types_to_check(spec, served)]
    warnings = []
    for index, validation in enumerate(spec.validations):
        for name, source in (
            ("expression", validation.expression),
            ("messageExpression", validation.message_expression),
        ):
            found = [text for check in checks if source and (text := check.complaint(source))]
            if found:
                path = f"spec.validations[{index}].{name}"
                warnings.append(ExpressionWarning(field_ref=path, warning="\n".join(found)))
    return warnings


def types_to_check(spec: ValidatingAdmissionPolicySpec, served: Sequence[Checkable]) -> list[Checkable]:
    """The kinds that are matched by name, at most ten, sorted. Wildcards and subresources name none."""
    known = {(each.gvk.group, each.gvk.version, each.plural): each for each in served}
    found: dict[GroupVersionKind, Checkable] = {}
    rules = spec.match_constraints.resource_rules if spec.match_constraints else []
    for name in itertools.chain.from_iterable(map(_named, rules)):
        resource = known.get(name)
        if resource is not None and len(found) < MAX_TYPES:
            found.setdefault(resource.gvk, resource)
    return sorted(found.values(), key=lambda each: each.gvk)


def _named(rule: Rule) -> Iterable[tuple[str, str, str]]:
    if any("*" in name for name in (*rule.api_groups, *rule.api_versions)):
        return ()
    resources = [name for name in rule.resources if "*" not in name and "/" not in name]
    return itertools.product(sorted(rule.api_groups), sorted(rule.api_versions), sorted(resources))


class _Check:
    """The expressions of a policy against one kind."""

    def __init__(self, spec: ValidatingAdmissionPolicySpec, resource: Checkable, served: Sequence[Checkable]) -> None:
        self._resource = resource
        self._known: dict[str, VariableType] = {
            expressions.OBJECT: resource.type,
            expressions.OLD_OBJECT: resource.type,
            expressions.REQUEST: AdmissionRequest,
            expressions.NAMESPACE: Namespace,
            expressions.ASKED: AUTHORIZER,
            expressions.ASKED_RESOURCE: RESOURCE_CHECK,
        }
        if spec.param_kind is not None:
            self._known[expressions.PARAMS] = _params_type(spec.param_kind, served)
        self._environment = self._with_variables(spec.variables)

    def _with_variables(self, variables: Sequence[Variable]) -> Environment:
        plain = Environment(self._known)
        types: dict[str, str] = {}
        for variable in variables:
            composed = types and expressions.VARIABLES in variable.expression
            environment = self._composed(types) if composed else plain
            try:
                types[variable.name] = environment.compile(variable.expression).result_type
            except ExpressionError:
                # It is what uses the variable that is warned of.
                types[variable.name] = ANY
        return self._composed(types) if types else plain

    def _composed(self, types: Mapping[str, str]) -> Environment:
        return Environment({**self._known, expressions.VARIABLES: Members(tuple(types.items()))})

    def complaint(self, source: str) -> str:
        """Kubernetes' text; empty when there is nothing to say."""
        try:
            self._environment.compile(source)
        except ExpressionError as err:
            return f"{self._resource.gvk}: {str(err).removeprefix('compilation failed: ')}\n"
        return ""


def _params_type(kind: ParamKind, served: Sequence[Checkable]) -> VariableType:
    wanted = (kind.api_version, kind.kind)
    found = next((each for each in served if (each.gvk.api_version, each.gvk.kind) == wanted), None)
    return ANY if found is None else found.type
