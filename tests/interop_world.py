"""A running `kubevouch up` behind a proxy that can be cut, and what a test signs there."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from cryptography import x509

from cutting_proxy import HOST, CuttingProxy
from kubevouch.pki import keys
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.subject import Subject
from processes import Up
from throwaway_ca import ThrowawayCA

ADMIN = "cluster/admin.conf"
SUPER_ADMIN = "cluster/super-admin.conf"
CUSTOM_SIGNER = "example.com/dolphins"


class InteropWorld:
    """A cluster that clients reach through the proxy."""

    def __init__(self, up: Up, proxy: CuttingProxy) -> None:
        self.up = up
        self.proxy = proxy
        self.folder = up.folder
        self.kubeconfig = self._kubeconfig(ADMIN)
        self.super_kubeconfig = self._kubeconfig(SUPER_ADMIN)
        self.custom_ca = ThrowawayCA("dolphins")

    def _kubeconfig(self, name: str) -> Path:
        config = yaml.safe_load((self.folder / name).read_text())
        config["clusters"][0]["cluster"]["server"] = f"https://{HOST}:{self.proxy.port}"
        path = self.folder / f"proxied-{Path(name).name}"
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(config))
        return path

    def restart(self) -> None:
        """Stop the process and start it over the same store; what it remembered for watches is gone with it."""
        self.up.end()
        self.up.start()


@contextmanager
def interop_world(folder: Path, *arguments: str) -> Iterator[InteropWorld]:
    """Args: ``arguments`` are more options of `kubevouch up`."""
    with Up(folder, arguments) as up:
        # The restarted process listens where the first one did: of an option given twice the last one counts.
        up.arguments = (*arguments, "--secure-port", up.port)
        with CuttingProxy(int(up.port)) as proxy:
            yield InteropWorld(up, proxy)


def unique(prefix: str) -> str:
    return f"{prefix}-{uuid.uuid4().hex[:8]}"


def x509_request(common_name: str = "someone", organizations: tuple[str, ...] = ()) -> bytes:
    """A certificate request in PEM, with a key that nobody keeps."""
    key = keys.generate(KeyAlgorithm.ECDSA_P256)
    return build_request(key, Subject(common_name=common_name, organizations=organizations))


def manifest(name: str, *, labels: dict[str, str] | None = None, signer: str = CUSTOM_SIGNER) -> dict[str, Any]:
    """A CertificateSigningRequest."""
    return {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {
            "request": base64.b64encode(x509_request()).decode(),
            "signerName": signer,
            "usages": ["digital signature", "client auth"],
        },
    }


def condition(type_: str, *, status: str = "True", reason: str = "Test") -> dict[str, str]:
    return {"type": type_, "status": status, "reason": reason, "message": f"{type_} by the test"}


def certificate_of(found: dict[str, Any]) -> x509.Certificate:
    """The issued certificate of an object."""
    return x509.load_pem_x509_certificate(base64.b64decode(found["status"]["certificate"]))
