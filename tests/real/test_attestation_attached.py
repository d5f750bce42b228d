"""docs/howto/node-attestation.md on Kubernetes' own programs: machines that have a token and a proof.

kube-controller-manager signs for Kubernetes' signers and for cluster-info; the controllers act as the accounts of
deploy/, with the rights that are in deploy/ and none besides.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import re
import shlex
import signal
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

import peers
import processes
from device_certificates import issue
from kubevouch.standalone.attached.manifests import NAMESPACE, PROGRAMS, arguments
from kubevouch.util.clock import SystemClock
from real_cluster import RealCluster

PAGE = (peers.ROOT / "docs" / "howto" / "node-attestation.md").read_text()
SECTION = PAGE.partition("## In a cluster that somebody else has made")[2].partition("\n## ")[0]
COMMANDS = re.findall(r"^    (\S.*)$", SECTION, re.M)
CONFIGURATION = """apiVersion: kubevouch.io/v1alpha1
kind: AttestationConfiguration
attestors:
- provider: join-token
- provider: x509pop
  settings: {rootsFile: factory.crt, nodeName: commonName}
"""
_CERTIFICATE_SIGNING = ("--cluster-signing-cert-file", "--cluster-signing-key-file")


@contextlib.contextmanager
def controllers(cluster: RealCluster) -> Iterator[Mapping[str, Path]]:
    """Both programs of deploy/, each as its account; gives their logs."""
    running, logs = [], {}
    try:
        for program in PROGRAMS:
            token = cluster.kubectl("-n", NAMESPACE, "create", "token", program.name).stdout.strip()
            config = cluster.write_kubeconfig(cluster.folder / f"{program.name}.conf", {"token": token})
            flags = [
                each for each in arguments(program) if not each.startswith((*_CERTIFICATE_SIGNING, "--secure-port"))
            ]
            if program.signs:
                pair = zip(_CERTIFICATE_SIGNING, (cluster.ca_certificate, cluster.ca_key), strict=True)
                flags += [f"{name}={value}" for name, value in pair]
            logs[program.name] = cluster.folder / f"{program.name}.log"
            with logs[program.name].open("wb") as log:
                running.append(
                    subprocess.Popen(
                        [*processes.KUBEVOUCH, *flags, f"--kubeconfig={config}", "--secure-port=0",
                         "--attestation-config=attestation.yaml"],
                        cwd=cluster.folder, env=processes.environment(), stdout=log, stderr=log,
                    )
                )  # fmt: skip
        yield logs
    finally:
        for each in running:
            each.send_signal(signal.SIGTERM)
        for each in running:
            each.wait(processes.PATIENCE_SECONDS)


@dataclass(frozen=True)
class Site:
    cluster: RealCluster
    logs: Mapping[str, Path]

    def join(self, name: str, *more: str | Path) -> processes.Ended:
        """What the operator hands to a machine, and what the machine types; it has nothing but that."""
        made = self.cluster.kubevouch("token", "create", "--print-join-command")
        assert made.code == 0, made.stderr
        words = shlex.split(made.stdout)
        return processes.kubevouch(
            *words[1:], "--node-name", name, "--rootfs", self.cluster.folder / name, "--ignore-preflight-errors",
            "all", "--timeout", "120s", *more, cwd=self.cluster.folder,
        )  # fmt: skip

    def by_token(self, name: str, *more: str, machine: str = "") -> processes.Ended:
        made = self.cluster.kubevouch("token", "create", "--one-time", "--machine", machine or name)
        path = self.cluster.folder / f"{name}.token"
        path.touch(mode=0o600)
        path.write_text(made.stdout)
        return self.join(name, "--attest", "join-token", "--attest-setting", f"tokenFile={path}", *more)

    def user_of(self, name: str) -> str:
        """As whom the API server knows the certificate that the machine was given."""
        config = self.cluster.folder / name / "etc/kubernetes/kubelet.conf"
        asked = self.cluster.kubectl("auth", "whoami", "-o", "json", user=config)
        assert asked.code == 0, asked.stderr
        return str(json.loads(asked.stdout)["status"]["userInfo"]["username"])

    def cluster_info(self) -> str:
        found = self.cluster.kubectl("-n", "kube-public", "get", "configmap", "cluster-info", "-o", "json")
        return str(json.loads(found.stdout)["data"]["kubeconfig"])

    def uid(self) -> str:
        return self.cluster.kubectl("get", "namespace", "kube-system", "-o", "jsonpath={.metadata.uid}").stdout


def typed(cluster: RealCluster, command: str) -> processes.Ended:
    """One command of the page; admin.conf is that of this cluster, and deploy/ that of the sources."""
    words = shlex.split(
        command.replace("admin.conf", str(cluster.kubeconfig)).replace("deploy/", f"{peers.ROOT}/deploy/")
    )
    return (cluster.kubectl if words[0] == "kubectl" else cluster.kubevouch)(*words[1:])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    begins = SystemClock().now() - dt.timedelta(days=1)
    factory = issue("factory", ca=True, begins=begins)
    (folder / "factory.crt").write_text(factory.pem)
    (folder / "attestation.yaml").write_text(CONFIGURATION)
    (folder / "device").mkdir()
    issue("worker-device", factory, begins=begins).write(folder / "device")
    with RealCluster(folder) as cluster:
        # As kubeadm starts it; what signs for a machine without a proof finds nobody who may have that.
        cluster.start_controller_manager("--controllers=*,bootstrapsigner,tokencleaner")
        for command in COMMANDS:
            done = typed(cluster, command)
            assert done.code == 0, f"{command}: {done.stderr}"
        with controllers(cluster) as logs:
            yield Site(cluster, logs)


def test_the_page_has_the_commands() -> None:
    assert [each.split()[0] for each in COMMANDS] == ["kubectl", "kubevouch"]


def test_a_join_token_makes_a_node(site: Site) -> None:
    done = site.by_token("worker-token")
    assert done.code == 0, done.stderr
    assert site.user_of("worker-token") == "system:node:worker-token"


def test_the_token_alone_makes_none(site: Site) -> None:
    done = site.join("worker-bare", "--timeout", "20s")
    assert done.code != 0
    requests = json.loads(site.cluster.kubectl("get", "csr", "-o", "json").stdout)["items"]
    bare = [each for each in requests if each["spec"]["signerName"] == "kubernetes.io/kube-apiserver-client-kubelet"]
    assert [each["status"].get("conditions", []) for each in bare] == [[]]


def test_a_challenge_is_asked_and_answered_with_a_device_certificate(site: Site) -> None:
    settings = ("certificate=device/device.pem", "key=device/device.key")
    shown = [word for each in settings for word in ("--attest-setting", each)]
    done = site.join("worker-device", "--attest", "x509pop", *shown)
    assert done.code == 0, done.stderr
    assert site.user_of("worker-device") == "system:node:worker-device"
    again = site.join("worker-other", "--attest", "x509pop", *shown)
    assert "the machine is worker-device, and asks to be worker-other" in again.stderr


def test_cluster_info_says_which_cluster_it_is(site: Site) -> None:
    assert f"id: {site.uid()}" in site.cluster_info()


def test_a_cluster_that_says_nothing_is_known_by_its_ca(site: Site) -> None:
    """As kubeadm leaves it."""
    published = site.cluster_info()
    silent = re.sub(r"\n    extensions:\n(    - .*\n|      .*\n)+", "\n", published)
    assert "kubevouch.io" not in silent

    def publish(text: str) -> None:
        patch = json.dumps({"data": {"kubeconfig": text}})
        done = site.cluster.kubectl("-n", "kube-public", "patch", "configmap", "cluster-info", "-p", patch)
        assert done.code == 0, done.stderr

    publish(silent)
    try:
        done = site.by_token("worker-pin")
        assert done.code == 0, done.stderr
        taken = site.by_token("worker-told", "--cluster-id", site.uid())
        assert taken.code == 0, taken.stderr
        other = "00000000-0000-4000-8000-000000000001"
        refused = site.by_token("worker-wrong", "--cluster-id", other)
        assert refused.code != 0
        assert f"the evidence was made for cluster '{other}', this is {site.uid()} or sha256:" in refused.stderr
        # Neither was the token looked for: it is as good as it was.
        unproven = site.join("worker-plain", "--cluster-id", site.uid())
        assert "a cluster that does not say which it is" in unproven.stderr
    finally:
        publish(published)


def test_an_unknown_token_and_a_wrong_secret_are_told_apart_by_nobody(site: Site) -> None:
    made = site.cluster.kubevouch("token", "create", "--one-time", "--machine", "worker-guess").stdout.strip()
    told = set()
    for number, text in enumerate((f"{made.partition('.')[0]}.{'a' * 32}", f"zzzzzzzz.{'a' * 32}")):
        path = site.cluster.folder / f"guess-{number}.token"
        path.touch(mode=0o600)
        path.write_text(text)
        done = site.join(f"worker-guess-{number}", "--attest", "join-token", "--attest-setting", f"tokenFile={path}")
        told.add(done.stderr.partition("message: ")[2].partition("\n")[0])
    assert told == {"token: no such join token, or another secret"}


def test_nothing_was_forbidden_to_the_controllers(site: Site) -> None:
    for name, path in site.logs.items():
        text = path.read_text(errors="replace")
        refused = [line for line in text.splitlines() if "forbidden" in line.lower()]
        assert not refused, f"{name}: {refused[:3]}"
