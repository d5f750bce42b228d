"""docs/howto/approval-webhooks.md: its configuration is read, its answer counts, its question is what is asked."""

from __future__ import annotations

import json
import re

import msgspec
import yaml

import peers
from kubevouch.config import approver_webhooks
from kubevouch.pki.x509 import x509_request
from kubevouch.policy import approval_review
from kubevouch.policy.facts import facts_of
from kubevouch.policy.verdict import Outcome
from serving_requests import asks

PAGE = (peers.ROOT / "docs" / "howto" / "approval-webhooks.md").read_text()


def test_what_the_page_shows() -> None:
    (configuration,) = re.findall(r"```yaml\n(.+?)```", PAGE, re.DOTALL)
    (settings,) = approver_webhooks.decode(configuration.encode()).webhooks
    assert settings.name == yaml.safe_load(configuration)["webhooks"][0]["name"] == "cmdb"
    question, answer = map(json.loads, re.findall(r"```json\n(.+?)```", PAGE, re.DOTALL))
    uid = question["request"]["uid"]
    verdict = approval_review.verdict("webhook/cmdb", uid, json.dumps(answer).encode())
    assert (verdict.outcome, verdict.reason, verdict.message) == (Outcome.APPROVE, "InInventory", "rack 7")
    csr = asks("csr-x7k2p", "worker-1", ("worker-1",))
    asked = json.loads(
        approval_review.question(uid, facts_of(csr, x509_request.parse_pem(csr.spec.request or b"")), csr)
    )
    shown, found = question["request"]["certificateRequest"], asked["request"]["certificateRequest"]
    assert shown.pop("subject").items() <= found["subject"].items()
    assert shown.pop("keyFingerprint") and len(found["keyFingerprint"]) == 64
    assert {key: found[key] for key in shown} == shown
    assert msgspec.to_builtins(asked["request"]["object"]).keys() >= {"apiVersion", "kind", "spec"}
