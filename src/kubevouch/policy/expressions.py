"""The expressions of policies: compiled once, true only when they are true, told apart when they fail.

Variables: ``request``, ``x509`` and ``requester`` are the request, which never changes; ``node``, ``machine``,
``evidence`` and ``now`` may be others tomorrow. What is not known is not set: ``has(node.metadata)`` asks whether there
is a Node.

A validation that is false is a contradiction (``unmet``) only if it, and no variable that it may use, looks at what may
change; otherwise it is ``unknown``. One that fails is an ``error``.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from kubevouch.api.attested import Attested
from kubevouch.api.core_v1 import Node
from kubevouch.api.kubevouch_v1alpha1.certificate_request_policies import (
    CertificateRequestPolicySpec,
    PolicyValidation,
)
from kubevouch.cel import struct_types, types
from kubevouch.cel.environment import (
    BOOL,
    STRING,
    Budget,
    Environment,
    EvaluationError,
    ExpressionError,
    Members,
    OutOfBudget,
    Program,
    Turn,
    VariableType,
)
from kubevouch.cel.values import Lazy
from kubevouch.pki.node_user import node_name_of
from kubevouch.policy.constraints import PolicyFault
from kubevouch.policy.facts import RequestFacts, SubjectFacts
from kubevouch.policy.inventory import Machine
from kubevouch.policy.verdict import Step, StepResult
from kubevouch.wellknown import SERVICE_ACCOUNT_USER_PREFIX

POLICY_BUDGET = 1_000_000
"""What the expressions of one policy may cost for one request, as Kubernetes counts it: half a second at most."""
REQUEST_BUDGET = 4_000_000
"""What those of all policies may cost for one request."""
MAX_MESSAGE = 5 << 10
"""Characters of what a messageExpression says, as of ValidatingAdmissionPolicy's."""

MUTABLE = frozenset({"node", "machine", "evidence", "now"})
VALIDATIONS = "validations"
"""What the rules of steps about expressions begin with."""
_VARIABLES = "variables"


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What expressions may look at beside the request. What is not known is empty.

    Args:
        node: the Node that the request is about, as JSON has it.
        machine: what the inventory expects of it.
        evidence: what the server has seen of how the request came: ``sourceAddress``, ``token``, ``recovered``; and
            what its machine has proven, see :func:`proven_value`.
    """

    now: dt.datetime
    node: Mapping[str, Any] = {}
    machine: Mapping[str, Any] = {}
    evidence: Mapping[str, Any] = {}


_STRINGS = types.list_of(types.STRING)


def _struct(name: str, /, **members: types.Type) -> types.Type:
    return types.struct(f"kubevouch.{name}", struct_types.Members(members))


_SUBJECT = _struct(
    "Subject",
    commonName=types.STRING,
    serialNumber=types.STRING,
    **dict.fromkeys(
        (
            "organizations", "organizationalUnits", "countries", "provinces", "localities", "streetAddresses",
            "postalCodes", "unknown",
        ),
        _STRINGS,
    ),
)  # fmt: skip
_DECLARED: Mapping[str, VariableType] = {
    "request": _struct(
        "Request",
        name=types.STRING,
        signerName=types.STRING,
        usages=_STRINGS,
        expirationSeconds=types.INT,
        created=types.TIMESTAMP,
    ),
    "x509": _struct(
        "X509",
        subject=_SUBJECT,
        dnsNames=_STRINGS,
        ipAddresses=_STRINGS,
        emailAddresses=_STRINGS,
        uris=_STRINGS,
        extensions=_STRINGS,
        keyAlgorithm=types.STRING,
        keyBits=types.INT,
        keyFingerprint=types.STRING,
        isCA=types.BOOL,
    ),
    "requester": _struct(
        "Requester",
        username=types.STRING,
        uid=types.STRING,
        groups=_STRINGS,
        extra=types.map_of(types.STRING, _STRINGS),
        namespace=types.STRING,
        node=types.STRING,
    ),
    "node": Node,
    "machine": _struct(
        "Machine",
        nodeName=types.STRING,
        addresses=_STRINGS,
        dnsNames=_STRINGS,
        keys=_STRINGS,
        attributes=types.map_of(types.STRING, types.STRING),
        source=types.STRING,
    ),
    "evidence": _struct(
        "Evidence",
        sourceAddress=types.STRING,
        token=types.STRING,
        recovered=types.BOOL,
        providers=_STRINGS,
        identities=_STRINGS,
        strengths=_STRINGS,
        claims=types.map_of(types.STRING, types.STRING),
        tenantClaims=types.map_of(types.STRING, types.STRING),
    ),
    "now": types.TIMESTAMP,
}


def _environment(variables: Sequence[tuple[str, str]]) -> Environment:
    composed: dict[str, VariableType] = {_VARIABLES: Members(tuple(variables))} if variables else {}
    return Environment({**_DECLARED, **composed}, names=True, tells_found=True)


class _Validation(msgspec.Struct, frozen=True):
    rule: str
    declared: PolicyValidation
    program: Program
    message: Program | None
    # Whether what makes it false may be true tomorrow.
    is_mutable: bool


class Expressions:
    """Those of a policy, compiled. Raises :class:`PolicyFault`."""

    def __init__(self, spec: CertificateRequestPolicySpec) -> None:
        self._composed: dict[str, Program] = {}
        known: list[tuple[str, str]] = []
        for number, variable in enumerate(spec.variables):
            program = _compiled(f"spec.variables[{number}].expression", variable.expression, known, ())
            self._composed[variable.name] = program
            known.append((variable.name, program.result_type))
        # Whichever of the variables it uses.
        used = frozenset[str]().union(*(program.names for program in self._composed.values()))
        self.names = used
        self.reasons = {f"{VALIDATIONS}[{number}]": each.reason for number, each in enumerate(spec.validations)}
        self._validations: list[_Validation] = []
        for number, declared in enumerate(spec.validations):
            rule = f"{VALIDATIONS}[{number}]"
            program = _compiled(f"spec.{rule}.expression", declared.expression, known, (BOOL,))
            message = None
            if declared.message_expression:
                where = f"spec.{rule}.messageExpression"
                message = _compiled(where, declared.message_expression, known, (STRING,))
            names = program.names | (used if _VARIABLES in program.names else frozenset())
            self._validations.append(_Validation(rule, declared, program, message, bool(names & MUTABLE)))
            self.names |= names

    @property
    def are_there(self) -> bool:
        return bool(self._validations)

    def look(self, facts: RequestFacts, around: Surroundings, budget: Budget, turn: Turn | None) -> Iterator[Step]:
        """One step for each validation, in their order.

        Raises:
            TurnOver: only with ``turn``.
        """
        if not self._validations:
            return
        values = variables_of(facts, around)
        if self._composed:

            def compute(name: str) -> Any:
                try:
                    return self._composed[name].value(values, budget=budget, turn=turn)
                except EvaluationError as err:
                    raise EvaluationError(f"variable {name}: {err}") from err

            values[_VARIABLES] = Lazy(compute)
        for validation in self._validations:
            yield _look(validation, values, budget, turn)


def _look(validation: _Validation, values: Mapping[str, Any], budget: Budget, turn: Turn | None) -> Step:
    expression = validation.declared.expression
    try:
        holds = validation.program.holds(values, budget=budget, turn=turn)
    except (EvaluationError, OutOfBudget) as err:
        return Step(validation.rule, StepResult.ERROR, str(err), expression)
    if holds:
        return Step(validation.rule, StepResult.MET, "true", expression)
    result = StepResult.UNKNOWN if validation.is_mutable else StepResult.UNMET
    return Step(validation.rule, result, _message(validation, values, budget, turn), expression)


def _message(validation: _Validation, values: Mapping[str, Any], budget: Budget, turn: Turn | None) -> str:
    """As ValidatingAdmissionPolicy says it: that of the expression, unless it fails or is no line of text."""
    declared = validation.declared
    if validation.message is not None:
        try:
            text = validation.message.evaluate(values, budget=budget, turn=turn)
        except (EvaluationError, OutOfBudget):
            text = ""
        if isinstance(text, str) and text.strip() and len(text) <= MAX_MESSAGE and text.isprintable():
            return text.strip()
    return declared.message or f"failed expression: {declared.expression}"


def _compiled(where: str, source: str, variables: Sequence[tuple[str, str]], result: Sequence[str]) -> Program:
    try:
        return _environment(variables).compile(source, result)
    except ExpressionError as err:
        raise PolicyFault(f"{where}: {err}") from err


def variables_of(facts: RequestFacts, around: Surroundings) -> dict[str, Any]:
    """The value of each variable but ``variables``. Lists are the language's lists."""
    plain = _plain(facts)
    request = {key: plain[key] for key in ("name", "signerName", "usages")}
    if facts.expiration_seconds is not None:
        request["expirationSeconds"] = facts.expiration_seconds
    if facts.created is not None:
        request["created"] = facts.created
    x509 = (
        "subject", "dnsNames", "ipAddresses", "emailAddresses", "uris", "extensions", "keyAlgorithm", "keyBits",
        "keyFingerprint",
    )  # fmt: skip
    return {
        "request": request,
        "x509": {**{key: plain[key] for key in x509}, "isCA": facts.is_ca},
        "requester": {
            "username": facts.username,
            "uid": facts.user_uid,
            "groups": plain["groups"],
            "extra": plain["extra"],
            "namespace": namespace_of(facts),
            "node": node_name_of(facts.username),
        },
        "node": around.node,
        "machine": around.machine,
        "evidence": around.evidence,
        "now": around.now,
    }


# To ask the struct each time takes longer than all the rest.
_SEEN: Sequence[type[msgspec.Struct]] = (RequestFacts, SubjectFacts, Machine)
_WIRE_NAMES = {each: [(field.encode_name, field.name) for field in msgspec.structs.fields(each)] for each in _SEEN}


def _plain(value: Any) -> Any:
    """In the language's own lists and maps: a tuple is nothing to it."""
    if isinstance(value, msgspec.Struct):
        return {wire: _plain(getattr(value, name)) for wire, name in _WIRE_NAMES[type(value)]}
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    return list(value) if isinstance(value, tuple) else value


def namespace_of(facts: RequestFacts) -> str:
    """Of the requester's ServiceAccount; empty if it is none."""
    if not facts.username.startswith(SERVICE_ACCOUNT_USER_PREFIX):
        return ""
    namespace, colon, name = facts.username.removeprefix(SERVICE_ACCOUNT_USER_PREFIX).partition(":")
    return namespace if colon and name else ""


def machine_value(machine: Machine) -> dict[str, Any]:
    """For :attr:`Surroundings.machine`."""
    plain = _plain(machine)
    return {key: plain[key] for key in ("nodeName", "addresses", "dnsNames", "keys", "attributes", "source")}


def proven_value(proofs: Sequence[Attested]) -> dict[str, Any]:
    """What a machine has proven, for :attr:`Surroundings.evidence`; nothing for a machine that has proven nothing.

    What a tenant can write is told apart, so that a policy has to say that it believes him.
    """
    if not proofs:
        return {}
    said = [claim for each in reversed(proofs) for claim in reversed(each.claims)]
    return {
        "providers": [each.provider for each in proofs],
        "identities": [each.identity for each in proofs],
        "strengths": [str(each.strength) for each in proofs],
        "claims": {each.name: each.value for each in said if not each.tenant_controlled},
        "tenantClaims": {each.name: each.value for each in said if each.tenant_controlled},
    }
