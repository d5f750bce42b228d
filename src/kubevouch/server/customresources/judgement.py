"""What is to be said of a definition beside the others of its group; no I/O.

Sources: apiextensions-apiserver pkg/controller/{status,establish,apiapproval} (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from kubevouch.api.apiextensions_v1.approval import Approval, approval_of, is_protected
from kubevouch.api.apiextensions_v1.conditions import (
    API_APPROVED,
    ESTABLISHED,
    FALSE,
    NAMES_ACCEPTED,
    NON_STRUCTURAL_SCHEMA,
    TRUE,
    Finding,
    condition_of,
    is_true,
    with_finding,
    without_condition,
)
from kubevouch.api.apiextensions_v1.definitions import (
    CustomResourceDefinition,
    CustomResourceDefinitionNames,
)
from kubevouch.api.webhook_clients import ca_bundle_fault
from kubevouch.machinery import field
from kubevouch.machinery.text.gotext import quote
from kubevouch.machinery.text.times import Time
from kubevouch.structural.structure_checks import check_structure, unsupported

_NO_CONFLICTS = Finding(NAMES_ACCEPTED, TRUE, "NoConflicts", "no conflicts found")
_NOT_ACCEPTED = Finding(ESTABLISHED, FALSE, "NotAccepted", "not all names are accepted")
_INVALID_CA_BUNDLE = Finding(ESTABLISHED, FALSE, "InvalidCABundle", "The conversion webhook CABundle is invalid")
_ACCEPTED = Finding(ESTABLISHED, TRUE, "InitialNamesAccepted", "the initial names have been accepted")


def judged(
    definition: CustomResourceDefinition, group: Iterable[CustomResourceDefinition], now: Time
) -> CustomResourceDefinition:
    """The definition with what is to be said of it.

    kube-apiserver says it in two steps, with Established False in between; here it is served before anybody hears.

    Args:
        group: all definitions of its group, itself among them.
    """
    status = definition.status
    if definition.spec.names != status.accepted_names:
        names, finding = _accepted_names(definition, group)
        status = msgspec.structs.replace(status, accepted_names=names)
        definition = _said(msgspec.structs.replace(definition, status=status), finding, now)
        if finding is not _NO_CONFLICTS and condition_of(definition, ESTABLISHED) is None:
            definition = _said(definition, _NOT_ACCEPTED, now)
    if is_true(definition, NAMES_ACCEPTED) and not is_true(definition, ESTABLISHED):
        definition = _said(definition, _ACCEPTED if _has_usable_ca(definition) else _INVALID_CA_BUNDLE, now)
    if definition.spec.preserve_unknown_fields:
        definition = _said(definition, _violations(definition), now)
    elif condition_of(definition, NON_STRUCTURAL_SCHEMA) is not None:
        definition = without_condition(definition, NON_STRUCTURAL_SCHEMA)
    if is_protected(definition.spec.group):
        definition = _said(definition, _approval(definition), now)
    return definition


def _said(definition: CustomResourceDefinition, finding: Finding, now: Time) -> CustomResourceDefinition:
    known = condition_of(definition, finding.type)
    return definition if finding.is_said_by(known) else with_finding(definition, finding, now)


def _approval(definition: CustomResourceDefinition) -> Finding:
    state, text = approval_of(definition.metadata.annotations)
    return Finding(API_APPROVED, TRUE if state is Approval.APPROVED else FALSE, state.value, text)


def _violations(definition: CustomResourceDefinition) -> Finding:
    """What is wrong with schemas that are older than the rules for them (pkg/controller/nonstructuralschema)."""
    errors = [field.invalid("spec.preserveUnknownFields", True, "must be false")]
    for index, version in enumerate(definition.spec.versions):
        schema = None if version.schema is None else version.schema.open_api_v3_schema
        if schema is None:
            continue
        if why := unsupported(schema.tree):
            text = f"failed to check validation schema for version {version.name}: {why}"
            return Finding(NON_STRUCTURAL_SCHEMA, TRUE, "StructuralError", text)
        errors += check_structure(schema.tree, f"spec.versions[{index}].schema.openAPIV3Schema")
    return Finding(NON_STRUCTURAL_SCHEMA, TRUE, "Violations", field.aggregate(errors))


# ------------------------------------------------------------------ names


class _Taken(NamedTuple):
    """The names that are in use in a group: in paths, and as kinds."""

    resources: frozenset[str]
    kinds: frozenset[str]


def _taken(group: Iterable[CustomResourceDefinition]) -> _Taken:
    accepted = [each.status.accepted_names for each in group]
    return _Taken(
        frozenset(name for names in accepted for name in (names.plural, names.singular, *names.short_names)),
        frozenset(name for names in accepted for name in (names.kind, names.list_kind)),
    )


def _accepted_names(
    definition: CustomResourceDefinition, group: Iterable[CustomResourceDefinition]
) -> tuple[CustomResourceDefinitionNames, Finding]:
    """Each name that is free or its own already; the last that is neither is the reason."""
    taken = _taken(group)
    wanted, accepted = definition.spec.names, definition.status.accepted_names
    found, finding = {"categories": wanted.categories}, _NO_CONFLICTS
    for name, reason, used in (
        ("plural", "PluralConflict", taken.resources),
        ("singular", "SingularConflict", taken.resources),
        ("short_names", "ShortNamesConflict", taken.resources),
        ("kind", "KindConflict", taken.kinds),
        ("list_kind", "ListKindConflict", taken.kinds),
    ):
        new, old = getattr(wanted, name), getattr(accepted, name)
        if name == "short_names":
            own = {*old, accepted.plural, accepted.singular}
            clashes = [each for each in new if each not in own and each in used] if new != old else []
        else:
            clashes = [new] if new != old and new in used else []
        if clashes:
            finding = Finding(NAMES_ACCEPTED, FALSE, reason, _in_use(clashes))
        else:
            found[name] = new
    return msgspec.structs.replace(accepted, **found), finding


def _in_use(clashes: list[str]) -> str:
    texts = list(dict.fromkeys(f"{quote(each)} is already in use" for each in clashes))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


# ------------------------------------------------------------------ established


def _has_usable_ca(definition: CustomResourceDefinition) -> bool:
    conversion = definition.spec.conversion
    webhook = None if conversion is None else conversion.webhook
    config = None if webhook is None else webhook.client_config
    return config is None or not config.ca_bundle or not ca_bundle_fault(config.ca_bundle)
