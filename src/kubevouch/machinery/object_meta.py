"""The rules of ``metadata`` that hold for every kind, at creation, on update and at deletion.

Sources: k8s.io/apimachinery/pkg/api/validation/objectmeta.go, pkg/apis/meta/v1/validation, pkg/apis/core/validation,
k8s.io/apiserver/pkg/registry/generic/registry/store.go, pkg/endpoints/handlers/rest.go (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Iterable

from kubevouch.machinery import field
from kubevouch.machinery.field import FieldError, TypedString
from kubevouch.machinery.meta import DeleteOptions, ManagedFieldsEntry, ObjectMeta, OwnerReference
from kubevouch.machinery.scheme import GroupVersion, GroupVersionKind
from kubevouch.machinery.text import gotext, names
from kubevouch.machinery.text.names import NameRule
from kubevouch.wellknown import FOREGROUND_FINALIZER, NAMESPACE_FINALIZER, ORPHAN_FINALIZER

MAX_ANNOTATIONS_BYTES = 256 * 1024  # keys and values together
MAX_FIELD_MANAGER_BYTES = 128
MAX_SUBRESOURCE_BYTES = 256

_STANDARD_FINALIZERS = frozenset({ORPHAN_FINALIZER, FOREGROUND_FINALIZER, NAMESPACE_FINALIZER})
_BANNED_OWNERS = frozenset({GroupVersionKind("", "v1", "Event")})
_IMMUTABLE = "field is immutable"


def validate_object_meta(
    meta: ObjectMeta,
    namespaced: bool,
    name_rule: NameRule,
    path: str = "metadata",
    *,
    standard_finalizers: bool = True,
) -> list[FieldError]:
    """What is wrong with the metadata of an object to be created; a generated name must already be in place.

    Args:
        standard_finalizers: as in :func:`validate_object_meta_update`.
    """
    errors = _validate_names(meta, name_rule, path)
    if namespaced:
        if meta.namespace:
            errors += _all_invalid(f"{path}.namespace", meta.namespace, names.dns_label(meta.namespace))
        else:
            errors.append(field.required(f"{path}.namespace"))
    elif meta.namespace:
        errors.append(field.forbidden(f"{path}.namespace", "not allowed on this type"))
    if meta.generation < 0:
        errors.append(field.invalid(f"{path}.generation", meta.generation, "must be greater than or equal to 0"))
    errors += _validate_common(meta, path, finalizers=True)
    if standard_finalizers:
        errors += validate_standard_finalizers(meta.finalizers, f"{path}.finalizers")
    return errors


def validate_path_segments(meta: ObjectMeta, path: str = "metadata") -> list[FieldError]:
    """The second pass at creation: whatever the kind allows, a name has to fit into a URL."""
    return _validate_names(meta, names.path_segment_name, path)


def validate_object_meta_update(
    new: ObjectMeta, old: ObjectMeta, path: str = "metadata", *, standard_finalizers: bool = False
) -> list[FieldError]:
    """What is wrong with the metadata that is to replace ``old``.

    Args:
        standard_finalizers: also refuse unqualified finalizers, as the kinds of Kubernetes' own groups do in addition
            to the check that all kinds share.
    """
    errors = []
    if old.deletion_timestamp is not None:
        extra = sorted(set(new.finalizers) - set(old.finalizers))
        if extra:
            errors.append(
                field.forbidden(
                    f"{path}.finalizers",
                    "no new finalizers can be added if the object is being deleted, found new finalizers "
                    f"{gotext.string_slice_syntax(extra)}",
                )
            )
    if not new.resource_version:
        errors.append(field.invalid(f"{path}.resourceVersion", "", "must be specified for an update"))
    if new.generation < old.generation:
        errors.append(field.invalid(f"{path}.generation", new.generation, "must not be decremented"))
    for name, value, before in (
        ("name", new.name, old.name),
        ("namespace", new.namespace, old.namespace),
        ("uid", TypedString(new.uid), old.uid),
        ("creationTimestamp", new.creation_timestamp, old.creation_timestamp),
        ("deletionTimestamp", new.deletion_timestamp, old.deletion_timestamp),
        ("deletionGracePeriodSeconds", new.deletion_grace_period_seconds, old.deletion_grace_period_seconds),
    ):
        if value != before:
            errors.append(field.invalid(f"{path}.{name}", value, _IMMUTABLE))
    errors += _validate_common(new, path, finalizers=False)
    if standard_finalizers:
        errors += validate_standard_finalizers(new.finalizers, f"{path}.finalizers")
    return errors


def _validate_names(meta: ObjectMeta, name_rule: NameRule, path: str) -> list[FieldError]:
    errors = []
    if meta.generate_name:
        errors += _all_invalid(f"{path}.generateName", meta.generate_name, name_rule(meta.generate_name, True))
    if meta.name:
        errors += _all_invalid(f"{path}.name", meta.name, name_rule(meta.name, False))
    else:
        errors.append(field.required(f"{path}.name", "name or generateName is required"))
    return errors


def _validate_common(meta: ObjectMeta, path: str, *, finalizers: bool) -> list[FieldError]:
    errors = []
    if meta.labels:
        errors += validate_labels(meta.labels, f"{path}.labels")
    if meta.annotations:
        errors += validate_annotations(meta.annotations, f"{path}.annotations")
    if meta.owner_references:
        errors += validate_owner_references(meta.owner_references, f"{path}.ownerReferences")
    if finalizers and meta.finalizers:
        errors += validate_finalizers(meta.finalizers, f"{path}.finalizers")
    if meta.managed_fields:
        errors += validate_managed_fields(meta.managed_fields, f"{path}.managedFields")
    return errors


def _all_invalid(path: str, value: object, messages: Iterable[str]) -> list[FieldError]:
    return [field.invalid(path, value, message) for message in messages]


def validate_labels(labels: dict[str, str], path: str) -> list[FieldError]:
    errors = []
    for key, value in labels.items():
        errors += _all_invalid(path, key, names.qualified_name(key))
        errors += _all_invalid(path, value, names.label_value(value))
    return errors


def validate_annotations(annotations: dict[str, str], path: str) -> list[FieldError]:
    errors = []
    for key in annotations:
        errors += _all_invalid(path, key, names.qualified_name(key.lower()))
    if annotations_size(annotations) > MAX_ANNOTATIONS_BYTES:
        errors.append(field.too_long(path, MAX_ANNOTATIONS_BYTES))
    return errors


def annotations_size(annotations: dict[str, str]) -> int:
    """Bytes of all keys and values."""
    return sum(_byte_length(key) + _byte_length(value) for key, value in annotations.items())


def _byte_length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def validate_owner_references(references: list[OwnerReference], path: str) -> list[FieldError]:
    errors = []
    controller = ""
    for reference in references:
        errors += _validate_owner_reference(reference, path)
        if reference.controller:
            named = f"{reference.kind}/{reference.name}"
            if controller:
                why = (
                    "Only one reference can have Controller set to true. "
                    f'Found "true" in references for {controller} and {named}'
                )
                errors.append(field.invalid(path, references, why))
            else:
                controller = named
    return errors


def _validate_owner_reference(reference: OwnerReference, path: str) -> list[FieldError]:
    try:
        group, version = GroupVersion.parse(reference.api_version)
    except ValueError:
        group, version = "", ""
    errors = []
    if not version:
        errors.append(field.invalid(f"{path}.apiVersion", reference.api_version, "version must not be empty"))
    for name, value in (("kind", reference.kind), ("name", reference.name), ("uid", TypedString(reference.uid))):
        if not value:
            errors.append(field.invalid(f"{path}.{name}", value, "must not be empty"))
    owner = GroupVersionKind(group, version, reference.kind)
    if owner in _BANNED_OWNERS:
        errors.append(field.invalid(path, reference, f"{owner} is disallowed from being an owner"))
    return errors


def validate_finalizers(finalizers: list[str], path: str) -> list[FieldError]:
    errors = []
    for finalizer in finalizers:
        errors += _all_invalid(path, finalizer, names.qualified_name(finalizer))
    if ORPHAN_FINALIZER in finalizers and FOREGROUND_FINALIZER in finalizers:
        errors.append(
            field.invalid(
                path, finalizers, f"finalizer {ORPHAN_FINALIZER} and {FOREGROUND_FINALIZER} cannot be both set"
            )
        )
    return errors


def validate_standard_finalizers(finalizers: list[str], path: str) -> list[FieldError]:
    return [
        field.invalid(
            f"{path}[{index}]", finalizer, "name is neither a standard finalizer name nor is it fully qualified"
        )
        for index, finalizer in enumerate(finalizers)
        if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS
    ]


def validate_managed_fields(entries: list[ManagedFieldsEntry], path: str) -> list[FieldError]:
    errors = []
    for index, entry in enumerate(entries):
        at = f"{path}[{index}]"
        if entry.operation not in ("Apply", "Update"):
            errors.append(field.invalid(f"{at}.operation", TypedString(entry.operation), "must be `Apply` or `Update`"))
        if entry.fields_type not in ("", "FieldsV1"):
            errors.append(field.invalid(f"{at}.fieldsType", entry.fields_type, "must be `FieldsV1`"))
        errors += validate_field_manager(entry.manager, f"{at}.manager")
        if _byte_length(entry.subresource) > MAX_SUBRESOURCE_BYTES:
            errors.append(field.too_long(f"{at}.subresource", MAX_SUBRESOURCE_BYTES))
    return errors


def validate_field_manager(manager: str, path: str = "fieldManager") -> list[FieldError]:
    """The name of a field manager, in managedFields and in the query of a request."""
    if _byte_length(manager) > MAX_FIELD_MANAGER_BYTES:
        # Kubernetes goes on and prints all of it for each bad character: a megabyte of them would be a terabyte.
        return [field.too_long(path, MAX_FIELD_MANAGER_BYTES)]
    errors = []
    position = 0
    for char in manager:
        if not gotext.is_printable(char):
            why = f"invalid character U+{ord(char):04X} (at position {position})"
            errors.append(field.invalid(path, manager, why))
        position += _byte_length(char)
    return errors


# ------------------------------------------------------------------ owners and deletion

DUPLICATE_OWNERS_WARNING = (
    ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject "
    "such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: "
)


def deduplicate_owner_references(references: list[OwnerReference], warnings: list[str]) -> list[OwnerReference]:
    """``references`` without entries that are equal in all fields; a warning is added to ``warnings`` if there are."""
    if len(references) < 2:
        return references
    seen: set[object] = set()
    kept, duplicates = [], []
    for ref in references:
        identity = (ref.api_version, ref.kind, ref.name, ref.uid, ref.controller, ref.block_owner_deletion)
        if identity in seen:
            duplicates.append(ref.uid)
        else:
            seen.add(identity)
            kept.append(ref)
    if not duplicates:
        return references
    warnings.append(f"{DUPLICATE_OWNERS_WARNING}{', '.join(duplicates)}")
    return kept


def deletion_finalizers(meta: ObjectMeta, options: DeleteOptions) -> list[str]:
    """The finalizers that an object has once its deletion was asked for with ``options``.

    Deletion policy adds ``orphan`` or ``foregroundDeletion`` for the garbage collector, or takes them away; without a
    policy those on the object stay.
    """
    wanted = _garbage_collection(meta, options)
    kept = [finalizer for finalizer in meta.finalizers if finalizer not in (ORPHAN_FINALIZER, FOREGROUND_FINALIZER)]
    if wanted:
        kept.append(wanted)
    return meta.finalizers if set(kept) == set(meta.finalizers) else kept


def _garbage_collection(meta: ObjectMeta, options: DeleteOptions) -> str:
    if options.orphan_dependents is not None:
        return ORPHAN_FINALIZER if options.orphan_dependents else ""
    if options.propagation_policy is not None:
        return {"Orphan": ORPHAN_FINALIZER, "Foreground": FOREGROUND_FINALIZER}.get(options.propagation_policy, "")
    return next(
        (finalizer for finalizer in meta.finalizers if finalizer in (ORPHAN_FINALIZER, FOREGROUND_FINALIZER)), ""
    )
