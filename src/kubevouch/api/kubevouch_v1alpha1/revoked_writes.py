"""An admission policy that refuses the writes of revoked credentials: it needs no flag of the API server.

kube-apiserver tells admission with which certificate a request came (``authentication.kubernetes.io/credential-id``,
kubernetes/kubernetes#125634, since 1.32); the cluster's CertificateRevocations are the policy's parameters. It sees no
reads, no reviews and no admission policies, and not who impersonates somebody. ``deploy/revocation/`` has it;
``kubevouch up`` answers 401 by itself and does not need it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from kubevouch.api.admissionregistration_v1.matching import (
    ANY,
    MatchCondition,
    MatchResources,
    NamedRuleWithOperations,
)
from kubevouch.api.admissionregistration_v1.policies import (
    ALLOW,
    DENY,
    ParamKind,
    ParamRef,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
    ValidatingAdmissionPolicyBindingSpec,
    ValidatingAdmissionPolicySpec,
    Validation,
    Variable,
)
from kubevouch.api.admissionregistration_v1.policy_defaults import default_binding, default_policy
from kubevouch.api.catalog import VALIDATING_ADMISSION_POLICIES, VALIDATING_ADMISSION_POLICY_BINDINGS
from kubevouch.api.kubevouch_v1alpha1.catalog import CERTIFICATE_REVOCATIONS
from kubevouch.api.kubevouch_v1alpha1.guarded_writes import judges_as
from kubevouch.machinery.meta import LabelSelector, Object, ObjectMeta
from kubevouch.machinery.scheme import Resource
from kubevouch.wellknown import CREDENTIAL_ID_EXTRA, NODE_NAME_EXTRA, NODE_USER_PREFIX

REVOKED_WRITES: Final = "revoked-credentials.kubevouch.io"
FOREVER: Final = "9999-01-01T00:00:00Z"
"""From this issuedUntil on a revocation means every certificate of a name, now and later. The policy does not learn
when a certificate was issued, so that of earlier moments it can judge nothing by a name. RFC 5280 section 4.1.2.5 has
the same year for a certificate that never ends."""

_PREFIX: Final = "X509SHA256="
_SHOWN = f"request.userInfo.extra['{CREDENTIAL_ID_EXTRA}']"
_EXTRA = "has(request.userInfo.extra)"
_HAS_CERTIFICATE = (
    f"{_EXTRA} && '{CREDENTIAL_ID_EXTRA}' in request.userInfo.extra && {_SHOWN}.exists(id, id.startsWith('{_PREFIX}'))"
)
_OF_A_NODE = f"{_EXTRA} && '{NODE_NAME_EXTRA}' in request.userInfo.extra"
_LISTED = (
    "(has(params.spec.revoked.certificates) && id in params.spec.revoked.certificates) || "
    "(has(params.status) && has(params.status.certificates) && id in params.status.certificates)"
)
_FOR_EVER = (
    f"has(params.spec.revoked.issuedUntil) && timestamp(params.spec.revoked.issuedUntil) >= timestamp('{FOREVER}')"
)
# A user of the same name who shows no certificate is somebody else.
_NAMED = (
    "(has(params.spec.revoked.users) && variables.fingerprints.size() > 0 && "
    "request.userInfo.username in params.spec.revoked.users) || "
    "(has(params.spec.revoked.nodes) && variables.nodes.exists(name, name in params.spec.revoked.nodes))"
)

_POLICY = ValidatingAdmissionPolicy(
    metadata=ObjectMeta(name=REVOKED_WRITES),
    spec=ValidatingAdmissionPolicySpec(
        # Not Fail: kube-apiserver finds a custom kind up to 10 s after its own start, and not at all once the
        # definition is gone. Until then it would refuse every write of everybody, and the definition's return as well.
        failure_policy="Ignore",
        param_kind=ParamKind(api_version=CERTIFICATE_REVOCATIONS.api_version, kind=CERTIFICATE_REVOCATIONS.kind),
        match_constraints=MatchResources(
            resource_rules=[
                NamedRuleWithOperations(
                    operations=[ANY], api_groups=[ANY], api_versions=[ANY], resources=[f"{ANY}/{ANY}"]
                )
            ]
        ),
        match_conditions=[
            MatchCondition(
                name="shows-a-certificate-or-is-bound-to-a-node", expression=f"({_HAS_CERTIFICATE}) || ({_OF_A_NODE})"
            )
        ],
        variables=[
            Variable(
                name="fingerprints",
                expression=f"{_HAS_CERTIFICATE} ? {_SHOWN}.filter(id, id.startsWith('{_PREFIX}'))"
                f".map(id, id.substring({len(_PREFIX)})) : []",
            ),
            Variable(
                name="nodes",
                expression=f"({_OF_A_NODE} ? request.userInfo.extra['{NODE_NAME_EXTRA}'] : []) + "
                f"(variables.fingerprints.size() > 0 && request.userInfo.username.startsWith('{NODE_USER_PREFIX}') ? "
                f"[request.userInfo.username.substring({len(NODE_USER_PREFIX)})] : [])",
            ),
        ],
        validations=[
            Validation(
                expression=f"!variables.fingerprints.exists(id, {_LISTED}) && !({_FOR_EVER} && ({_NAMED}))",
                message_expression="'the credential is revoked by the CertificateRevocation ' + params.metadata.name",
                reason="Forbidden",
            )
        ],
    ),
)
_BINDING = ValidatingAdmissionPolicyBinding(
    metadata=ObjectMeta(name=REVOKED_WRITES),
    spec=ValidatingAdmissionPolicyBindingSpec(
        policy_name=REVOKED_WRITES,
        # All of them; without any, nobody is revoked.
        param_ref=ParamRef(selector=LabelSelector(), parameter_not_found_action=ALLOW),
        validation_actions=[DENY],
    ),
)

REVOCATION_POLICY: Sequence[tuple[Resource[Any], Object]] = (
    (VALIDATING_ADMISSION_POLICIES, default_policy(_POLICY)),
    (VALIDATING_ADMISSION_POLICY_BINDINGS, default_binding(_BINDING)),
)
"""The policy and its binding."""


def refuses_writes(policy: ValidatingAdmissionPolicy, binding: ValidatingAdmissionPolicyBinding) -> bool:
    """Whether these, as they are in a cluster, refuse what this policy does."""
    return judges_as(_POLICY, policy, binding) and binding.spec.match_resources is None
