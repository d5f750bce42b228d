from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kubevouch.config.authorization_config import load
from kubevouch.config.config_file import ConfigFileError

FILE = "/etc/webhook.conf"


def fine(_path: str) -> str:
    return ""


def complaint(path: str) -> str:
    return "must be a regular file" if path == "/wrong" else ""


def document(*authorizers: dict[str, Any]) -> bytes:
    head = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthorizationConfiguration"}
    return msgspec.json.encode({**head, "authorizers": list(authorizers)})


def webhook(file: str, **changes: Any) -> dict[str, Any]:
    settings = {
        "timeout": "3s",
        "subjectAccessReviewVersion": "v1",
        "matchConditionSubjectAccessReviewVersion": "v1",
        "failurePolicy": "Deny",
        "connectionInfo": {"type": "KubeConfigFile", "kubeConfigFile": file},
        **changes,
    }
    return {"type": "Webhook", "name": "w", "webhook": settings}


RBAC = {"type": "RBAC", "name": "rbac"}


@pytest.mark.parametrize(
    ("authorizers", "message"),
    [
        ([], "authorizers: Required value: at least one authorization mode must be defined"),
        ([{}], "authorizers[0].type: Required value"),
        (
            [{"type": "X"}],
            (
                'authorizers[0].type: Unsupported value: "X": supported values: "ABAC", "AlwaysAllow", "AlwaysDeny", '
                '"Node", "RBAC", "Webhook"'
            ),
        ),
        ([RBAC, RBAC], 'authorizers[1].type: Duplicate value: "RBAC"'),
        ([RBAC, {"type": "Node", "name": "rbac"}], 'authorizers[1].name: Duplicate value: "rbac"'),
        ([{"type": "RBAC"}], "authorizers[0].name: Required value"),
        ([{"type": "Webhook", "name": "w"}], "authorizers[0].webhook: Required value: required when type=Webhook"),
        (
            [{**RBAC, "webhook": {}}],
            'authorizers[0].webhook: Invalid value: "non-null": may only be specified when type=Webhook',
        ),
    ],
)
def test_what_is_wrong_with_authorizers(authorizers: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(ConfigFileError) as caught:
        load(document(*authorizers), fine)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"timeout": ""}, "authorizers[0].timeout: Required value"),
        ({"timeout": "31s"}, 'authorizers[0].timeout: Invalid value: "31s": must be > 0s and <= 30s'),
        ({"authorizedTTL": "-1s"}, 'authorizers[0].authorizedTTL: Invalid value: "-1s": must be > 0s'),
        ({"subjectAccessReviewVersion": ""}, "authorizers[0].subjectAccessReviewVersion: Required value"),
        (
            {"subjectAccessReviewVersion": "v2"},
            'authorizers[0].subjectAccessReviewVersion: Unsupported value: "v2": supported values: "v1", "v1beta1"',
        ),
        (
            {"failurePolicy": "Allow"},
            'authorizers[0].failurePolicy: Unsupported value: "Allow": supported values: "NoOpinion", "Deny"',
        ),
        (
            {"connectionInfo": {"type": "KubeConfigFile", "kubeConfigFile": "x"}},
            'authorizers[0].connectionInfo.kubeConfigFile: Invalid value: "x": must be an absolute path',
        ),
        (
            {"connectionInfo": {"type": "KubeConfigFile", "kubeConfigFile": "/wrong"}},
            'authorizers[0].connectionInfo.kubeConfigFile: Invalid value: "/wrong": must be a regular file',
        ),
        (
            {"connectionInfo": {"type": "InClusterConfig"}},
            "authorizers[0].connectionInfo.type: Forbidden: an API server cannot ask itself",
        ),
        ({"matchConditions": [{"expression": " "}]}, "authorizers[0].matchConditions[0].expression: Required value"),
        (
            {"matchConditions": [{"expression": "request.user"}]},
            'authorizers[0].matchConditions[0].expression: Invalid value: "request.user": must evaluate to bool',
        ),
        (
            {"matchConditions": [{"expression": "true"}], "matchConditionSubjectAccessReviewVersion": ""},
            (
                "authorizers[0].matchConditionSubjectAccessReviewVersion: Required value: required if match "
                "conditions are specified"
            ),
        ),
        (
            {"matchConditions": [{"expression": "true"}] * 65},
            "authorizers[0].matchConditions: Too many: 65: must have at most 64 items",
        ),
    ],
)
def test_what_is_wrong_with_webhooks(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigFileError) as caught:
        load(document(webhook(FILE, **changes)), complaint)
    assert str(caught.value) == message


def test_a_file_that_can_be_used() -> None:
    first, second = load(document(webhook(FILE, matchConditions=[{"expression": "request.user == 'a'"}]), RBAC), fine)
    assert [program.source for program in first.conditions] == ["request.user == 'a'"]
    assert second.config.type == "RBAC" and not second.conditions
