"""Admission policies that belong to our own kinds: they hold a writer to what no schema can say.

``kubevouch up`` keeps them; ``deploy/crds/guards.yaml`` has them for other clusters. Whoever may change admission
policies, or create any binding, is an administrator there, and none of these holds him.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from kubevouch.api.admissionregistration_v1.matching import MatchCondition
from kubevouch.api.admissionregistration_v1.mutating_policies import (
    APPLY_CONFIGURATION,
    ApplyConfiguration,
    MutatingAdmissionPolicy,
    MutatingAdmissionPolicyBinding,
    MutatingAdmissionPolicyBindingSpec,
    MutatingAdmissionPolicySpec,
    Mutation,
)
from kubevouch.api.admissionregistration_v1.policies import (
    DENY,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
    ValidatingAdmissionPolicyBindingSpec,
    ValidatingAdmissionPolicySpec,
    Validation,
    Variable,
)
from kubevouch.api.admissionregistration_v1.policy_defaults import default_binding, default_policy
from kubevouch.api.admissionregistration_v1.webhooks import NEVER
from kubevouch.api.catalog import (
    CONFIG_MAPS,
    MUTATING_ADMISSION_POLICIES,
    MUTATING_ADMISSION_POLICY_BINDINGS,
    NODES,
    VALIDATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
)
from kubevouch.api.kubevouch_v1alpha1 import GROUP
from kubevouch.api.kubevouch_v1alpha1.catalog import (
    ATTESTATION_CHALLENGES,
    CERTIFICATE_APPROVALS,
    CERTIFICATE_REQUEST_POLICIES,
    CERTIFICATE_REVOCATIONS,
)
from kubevouch.api.kubevouch_v1alpha1.certificate_approvals import MAX_GROUPS
from kubevouch.api.kubevouch_v1alpha1.certificate_revocations import ENDED, HOLD
from kubevouch.api.kubevouch_v1alpha1.guarded_writes import about as _about
from kubevouch.api.kubevouch_v1alpha1.guarded_writes import annotation_of
from kubevouch.api.kubevouch_v1alpha1.writer_guards import WRITER_GUARDS
from kubevouch.machinery.meta import LabelSelector, Object, ObjectMeta
from kubevouch.machinery.scheme import Resource
from kubevouch.wellknown import (
    CREDENTIAL_ID_EXTRA,
    DECISION_PROTECTION_CONTROLLER,
    DECISION_RELEASES_PREFIX,
    KUBE_SYSTEM_NAMESPACE,
    NAMESPACE_NAME_LABEL,
    SERVICE_ACCOUNT_USER_PREFIX,
)

AUTHORS_ANNOTATION: Final = "kubevouch.io/authors"
"""Of a CertificateRequestPolicy: the users who have written its spec, a line each."""

APPROVERS, _AUTHORS = "approvers.kubevouch.io", "authors.kubevouch.io"
_REVOCATIONS, _REVOKERS = "revocations.kubevouch.io", "revokers.kubevouch.io"
_CHALLENGES, _OWN_NODES = "challenges.kubevouch.io", "own-nodes.kubevouch.io"
_RELEASES = "decision-releases.kubevouch.io"

OVERRIDE: Final = "override"
"""The verb; on the resource ``definitions`` of our group, which is never served."""
DEFINITIONS: Final = "definitions"


_APPROVER_POLICY = ValidatingAdmissionPolicy(
    metadata=ObjectMeta(name=APPROVERS),
    spec=ValidatingAdmissionPolicySpec(
        match_constraints=_about(CERTIFICATE_APPROVALS, "CREATE"),
        validations=[
            Validation(
                expression="object.spec.approver == request.userInfo.username",
                message_expression="'spec.approver must be who creates it: ' + request.userInfo.username",
                reason="Forbidden",
            ),
            Validation(
                expression="!has(object.spec.groups) || object.spec.groups.all(g, g in request.userInfo.groups)",
                message="spec.groups must be groups of who creates it",
                reason="Forbidden",
            ),
        ],
    ),
)

# By what he is known when the vote is counted: his rights by these groups, and whether the credential still counts.
_SHOWN = f"request.userInfo.extra['{CREDENTIAL_ID_EXTRA}']"
SHOWN_CREDENTIAL = (
    f"has(request.userInfo.extra) && '{CREDENTIAL_ID_EXTRA}' in request.userInfo.extra && "
    f"{_SHOWN}.size() > 0 ? {_SHOWN}[0] : ''"
)
_VOTER_POLICY = MutatingAdmissionPolicy(
    metadata=ObjectMeta(name=APPROVERS),
    spec=MutatingAdmissionPolicySpec(
        match_constraints=_about(CERTIFICATE_APPROVALS, "CREATE"),
        reinvocation_policy=NEVER,
        mutations=[
            Mutation(
                patch_type=APPLY_CONFIGURATION,
                apply_configuration=ApplyConfiguration(
                    expression="Object{spec: Object.spec{"
                    f"groups: request.userInfo.groups.size() > {MAX_GROUPS} ? [] : request.userInfo.groups, "
                    f"credential: {SHOWN_CREDENTIAL}}}}}"
                ),
            )
        ],
    ),
)

DECISION_PROTECTORS: Final = (
    f"{SERVICE_ACCOUNT_USER_PREFIX}{KUBE_SYSTEM_NAMESPACE}:{DECISION_PROTECTION_CONTROLLER}",
    f"{SERVICE_ACCOUNT_USER_PREFIX}kubevouch-system:kubevouch-controllers",
)
"""Who puts back what went without an admitted request, in our own server and by deploy/controllers."""
_NAMES = ", ".join(f"'{each}'" for each in DECISION_PROTECTORS)
# It names no author.
PUTS_BACK = f"request.userInfo.username in [{_NAMES}]"
_AS_IT_WAS = (
    f"{PUTS_BACK} && has(object.metadata.annotations) && '{AUTHORS_ANNOTATION}' in object.metadata.annotations ? "
    f"object.metadata.annotations['{AUTHORS_ANNOTATION}'] : ''"
)
_FORMER = f"oldObject == null ? ({_AS_IT_WAS}) : {annotation_of('oldObject', AUTHORS_ANNOTATION)}"
AUTHORS_NOW = (
    "(oldObject != null && object.spec == oldObject.spec) || "
    "request.userInfo.username in variables.former.split('\\n') ? variables.former : "
    "(variables.former == '' ? '' : variables.former + '\\n') + request.userInfo.username"
)
# Whoever may write policies could leave out, or put in, whom he likes.
_AUTHOR_POLICY = MutatingAdmissionPolicy(
    metadata=ObjectMeta(name=_AUTHORS),
    spec=MutatingAdmissionPolicySpec(
        match_constraints=_about(CERTIFICATE_REQUEST_POLICIES, "CREATE", "UPDATE"),
        variables=[Variable(name="former", expression=_FORMER)],
        reinvocation_policy=NEVER,
        mutations=[
            Mutation(
                patch_type=APPLY_CONFIGURATION,
                apply_configuration=ApplyConfiguration(
                    expression="Object{metadata: Object.metadata{annotations: {"
                    f"'{AUTHORS_ANNOTATION}': {AUTHORS_NOW}}}}}}}"
                ),
            )
        ],
    ),
)

# One name is one line there: with a line feed it would be two, and its owner none of them.
_ONE_LINE_POLICY = ValidatingAdmissionPolicy(
    metadata=ObjectMeta(name=_AUTHORS),
    spec=ValidatingAdmissionPolicySpec(
        match_constraints=_about(CERTIFICATE_REQUEST_POLICIES, "CREATE", "UPDATE"),
        validations=[
            Validation(
                expression="!request.userInfo.username.contains('\\n')",
                message="a user whose name has a line feed writes no policies, as authors are kept a line each",
                reason="Forbidden",
            ),
            Validation(
                expression="!has(request.userInfo.groups) || request.userInfo.groups.all(g, !g.contains('\\n'))",
                message="a user with a group whose name has a line feed writes no policies, as groups are kept a line "
                "each",
                reason="Forbidden",
            ),
        ],
    ),
)

# Deleting what lifts nothing but a hold is the one change that no schema sees.
_REVOCATION_POLICY = ValidatingAdmissionPolicy(
    metadata=ObjectMeta(name=_REVOCATIONS),
    spec=ValidatingAdmissionPolicySpec(
        match_constraints=_about(CERTIFICATE_REVOCATIONS, "DELETE"),
        validations=[
            Validation(
                expression=f"oldObject.spec.reason == '{HOLD}' || (has(oldObject.status) && "
                "has(oldObject.status.conditions) && oldObject.status.conditions.exists(c, "
                f"c.type == '{ENDED}' && c.status == 'True'))",
                message_expression="'it revokes for ' + oldObject.spec.reason + "
                f"', and only {HOLD}, or what has ended, is deleted: issue another certificate'",
                reason="Forbidden",
            )
        ],
    ),
)


def _stamping(
    name: str, resource: Resource[Any], field: str, who: str = "request.userInfo.username"
) -> MutatingAdmissionPolicy:
    """Who creates the object stands in this field of its spec, whatever he has written there."""
    stamped = f"Object{{spec: Object.spec{{{field}: {who}}}}}"
    return MutatingAdmissionPolicy(
        metadata=ObjectMeta(name=name),
        spec=MutatingAdmissionPolicySpec(
            match_constraints=_about(resource, "CREATE"),
            reinvocation_policy=NEVER,
            mutations=[
                Mutation(patch_type=APPLY_CONFIGURATION, apply_configuration=ApplyConfiguration(expression=stamped))
            ],
        ),
    )


REVOKER_NOW = f"{PUTS_BACK} && has(object.spec.requestedBy) ? object.spec.requestedBy : request.userInfo.username"
_REVOKER_POLICY = _stamping(_REVOKERS, CERTIFICATE_REVOCATIONS, "requestedBy", REVOKER_NOW)
# How many one machine, or one token, may have at a time is counted by who made them.
_CHALLENGER_POLICY = _stamping(_CHALLENGES, ATTESTATION_CHALLENGES, "requester")

# They are cleared away after two minutes. One with a finalizer stays, and whoever has a token could fill the store.
_CHALLENGE_POLICY = ValidatingAdmissionPolicy(
    metadata=ObjectMeta(name=_CHALLENGES),
    spec=ValidatingAdmissionPolicySpec(
        match_constraints=_about(ATTESTATION_CHALLENGES, "CREATE"),
        validations=[
            Validation(
                expression="!has(object.metadata.finalizers) && !has(object.metadata.ownerReferences)",
                message="a challenge has no finalizers and no ownerReferences: it goes when it has ended",
                reason="Forbidden",
            )
        ],
    ),
)


def guard(policy: ValidatingAdmissionPolicy | MutatingAdmissionPolicy) -> Sequence[tuple[Resource[Any], Object]]:
    """The policy, and a binding of its name that holds everybody to it."""
    meta = ObjectMeta(name=policy.metadata.name)
    if isinstance(policy, MutatingAdmissionPolicy):
        changes = MutatingAdmissionPolicyBindingSpec(policy_name=meta.name)
        binding = default_binding(MutatingAdmissionPolicyBinding(metadata=meta, spec=changes))
        return (
            (MUTATING_ADMISSION_POLICIES, default_policy(policy)),
            (MUTATING_ADMISSION_POLICY_BINDINGS, binding),
        )
    denies = ValidatingAdmissionPolicyBindingSpec(policy_name=meta.name, validation_actions=[DENY])
    return (
        (VALIDATING_ADMISSION_POLICIES, default_policy(policy)),
        (
            VALIDATING_ADMISSION_POLICY_BINDINGS,
            default_binding(ValidatingAdmissionPolicyBinding(metadata=meta, spec=denies)),
        ),
    )


# With its Node the claim goes on its name, and anybody could have it: that is for people to say. Kubernetes' own rights
# of nodes leave this out, too, until somebody adds to them.
_NODES_POLICY = ValidatingAdmissionPolicy(
    metadata=ObjectMeta(name=_OWN_NODES),
    spec=ValidatingAdmissionPolicySpec(
        match_constraints=_about(NODES, "DELETE"),
        validations=[
            Validation(
                expression="!request.userInfo.username.startsWith('system:node:')",
                message="a node deletes no Nodes, nor its own: with it goes the claim on its name",
                reason="Forbidden",
            )
        ],
    ),
)

# Whoever could write there could say that a decision was taken back, and then have its object go past admission.
_OF_RELEASES = "(request.operation == 'DELETE' ? oldObject : object)"
_RELEASES_POLICY = ValidatingAdmissionPolicy(
    metadata=ObjectMeta(name=_RELEASES),
    spec=ValidatingAdmissionPolicySpec(
        match_constraints=msgspec.structs.replace(
            _about(CONFIG_MAPS, "CREATE", "UPDATE", "DELETE"),
            namespace_selector=LabelSelector(match_labels={NAMESPACE_NAME_LABEL: KUBE_SYSTEM_NAMESPACE}),
        ),
        # Not by resourceNames: who deletes a whole collection names nothing.
        match_conditions=[
            MatchCondition(
                name="of-ours",
                expression=f"has({_OF_RELEASES}.metadata.name) && "
                f"{_OF_RELEASES}.metadata.name.startsWith('{DECISION_RELEASES_PREFIX}')",
            )
        ],
        validations=[
            Validation(
                expression=f"{PUTS_BACK} || "
                f"authorizer.group('{GROUP}').resource('{DEFINITIONS}').check('{OVERRIDE}').allowed()",
                message=f"{DECISION_PROTECTION_CONTROLLER} alone writes down which decisions were taken back; others "
                f"need the verb {OVERRIDE} on {DEFINITIONS}.{GROUP}",
                reason="Forbidden",
            )
        ],
    ),
)

GUARDS: Sequence[tuple[Resource[Any], Object]] = (
    *guard(_APPROVER_POLICY),
    *guard(_VOTER_POLICY),
    *guard(_REVOCATION_POLICY),
    *guard(_REVOKER_POLICY),
    *guard(_ONE_LINE_POLICY),
    *guard(_AUTHOR_POLICY),
    *guard(_CHALLENGER_POLICY),
    *guard(_CHALLENGE_POLICY),
    *guard(_NODES_POLICY),
    *guard(_RELEASES_POLICY),
    *(each for policy in WRITER_GUARDS for each in guard(policy)),
)
"""Policies and their bindings."""


def authors_of(policy: Object) -> frozenset[str]:
    """Who has written the policy's spec, as the guard has it."""
    return frozenset(policy.metadata.annotations.get(AUTHORS_ANNOTATION, "").split("\n")) - {""}
