"""The examples of docs/howto/admission.md, against a cluster."""

from __future__ import annotations

import base64
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import peers
from decisions import request_pem
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS
from kubevouch.api.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestSpec
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.testing import Cluster
from throwaway_ca import ThrowawayCA

PAGE = (peers.ROOT / "docs" / "howto" / "admission.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


POLICY, MUTATING, CONFIGURATION = blocks("yaml")
(PROGRAM,) = blocks("python")


def request(name: str, signer: str, seconds: int | None) -> CertificateSigningRequest:
    spec = CertificateSigningRequestSpec(
        request=request_pem("web"), signer_name=signer, usages=["client auth"], expiration_seconds=seconds
    )
    return CertificateSigningRequest(metadata=ObjectMeta(name=name), spec=spec)


def test_the_policy_refuses_as_the_page_says() -> None:
    with Cluster() as cluster:
        for each in yaml.safe_load_all(POLICY):
            cluster.apply(each)
        cluster.create(request("day", "example.com/web", 86400))
        cluster.create(request("other", "elsewhere.com/web", None))
        for seconds in (604800, None):
            with pytest.raises(APIStatusError) as refused:
                cluster.create(request("web", "example.com/web", seconds))
            shown = " ".join(PAGE.split("A request for a week is now refused:")[1].split("A policy alone")[0].split())
            assert (refused.value.code, str(refused.value.status.message)) == (403, shown)
        made = {each.metadata.name for each in cluster.list(CERTIFICATE_SIGNING_REQUESTS)}
        assert made == {"day", "other"}
        cluster.delete("ConfigMap", "certificate-limits", "default")
        with pytest.raises(APIStatusError, match="no params found"):
            cluster.create(request("lost", "example.com/web", 600))


def test_the_policy_changes_what_is_made() -> None:
    with Cluster() as cluster:
        for each in yaml.safe_load_all(MUTATING):
            cluster.apply(each)
        alice = cluster.as_user("system:alice", groups=["system:masters"])
        labelled = {"name": "red", "labels": {"example.com/team": "red"}}
        alice.create({"apiVersion": "v1", "kind": "Namespace", "metadata": labelled})
        found = {}
        for namespace in ("default", "red"):
            alice.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": namespace}})
            found[namespace] = cluster.get("ConfigMap", "a", namespace).metadata.labels
        by = {"example.com/by": "system.alice"}
        assert found == {
            "default": {"example.com/team": "nobody", **by}, "red": {"example.com/team": "red", **by},
        }  # fmt: skip


def test_the_webhook_writes_down_who_it_was(tmp_path: Path) -> None:
    ca = ThrowawayCA()
    certificate, key = ca.issue().write(tmp_path, "webhook")
    program = tmp_path / "webhook.py"
    program.write_text(PROGRAM)
    configuration = yaml.safe_load(CONFIGURATION)
    with subprocess.Popen(
        [sys.executable, program, certificate, key, "0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as webhook:
        try:
            assert webhook.stdout is not None
            port = int(webhook.stdout.readline())
            place = configuration["webhooks"][0]["clientConfig"]
            place["url"] = place["url"].replace("8443", str(port))
            place["caBundle"] = base64.b64encode(ca.bundle).decode()
            with Cluster() as cluster:
                cluster.apply(configuration)
                alice = cluster.as_user("alice", groups=["system:masters"])
                metadata = {"name": "a", "namespace": "default", "annotations": {"kept": "yes"}}
                alice.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
                found = cluster.get("ConfigMap", "a", "default").metadata.annotations
                assert found == {"kept": "yes", "example.com/made-by": "alice"}
                metadata = {"name": "a", "namespace": "kube-system"}
                alice.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
                assert cluster.get("ConfigMap", "a", "kube-system").metadata.annotations == {}
        finally:
            webhook.terminate()
