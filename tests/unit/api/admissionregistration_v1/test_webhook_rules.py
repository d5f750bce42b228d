from __future__ import annotations

from typing import Any

import pytest

from admission_webhook import Tree, configuration, rule
from kubevouch.api.admissionregistration_v1.webhook_rules import validate_webhook_configuration
from kubevouch.api.admissionregistration_v1.webhooks import (
    ValidatingWebhookConfiguration,
    default_mutating,
    default_validating,
)
from kubevouch.api.catalog import MUTATING_WEBHOOK_CONFIGURATIONS, VALIDATING_WEBHOOK_CONFIGURATIONS
from kubevouch.machinery.codec import json_codec, protobuf
from kubevouch.machinery.text import names

SUBDOMAIN = names.subdomain("B")[0]


def entry(**changes: Any) -> Tree:
    return {
        "name": "w.example.com",
        "clientConfig": {"url": "https://example.com/x"},
        "rules": [rule()],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **changes,
    }


def problems(*webhooks: Tree, kind: str = "Mutating") -> list[str]:
    tree = configuration(kind, *webhooks)
    if kind == "Mutating":
        config = json_codec.from_tree(tree, MUTATING_WEBHOOK_CONFIGURATIONS.type).value
        return [str(error) for error in validate_webhook_configuration(default_mutating(config))]
    other = json_codec.from_tree(tree, VALIDATING_WEBHOOK_CONFIGURATIONS.type).value
    return [str(error) for error in validate_webhook_configuration(default_validating(other))]


def test_nothing_is_wrong() -> None:
    assert problems(entry()) == problems(entry(), kind="Validating") == []


RULE = ("operations", "apiGroups", "apiVersions", "resources")
FORM = "; desired format: https://host[/path]"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"name": ""}, ["name: Required value"]),
        (
            {"name": "a.b"},
            ['name: Invalid value: "a.b": should be a domain with at least three segments separated by dots'],
        ),
        ({"clientConfig": {}}, ["clientConfig: Required value: exactly one of url or service is required"]),
        (
            {"clientConfig": {"url": "http://u@example.com/?a=b#c"}},
            [
                f"clientConfig.url: Invalid value: \"http\": 'https' is the only allowed URL scheme{FORM}",
                'clientConfig.url: Invalid value: "u": user information is not permitted in the URL',
                'clientConfig.url: Invalid value: "c": fragments are not permitted in the URL',
                'clientConfig.url: Invalid value: "a=b": query parameters are not permitted in the URL',
            ],
        ),
        (
            {"clientConfig": {"service": {"port": 0, "path": "a/B/"}}},
            [
                "clientConfig.service.name: Required value: service name is required",
                "clientConfig.service.namespace: Required value: service namespace is required",
                (
                    "clientConfig.service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, "
                    "inclusive"
                ),
                "clientConfig.service.path: Invalid value: \"a/B/\": must start with a '/'",
                'clientConfig.service.path: Invalid value: "a/B/": segment[0] may not be empty',
                f'clientConfig.service.path: Invalid value: "a/B/": segment[1]: {SUBDOMAIN}',
            ],
        ),
        (
            {"clientConfig": {"service": {"name": "w", "namespace": "n", "path": "//"}}},
            ['clientConfig.service.path: Invalid value: "//": segment[0] may not be empty'],
        ),
        ({"clientConfig": {"service": {"name": "w", "namespace": "n", "path": "/a/b/"}}}, []),
        ({"clientConfig": {"url": "https://"}}, [f'clientConfig.url: Invalid value: "": host must be specified{FORM}']),
        ({"sideEffects": None}, ["sideEffects: Required value: must specify one of None, NoneOnDryRun"]),
        (
            {"sideEffects": "Some"},
            ['sideEffects: Unsupported value: "Some": supported values: "None", "NoneOnDryRun"'],
        ),
        ({"failurePolicy": "x"}, ['failurePolicy: Unsupported value: "x": supported values: "Fail", "Ignore"']),
        ({"matchPolicy": "x"}, ['matchPolicy: Unsupported value: "x": supported values: "Equivalent", "Exact"']),
        (
            {"reinvocationPolicy": "x"},
            ['reinvocationPolicy: Unsupported value: "x": supported values: "IfNeeded", "Never"'],
        ),
        (
            {"timeoutSeconds": 31},
            ["timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds"],
        ),
        ({"admissionReviewVersions": []}, ["admissionReviewVersions: Required value: must specify one of v1, v1beta1"]),
        (
            {"admissionReviewVersions": ["v2", "v2"]},
            [
                'admissionReviewVersions[1]: Invalid value: "v2": duplicate version',
                'admissionReviewVersions: Invalid value: ["v2","v2"]: must include at least one of v1, v1beta1',
            ],
        ),
        ({"rules": [{}]}, [f"rules[0].{name}: Required value" for name in RULE]),
        (
            {"rules": [rule("*", "*", "CREATE")]},
            ["rules[0].operations: Invalid value: [\"*\",\"CREATE\"]: if '*' is present, must not specify other "],
        ),
        (
            {"rules": [rule("*", "PATCH", scope="All")]},
            [
                'rules[0].operations[0]: Unsupported value: "PATCH": supported values: "*", "CONNECT", ',
                'rules[0].scope: Unsupported value: "All": supported values: "*", "Cluster", "Namespaced"',
            ],
        ),
        (
            {"rules": [{**rule(), "resources": ["a/*", "a/b", "*/*"]}]},
            [
                "rules[0].resources[1]: Invalid value: \"a/b\": if 'a/*' is present, must not specify a/b",
                "rules[0].resources: Invalid value: [\"a/*\",\"a/b\",\"*/*\"]: if '*/*' is present, ",
            ],
        ),
        (
            {"matchConditions": [{"name": "a b", "expression": "'x'"}, {"name": "n", "expression": " "}]},
            [
                'matchConditions[0].expression: Invalid value: "\'x\'": must evaluate to bool but got string',
                'matchConditions[0].name: Invalid value: "a b": name part must consist of ',
                "matchConditions[1].expression: Required value",
            ],
        ),
    ],
)  # fmt: skip
def test_what_is_wrong(changes: Tree, expected: list[str]) -> None:
    found = problems(entry(**changes))
    assert len(found) == len(expected), found
    for text, start in zip(found, expected, strict=True):
        assert text.startswith(f"webhooks[0].{start}")


def test_names_are_given_once() -> None:
    assert problems(entry(), entry()) == ['webhooks[1].name: Duplicate value: "w.example.com"']


def test_defaults() -> None:
    tree = configuration("Mutating", entry())
    config = default_mutating(json_codec.from_tree(tree, MUTATING_WEBHOOK_CONFIGURATIONS.type).value)
    (webhook,) = json_codec.to_builtins(config)["webhooks"]
    assert webhook["rules"] == [{**rule(), "scope": "*"}]
    added = {name: webhook[name] for name in set(webhook) - set(entry())}
    assert added == {
        "failurePolicy": "Fail", "matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {},
        "timeoutSeconds": 10, "reinvocationPolicy": "Never",
    }  # fmt: skip


def test_a_rule_is_flat_in_json_and_nested_in_protobuf() -> None:
    tree = {"webhooks": [{"rules": [rule("a", "CREATE", group="g", version="v")]}]}
    config = json_codec.from_tree(tree, ValidatingWebhookConfiguration).value
    written = protobuf.codec_for(ValidatingWebhookConfiguration).encode(config)
    # operations = 1, rule = 2 {apiGroups = 1, apiVersions = 2, resources = 3}
    assert b"\x0a\x06CREATE\x12\x09\x0a\x01g\x12\x01v\x1a\x01a" in written
    again = protobuf.codec_for(ValidatingWebhookConfiguration).decode(written)
    assert again.webhooks[0].rules == config.webhooks[0].rules
