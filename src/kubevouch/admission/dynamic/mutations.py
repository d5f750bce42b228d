"""What the mutations of a policy make of an object; no I/O.

    NotMutated            a mutation cannot be carried out; ``str()`` says why, in Kubernetes' words

Source: k8s.io/apiserver/pkg/admission/plugin/policy/mutating/{compilation.go,patch} (Kubernetes 1.36).
"""

from __future__ import annotations

import base64
import datetime as dt
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

from kubevouch.admission.dynamic.match_conditions import MatchConditions
from kubevouch.admission.dynamic.policy_expressions import (
    Evaluation,
    Expression,
    compiled,
    compiled_variables,
    error_of,
    type_of,
)
from kubevouch.admission.dynamic.questions import Asking, Work
from kubevouch.admission.dynamic.review import Tree
from kubevouch.admission.interface import Version
from kubevouch.api.admissionregistration_v1.expressions import PARAMS, PATCH_RESULTS
from kubevouch.api.admissionregistration_v1.matching import IGNORE
from kubevouch.api.admissionregistration_v1.mutating_policies import (
    APPLY_CONFIGURATION,
    MutatingAdmissionPolicySpec,
    Mutation,
)
from kubevouch.api.catalog import SCHEME
from kubevouch.cel.environment import EvaluationError, OutOfBudget
from kubevouch.cel.patches import mismatches
from kubevouch.cel.standard import to_string
from kubevouch.cel.values import Message, Run, plain
from kubevouch.machinery import errors
from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.text import gotext
from kubevouch.machinery.writing import json_patch, typed_tree
from kubevouch.machinery.writing.typed_tree import DEDUCED, DeducedType, ListType, MapType, MergeType
from kubevouch.util.worker import is_large

OUT_OF_BUDGET, INVALID_ERROR = "out_of_budget", "invalid_error"

# More than that is not turned into an object on the event loop: it takes about 10 ms.
_MANY_PARTS = 2_000
_MAX_PARTS = 1 << 20
_JSON_SAFE = (1 << 53) - 1


class NotMutated(Exception):
    """A mutation cannot be carried out.

    Args:
        error: what metrics call it.
    """

    def __init__(self, message: str, error: str = INVALID_ERROR) -> None:
        super().__init__(message)
        self.error = error


class MutationRules:
    """The expressions of a policy, compiled when they are first asked for."""

    def __init__(self, spec: MutatingAdmissionPolicySpec) -> None:
        self.spec = spec
        self._has_params = spec.param_kind is not None
        self._is_compiled = False
        self.conditions = MatchConditions(spec.match_conditions, spec.failure_policy, params=self._has_params)

    @property
    def ignores_errors(self) -> bool:
        return self.spec.failure_policy == IGNORE

    @cached_property
    def _variables(self) -> list[tuple[str, Expression]]:
        return compiled_variables(self.spec.variables, self._has_params)

    @cached_property
    def _mutations(self) -> list[Expression]:
        known = {name: type_of(expression) for name, expression in self._variables}
        return [self._compile(mutation, known) for mutation in self.spec.mutations]

    def _compile(self, mutation: Mutation, known: dict[str, str]) -> Expression:
        patch = mutation.apply_configuration or mutation.json_patch
        source = "" if patch is None else patch.expression
        return compiled(source, (PATCH_RESULTS[mutation.patch_type],), self._has_params, known, patches=True)

    def with_params(self, variables: Tree, params: Tree | None) -> Tree:
        """What expressions see."""
        return {**variables, PARAMS: params} if self._has_params else variables

    def mutate(self, index: int, variables: Tree, version: Version) -> Asking[Any]:
        """The stored form of the object after one of the mutations.

        Args:
            variables: as they are now; see :meth:`with_params`.
            version: that in which the object is shown.

        Raises:
            NotMutated
            APIStatusError: 500, what was made is no object of the kind.
        """
        if not self._is_compiled:
            compiling = Work(lambda _turn, _whole: (self._variables, self._mutations), is_long=True)
            yield compiling
            compiling.result()
            self._is_compiled = True
        expression = self._mutations[index]
        try:
            made = yield from Evaluation(variables, self._variables).made(expression)
        except EvaluationError as err:
            raise NotMutated(str(err), error_of(expression)) from err
        except OutOfBudget as err:
            raise NotMutated(str(err), OUT_OF_BUDGET) from err
        apply = _merged if self.spec.mutations[index].patch_type == APPLY_CONFIGURATION else _patched
        work = Work(
            lambda _turn, _whole: apply(made, variables["object"], version), is_long=is_large() or _has_many_parts(made)
        )
        yield work
        return work.result()


def _has_many_parts(value: Any) -> bool:
    try:
        plain(value, Run(_MANY_PARTS, {}))
    except (OutOfBudget, EvaluationError, RecursionError):
        return True
    return False


# ------------------------------------------------------------------ apply configurations


def _merged(made: Message, tree: Tree, version: Version) -> Any:
    """As an apply that owns nothing."""
    wrong = list(mismatches(made))
    if wrong:
        raise NotMutated("type mismatch: " + "\n".join(wrong))
    try:
        fields = _json(made)
    except _NoJSON as err:
        raise NotMutated("invalid return type: *dynamic.ObjectVal") from err
    patch = {**fields, "apiVersion": tree["apiVersion"], "kind": tree["kind"]}
    kind = version.resource.codec.merge_type
    for each, what in ((patch, "patch"), (tree, "original")):
        problems = typed_tree.validate(each, kind)
        if problems:
            text = typed_tree.problems_text(problems)
            raise NotMutated(f"error applying patch: failed to convert {what} object to typed object: {text}")
        atomic = ", ".join(_atomic(each, kind, "")) if each is patch else ""
        if atomic:
            raise NotMutated(
                "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: "
                f"{atomic}"
            )
    return _decoded(typed_tree.merge(tree, patch, kind), version)


def _atomic(value: Any, kind: MergeType, path: str) -> Iterator[str]:
    """Where the value touches what can only be replaced as a whole. Entries of maps are not looked into."""
    if isinstance(value, dict) and isinstance(kind, MapType):
        if kind.atomic:
            yield path
        for name, below in value.items():
            if name in kind.fields:
                yield from _atomic(below, kind.fields[name], f"{path}.{name}")
    elif isinstance(value, list) and isinstance(kind, ListType | DeducedType):
        item = kind.item if isinstance(kind, ListType) else DEDUCED
        if isinstance(kind, DeducedType) or kind.atomic:
            yield path
        for index, below in enumerate(value):
            yield from _atomic(below, item, f"{path}[{index}]")


# ------------------------------------------------------------------ JSON patches


def _patched(made: Sequence[Message], tree: Tree, version: Version) -> Any:
    operations = tuple(_operation(each) for each in made)
    try:
        changed = json_patch.carry_out(tree, json_patch.JSONPatch(operations))
    except json_patch.TestFailed:
        # Nothing of the patch is carried out, and that is no failure.
        changed = tree
    except json_patch.DoesNotApply as err:
        raise NotMutated(f"JSONPath: {err}") from err
    return _decoded(changed, version, strict=True)


def _operation(made: Message) -> Tree:
    fields = made.fields
    operation: Tree = {"op": fields.get("op", ""), "path": fields.get("path", "")}
    if fields.get("from"):
        operation["from"] = fields["from"]
    if "value" in fields:
        value = fields["value"]
        wrong = list(mismatches(value))
        if wrong:
            raise NotMutated("type mismatch: " + "\n".join(wrong))
        try:
            operation["value"] = _json(value, safe=True)
        except _NoJSON as err:
            why = "JSONPath valueExpression evaluated to a type that could not marshal to JSON"
            raise NotMutated(f"{why}: {err}") from err
    return operation


# ------------------------------------------------------------------ values and objects


def _json(value: Any, *, safe: bool = False) -> Any:
    """A value as JSON has it; ``safe``: whole numbers that not everybody reads become texts."""
    try:
        return _tree(plain(value, Run(_MAX_PARTS, {})), safe)
    except (EvaluationError, OutOfBudget, RecursionError) as err:
        raise _NoJSON(str(err)) from err


class _NoJSON(Exception):
    """A value that JSON has not, or too large a one."""


def _tree(value: Any, safe: bool) -> Any:
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise EvaluationError(f"map key {gotext.quote(str(key))} is no string")
        return {key: _tree(each, safe) for key, each in value.items()}
    if isinstance(value, list):
        return [_tree(each, safe) for each in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dt.datetime | dt.timedelta):
        return to_string(value, run=Run(_MAX_PARTS, {}))
    if isinstance(value, int) and safe and not isinstance(value, bool) and abs(value) > _JSON_SAFE:
        return str(value)
    return value


def _decoded(tree: Tree, version: Version, *, strict: bool = False) -> Any:
    """The stored form of the object in a tree, with its defaults.

    Args:
        strict: fields that nobody declared are an error, where the kind is one of ours.
    """
    codec = version.resource.codec
    try:
        decoded = codec.from_tree(tree)
    except json_codec.UnmarshalError as err:
        if strict:
            raise errors.internal(str(err)) from err
        raise NotMutated(str(err)) from err
    if strict and codec.schema is not None and decoded.strict_errors:
        raise errors.internal(f"strict decoding error: {', '.join(decoded.strict_errors)}")
    return version.to_storage(SCHEME.default(codec.bare(decoded.value)))
