"""The certificates of a cluster that lives as long as a test."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import msgspec

from kubevouch.phases.certificates.certs import ControlPlanePKI, Pair, certificate_pem, pair_at
from kubevouch.phases.kubeconfig import client_kubeconfig
from kubevouch.pki import control_plane, keys
from kubevouch.pki.authority import AUTHORITY_VALIDITY, CertificateAuthority, LeafSpec, create_authority, issue_leaf
from kubevouch.pki.control_plane import AUTHORITIES, CA, FRONT_PROXY_CA, ControlPlaneNames
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509.signature import PrivateKey
from kubevouch.util.files import PUBLIC, make_folder, write_new

# A key takes 0.03 ms; an RSA key would take longer than all the rest of a start.
ALGORITHM = KeyAlgorithm.ECDSA_P256

HOST = "127.0.0.1"
_SHORTEST = dt.timedelta(hours=1)
NAMES = ControlPlaneNames(node_name="localhost", advertise_address=HOST, extra=("::1",))


class ClusterPKI:
    """Authorities and a serving certificate in a folder laid out as kubeadm's ``pki/``.

    Everything is valid from the earlier to ten years after the later of two moments: clients look at the machine's
    clock, the server at the test's. Nothing is synced to the disk, for the folder ends with the test.
    """

    def __init__(self, folder: Path, machine: dt.datetime, cluster: dt.datetime) -> None:
        self._issued = min(machine, cluster)
        self._validity = max(machine, cluster) - self._issued + AUTHORITY_VALIDITY
        make_folder(folder)
        authority = self._make_authority(folder, CA)
        front_proxy = self._make_authority(folder, FRONT_PROXY_CA)
        wanted = control_plane.apiserver(NAMES)
        key = keys.generate(ALGORITHM)
        leaf = issue_leaf(authority, self._lasting(wanted.spec), key, now=self._issued)
        _write(folder, wanted.base_name, leaf.contents, key)
        self.control_plane = ControlPlanePKI(
            folder, authority, front_proxy.certificate, pair_at(folder, wanted.base_name), _service_account_key(folder)
        )

    def kubeconfig(self, server: str, spec: LeafSpec, ends: dt.datetime | None = None) -> str:
        """A kubeconfig with a new client certificate inside."""
        authority = self.control_plane.authority
        issued, lasting = self._issued, self._lasting(spec)
        if ends is not None:
            issued = min(issued, ends - _SHORTEST)
            lasting = msgspec.structs.replace(spec, validity=ends - issued)
        return client_kubeconfig(server, authority, lasting, now=issued, algorithm=ALGORITHM)

    def _make_authority(self, folder: Path, base_name: str) -> CertificateAuthority:
        key = keys.generate(ALGORITHM)
        authority = create_authority(AUTHORITIES[base_name], key, now=self._issued, validity=self._validity)
        _write(folder, base_name, authority.certificate.contents, key)
        return authority

    def _lasting(self, spec: LeafSpec) -> LeafSpec:
        return msgspec.structs.replace(spec, validity=self._validity)


def _write(folder: Path, base_name: str, contents: bytes, key: PrivateKey) -> None:
    pair = pair_at(folder, base_name)
    write_new(pair.certificate, certificate_pem(contents), mode=PUBLIC)
    _write_key(pair.key, key)


def _service_account_key(folder: Path) -> Pair:
    key = keys.generate(ALGORITHM)
    pair = Pair(folder / "sa.pub", folder / "sa.key")
    write_new(pair.certificate, keys.public_to_pem(keys.public_key_of(key)), mode=PUBLIC)
    _write_key(pair.key, key)
    return pair


def _write_key(path: Path, key: PrivateKey) -> None:
    write_new(path, keys.to_pem(key))
