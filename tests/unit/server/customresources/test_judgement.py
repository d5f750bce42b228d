"""Which names a definition gets, and whether it is established."""

from __future__ import annotations

import base64
from typing import Any

import msgspec

from kubevouch.api.apiextensions_v1.conditions import condition_of
from kubevouch.api.apiextensions_v1.definitions import (
    CustomResourceDefinition,
    CustomResourceValidation,
    default_definition,
)
from kubevouch.api.apiextensions_v1.schema_props import JSONSchemaProps
from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.text.times import Time
from kubevouch.server.customresources.judgement import judged

NOW = Time(1_800_000_000)
ACCEPTED = ("True", "NoConflicts", "no conflicts found")
ESTABLISHED = ("True", "InitialNamesAccepted", "the initial names have been accepted")
NOT_ACCEPTED = ("False", "NotAccepted", "not all names are accepted")


def _definition(plural: str, kind: str, *short: str, conversion: Any = None, **more: Any) -> CustomResourceDefinition:
    names = {"plural": plural, "kind": kind, "shortNames": list(short), **more}
    tree = {
        "metadata": {"name": f"{plural}.g.io"},
        "spec": {
            "group": "g.io", "scope": "Namespaced", "names": names, "conversion": conversion,
            "versions": [{"name": "v1", "served": True, "storage": True}],
        },
    }  # fmt: skip
    found: CustomResourceDefinition = default_definition(json_codec.from_tree(tree, CustomResourceDefinition).value)
    return found


def _said(definition: CustomResourceDefinition, kind: str) -> tuple[str, str, str] | None:
    found = condition_of(definition, kind)
    return None if found is None else (found.status, found.reason, found.message)


def _renamed(definition: CustomResourceDefinition, other: CustomResourceDefinition) -> CustomResourceDefinition:
    return msgspec.structs.replace(definition, spec=other.spec)


def test_names_that_nobody_has_are_accepted() -> None:
    found = judged(_definition("oxen", "Ox", "o", categories=["beasts"]), [], NOW)
    assert found.status.accepted_names == found.spec.names
    assert [each.type for each in found.status.conditions or ()] == ["NamesAccepted", "Established"]
    assert (_said(found, "NamesAccepted"), _said(found, "Established")) == (ACCEPTED, ESTABLISHED)
    assert judged(found, [found], NOW) is found


def test_each_name_that_is_free_is_accepted_and_the_last_conflict_is_the_reason() -> None:
    mine = judged(_definition("oxen", "Ox", "o", "x"), [], NOW)
    for other, reason, clash in (
        (_definition("cows", "Ox"), "ListKindConflict", '"OxList" is already in use'),
        (_definition("cows", "Ox", listKind="Cows"), "KindConflict", '"Ox" is already in use'),
        (_definition("cows", "Cow", "c", "o"), "ShortNamesConflict", '"o" is already in use'),
        (
            _definition("cows", "Cow", "x", "o", "x"),
            "ShortNamesConflict",
            '["x" is already in use, "o" is already in use]',
        ),
        (_definition("cows", "Cow", singular="oxen"), "SingularConflict", '"oxen" is already in use'),
        (_definition("o", "Cow"), "PluralConflict", '"o" is already in use'),
    ):
        found = judged(other, [mine, other], NOW)
        assert _said(found, "NamesAccepted") == ("False", reason, clash)
        assert _said(found, "Established") == NOT_ACCEPTED
    found = judged(_definition("cows", "Ox", "o", categories=["beasts"]), [mine], NOW)
    assert json_codec.to_builtins(found.status.accepted_names) == {
        "plural": "cows", "kind": "", "categories": ["beasts"],
    }  # fmt: skip


def test_a_conflict_ends_when_the_name_is_let_go() -> None:
    mine = judged(_definition("oxen", "Ox"), [], NOW)
    other = judged(_definition("cows", "Ox"), [mine], NOW)
    later = Time(NOW.seconds + 9)
    found = judged(other, [other], later)
    assert (_said(found, "NamesAccepted"), _said(found, "Established")) == (ACCEPTED, ESTABLISHED)
    assert {each.last_transition_time for each in found.status.conditions or ()} == {later}


def test_who_is_established_keeps_what_it_has_when_it_asks_for_more() -> None:
    mine = judged(_definition("oxen", "Ox", "o"), [], NOW)
    other = judged(_definition("cows", "Cow", "c"), [mine], NOW)
    greedy = judged(_renamed(other, _definition("cows", "Cow", "c", "o")), [mine, other], NOW)
    assert _said(greedy, "NamesAccepted") == ("False", "ShortNamesConflict", '"o" is already in use')
    assert _said(greedy, "Established") == ESTABLISHED
    assert greedy.status.accepted_names.short_names == ["c"]


def test_names_may_change_places_within_a_definition() -> None:
    mine = judged(_definition("oxen", "Ox", "o", "x"), [], NOW)
    found = judged(_renamed(mine, _definition("oxen", "Ox", "x", "o", "oxen")), [mine], NOW)
    assert _said(found, "NamesAccepted") == ACCEPTED
    assert found.status.accepted_names.short_names == ["x", "o", "oxen"]


def test_a_webhook_whose_ca_cannot_be_read_keeps_it_from_being_established() -> None:
    def conversion(bundle: bytes) -> Any:
        config = {"url": "https://localhost/", "caBundle": base64.b64encode(bundle).decode()}
        return {"strategy": "Webhook", "webhook": {"clientConfig": config, "conversionReviewVersions": ["v1"]}}

    for bundle in (b"\0\1\2", b"-----BEGIN CERTIFICATE-----\nAAEC\n-----END CERTIFICATE-----\n"):
        found = judged(_definition("oxen", "Ox", conversion=conversion(bundle)), [], NOW)
        assert _said(found, "NamesAccepted") == ACCEPTED
        assert _said(found, "Established") == (
            "False", "InvalidCABundle", "The conversion webhook CABundle is invalid",
        )  # fmt: skip
        assert judged(found, [found], NOW) is found
    found = judged(_definition("oxen", "Ox", conversion=conversion(b"")), [], NOW)
    assert _said(found, "Established") == ESTABLISHED


def test_kinds_of_kubernetes_own_groups_are_approved_or_not() -> None:
    for group, annotation, said in (
        ("g.io", "", None),
        ("x-k8s.io", "", None),
        ("x.k8s.io", "https://g.io/1", ("True", "ApprovedAnnotation", "approved in https://g.io/1")),
        ("kubernetes.io", "unapproved, yet", ("False", "UnapprovedAnnotation", 'not approved: "unapproved, yet"')),
    ):
        made = _definition("oxen", "Ox")
        meta = msgspec.structs.replace(made.metadata, annotations={"api-approved.kubernetes.io": annotation})
        made = msgspec.structs.replace(made, metadata=meta, spec=msgspec.structs.replace(made.spec, group=group))
        assert _said(judged(made, [], NOW), "KubernetesAPIApprovalPolicyConformant") == said
    found = judged(msgspec.structs.replace(made, metadata=msgspec.structs.replace(meta, annotations={})), [], NOW)
    condition = condition_of(found, "KubernetesAPIApprovalPolicyConformant")
    assert condition is not None
    assert (condition.status, condition.reason) == ("False", "MissingAnnotation")


def test_schemas_that_are_older_than_their_rules_are_told_of() -> None:
    made = _definition("oxen", "Ox")
    (version,) = made.spec.versions
    tree = {"type": "object", "properties": {"a": {}}}
    schema = CustomResourceValidation(open_api_v3_schema=JSONSchemaProps(tree))
    spec = msgspec.structs.replace(
        made.spec, preserve_unknown_fields=True, versions=[msgspec.structs.replace(version, schema=schema)]
    )
    found = judged(msgspec.structs.replace(made, spec=spec), [], NOW)
    assert _said(found, "NonStructuralSchema") == (
        "True", "Violations",
        ("[spec.preserveUnknownFields: Invalid value: true: must be false, "
        "spec.versions[0].schema.openAPIV3Schema.properties[a].type: Required value: must not be empty for specified "
        "object fields]"),
    )  # fmt: skip
    mended = msgspec.structs.replace(found, spec=msgspec.structs.replace(spec, preserve_unknown_fields=False))
    assert _said(judged(mended, [], NOW), "NonStructuralSchema") is None
