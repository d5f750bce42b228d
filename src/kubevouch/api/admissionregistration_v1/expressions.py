"""The expressions of webhooks and policies, and what they may use.

Source: k8s.io/apiserver/pkg/admission/plugin/cel/compile.go (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from kubevouch.api.admission_v1 import AdmissionRequest
from kubevouch.api.core_v1.namespaces import Namespace
from kubevouch.cel.environment import (
    ANY,
    AUTHORIZER,
    RESOURCE_CHECK,
    Environment,
    ExpressionError,
    Members,
    Program,
    VariableType,
)
from kubevouch.machinery import field
from kubevouch.machinery.field import FieldError

OBJECT, OLD_OBJECT, REQUEST, NAMESPACE = "object", "oldObject", "request", "namespaceObject"
PARAMS, VARIABLES = "params", "variables"
ASKED, ASKED_RESOURCE = "authorizer", "authorizer.requestResource"
NO_VARIABLES: Mapping[str, str] = {}
PATCH_RESULTS = {"ApplyConfiguration": "Object", "JSONPatch": "list(JSONPatch)"}
"""What the expression of a mutation gives, by its type."""


@lru_cache(maxsize=64)
def _environment(params: bool, variables: tuple[tuple[str, str], ...], patches: bool) -> Environment:
    known: dict[str, VariableType] = {
        OBJECT: ANY, OLD_OBJECT: ANY, REQUEST: AdmissionRequest, NAMESPACE: Namespace,
        ASKED: AUTHORIZER, ASKED_RESOURCE: RESOURCE_CHECK,
    }  # fmt: skip
    if params:
        known[PARAMS] = ANY
    if variables:
        known[VARIABLES] = Members(variables)
    return Environment(known, patches=patches, tells_found=True)


def compile_expression(
    source: str,
    result: Sequence[str] = (),
    *,
    params: bool = False,
    variables: Mapping[str, str] = NO_VARIABLES,
    patches: bool = False,
) -> Program:
    """A program for an expression.

    Args:
        result: the types that its value may have; empty takes any.
        params: it may use the parameters of a policy.
        variables: what it may use of ``variables``, with the types of the programs behind them.
        patches: it may make what changes an object.

    Raises:
        ExpressionError
    """
    return _environment(params, tuple(variables.items()), patches).compile(source, result)


def expression_errors(
    path: str,
    source: str,
    result: Sequence[str] = (),
    *,
    params: bool = False,
    variables: Mapping[str, str] = NO_VARIABLES,
    patches: bool = False,
) -> list[FieldError]:
    """What a field error says of an expression that does not compile. Arguments as :func:`compile_expression`."""
    try:
        compile_expression(source, result, params=params, variables=variables, patches=patches)
    except ExpressionError as err:
        return [field.invalid(path, source, str(err))]
    return []
