"""What webhooks and policies leave in audit events."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from admission_webhook import AdmissionWebhook, config_map, configuration, rule, set_data
from admission_world import binding, configure, install, policy, post
from asynctest import async_test
from kubevouch.server.audit.options import AuditOptions, LogFileOptions
from served_world import served

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
SECRETS = "/api/v1/namespaces/default/secrets"


async def _annotations(folder: Path, level: str, path: str = CONFIG_MAPS) -> dict[str, Any]:
    """Of the event of one creation that a webhook patches, and that a policy would refuse."""
    resource = path.rpartition("/")[2]
    rules = folder / "policy.yaml"
    rules.write_text(f"apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{{level: {level}}}]\n")
    log = folder / "audit.log"
    options = AuditOptions(rules, LogFileOptions(str(log)))
    (folder / "server").mkdir()
    async with AdmissionWebhook(folder, set_data("b", "MQ==")) as webhook, served(folder / "server", options) as at:
        entries = (
            webhook.entry("a.example.com", rules=[rule(resource)]),
            webhook.entry(
                "b.example.com",
                rules=[rule(resource)],
                clientConfig={"url": "https://127.0.0.1:1/"},
                failurePolicy="Ignore",
            ),
        )
        await configure(at.admin, configuration("Mutating", *entries))
        checks = policy({"expression": "!has(object.data.b)", "message": "no b"}, rules=[rule(resource)])
        await install(at.admin, checks, binding("Audit"))
        tree = config_map(k="MQ==") | {"kind": "Secret" if resource == "secrets" else "ConfigMap"}
        assert (await post(at.admin, path, tree)).status == 201
    events = [json.loads(line) for line in log.read_text().splitlines()]
    (event,) = [each for each in events if each["stage"] == "ResponseComplete" and each["requestURI"] == path]
    found: dict[str, Any] = event["annotations"]
    return found


PATCH = "patch.webhook.admission.k8s.io/round_0_index_0"


@async_test
async def test_all_of_it(tmp_path: Path) -> None:
    found = await _annotations(tmp_path, "Request")
    place = "mutation.webhook.admission.k8s.io/round_0_index"
    about = '"configuration":"c","webhook":'
    assert found[PATCH] == (
        f'{{{about}"a.example.com","patch":[{{"op":"add","path":"/data/b","value":"MQ=="}}],"patchType":"JSONPatch"}}'
    )
    assert found[f"{place}_0"] == f'{{{about}"a.example.com","mutated":true}}'
    assert found[f"{place}_1"] == f'{{{about}"b.example.com","mutated":false}}'
    assert found[f"failed-open.{place}_1"] == "b.example.com"
    assert found["validation.policy.admission.k8s.io/validation_failure"] == (
        '[{"message":"no b","policy":"p","binding":"b","expressionIndex":0,"validationActions":["Audit"]}]'
    )


@pytest.mark.parametrize(("level", "path"), [("Metadata", CONFIG_MAPS), ("RequestResponse", SECRETS)])
@async_test
async def test_no_patch_where_the_object_is_not_shown(tmp_path: Path, level: str, path: str) -> None:
    found = await _annotations(tmp_path, level, path)
    assert PATCH not in found
    assert "mutation.webhook.admission.k8s.io/round_0_index_0" in found
