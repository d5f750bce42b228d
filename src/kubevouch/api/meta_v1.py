"""meta.k8s.io/v1 beyond what every kind needs: the options of requests, selectors, conditions.

Source: k8s.io/apimachinery/pkg/apis/meta/v1 and its validation, .../internalversion/validation (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from kubevouch.machinery import field, object_meta
from kubevouch.machinery.declaration import Int64, Struct, always, named, null, wire
from kubevouch.machinery.field import FieldError, TypedString
from kubevouch.machinery.meta import DeleteOptions, LabelSelector, LabelSelectorRequirement
from kubevouch.machinery.text import names, selectors
from kubevouch.machinery.text.times import Time

GROUP = "meta.k8s.io"

FOREGROUND = "Foreground"
BACKGROUND = "Background"
ORPHAN = "Orphan"
EXACT = "Exact"
NOT_OLDER_THAN = "NotOlderThan"
DRY_RUN_ALL = "All"

_CONDITION_STATUSES = ("False", "True", "Unknown")
_MAX_CONDITION_REASON = 1024
_MAX_CONDITION_MESSAGE = 32 * 1024

_FIELD_VALIDATIONS = ("", "Ignore", "Strict", "Warn")


class GroupVersionKind(Struct):
    """A kind, by all parts of its name."""

    group: Annotated[str, wire(1, "The group.", required=True)] = always(str)
    version: Annotated[str, wire(2, "The version.", required=True)] = always(str)
    kind: Annotated[str, wire(3, "The kind.", required=True)] = always(str)


class Condition(Struct):
    """One thing that is observed of an object, in the form that most kinds use."""

    type: Annotated[str, wire(1, "What is observed.", required=True)] = always(str)
    status: Annotated[str, wire(2, "True, False or Unknown.", required=True, enum=_CONDITION_STATUSES)] = always(str)
    observed_generation: Annotated[Int64, wire(3, "The generation of the object that was observed.")] = 0
    last_transition_time: Annotated[Time | None, wire(4, "When the status last changed.", required=True)] = null()
    reason: Annotated[str, wire(5, "Why, in one word for machines.", required=True)] = always(str)
    message: Annotated[str, wire(6, "What was observed, for people.", required=True)] = always(str)


class CreateOptions(Struct):
    """Options of a POST."""

    kind: Annotated[str, wire(0)] = ""
    api_version: Annotated[str, wire(0)] = ""
    dry_run: Annotated[list[str], wire(1, "All: do everything but store.", list_type="atomic")] = []
    field_manager: Annotated[str, wire(3, "The name under which ownership of fields is recorded.")] = ""
    field_validation: Annotated[str, wire(4, "What to do about unknown fields: Ignore, Warn or Strict.")] = ""


class UpdateOptions(Struct):
    """Options of a PUT."""

    kind: Annotated[str, wire(0)] = ""
    api_version: Annotated[str, wire(0)] = ""
    dry_run: Annotated[list[str], wire(1, "All: do everything but store.", list_type="atomic")] = []
    field_manager: Annotated[str, wire(2, "The name under which ownership of fields is recorded.")] = ""
    field_validation: Annotated[str, wire(3, "What to do about unknown fields: Ignore, Warn or Strict.")] = ""


class PatchOptions(Struct):
    """Options of a PATCH."""

    kind: Annotated[str, wire(0)] = ""
    api_version: Annotated[str, wire(0)] = ""
    dry_run: Annotated[list[str], wire(1, "All: do everything but store.", list_type="atomic")] = []
    force: Annotated[bool | None, wire(2, "Take fields over from other managers; for apply only.")] = None
    field_manager: Annotated[str, wire(3, "The name under which ownership of fields is recorded.")] = ""
    field_validation: Annotated[str, wire(4, "What to do about unknown fields: Ignore, Warn or Strict.")] = ""


class GetOptions(Struct):
    """Options of a GET of one object."""

    kind: Annotated[str, wire(0)] = ""
    api_version: Annotated[str, wire(0)] = ""
    resource_version: Annotated[str, wire(1, "The object must be at least as new.")] = ""


class ListOptions(Struct):
    """Options of a list or a watch."""

    kind: Annotated[str, wire(0)] = ""
    api_version: Annotated[str, wire(0)] = ""
    label_selector: Annotated[str, wire(1, "Only objects with such labels.")] = ""
    field_selector: Annotated[str, wire(2, "Only objects with such fields.")] = ""
    watch: Annotated[bool, wire(3, "Stream changes instead of listing.")] = False
    allow_watch_bookmarks: Annotated[bool, wire(9, "The client understands bookmarks.")] = False
    resource_version: Annotated[str, wire(4, "The version to list at or to watch from.")] = ""
    resource_version_match: Annotated[str, wire(10, "How resourceVersion is meant: Exact or NotOlderThan.")] = ""
    timeout_seconds: Annotated[Int64 | None, wire(5, "End after so many seconds.")] = None
    limit: Annotated[Int64, wire(7, "At most so many objects a page.")] = 0
    continue_: Annotated[str, wire(8, "Go on where the last page ended.", proto_name="continue")] = named("continue")
    send_initial_events: Annotated[bool | None, wire(11, "Begin a watch with what there is, and say when it ends.")] = (
        None
    )
    shard_selector: Annotated[str, wire(15, "Only a share of the objects; not supported here.")] = ""


# ------------------------------------------------------------------ options


def validate_create_options(options: CreateOptions) -> list[FieldError]:
    return _write_errors(options)


def validate_update_options(options: UpdateOptions) -> list[FieldError]:
    return _write_errors(options)


def validate_patch_options(options: PatchOptions, *, apply: bool) -> list[FieldError]:
    """``apply``: the patch is a server-side apply."""
    errors = []
    if apply:
        if not options.field_manager:
            errors.append(field.required("fieldManager", "is required for apply patch"))
    elif options.force is not None:
        errors.append(field.forbidden("force", "may not be specified for non-apply patch"))
    return errors + _write_errors(options)


def _write_errors(options: CreateOptions | UpdateOptions | PatchOptions) -> list[FieldError]:
    errors = object_meta.validate_field_manager(options.field_manager) + _dry_run_errors(options.dry_run)
    if options.field_validation not in _FIELD_VALIDATIONS:
        errors.append(field.not_supported("fieldValidation", options.field_validation, _FIELD_VALIDATIONS))
    return errors


def _dry_run_errors(values: list[str]) -> list[FieldError]:
    if all(value == DRY_RUN_ALL for value in values):
        return []
    return [field.not_supported("dryRun", values, (DRY_RUN_ALL,))]


def validate_delete_options(options: DeleteOptions) -> list[FieldError]:
    errors = []
    policy = options.propagation_policy
    if policy is not None:
        shown = TypedString(policy)
        if options.orphan_dependents is not None:
            errors.append(
                field.invalid("propagationPolicy", shown, "orphanDependents and deletionPropagation cannot be both set")
            )
        if policy not in (FOREGROUND, BACKGROUND, ORPHAN):
            errors.append(field.not_supported("propagationPolicy", shown, (FOREGROUND, BACKGROUND, ORPHAN, "nil")))
    return errors + _read_error_errors(options) + _dry_run_errors(options.dry_run)


def _read_error_errors(options: DeleteOptions) -> list[FieldError]:
    """Nothing that has to be read of an object can be asked of one that cannot be read."""
    if not options.ignore_store_read_error_with_cluster_breaking_potential:
        return []
    others = {
        "dryRun": options.dry_run or None,
        "propagationPolicy": options.propagation_policy,
        "orphanDependents": options.orphan_dependents,
        "gracePeriodSeconds": options.grace_period_seconds,
        "preconditions": options.preconditions,
    }
    path = "ignoreStoreReadErrorWithClusterBreakingPotential"
    return [
        field.invalid(path, True, f"cannot be set together with .{name}")
        for name, value in others.items()
        if value is not None
    ]


def validate_list_options(options: ListOptions) -> list[FieldError]:
    """The rules that the options of a list or, with ``watch``, of a watch have among themselves."""
    return _watch_errors(options) if options.watch else _list_errors(options)


_MATCH = "resourceVersionMatch"
_MATCH_WITH_CONTINUE = "resourceVersionMatch is forbidden when continue is provided"


def _list_errors(options: ListOptions) -> list[FieldError]:
    errors = []
    match = options.resource_version_match
    if match:
        if not options.resource_version:
            errors.append(
                field.forbidden(_MATCH, "resourceVersionMatch is forbidden unless resourceVersion is provided")
            )
        if options.continue_:
            errors.append(field.forbidden(_MATCH, _MATCH_WITH_CONTINUE))
        if match not in (EXACT, NOT_OLDER_THAN):
            errors.append(field.not_supported(_MATCH, TypedString(match), (EXACT, NOT_OLDER_THAN, "")))
        if match == EXACT and options.resource_version == "0":
            errors.append(field.forbidden(_MATCH, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'))
    if options.send_initial_events is not None:
        errors.append(field.forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    return errors


def _watch_errors(options: ListOptions) -> list[FieldError]:
    errors = []
    match = options.resource_version_match
    if options.send_initial_events is not None and match != NOT_OLDER_THAN:
        errors.append(
            field.forbidden(_MATCH, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
        )
    if match:
        if options.send_initial_events is None:
            errors.append(
                field.forbidden(
                    _MATCH, "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
                )
            )
        if match != NOT_OLDER_THAN:
            errors.append(field.not_supported(_MATCH, TypedString(match), (NOT_OLDER_THAN,)))
        if options.continue_:
            errors.append(field.forbidden(_MATCH, _MATCH_WITH_CONTINUE))
    return errors


# ------------------------------------------------------------------ label selectors


def validate_label_selector(
    selector: LabelSelector, path: str, *, tolerate_label_values: bool = False
) -> list[FieldError]:
    """``tolerate_label_values``: values that are no label values may stand in expressions.

    The bound is our own: each of these selectors is asked about object after object.
    """
    terms = selectors.terms_of(selector)
    if terms > selectors.MAX_TERMS:
        return [field.too_many(path, terms, selectors.MAX_TERMS)]
    errors = object_meta.validate_labels(selector.match_labels, f"{path}.matchLabels")
    for index, requirement in enumerate(selector.match_expressions):
        errors += validate_label_requirement(
            requirement, f"{path}.matchExpressions[{index}]", tolerate_label_values=tolerate_label_values
        )
    return errors


def validate_label_requirement(
    requirement: LabelSelectorRequirement,
    path: str,
    *,
    tolerate_label_values: bool = False,
    tolerate_operators: bool = False,
) -> list[FieldError]:
    """``tolerate_operators``: operators that are not known here pass, as in access reviews of newer clients."""
    errors = []
    operator, values = requirement.operator, requirement.values
    if operator in ("In", "NotIn"):
        if not values:
            errors.append(field.required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            errors.append(
                field.forbidden(f"{path}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
            )
    elif not tolerate_operators:
        errors.append(field.invalid(f"{path}.operator", TypedString(operator), "not a valid selector operator"))
    errors += _each(f"{path}.key", requirement.key, names.qualified_name(requirement.key))
    if not tolerate_label_values:
        for index, value in enumerate(values):
            errors += _each(f"{path}.values[{index}]", value, names.label_value(value))
    return errors


def _each(path: str, value: str, messages: Iterable[str]) -> Iterable[FieldError]:
    return (field.invalid(path, value, message) for message in messages)


def validate_conditions(conditions: Iterable[Condition], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        at = f"{path}[{index}]"
        if condition.type in seen:
            errors.append(field.duplicate(f"{at}.type", condition.type))
        seen.add(condition.type)
        errors += _validate_condition(condition, at)
    return errors


def _validate_condition(condition: Condition, path: str) -> list[FieldError]:
    errors = [field.invalid(f"{path}.type", condition.type, each) for each in names.qualified_name(condition.type)]
    if condition.status not in _CONDITION_STATUSES:
        errors.append(field.not_supported(f"{path}.status", condition.status, _CONDITION_STATUSES))
    if condition.observed_generation < 0:
        why = "must be greater than or equal to zero"
        errors.append(field.invalid(f"{path}.observedGeneration", condition.observed_generation, why))
    if condition.last_transition_time is None or condition.last_transition_time.is_zero:
        errors.append(field.required(f"{path}.lastTransitionTime"))
    if not condition.reason:
        errors.append(field.required(f"{path}.reason"))
    else:
        faults = names.condition_reason(condition.reason)
        errors += [field.invalid(f"{path}.reason", condition.reason, each) for each in faults]
        if len(condition.reason) > _MAX_CONDITION_REASON:
            errors.append(field.too_long(f"{path}.reason", _MAX_CONDITION_REASON))
    if len(condition.message.encode()) > _MAX_CONDITION_MESSAGE:
        errors.append(field.too_long(f"{path}.message", _MAX_CONDITION_MESSAGE))
    return errors
