from __future__ import annotations

import datetime as dt
import json
import shutil
from pathlib import Path

import pytest
import yaml

from control_plane_world import NOW, control_plane_files
from kubevouch.cli.certs import tell_served
from kubevouch.cli.main import run
from kubevouch.phases.certificates import control_plane_files as files
from kubevouch.phases.certificates.certs import certificate_pem
from kubevouch.phases.certificates.control_plane_files import Layout
from kubevouch.phases.certificates.served_certificates import Served
from kubevouch.pki import keys
from kubevouch.pki.authority import CertificateAuthority, create_authority
from kubevouch.pki.certificate_key import parse
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509 import x509_request
from kubevouch.pki.x509.certificate_builder import CertificateTemplate
from kubevouch.pki.x509.usages import resolve

Capture = pytest.CaptureFixture[str]


def _flags(folder: Path) -> list[str]:
    return ["--cert-dir", str(folder / "pki"), "--kubeconfig-dir", str(folder)]


def _unserved(folder: Path) -> None:
    """Who looks at what is served finds nobody: on 6443 there may be a cluster, on port 1 there is none."""
    for path in folder.glob("*.conf"):
        path.write_text(path.read_text().replace(":6443", ":1"))


def test_the_tables_are_kubeadms(tmp_path: Path, capsys: Capture) -> None:
    layout = control_plane_files(tmp_path)
    (tmp_path / "scheduler.conf").unlink()
    (layout.pki / "front-proxy-ca.key").unlink()
    assert run(["certs", "check-expiration", *_flags(tmp_path)]) == 0
    first, second = capsys.readouterr().out.rstrip("\n").split("\n\n")
    lines = first.splitlines()
    header = "CERTIFICATE EXPIRES RESIDUAL TIME CERTIFICATE AUTHORITY EXTERNALLY MANAGED"
    assert " ".join(lines[0].split()) == header
    leaf = files.read_chain(files.credential("apiserver"), layout)
    assert leaf is not None
    ends = f"{leaf[0].not_after:%b %d, %Y %H:%M} UTC"
    assert lines[2].split() == ["apiserver", *ends.split(), "364d", "ca", "no"]
    assert "!MISSING! scheduler.conf" in lines
    assert [line.split()[-1] for line in lines if line.startswith("front-proxy-client")] == ["yes"]
    assert [line.split()[0] for line in second.splitlines()[1:]] == ["ca", "etcd-ca", "front-proxy-ca"]
    assert [line.split()[-2:] for line in second.splitlines()[1:]] == [["9y", "no"], ["9y", "no"], ["9y", "yes"]]


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_expirations_for_programs(tmp_path: Path, capsys: Capture, output: str) -> None:
    control_plane_files(tmp_path)
    (tmp_path / "scheduler.conf").unlink()
    assert run(["certs", "check-expiration", "-o", output, *_flags(tmp_path)]) == 0
    text = capsys.readouterr().out
    tree = json.loads(text) if output == "json" else yaml.load(text, Loader=yaml.BaseLoader)
    assert (tree["kind"], tree["apiVersion"]) == ("CertificateExpirationInfo", "output.kubeadm.k8s.io/v1alpha3")
    rows = {row["name"]: row for row in tree["certificates"]}
    assert rows["apiserver"].keys() == {
        "name", "expirationDate", "residualTime", "externallyManaged", "caName", "missing",
    }  # fmt: skip
    assert rows["apiserver"]["caName"] == "ca"
    assert 364 * 86400 <= int(rows["apiserver"]["residualTime"]) <= 365 * 86400
    assert str(rows["scheduler.conf"]["missing"]).lower() == "true"
    assert "caName" not in tree["certificateAuthorities"][0]


def test_renewing_all(tmp_path: Path, capsys: Capture) -> None:
    layout = control_plane_files(tmp_path)
    (layout.pki / "front-proxy-ca.key").unlink()
    (tmp_path / "scheduler.conf").unlink()
    assert run(["certs", "renew", "all", "--skip-dial", *_flags(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "certificate for serving the Kubernetes API renewed" in lines
    assert (
        "Detected external front-proxy-ca, certificate for the front proxy client can't be renewed" in lines
        and "MISSING! certificate embedded in the kubeconfig file for the scheduler manager to use" in lines
    )
    assert lines[-1].startswith("Done renewing certificates. You must restart the kube-apiserver,")


def test_renewing_one(tmp_path: Path, capsys: Capture) -> None:
    layout = control_plane_files(tmp_path)
    _unserved(tmp_path)
    before = (layout.pki / "front-proxy-client.crt").read_bytes()
    assert run(["certs", "renew", "apiserver", *_flags(tmp_path)]) == 0
    output = capsys.readouterr()
    assert "was not seen: nothing listens there" in output.err and "Done renewing" not in output.out
    assert (layout.pki / "front-proxy-client.crt").read_bytes() == before
    (layout.pki / "apiserver.crt").unlink()
    assert run(["certs", "renew", "apiserver", *_flags(tmp_path)]) == 1
    assert run(["certs", "renew", "nothing", *_flags(tmp_path)]) == 3
    assert run(["certs", "renew"]) == 3


def test_what_was_renewed_for_programs(tmp_path: Path, capsys: Capture) -> None:
    control_plane_files(tmp_path)
    _unserved(tmp_path)
    assert run(["certs", "renew", "apiserver", "scheduler.conf", "-o", "json", *_flags(tmp_path)]) == 0
    tree = json.loads(capsys.readouterr().out)
    assert tree["certificates"] == [
        {"name": "apiserver", "outcome": "renewed"}, {"name": "scheduler.conf", "outcome": "renewed"},
    ]  # fmt: skip
    (served,) = tree["served"]
    assert (served["name"], served["current"], served["problem"]) == ("apiserver", None, "nothing listens there")


def test_certificate_keys_are_random(capsys: Capture) -> None:
    assert run(["certs", "certificate-key"]) == run(["certs", "certificate-key"]) == 0
    one, other = capsys.readouterr().out.splitlines()
    assert parse(one) != parse(other) and one == one.lower()


def test_a_worker_without_the_authoritys_key(tmp_path: Path, capsys: Capture) -> None:
    """The walk of docs/howto/certificates.md."""
    authority = create_authority("kubernetes", keys.generate(KeyAlgorithm.ECDSA_P256), now=NOW)
    signed = tmp_path / "signed"
    signed.mkdir()
    (signed / "ca.crt").write_bytes(certificate_pem(authority.certificate.contents))
    node = tmp_path / "node"
    flags = _flags(node)
    assert run(["certs", "generate-csr", "kubelet.conf", "--node-name", "worker-1", *flags]) == 0
    path = Path(capsys.readouterr().out.strip())
    assert path == node / "kubelet.conf.csr"
    (signed / "kubelet.conf.crt").write_bytes(_sign(authority, path))
    assert run(["certs", "import", "--from", str(signed), *flags]) == 0
    chain = files.read_chain(files.KUBELET_CONF, Layout(node / "pki", node))
    assert chain is not None and chain[0].subject.common_name == "system:node:worker-1"
    assert run(["certs", "import", *flags]) == 3
    assert run(["certs", "import", "apiserver", *flags]) == 3
    assert run(["certs", "generate-csr", "kubelet.conf", "--node-name", "worker-1", *flags]) == 1
    assert "kubelet.conf exists" in capsys.readouterr().err


def _sign(authority: CertificateAuthority, path: Path) -> bytes:
    """As an authority elsewhere does, which sees the request and not the key."""
    request = x509_request.verify_signature(x509_request.parse_pem(path.read_bytes()))
    template = CertificateTemplate(
        serial=7,
        subject=request.subject,
        public_key=request.public_key,
        not_before=NOW,
        not_after=NOW + dt.timedelta(days=90),
        usages=resolve(("digital signature", "client auth")),
        alt_names=request.alt_names,
    )
    return certificate_pem(authority.sign(template))


def test_requests_for_everything(tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "cp"
    assert run(["certs", "generate-csr", *_flags(folder), "--apiserver-cert-extra-sans", "a.example"]) == 0
    paths = [Path(line) for line in capsys.readouterr().out.splitlines()]
    assert len(paths) == 12 and all(path.exists() for path in paths)
    request = x509_request.parse_pem((folder / "pki/apiserver.csr").read_bytes())
    assert "a.example" in request.alt_names.dns_names
    shutil.rmtree(folder / "pki")
    assert run(["certs", "generate-csr", *_flags(folder)]) == 1
    assert not (folder / "pki").exists()


@pytest.mark.parametrize(
    ("current", "process", "told"),
    [
        (True, "nginx (process 7)", "✓ apiserver at :6443 serves the new certificate   nginx (process 7)"),
        (False, "kubevouch (process 7)", "✓ apiserver at :6443 is exchanged within seconds   kubevouch (process 7)"),
        (
            False,
            "nginx (process 7)",
            "apiserver at :6443: nginx (process 7) still serves the old certificate; restart it",
        ),
        (None, "", "… apiserver at :6443 was not seen: refused"),
    ],
)
def test_who_serves_what_after_a_renewal(capsys: Capture, current: bool | None, process: str, told: str) -> None:
    tell_served(Served("apiserver", ":6443", current, process, "refused"))
    assert "".join(capsys.readouterr()).strip().removeprefix("warning: ") == told
