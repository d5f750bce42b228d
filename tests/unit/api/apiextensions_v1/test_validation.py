"""What is said of definitions that are wrong."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from custom_world import definition, version
from kubevouch.api.apiextensions_v1.conditions import ESTABLISHED, TRUE, Finding, with_finding
from kubevouch.api.apiextensions_v1.definitions import CustomResourceDefinition, default_definition
from kubevouch.api.apiextensions_v1.validation import (
    definition_name,
    format_warnings,
    validate_definition,
    validate_status,
)
from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.text.times import Time

_LABEL = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)
_APPROVAL = 'protected groups must have approval annotation "api-approved.kubernetes.io"'
_SEE = "see https://github.com/kubernetes/enhancements/pull/1111"
_OBJECT = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"a": {"type": "string"}}}}}


def _read(tree: Any) -> CustomResourceDefinition:
    found: CustomResourceDefinition = default_definition(json_codec.from_tree(tree, CustomResourceDefinition).value)
    return found


def _made(*changes: tuple[str, Any], versions: Any = None, established: bool = False) -> CustomResourceDefinition:
    """A definition in which some members, by their paths, are others; None takes one away."""
    tree = copy.deepcopy(definition(*(versions or [version("v1", _OBJECT)])))
    for path, value in changes:
        *parents, last = path.split(".")
        at = tree
        for name in parents:
            at = at[int(name)] if isinstance(at, list) else at.setdefault(name, {})
        if isinstance(at, list):
            at[int(last)] = value
        elif value is None:
            at.pop(last, None)
        else:
            at[last] = value
    found = _read(tree)
    return with_finding(found, Finding(ESTABLISHED, TRUE, "", ""), Time(0)) if established else found


def _said(made: CustomResourceDefinition, old: CustomResourceDefinition | None = None) -> list[str]:
    return [str(error) for error in validate_definition(made, old)]


def test_a_sound_one_is_accepted() -> None:
    assert _said(_made()) == []


def test_the_name_is_made_of_plural_and_group() -> None:
    rule = definition_name(_made())
    assert rule("widgets.demo.example.com", False) == []
    assert rule("gadgets.demo.example.com", False) == ['must be spec.names.plural+"."+spec.group']
    assert rule("widgets-", True) == ['must be spec.names.plural+"."+spec.group']
    assert len(rule("W", False)) == 2


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ([("spec.group", "")], ["spec.group: Required value"]),
        ([("spec.group", "Up.io")], ['spec.group: Invalid value: "Up.io": a lowercase RFC 1123 subdomain']),
        ([("spec.group", "nodot")], ['spec.group: Invalid value: "nodot": should be a domain with at least one dot']),
        ([("spec.scope", "")], ["spec.scope: Required value"]),
        ([("spec.scope", "Global")], [
            'spec.scope: Unsupported value: "Global": supported values: "Cluster", "Namespaced"']),
        ([("spec.names.plural", "")], ["spec.names.plural: Required value"]),
        ([("spec.names", {"plural": "widgets"})], [
            "spec.names.singular: Required value", "spec.names.kind: Required value",
            "spec.names.listKind: Required value"]),
        ([("spec.names.plural", "W!")], [f'spec.names.plural: Invalid value: "W!": {_LABEL}']),
        ([("spec.names.singular", "W!")], [f'spec.names.singular: Invalid value: "W!": {_LABEL}']),
        ([("spec.names.shortNames", ["w", "W!"])], [f'spec.names.shortNames[1]: Invalid value: "W!": {_LABEL}']),
        ([("spec.names.categories", ["a", "1a"])], [f'spec.names.categories[1]: Invalid value: "1a": {_LABEL}']),
        ([("spec.names.kind", "W_"), ("spec.names.listKind", "L_")], [
            f'spec.names.kind: Invalid value: "W_": may have mixed case, but should otherwise match: {_LABEL}',
            f'spec.names.listKind: Invalid value: "L_": may have mixed case, but should otherwise match: {_LABEL}']),
        ([("spec.names.listKind", "Widget")], [
            'spec.names.listKind: Invalid value: "Widget": kind and listKind may not be the same']),
        ([("spec.versions.0.name", "V1")], [
            f'spec.versions[0].name: Invalid value: "V1": {_LABEL}', f'spec.version: Invalid value: "V1": {_LABEL}']),
        ([("spec.versions.0.schema", None)], [
            "spec.versions[0].schema.openAPIV3Schema: Required value: schemas are required"]),
        ([("spec.versions.0.schema", {})], [
            "spec.versions[0].schema.openAPIV3Schema: Required value: schemas are required"]),
        ([("spec.preserveUnknownFields", True)], [
            ("spec.preserveUnknownFields: Invalid value: true: cannot set to true, set "
            "x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead")]),
        ([("status.acceptedNames", {"plural": "W!", "kind": "Widget"})], [
            f'status.acceptedNames.plural: Invalid value: "W!": {_LABEL}']),
    ],
)  # fmt: skip
def test_names(changes: list[tuple[str, Any]], said: list[str]) -> None:
    found = _said(_made(*changes))
    assert len(found) == len(said)
    assert [text[: len(want)] for text, want in zip(found, said, strict=True)] == said


def test_versions_as_a_whole() -> None:
    printed = (
        '[{"Name":"v1","Served":true,"Storage":false,"Deprecated":false,"DeprecationWarning":null,"Schema":null,'
        '"Subresources":null,"AdditionalPrinterColumns":null,"SelectableFields":null}]'
    )
    assert _said(_made(versions=[version("v1", _OBJECT, storage=False)])) == [
        f"spec.versions: Invalid value: {printed}: must have exactly one version marked as storage version",
        "status.storedVersions: Invalid value: null: must have at least one stored version",
    ]
    both = _said(_made(versions=[version("v1", _OBJECT), version("v2", _OBJECT)]))
    assert both[0].endswith("must have exactly one version marked as storage version")
    assert both[1:] == ['status.storedVersions: Invalid value: ["v1"]: must have the storage version v2']
    twice = _said(_made(versions=[version("v1", _OBJECT), version("v1", {"type": "object"}, storage=False)]))
    assert len(twice) == 1
    assert twice[0].endswith(": must contain unique version names")
    assert '"Schema":{"OpenAPIV3Schema":{"ID":"","Schema":"","Ref":null,"Description":"","Type":"object"' in twice[0]


def test_the_printed_value_has_what_versions_do_not_have_in_common() -> None:
    columns = [{"name": "A", "type": "string", "jsonPath": ".spec.a"}]
    versions = [
        version("v1", _OBJECT, storage=False, additionalPrinterColumns=columns, subresources={"status": {}}),
        version("v2", _OBJECT, storage=False, deprecated=True, deprecationWarning="<old>"),
    ]
    text = _said(_made(versions=versions))[0]
    printed = json.loads(text.removeprefix("spec.versions: Invalid value: ").rpartition(": must have")[0])
    assert printed[0]["AdditionalPrinterColumns"] == [
        {"Name": "A", "Type": "string", "Format": "", "Description": "", "Priority": 0, "JSONPath": ".spec.a"}
    ]
    assert printed[0]["Subresources"] == {"Status": {}, "Scale": None}
    assert (printed[1]["Subresources"], printed[1]["AdditionalPrinterColumns"]) == (None, None)
    assert '"DeprecationWarning":"\\u003cold\\u003e"' in text


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"deprecationWarning": "x"}, '"x": can only be set for deprecated versions'),
        ({"deprecated": True, "deprecationWarning": ""}, '"": must not be an empty string'),
        ({"deprecated": True, "deprecationWarning": "é" * 129}, f'"{"é" * 129}": must be <= 256 characters long'),
        (
            {"deprecated": True, "deprecationWarning": "é\tx"},
            '"é\\tx": must only contain printable UTF-8 characters; non-printable character found at index 2',
        ),
    ],
)
def test_warnings_of_deprecation(more: dict[str, Any], said: str) -> None:
    made = _made(versions=[version("v1", _OBJECT, **more)])
    assert _said(made) == [f"spec.versions[0].deprecationWarning: Invalid value: {said}"]


def test_what_is_wrong_stands_where_the_versions_have_it() -> None:
    """In ``spec`` once, as long as all versions have it alike."""
    scale = {"scale": {"specReplicasPath": "a", "statusReplicasPath": ".spec.b", "labelSelectorPath": ".metadata.c"}}
    columns = [{"name": "", "type": "text", "format": "f", "jsonPath": "a"}, {"name": "B", "type": "", "jsonPath": ""}]
    fields = [{"jsonPath": ".spec.b"}]
    bad: dict[str, Any] = {"subresources": scale, "additionalPrinterColumns": columns, "selectableFields": fields}

    def said(path: str) -> list[str]:
        types, formats = "boolean,date,integer,number,string", "byte,date,date-time,double,float,int32,int64,password"
        scale = "subresources.scale"
        under, simple = "should be a json path under", "must be a simple json path starting with ."
        return [
            f'{path}.{scale}.specReplicasPath: Invalid value: "a": {simple}',
            f'{path}.{scale}.statusReplicasPath: Invalid value: ".spec.b": {under} .status',
            f'{path}.{scale}.labelSelectorPath: Invalid value: ".metadata.c": {under} either .spec or .status',
            f"{path}.additionalPrinterColumns[0].name: Required value",
            f'{path}.additionalPrinterColumns[0].type: Invalid value: "text": must be one of {types}',
            f'{path}.additionalPrinterColumns[0].format: Invalid value: "f": must be one of {formats}',
            f'{path}.additionalPrinterColumns[0].JSONPath: Invalid value: "a": {simple}',
            f"{path}.additionalPrinterColumns[1].type: Required value: must be one of {types}",
            f"{path}.additionalPrinterColumns[1].JSONPath: Required value",
            (
                f'{path}.selectableFields[0].jsonPath: Invalid value: ".spec.b": is an invalid path: does not refer to '
                "a valid field"
            ),
        ]

    one = [version("v1", _OBJECT, **bad)]
    assert _said(_made(versions=one)) == said("spec")
    assert _said(_made(versions=[*one, version("v2", _OBJECT, storage=False, **bad)])) == said("spec")
    assert _said(_made(versions=[*one, version("v2", {"type": "object"}, storage=False)])) == said("spec.versions[0]")


def test_schemas_are_checked_where_they_stand() -> None:
    bad = {"type": "object", "properties": {"a": {}}}
    why = "Required value: must not be empty for specified object fields"
    assert _said(_made(versions=[version("v1", bad)])) == [
        f"spec.validation.openAPIV3Schema.properties[a].type: {why}"
    ]  # fmt: skip
    assert _said(_made(versions=[version("v1", bad), version("v2", _OBJECT, storage=False)])) == [
        f"spec.versions[0].schema.openAPIV3Schema.properties[a].type: {why}"
    ]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ([""], ["[0].jsonPath: Required value"]),
        (["spec"], ['[0].jsonPath: Invalid value: "spec": is an invalid path: expected [ or . but got: spec']),
        ([".spec['a']"], [
            '[0].jsonPath: Invalid value: ".spec[\'a\']": is an invalid path: array notation is not allowed']),
        ([".spec"], [
            ('[0].jsonPath: Invalid value: ".spec": must point to a field of type string, boolean or integer. Enum '
            "string fields and strings with formats are allowed.")]),
        ([".spec.a", ".spec.a"], ['[1].jsonPath: Duplicate value: ".spec.a"']),
        ([".metadata.name"], [
            '[0].jsonPath: Invalid value: ".metadata.name": must not point to fields in metadata']),
        ([f".spec.f{number}" for number in range(9)], [": Too many: 9: must have at most 8 items"]),
    ],
)  # fmt: skip
def test_selectable_fields(fields: list[str], said: list[str]) -> None:
    properties = {"a": {"type": "string"}} | {f"f{number}": {"type": "boolean"} for number in range(9)}
    schema = {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": properties},
            "metadata": {"type": "object", "properties": {"name": {"type": "string"}}},
        },
    }
    made = _made(versions=[version("v1", schema, selectableFields=[{"jsonPath": each} for each in fields])])
    assert _said(made) == [f"spec.selectableFields{each}" for each in said]


@pytest.mark.parametrize(
    ("conversion", "said"),
    [
        ({}, ["strategy: Required value"]),
        ({"strategy": "Magic"}, ['strategy: Unsupported value: "Magic": supported values: "None", "Webhook"']),
        ({"strategy": "None", "webhook": {"clientConfig": {}, "conversionReviewVersions": ["v1"]}}, [
            "webhookClientConfig: Forbidden: should not be set when strategy is not set to Webhook",
            "conversionReviewVersions: Forbidden: should not be set when strategy is not set to Webhook"]),
        ({"strategy": "Webhook"}, [
            "webhookClientConfig: Required value: required when strategy is set to Webhook",
            "conversionReviewVersions: Required value"]),
        ({"strategy": "Webhook", "webhook": {"clientConfig": {}, "conversionReviewVersions": ["v9", "v9", "V"]}}, [
            "webhookClientConfig: Required value: exactly one of url or service is required",
            'conversionReviewVersions[1]: Invalid value: "v9": duplicate version',
            f'conversionReviewVersions[2]: Invalid value: "V": {_LABEL}',
            'conversionReviewVersions: Invalid value: ["v9","v9","V"]: must include at least one of v1, v1beta1']),
        ({"strategy": "Webhook", "webhook": {
            "clientConfig": {"url": "http://u:p@h/?q#f"}, "conversionReviewVersions": ["v1"]}}, [
            ('webhookClientConfig.url: Invalid value: "http": \'https\' is the only allowed URL scheme; desired '
            "format: https://host[/path]"),
            'webhookClientConfig.url: Invalid value: "u:p": user information is not permitted in the URL',
            'webhookClientConfig.url: Invalid value: "f": fragments are not permitted in the URL',
            'webhookClientConfig.url: Invalid value: "q": query parameters are not permitted in the URL']),
        ({"strategy": "Webhook", "webhook": {
            "clientConfig": {"service": {"namespace": "a", "name": "", "path": "/a//b", "port": 0}},
            "conversionReviewVersions": ["v1beta1"]}}, [
            "webhookClientConfig.service.namespace: Required value: service namespace is required",
            ("webhookClientConfig.service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, "
            "inclusive"),
            'webhookClientConfig.service.path: Invalid value: "/a//b": segment[1] may not be empty']),
    ],
)  # fmt: skip
def test_conversions(conversion: dict[str, Any], said: list[str]) -> None:
    assert _said(_made(("spec.conversion", conversion))) == [f"spec.conversion.{each}" for each in said]


def _with_ca(bundle: str, *, established: bool = True) -> CustomResourceDefinition:
    config = {"url": "https://h/", "caBundle": bundle}
    webhook = {"clientConfig": config, "conversionReviewVersions": ["v1"]}
    return _made(("spec.conversion", {"strategy": "Webhook", "webhook": webhook}), established=established)


def test_a_bad_ca_is_taken_until_a_definition_is_established() -> None:
    bad, none = _with_ca("AAEC"), _with_ca("")
    assert _said(bad) == []
    assert _said(bad, _with_ca("", established=False)) == []
    assert _said(bad, bad) == []
    assert _said(bad, none) == [
        (
            'spec.conversion.webhookClientConfig.caBundle: Invalid value: "AAEC": unable to load root certificates: '
            "unable to parse bytes as PEM block"
        )
    ]


def test_what_nobody_may_change() -> None:
    old = _made()
    other = _made(
        ("spec.group", "o.io"), ("spec.names.plural", "o"), ("spec.names.kind", "O"), ("spec.scope", "Cluster")
    )
    immutable = "field is immutable"
    assert _said(other, old) == [
        f'spec.group: Invalid value: "o.io": {immutable}', f'spec.names.plural: Invalid value: "o": {immutable}',
    ]  # fmt: skip
    assert _said(other, _made(established=True)) == [
        f'spec.scope: Invalid value: "Cluster": {immutable}', f'spec.names.kind: Invalid value: "O": {immutable}',
        f'spec.group: Invalid value: "o.io": {immutable}', f'spec.names.plural: Invalid value: "o": {immutable}',
    ]  # fmt: skip
    names = [("spec.names.singular", "x"), ("spec.names.shortNames", ["y"]), ("spec.names.listKind", "Xs")]
    assert _said(_made(*names), _made(established=True)) == []


def test_versions_that_are_stored_have_to_stay() -> None:
    made = _made(("status.storedVersions", ["v0", "v1"]))
    assert _said(made) == [
        (
            'status.storedVersions[0]: Invalid value: "v0": missing from spec.versions; v0 was previously a storage '
            "version, and must remain in spec.versions until a storage migration ensures no data remains persisted in "
            "v0 and removes v0 from status.storedVersions"
        )
    ]
    assert validate_status(made) == []


def test_kubernetes_own_groups_ask_for_approval() -> None:
    where = "metadata.annotations[api-approved.kubernetes.io]"

    def said(annotation: str | None, old: CustomResourceDefinition | None = None) -> list[str]:
        return _said(made(annotation), old)

    def made(annotation: str | None) -> CustomResourceDefinition:
        annotations = None if annotation is None else {"api-approved.kubernetes.io": annotation}
        return _made(("spec.group", "x.k8s.io"), ("metadata.annotations", annotations))

    assert said(None) == [f"{where}: Required value: {_APPROVAL}, {_SEE}"]
    for wrong in ("yes", "/1111", "https://", "ht tp://a/", "https://a:b/"):
        assert said(wrong) == [
            (
                f'{where}: Invalid value: "{wrong}": {_APPROVAL} with either a URL or a reason starting with '
                f'"unapproved", {_SEE}'
            )
        ]
    assert said("https://g.io/1") == said("unapproved, yet") == said(None, made(None)) == said("x", made("y")) == []
    assert said("x", made(None)) != []
    assert _said(_made(("spec.group", "x-k8s.io"))) == []


def test_formats_that_nobody_checks_are_warned_of_once() -> None:
    def made(*formats: str) -> CustomResourceDefinition:
        items = {"type": "array", "items": {"type": "string", "format": formats[-1]}}
        properties = {f"f{index}": {"type": "string", "format": each} for index, each in enumerate(formats)}
        return _made(versions=[version("v1", {"type": "object", "properties": {**properties, "l": items}})])

    assert format_warnings(made("date-time", "k8s-long-name")) == []
    assert format_warnings(made("colour", "date")) == ['unrecognized format "colour"']
    assert format_warnings(made("colour", "shade"), made("colour")) == ['unrecognized format "shade"'] * 2
