"""S16: records say with which credential somebody came, and the front proxy's CA is no client CA.

Findings 5 and 9 of Kubernetes' audit of 2024 (kubernetes/kubernetes#118980), 9 of that of 2019 (#81117).
"""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

import kubevouch
from asynctest import async_test
from kubevouch.phases.certificates.certs import CertsError, ensure_control_plane, load_authority, pair_at
from kubevouch.pki.authority import create_authority
from kubevouch.pki.client_certificate import TrustAnchors
from kubevouch.pki.control_plane import CA, FRONT_PROXY_CA, SUPER_ADMIN
from kubevouch.pki.x509 import x509_certificate
from kubevouch.server.audit.options import AuditOptions, LogFileOptions
from kubevouch.standalone.ca_files import CAFiles
from kubevouch.testing.cluster_pki import NAMES
from kubevouch.util.clock import SystemClock
from served_world import served
from wire import Wire

SOURCE = Path(kubevouch.__file__).parent


@async_test
async def test_s16_an_event_names_the_credential_and_not_its_secret(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n")
    audit = AuditOptions(tmp_path / "policy.yaml", LogFileOptions(str(tmp_path / "audit.log")))
    (tmp_path / "server").mkdir()
    async with served(tmp_path / "server", audit) as at:
        text = at.kubeconfig(SUPER_ADMIN)
        (tmp_path / "admin.conf").write_text(text)
        Wire.of_kubeconfig(tmp_path / "admin.conf", tmp_path)
        leaf = x509_certificate.parse_pem((tmp_path / "kubernetes-super-admin.pem").read_bytes())
        async with at.session(at.token) as session, session.get("/version") as answer:
            assert answer.status == 200
        at.context.load_cert_chain(tmp_path / "kubernetes-super-admin.pem")
        async with at.session() as session, session.get("/version") as answer:
            assert answer.status == 200
    events = [json.loads(line) for line in (tmp_path / "audit.log").read_text().splitlines()]
    found = {
        (event["annotations"]["authentication.kubevouch.io/method"],
         event["annotations"]["authentication.kubevouch.io/credential"])
        for event in events if event["requestURI"] == "/version"
    }  # fmt: skip
    assert found == {("bootstrap-token", f"token {at.token[:6]}"), ("x509", f"serial {leaf.serial:x}")}
    assert at.token[7:] not in (tmp_path / "audit.log").read_text()


def test_s16_the_front_proxys_key_is_nowhere_among_the_client_authorities(tmp_path: Path) -> None:
    """Compared are keys: another certificate for the same key, with another name, is the same authority."""
    pki, now = tmp_path / "pki", SystemClock().now()
    made = ensure_control_plane(pki, NAMES, now=now)
    proxy = load_authority(pair_at(pki, FRONT_PROXY_CA))
    for disguised in (proxy.certificate, create_authority("kubernetes-2", proxy.key, now=now).certificate):
        bundle = pair_at(pki, CA).certificate
        before = bundle.read_bytes()
        taken: list[TrustAnchors] = []
        running = CAFiles(made, SystemClock(), taken.append)
        bundle.write_bytes(before + disguised.pem())
        with pytest.raises(CertsError, match=f"{FRONT_PROXY_CA}.crt has the key of the client CA"):
            ensure_control_plane(pki, NAMES, now=now)
        # A server that runs keeps what it has.
        running.look()
        assert taken == []
        bundle.write_bytes(before)
        ensure_control_plane(pki, NAMES, now=now)


def test_s16_the_only_children_are_hooks_and_exec_plugins_and_get_no_secret() -> None:
    """What they are given is in their environment, where everybody of the same user reads it: paths, names, and what
    client-go's contract for plug-ins has.
    """
    spawning = {}
    for path in SOURCE.rglob("*.py"):
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and _spawns(ast.unparse(node.func)):
                spawning[path.relative_to(SOURCE).as_posix()] = tree
    assert set(spawning) == {"agent/hooks.py", "client/execplugin.py"}
    given = {
        key.value
        for tree in spawning.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Dict)
        for key in node.keys
        if isinstance(key, ast.Constant) and str(key.value).isupper()
    }
    assert given == {"KUBEVOUCH_CERTIFICATE", "KUBEVOUCH_CERTIFICATE_NAME", "KUBERNETES_EXEC_INFO"}


def _spawns(called: str) -> bool:
    name = called.rpartition(".")[2]
    return called.startswith("subprocess.") or (
        name.startswith(("create_subprocess", "spawn", "exec", "posix_spawn"))
        and called.startswith(("os.", "asyncio."))
    )
