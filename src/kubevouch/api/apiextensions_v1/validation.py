"""What is wrong with definitions of custom kinds.

Kubernetes validates an internal form, which shows in paths and in printed values: what all versions have alike stands
in ``spec`` once.

Source: k8s.io/apiextensions-apiserver pkg/apis/apiextensions/validation/validation.go and v1/conversion.go
(Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from kubevouch.api.apiextensions_v1.approval import ANNOTATION, Approval, approval_of, is_protected
from kubevouch.api.apiextensions_v1.conditions import ESTABLISHED, is_true
from kubevouch.api.apiextensions_v1.conversion_rules import choice_errors, conversion_errors
from kubevouch.api.apiextensions_v1.definitions import (
    SCOPES,
    CustomResourceColumnDefinition,
    CustomResourceDefinition,
    CustomResourceDefinitionNames,
    CustomResourceDefinitionSpec,
    CustomResourceDefinitionVersion,
    CustomResourceSubresources,
)
from kubevouch.api.apiextensions_v1.version_rules import (
    column_errors,
    selectable_errors,
    subresource_errors,
    warning_faults,
)
from kubevouch.machinery import field
from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.field import FieldError
from kubevouch.machinery.text import names
from kubevouch.machinery.text.gotext import quote
from kubevouch.machinery.text.names import NameRule
from kubevouch.structural import go_form
from kubevouch.structural.definition import check_schema
from kubevouch.structural.formats import unrecognized_formats

Tree = Mapping[str, Any]

_IMMUTABLE = "field is immutable"


def validate_definition(
    definition: CustomResourceDefinition, old: CustomResourceDefinition | None = None
) -> list[FieldError]:
    """What is wrong with a definition, metadata apart; ``old`` is what it takes the place of."""
    spec = definition.spec
    errors = _Spec(definition, old).errors()
    if old is not None:
        errors += _immutable_errors(spec, old.spec, established=is_true(old, ESTABLISHED))
    errors += validate_status(definition)
    errors += _stored_version_errors(definition.status.stored_versions or [], spec.versions)
    errors += _approval_errors(definition, old)
    if spec.preserve_unknown_fields and not (old is not None and old.spec.preserve_unknown_fields):
        why = (
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        )  # fmt: skip
        errors.append(field.invalid("spec.preserveUnknownFields", True, why))
    return errors


def validate_status(definition: CustomResourceDefinition) -> list[FieldError]:
    """What is wrong with a definition's status."""
    return _name_errors(definition.status.accepted_names, "status.acceptedNames")


def format_warnings(definition: CustomResourceDefinition, old: CustomResourceDefinition | None = None) -> list[str]:
    """What to warn of: formats that nobody checks and that were not there before."""
    known = set() if old is None else set(_unrecognized(old))
    return [f"unrecognized format {quote(each)}" for each in _unrecognized(definition) if each not in known]


def _unrecognized(definition: CustomResourceDefinition) -> list[str]:
    versions = definition.spec.versions
    if versions and _alike(versions, lambda version: version.schema):
        versions = versions[:1]
    trees = [_schema_of(version) for version in versions]
    return [each for tree in trees if tree is not None for each in unrecognized_formats(tree)]


def definition_name(definition: CustomResourceDefinition) -> NameRule:
    """The rule for the name of a definition."""
    spec = definition.spec

    def rule(text: str, prefix: bool) -> list[str]:
        wrong = names.subdomain_name(text, prefix)
        if text != f"{spec.names.plural}.{spec.group}":
            wrong = [*wrong, 'must be spec.names.plural+"."+spec.group']
        return wrong

    return rule


def _immutable_errors(
    spec: CustomResourceDefinitionSpec, old: CustomResourceDefinitionSpec, *, established: bool
) -> list[FieldError]:
    pairs = [("spec.group", spec.group, old.group), ("spec.names.plural", spec.names.plural, old.names.plural)]
    if established:
        pairs[:0] = [("spec.scope", spec.scope, old.scope), ("spec.names.kind", spec.names.kind, old.names.kind)]
    return [field.invalid(path, new, _IMMUTABLE) for path, new, before in pairs if new != before]


def _stored_version_errors(stored: list[str], versions: Sequence[CustomResourceDefinitionVersion]) -> list[FieldError]:
    path = "status.storedVersions"
    if not stored:
        return [field.invalid(path, None, "must have at least one stored version")]
    errors = [
        field.invalid(path, stored, f"must have the storage version {version.name}")
        for version in versions
        if version.storage and version.name not in stored
    ]
    known = {version.name for version in versions}
    for name, index in {name: index for index, name in enumerate(stored)}.items():
        if name not in known:
            why = (
                f"missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions"
                f" until a storage migration ensures no data remains persisted in {name} and removes {name} from "
                "status.storedVersions"
            )
            errors.append(field.invalid(f"{path}[{index}]", name, why))
    return errors


def _approval_errors(definition: CustomResourceDefinition, old: CustomResourceDefinition | None) -> list[FieldError]:
    if not is_protected(definition.spec.group):
        return []
    annotations = definition.metadata.annotations
    state, text = approval_of(annotations)
    if old is not None and approval_of(old.metadata.annotations)[0] is state:
        return []
    path = f"metadata.annotations[{ANNOTATION}]"
    if state is Approval.MISSING:
        return [field.required(path, text)]
    if state is Approval.INVALID:
        return [field.invalid(path, annotations[ANNOTATION], text)]
    return []


# ------------------------------------------------------------------ the internal form


class _Spec:
    """A specification in the internal form."""

    def __init__(self, definition: CustomResourceDefinition, old: CustomResourceDefinition | None) -> None:
        self._spec = spec = definition.spec
        self._old = old
        versions = spec.versions
        self._one_schema = _alike(versions, lambda version: version.schema)
        self._one_subresources = _alike(versions, lambda version: version.subresources)
        self._one_columns = _alike(versions, lambda version: version.additional_printer_columns)
        self._one_selectable = self._one_schema and _alike(versions, lambda version: version.selectable_fields)

    def errors(self) -> list[FieldError]:
        spec, versions = self._spec, self._spec.versions
        errors = _group_errors(spec.group)
        errors += choice_errors("spec.scope", spec.scope, SCOPES)
        errors += [
            field.required(f"spec.versions[{index}].schema.openAPIV3Schema", "schemas are required")
            for index, version in enumerate(versions)
            if _schema_of(version) is None
        ]
        for index, version in enumerate(versions):
            errors += self._version_errors(version, f"spec.versions[{index}]")
        if len({version.name for version in versions}) != len(versions):
            errors.append(field.invalid("spec.versions", self._printed(), "must contain unique version names"))
        if sum(version.storage for version in versions) != 1:
            why = "must have exactly one version marked as storage version"
            errors.append(field.invalid("spec.versions", self._printed(), why))
        if versions and versions[0].name:
            errors += _label_errors("spec.version", versions[0].name)
        for name, value in (
            ("plural", spec.names.plural),
            ("singular", spec.names.singular),
            ("kind", spec.names.kind),
            ("listKind", spec.names.list_kind),
        ):
            if not value:
                errors.append(field.required(f"spec.names.{name}"))
        errors += _name_errors(spec.names, "spec.names")
        if versions:
            errors += self._common_errors(versions[0])
        return errors + conversion_errors(spec.conversion, self._old)

    def _version_errors(self, version: CustomResourceDefinitionVersion, path: str) -> list[FieldError]:
        """Of what a version has to itself."""
        errors = _label_errors(f"{path}.name", version.name)
        warning = version.deprecation_warning
        errors += [
            field.invalid(f"{path}.deprecationWarning", warning, why)
            for why in warning_faults(warning, deprecated=version.deprecated)
        ]
        if not self._one_schema:
            # Kubernetes looks for the first version of that name.
            first = next(each for each in self._spec.versions if each.name == version.name)
            errors += self._schema_errors(version, f"{path}.schema", status_enabled=_has_status(first))
        if not self._one_subresources:
            errors += subresource_errors(version.subresources, f"{path}.subresources")
        if not self._one_columns:
            errors += column_errors(version.additional_printer_columns, f"{path}.additionalPrinterColumns")
        if not self._one_selectable and version.selectable_fields:
            where = f"{path}.selectableFields"
            schema = _schema_of(version)
            if schema is None:
                why = "selectableFields may only be set when version.schema.openAPIV3Schema is not included"
                errors.append(field.invalid(where, "", why))
            else:
                errors += selectable_errors(version.selectable_fields, schema, where)
        return errors

    def _common_errors(self, version: CustomResourceDefinitionVersion) -> list[FieldError]:
        """Of what the versions have in common."""
        errors: list[FieldError] = []
        if self._one_schema:
            status_enabled = any(map(_has_status, self._spec.versions))
            errors += self._schema_errors(version, "spec.validation", status_enabled=status_enabled)
        if self._one_subresources:
            errors += subresource_errors(version.subresources, "spec.subresources")
        if self._one_columns:
            errors += column_errors(version.additional_printer_columns, "spec.additionalPrinterColumns")
        if self._one_selectable and version.selectable_fields:
            schema = _schema_of(version)
            if version.schema is None:
                why = "selectableFields may only be set when validations.schema is included"
                errors.append(field.invalid("spec.selectableFields", "", why))
            elif schema is not None:
                errors += selectable_errors(version.selectable_fields, schema, "spec.selectableFields")
        return errors

    def _schema_errors(
        self, version: CustomResourceDefinitionVersion, path: str, *, status_enabled: bool
    ) -> list[FieldError]:
        schema = _schema_of(version)
        if schema is None:
            return []
        stored = [] if self._old is None else [(each.name, _schema_of(each)) for each in self._old.spec.versions]
        return check_schema(
            schema,
            f"{path}.openAPIV3Schema",
            status_enabled=status_enabled,
            old=next((tree for name, tree in stored if name == version.name), None),
            stored=[tree for name, tree in stored if name != version.name and tree is not None],
        )

    def _printed(self) -> msgspec.Raw:
        """The versions as Go prints the internal ones."""
        return _raw(
            [
                {
                    "Name": version.name,
                    "Served": version.served,
                    "Storage": version.storage,
                    "Deprecated": version.deprecated,
                    "DeprecationWarning": version.deprecation_warning,
                    "Schema": None if self._one_schema else _go_validation(version),
                    "Subresources": None if self._one_subresources else _go_subresources(version.subresources),
                    "AdditionalPrinterColumns": None
                    if self._one_columns
                    else [_go_column(each) for each in version.additional_printer_columns] or None,
                    "SelectableFields": None
                    if self._one_selectable
                    else [{"JSONPath": each.json_path} for each in version.selectable_fields] or None,
                }
                for version in self._spec.versions
            ]
        )


def _alike(
    versions: Sequence[CustomResourceDefinitionVersion], part: Callable[[CustomResourceDefinitionVersion], Any]
) -> bool:
    return all(part(version) == part(versions[0]) for version in versions)


def _schema_of(version: CustomResourceDefinitionVersion) -> Tree | None:
    schema = None if version.schema is None else version.schema.open_api_v3_schema
    return None if schema is None else schema.tree


def _has_status(version: CustomResourceDefinitionVersion) -> bool:
    return version.subresources is not None and version.subresources.status is not None


def _raw(tree: Any) -> msgspec.Raw:
    return msgspec.Raw(json_codec.encode_in_order(tree))


def _go_validation(version: CustomResourceDefinitionVersion) -> Any:
    if version.schema is None:
        return None
    schema = _schema_of(version)
    return {"OpenAPIV3Schema": None if schema is None else go_form.go_schema_tree(schema)}


def _go_subresources(subresources: CustomResourceSubresources | None) -> Any:
    if subresources is None:
        return None
    scale = subresources.scale
    return {
        "Status": None if subresources.status is None else {},
        "Scale": None
        if scale is None
        else {
            "SpecReplicasPath": scale.spec_replicas_path,
            "StatusReplicasPath": scale.status_replicas_path,
            "LabelSelectorPath": scale.label_selector_path,
        },
    }


def _go_column(column: CustomResourceColumnDefinition) -> Any:
    return {
        "Name": column.name,
        "Type": column.type,
        "Format": column.format,
        "Description": column.description,
        "Priority": column.priority,
        "JSONPath": column.json_path,
    }


# ------------------------------------------------------------------ names


def _group_errors(group: str) -> list[FieldError]:
    if not group:
        return [field.required("spec.group")]
    wrong = names.subdomain(group)
    if not wrong and "." not in group:
        wrong = ["should be a domain with at least one dot"]
    return [field.invalid("spec.group", group, ",".join(wrong))] if wrong else []


def _label_errors(path: str, value: str) -> list[FieldError]:
    wrong = names.dns_1035_label(value)
    return [field.invalid(path, value, ",".join(wrong))] if wrong else []


def _kind_errors(path: str, value: str) -> list[FieldError]:
    wrong = names.dns_1035_label(value.lower())
    if not wrong:
        return []
    return [field.invalid(path, value, f"may have mixed case, but should otherwise match: {','.join(wrong)}")]


def _name_errors(named: CustomResourceDefinitionNames, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if named.plural:
        errors += _label_errors(f"{path}.plural", named.plural)
    if named.singular:
        errors += _label_errors(f"{path}.singular", named.singular)
    if named.kind:
        errors += _kind_errors(f"{path}.kind", named.kind)
    if named.list_kind:
        errors += _kind_errors(f"{path}.listKind", named.list_kind)
    for index, name in enumerate(named.short_names):
        errors += _label_errors(f"{path}.shortNames[{index}]", name)
    if named.kind and named.kind == named.list_kind:
        errors.append(field.invalid(f"{path}.listKind", named.list_kind, "kind and listKind may not be the same"))
    for index, name in enumerate(named.categories):
        errors += _label_errors(f"{path}.categories[{index}]", name)
    return errors
