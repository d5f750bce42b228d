"""Guards that record who writes our objects, and hold writers to the rights that controllers use for them.

A controller acts with rights of its own for whoever wrote an object. So the writer needs the right to what follows, as
with RBAC's escalation check. ``kubevouch up`` asks the same in code (:mod:`kubevouch.admission.writer_rights`).

Source: docs/adr/0047-a-writer-needs-the-rights-of-what-follows.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from kubevouch.api.admissionregistration_v1.mutating_policies import (
    APPLY_CONFIGURATION,
    ApplyConfiguration,
    MutatingAdmissionPolicy,
    MutatingAdmissionPolicySpec,
    Mutation,
)
from kubevouch.api.admissionregistration_v1.policies import (
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicySpec,
    Validation,
    Variable,
)
from kubevouch.api.admissionregistration_v1.policy_defaults import default_policy
from kubevouch.api.admissionregistration_v1.webhooks import NEVER
from kubevouch.api.certificates_v1 import GROUP as CERTIFICATES
from kubevouch.api.kubevouch_v1alpha1 import GROUP
from kubevouch.api.kubevouch_v1alpha1.catalog import (
    ALLOWED_MACHINES,
    CERTIFICATE_REQUEST_POLICIES,
    CERTIFICATE_SIGNERS,
    NODE_IDENTITIES,
)
from kubevouch.api.kubevouch_v1alpha1.certificate_request_policies import AUDIT, REQUIRE
from kubevouch.api.kubevouch_v1alpha1.guarded_writes import about, annotation_of
from kubevouch.machinery.meta import Object, ObjectMeta
from kubevouch.machinery.scheme import Resource
from kubevouch.wellknown import KUBE_APISERVER_CLIENT_KUBELET_SIGNER, KUBELET_SERVING_SIGNER, SIGNERS_NAMESPACE

WRITER_ANNOTATION: Final = "kubevouch.io/writer"
"""Of a CertificateRequestPolicy: who wrote its spec last, a line for the user and one for each of the groups."""
WRITERS: Final = "writers.kubevouch.io"
"""The admission policies, and their bindings, that record the writer and ask for the writer's rights."""
RECORDS_PREFIX: Final = "records."
"""Before the name of a MutatingAdmissionPolicy: the ValidatingAdmissionPolicy in its place."""
WRITER_RECORDS: Final = f"{RECORDS_PREFIX}{WRITERS}"
SIGNER_WRITERS: Final = "signers.kubevouch.io"
"""The admission policy that asks who writes a CertificateSigner for the right to sign for its name."""
MAX_GUARDED_SIGNERS: Final = 8
"""How many signer names a policy may select if its writer may not approve for every signer: an expression asks the
authorizer twice at most, and all expressions of an admission policy some 28 times (Kubernetes 1.36)."""
AUTHORITIES: Final = "certificateauthorities"
"""What the right to ``use`` a CA of the operator's directory is about; there are no such objects."""

_FORMER_WRITER = f"oldObject == null || {annotation_of('oldObject', WRITER_ANNOTATION)}"
_SENT_WRITER = annotation_of("object", WRITER_ANNOTATION)
# Whoever sends another annotation answers for the policy as it stands: so a policy gets a writer without a change.
WRITER_NOW = (
    "oldObject != null && object.spec == oldObject.spec && variables.sent == variables.former ? variables.former : "
    "([request.userInfo.username] + (has(request.userInfo.groups) ? request.userInfo.groups : [])).join('\\n')"
)
_WRITER_STAMP = MutatingAdmissionPolicy(
    metadata=ObjectMeta(name=WRITERS),
    spec=MutatingAdmissionPolicySpec(
        match_constraints=about(CERTIFICATE_REQUEST_POLICIES, "CREATE", "UPDATE"),
        variables=[
            Variable(name="former", expression=_FORMER_WRITER),
            Variable(name="sent", expression=_SENT_WRITER),
        ],
        reinvocation_policy=NEVER,
        mutations=[
            Mutation(
                patch_type=APPLY_CONFIGURATION,
                apply_configuration=ApplyConfiguration(
                    expression="Object{metadata: Object.metadata{annotations: {"
                    f"'{WRITER_ANNOTATION}': {WRITER_NOW}}}}}}}"
                ),
            )
        ],
    ),
)


def _allowed(verb: str, resource: str, name: str, group: str = CERTIFICATES, namespace: str = "") -> str:
    """Whether the requester holds the right; ``name`` is an expression, or empty for every object of the resource."""
    of = f".namespace('{namespace}')" if namespace else ""
    named = f".name({name})" if name else ""
    return f"authorizer.group('{group}').resource('{resource}'){of}{named}.check('{verb}').allowed()"


def _may_use_signer(verb: str, name: str) -> str:
    """As Kubernetes asks for signers: the name itself, or the name ``<domain>/*``."""
    domain = f"{name}.split('/')[0] + '/*'"
    return f"({_allowed(verb, 'signers', name)} || {_allowed(verb, 'signers', domain)})"


def _needs(expression: str, message: str) -> Validation:
    return Validation(expression=f"!variables.asked || {expression}", message=message, reason="Forbidden")


def _held(
    name: str, resource: Resource[Any], variables: Sequence[Variable], *needs: Validation
) -> ValidatingAdmissionPolicy:
    return ValidatingAdmissionPolicy(
        metadata=ObjectMeta(name=name),
        spec=ValidatingAdmissionPolicySpec(
            match_constraints=about(resource, "CREATE", "UPDATE"), variables=list(variables), validations=list(needs)
        ),
    )


_SPEC_CHANGED = "(oldObject == null || object.spec != oldObject.spec)"


def _writer_policy() -> ValidatingAdmissionPolicy:
    approves = (
        f"(!has(object.spec.effect) || object.spec.effect != '{REQUIRE}') && "
        f"(!has(object.spec.mode) || object.spec.mode != '{AUDIT}')"
    )
    names = "object.spec.selector.signerNames"
    needs = [
        _needs(
            f"size({names}) <= {number} || variables.every || "
            f"({names}[{number}] != '*' && {_may_use_signer('approve', f'{names}[{number}]')})",
            "a policy that approves needs a writer with the verb approve on signers.certificates.k8s.io, for each of "
            f"spec.selector.signerNames; missing for signerNames[{number}]",
        )
        for number in range(MAX_GUARDED_SIGNERS)
    ]
    return _held(
        WRITERS,
        CERTIFICATE_REQUEST_POLICIES,
        [
            Variable(name="former", expression=_FORMER_WRITER),
            Variable(name="sent", expression=_SENT_WRITER),
            Variable(
                name="asked",
                expression=f"{approves} && ({_SPEC_CHANGED} || variables.sent != variables.former)",
            ),
            Variable(name="every", expression=_allowed("approve", "signers", "")),
        ],
        _needs(
            f"size({names}) <= {MAX_GUARDED_SIGNERS} || variables.every",
            f"a policy of a writer who may not approve for every signer selects at most {MAX_GUARDED_SIGNERS} signer "
            "names: write several policies",
        ),
        *needs,
    )


_SIGNER_POLICY = _held(
    SIGNER_WRITERS,
    CERTIFICATE_SIGNERS,
    [Variable(name="asked", expression=_SPEC_CHANGED)],
    _needs(
        _may_use_signer("sign", "object.spec.signerName"),
        "a signer needs a writer with the verb sign on signers.certificates.k8s.io, for spec.signerName",
    ),
    _needs(
        "!has(object.spec.trust) || !has(object.spec.trust.clusterTrustBundle) || "
        f"!object.spec.trust.clusterTrustBundle || {_may_use_signer('attest', 'object.spec.signerName')}",
        "a signer that publishes a ClusterTrustBundle needs a writer with the verb attest on "
        "signers.certificates.k8s.io, for spec.signerName",
    ),
    _needs(
        "!has(object.spec.ca.secretName) || "
        + _allowed("get", "secrets", "object.spec.ca.secretName", "", SIGNERS_NAMESPACE),
        "a signer that signs with the CA of a Secret needs a writer with the verb get on that Secret in "
        f"{SIGNERS_NAMESPACE}",
    ),
    _needs(
        f"!has(object.spec.ca.name) || {_allowed('use', AUTHORITIES, 'object.spec.ca.name', GROUP)}",
        "a signer that signs with a CA of the operator's directory needs a writer with the verb use on "
        f"{AUTHORITIES}.{GROUP}, for spec.ca.name",
    ),
)

_MACHINE_POLICY = _held(
    "allowed-machines.kubevouch.io",
    ALLOWED_MACHINES,
    [Variable(name="asked", expression=_SPEC_CHANGED)],
    _needs(
        _may_use_signer("approve", f"'{KUBE_APISERVER_CLIENT_KUBELET_SIGNER}'"),
        "an allowed machine needs a writer with the verb approve on signers.certificates.k8s.io, for "
        f"{KUBE_APISERVER_CLIENT_KUBELET_SIGNER}: what approves nodes takes it for known",
    ),
    _needs(
        "((!has(object.spec.addresses) || size(object.spec.addresses) == 0) && "
        "(!has(object.spec.dnsNames) || size(object.spec.dnsNames) == 0)) || "
        + _may_use_signer("approve", f"'{KUBELET_SERVING_SIGNER}'"),
        "an allowed machine with addresses or dnsNames needs a writer with the verb approve on "
        f"signers.certificates.k8s.io, for {KUBELET_SERVING_SIGNER}: its serving certificate is approved for them",
    ),
)

_HARDWARE_POLICY = _held(
    "node-identities.kubevouch.io",
    NODE_IDENTITIES,
    [
        Variable(
            name="asked",
            expression="has(object.spec) && has(object.spec.expectNewHardware) && (oldObject == null || "
            "!has(oldObject.spec) || !has(oldObject.spec.expectNewHardware) || "
            "object.spec.expectNewHardware != oldObject.spec.expectNewHardware)",
        )
    ],
    _needs(
        _may_use_signer("approve", f"'{KUBE_APISERVER_CLIENT_KUBELET_SIGNER}'"),
        "expectNewHardware needs a writer with the verb approve on signers.certificates.k8s.io, for "
        f"{KUBE_APISERVER_CLIENT_KUBELET_SIGNER}: another machine is approved as this node",
    ),
)

WRITER_GUARDS: Sequence[ValidatingAdmissionPolicy | MutatingAdmissionPolicy] = (
    _WRITER_STAMP,
    _writer_policy(),
    _SIGNER_POLICY,
    _MACHINE_POLICY,
    _HARDWARE_POLICY,
)


class Writer(msgspec.Struct, frozen=True):
    """Who wrote a policy, as the server knew them at that time."""

    name: str
    groups: tuple[str, ...] = ()


def writer_of(policy: Object) -> Writer | None:
    """Who wrote the policy's spec last, as the guard recorded it; None if there is no record."""
    name, *groups = policy.metadata.annotations.get(WRITER_ANNOTATION, "").split("\n")
    return Writer(name, tuple(groups)) if name else None


def is_writer_stamp(policy: MutatingAdmissionPolicy) -> bool:
    """Whether an API server's policy records the writer as this version does."""
    mine = default_policy(_WRITER_STAMP).spec
    theirs = policy.spec
    return (
        [(each.name, each.expression) for each in theirs.variables]
        == [(each.name, each.expression) for each in mine.variables]
        and theirs.mutations == mine.mutations
        and theirs.failure_policy == mine.failure_policy
        and not theirs.match_conditions
    )
