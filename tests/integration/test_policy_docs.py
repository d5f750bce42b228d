"""docs/howto/policies.md, as typed: the first design's example, the oldest kubectl, and what became of requests."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import yaml
from cryptography.hazmat.primitives.asymmetric import ec

import peers
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.subject import Subject
from kubevouch.pki.x509.subject_alt_names import SubjectAltNames
from kubevouch.reviews.policy_rehearsal import read_policies
from processes import Up, environment

PAGE = (peers.ROOT / "docs" / "howto" / "policies.md").read_text()
TEAM = "--as=system:serviceaccount:web:app --as-group=system:serviceaccounts:web --as-group=system:authenticated"


def typed(beginning: str, **changes: str) -> str:
    """The first line of the page that is typed and begins so."""
    line = next(each.strip() for each in PAGE.splitlines() if each.startswith(f"    {beginning}"))
    for old, new in changes.items():
        line = line.replace(old, new)
    return line


def request(name: str, *hosts: str, seconds: int = 2592000, key: int = 7) -> str:
    names = SubjectAltNames(dns_names=hosts)
    pem = build_request(ec.derive_private_key(key, ec.SECP256R1()), Subject(common_name=hosts[0]), names)
    spec = {
        "request": base64.b64encode(pem).decode(), "signerName": "example.com/hosts", "usages": ["server auth"],
        "expirationSeconds": seconds,
    }  # fmt: skip
    kind = {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest"}
    return json.dumps({**kind, "metadata": {"name": name}, "spec": spec})


def test_the_page(tmp_path: Path) -> None:
    (tmp_path / "kubectl").symlink_to(peers.kubectl("1.20"))
    (tmp_path / "examples").symlink_to(peers.ROOT / "examples")
    path = os.pathsep.join([str(tmp_path), str(Path(sys.executable).parent), os.environ["PATH"]])
    variables = environment(PATH=path, KUBECONFIG="cluster/admin.conf", HOME=str(tmp_path))

    def run(line: str, text: str = "", code: int = 0) -> str:
        done = subprocess.run(
            ["bash", "-ec", line], cwd=tmp_path, env=variables, input=text, capture_output=True, text=True, check=False
        )
        assert done.returncode == code, (line, done)
        return done.stdout if code == 0 else done.stderr

    def settled(name: str, state: str) -> None:
        run(f"kubectl wait --for=condition={state} csr/{name} --timeout=60s")

    with Up(tmp_path):
        run(typed("kubectl apply -f examples/30"))
        run(typed("kubectl wait"))
        for name, body in {
            "good": request("good", "a.k8s.example.com"),
            "evil": request("evil", "a.k8s.example.com", "evil.com", key=8),
            "long": request("long", "a.k8s.example.com", seconds=2592001, key=9),
        }.items():
            run("kubectl create -f -", body)
            settled(name, "Approved" if name == "good" else "Denied")
        # Whoever may not use the policy is told so, and is approved once he may.
        run("kubectl create clusterrole ask --verb=create --resource=certificatesigningrequests.certificates.k8s.io")
        run("kubectl create clusterrolebinding ask --clusterrole=ask --group=system:serviceaccounts:web")
        run(f"kubectl create -f - {TEAM}", request("web", "web.k8s.example.com", key=10))
        told = run(typed("kubevouch csr explain NAME", NAME="web") + " --data-dir cluster")
        assert "the right to use certificaterequestpolicies/k8s-hosts" in told.partition("missing")[2]
        run(typed("kubectl apply -f examples/use"))
        settled("web", "Approved")
        # The ledger has it when the request is gone.
        run("kubectl delete csr evil")
        why = json.loads(run(typed("kubevouch csr explain NAME -o json", NAME="evil") + " --data-dir cluster"))
        assert (why["state"], why["source"], why["verdict"]["approver"]) == ("Denied", "ledger", "policy/k8s-hosts")
        steps = {step["rule"]: step for step in why["verdict"]["steps"]}
        assert steps["policy/k8s-hosts: san.dns"] == {
            "rule": "policy/k8s-hosts: san.dns", "result": "unmet", "got": "evil.com", "expected": "*.k8s.example.com",
        }  # fmt: skip
        chart = run(typed("kubevouch csr explain NAME --mermaid", NAME="evil") + " --data-dir cluster")
        assert chart.startswith("flowchart TD\n")
        # The same policy changes nothing; a wider one is refused by its exit code.
        assert run(typed("kubevouch policy lint")) == "1 policy can be evaluated\n"
        trial = typed("kubevouch policy test") + " --data-dir cluster"
        assert run(trial).startswith("4 unchanged, 0 newly approved")
        wider = (peers.ROOT / "examples" / "30-day-hosts.yaml").read_text().replace("2592000", "9999999")
        failed = run(trial.replace("examples/30-day-hosts.yaml", "-"), wider, code=1)
        assert failed.startswith("error: 1 request would be newly approved\n")
        faulty = run("kubevouch policy lint -f -", wider.replace("freshKey", "freshKeys"), code=3)
        assert re.fullmatch(r'error: -: object 1: unknown field "spec.freshKeys"\nhint: .*\n', faulty)


def test_the_files_of_the_page() -> None:
    example = (peers.ROOT / "examples" / "30-day-hosts.yaml").read_text()
    whole, rule, writer, parts = re.findall(r"```yaml\n(.*?)```", PAGE, flags=re.DOTALL)
    assert whole.strip() in example
    assert rule in (peers.ROOT / "examples" / "use-k8s-hosts.yaml").read_text()
    (approves,) = yaml.safe_load(writer)
    assert (approves["resources"], approves["verbs"]) == (["signers"], ["approve"])
    tree = yaml.safe_load(example)
    tree["spec"] |= yaml.safe_load(parts)
    read_policies(yaml.safe_dump(tree).encode())
