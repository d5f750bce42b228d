"""The pages about a cluster that exists, typed in their order against Kubernetes' own programs.

kube-controller-manager runs beside, without what it has been told to leave; machines join by what kubeadm has made.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

import identity_world as world
import peers
import processes
from kubevouch.pki import pins
from kubevouch.pki.x509.subject import Subject
from kubevouch.pki.x509.subject_alt_names import SubjectAltNames
from kubevouch.pki.x509.x509_certificate import parse_bundle
from real.behaviours import let_machines_join
from real_cluster import RealCluster, program

_PAGES = peers.ROOT / "docs" / "howto"
_REQUEST = re.findall(r"^```yaml\n(.*?)^```", (_PAGES / "signers.md").read_text(), re.M | re.S)[0]
_KUBEADM = """\
apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
bootstrapTokens:
- {{token: abcdef.0123456789abcdef, groups: ["system:bootstrappers:kubeadm:default-node-token"]}}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v1.36.2
controlPlaneEndpoint: {endpoint}
certificatesDir: {folder}
"""


def _until(holds: Callable[[], bool]) -> None:
    """Looked at again and again; the time-out of a test ends what never comes."""
    while not holds():
        threading.Event().wait(0.1)


def lines_of(page: str) -> list[str]:
    """What is typed, in its order."""
    text = (_PAGES / page).read_text()
    return [line.strip() for line in text.splitlines() if re.match(r"    (kubevouch|kubectl) ", line)]


def line_of(page: str, beginning: str) -> str:
    (line,) = (each for each in lines_of(page) if each.startswith(beginning))
    return line


class Person:
    """Somebody with a kubeconfig of the administrator, in a folder that has what the pages name."""

    def __init__(self, real: RealCluster, folder: Path) -> None:
        self.real, self.folder = real, folder
        for name in ("deploy", "examples"):
            (folder / name).symlink_to(peers.ROOT / name)
        for name, path in (
            ("admin.conf", real.kubeconfig), ("ca.crt", real.ca_certificate), ("ca.key", real.ca_key),
        ):  # fmt: skip
            (folder / name).symlink_to(path)
        programs = os.pathsep.join(
            (str(Path(sys.executable).parent), str(program("kubectl").parent), os.environ["PATH"])
        )
        self.variables = processes.environment(PATH=programs, KUBECONFIG=str(real.kubeconfig), HOME=str(folder))

    def types(self, line: str, *, code: int = 0) -> str:
        done = subprocess.run(
            ["bash", "-ec", line], cwd=self.folder, env=self.variables, capture_output=True, text=True, check=False,
            timeout=processes.PATIENCE_SECONDS,
        )  # fmt: skip
        assert done.returncode == code, (line, done.stdout, done.stderr)
        return done.stdout

    @contextmanager
    def runs(self, line: str) -> Iterator[None]:
        """While it goes on; it ends well, and gives its Lease back."""
        command = [sys.executable, "-m", "kubevouch.cli.main", *shlex.split(line)[1:], "--secure-port", "0"]
        log = self.folder / "controllers.log"
        with log.open("ab") as errors, subprocess.Popen(
            command, cwd=self.folder, env=self.variables, stdout=subprocess.DEVNULL, stderr=errors
        ) as running:  # fmt: skip
            try:
                _until(lambda: "controller started" in log.read_text())
                yield
                running.send_signal(signal.SIGTERM)
                assert running.wait(processes.PATIENCE_SECONDS) == 0, log.read_text()[-2000:]
            finally:
                running.kill()
        assert "released lease" in log.read_text()


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    with RealCluster(tmp_path_factory.mktemp("cluster")) as real:
        let_machines_join(real)
        real.start_controller_manager("--controllers=*,-csrapproving,-csrsigning,-bootstrapsigner", signs=False)
        yield Person(real, tmp_path_factory.mktemp("person"))


@pytest.fixture(scope="module")
def attached(person: Person) -> Iterator[Person]:
    """As attached.md says: looked at, given our kinds and accounts, and worked for in place of the other's parts."""
    for beginning in ("kubectl apply -f deploy/crds", "kubectl apply -f deploy/controllers/access.yaml",
                      "kubectl -n kubevouch-system create secret"):  # fmt: skip
        person.types(line_of("attached.md", beginning))
    with person.runs(line_of("attached.md", "kubevouch controllers --kubeconfig admin.conf --controllers=")):
        yield person


def test_the_look_says_what_is_to_be_done_first(attached: Person) -> None:
    """It ends with 2 as long as that is something."""
    told = attached.types(f"{line_of('attached.md', 'kubevouch controllers check')} || test $? = 2")
    assert told.strip()


def test_a_machine_joins_by_what_kubeadm_has_made(attached: Person) -> None:
    config = attached.folder / "kubeadm.yaml"
    endpoint = attached.real.url.removeprefix("https://")
    config.write_text(_KUBEADM.format(endpoint=endpoint, folder=attached.real.folder))
    kubeadm = f"{program('kubeadm')} init phase bootstrap-token --config kubeadm.yaml --kubeconfig admin.conf"
    attached.types(f"{kubeadm} --skip-token-print")
    joined = attached.types(
        f"kubevouch join {endpoint} --token abcdef.0123456789abcdef --discovery-token-ca-cert-hash "
        f"{_pin(attached.real)} --node-name worker-1 --rootfs ./worker-1"
    )
    assert "worker-1" in joined
    told = attached.types("kubectl --kubeconfig worker-1/etc/kubernetes/kubelet.conf auth whoami")
    assert "system:node:worker-1" in told


def test_a_policy_approves(attached: Person) -> None:
    # kube-apiserver takes a moment to know the kind by which our guards judge.
    policy = attached.folder / "examples" / "30-day-hosts.yaml"
    _until(lambda: attached.real.kubectl("apply", "--dry-run=server", "-f", policy).code == 0)
    for beginning in ("kubectl apply -f examples/30-day-hosts.yaml", "kubectl wait --for=condition=Ready"):
        attached.types(line_of("policies.md", beginning))
    _asks(attached, "host", "example.com/hosts", "web.k8s.example.com")
    attached.types("kubectl wait --for=condition=Approved csr/host --timeout=120s")


def test_a_signer_of_ones_own_signs(attached: Person) -> None:
    attached.types(line_of("signers.md", "kubevouch signer create"))
    _asks(attached, "shop", "example.com/web", "shop.example.com")
    attached.types(line_of("signers.md", "kubectl certificate approve"))
    attached.types("kubectl wait --for=jsonpath='{.status.certificate}' csr/shop --timeout=120s")
    assert "BEGIN CERTIFICATE" in attached.types(line_of("signers.md", "kubectl get csr shop"))
    assert "example.com/web" in attached.types(line_of("signers.md", "kubevouch signer list"))
    for line in ("kubevouch signer describe example.com/web", "kubevouch signer rotate", "kubevouch signer trust"):
        attached.types(next(each for each in lines_of("signers.md") if each.startswith(line)))
    reasons = attached.types("kubectl get events -A -o jsonpath='{.items[*].reason}'").split()
    assert reasons and "CAMissing" not in reasons


def _asks(person: Person, name: str, signer: str, host: str) -> None:
    """The request of signers.md, for a name and a signer."""
    manifest = yaml.safe_load(_REQUEST)
    pem = world.request(Subject(common_name=host), names=SubjectAltNames(dns_names=(host,)))
    manifest["metadata"]["name"] = name
    manifest["spec"] |= {"signerName": signer, "expirationSeconds": 3600, "request": base64.b64encode(pem).decode()}
    done = person.real.kubectl("create", "-f", "-", given=json.dumps(manifest))
    assert done.code == 0, done.stderr


def _pin(real: RealCluster) -> str:
    (certificate,) = parse_bundle(real.ca_certificate.read_bytes())
    return pins.pin_of(certificate)
