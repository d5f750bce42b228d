"""What the agent is told: flags, and the configuration file for certificates of other programs.

OptionsError     what it was told cannot be meant
"""

from __future__ import annotations

import contextlib
import datetime as dt
import ipaddress
import socket
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from kubevouch.agent.attestation_settings import AttestationSettings
from kubevouch.agent.certificate_request import RequestTemplate
from kubevouch.agent.certificate_store import CertificateStore
from kubevouch.agent.hooks import Command
from kubevouch.agent.interface import CertificateStoreError, SettingsError
from kubevouch.agent.node_access import ClusterFiles
from kubevouch.agent.report import CLIENT, SERVING
from kubevouch.config import agent_config, config_file
from kubevouch.config.agent_config import AgentCertificate, Hook
from kubevouch.machinery.text import names
from kubevouch.pki import keys, node_user, rotation
from kubevouch.pki.errors import KeyMaterialError
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509 import usages
from kubevouch.pki.x509.signature import PrivateKey
from kubevouch.pki.x509.subject import Subject
from kubevouch.pki.x509.subject_alt_names import SubjectAltNames

KUBECONFIG = Path("/etc/kubernetes/kubelet.conf")
BOOTSTRAP_KUBECONFIG = Path("/etc/kubernetes/bootstrap-kubelet.conf")
CA_FILE = Path("/etc/kubernetes/pki/ca.crt")
CERT_DIR = Path("/var/lib/kubelet/pki")
SOCKET = Path("/run/kubevouch/agent.sock")
REFRESH_SECONDS, LEAST_REFRESH_SECONDS = 600.0, 10.0
HEALTHZ_PORT = 10451  # beside kubelet's 10248
_PURPOSES = {"client": usages.CLIENT_AUTH, "server": usages.SERVER_AUTH}


class Extra(msgspec.Struct, frozen=True):
    """A certificate of another program on this machine."""

    name: str
    folder: Path
    template: RequestTemplate


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """The settings of a daemon.

    Args:
        serving: keep a serving certificate, too.
        serve_self_signed: have a self-signed one in its place until it is issued.
        addresses: names and IP addresses that it is to have beside those of the Node object.
        healthz: address and port of /healthz and /metrics; None for neither.
        hooks: commands after a renewal, by the certificate's name.
        recovery: keep a recovery key if the cluster allows recovery.
        refresh_seconds: between two looks at cluster-info, on average; a tenth of that while the CA changes.
        key: of the node's first certificate, for a token that is bound to its public half; None makes one.
        attestation: how the machine proves what it is, at its first certificate and at each renewal; None does not.
    """

    node_name: str
    files: ClusterFiles
    cert_dir: Path = CERT_DIR
    algorithm: KeyAlgorithm = KeyAlgorithm.ECDSA_P256
    expiration_seconds: int | None = None
    serving: bool = False
    serve_self_signed: bool = False
    addresses: tuple[str, ...] = ()
    extras: tuple[Extra, ...] = ()
    socket: Path = SOCKET
    healthz: tuple[str, int] | None = ("127.0.0.1", HEALTHZ_PORT)
    hooks: dict[str, tuple[Command, ...]] = field(default_factory=dict)
    recovery: bool = True
    refresh_seconds: float = REFRESH_SECONDS
    key: PrivateKey | None = field(default=None, repr=False)
    attestation: AttestationSettings | None = None


def refresh(interval: dt.timedelta) -> float:
    """Seconds. Raises :class:`SettingsError`: a look opens a connection, and nobody is to look all the time."""
    seconds = interval.total_seconds()
    if seconds < LEAST_REFRESH_SECONDS:
        raise SettingsError(f"got a refresh interval of {seconds:g} s, expected {LEAST_REFRESH_SECONDS:g} s at least")
    return seconds


def algorithm(text: str, key: PrivateKey | None = None) -> KeyAlgorithm:
    """kubeadm's spelling; empty is that of ``key``, else ECDSA-P256.

    Raises:
        SettingsError: there is no such algorithm, or ``key`` is of another.
    """
    given = None if key is None else keys.algorithm_of(key)
    if not text:
        return given or KeyAlgorithm.ECDSA_P256
    try:
        found = KeyAlgorithm.parse(text)
    except KeyMaterialError as err:
        raise SettingsError(str(err)) from err
    if given not in (None, found):
        raise SettingsError(f"got a key of {given.value}, and --key-algorithm {found.value}", "leave one of them out")
    return found


def has_pair(cert_dir: Path) -> bool:
    """Whether there is a client certificate, so that there will be no first one."""
    with contextlib.suppress(CertificateStoreError, OSError):
        return CertificateStore(cert_dir).current() is not None
    return False


# ------------------------------------------------------------------ the file


def load(text: bytes) -> tuple[tuple[Extra, ...], dict[str, tuple[Command, ...]]]:
    """The certificates of other programs, and all hooks. Raises :class:`SettingsError`."""
    try:
        found = agent_config.decode(text)
    except config_file.ConfigFileError as err:
        raise SettingsError(f"the configuration file cannot be used: {err}") from err
    extras = tuple(_extra(each) for each in found.certificates)
    taken = [CLIENT, SERVING, *(each.name for each in extras)]
    if len(set(taken)) != len(taken):
        raise SettingsError("the configuration file cannot be used: two certificates have one name")
    hooks = {each.name: _commands(each.hooks) for each in found.certificates}
    hooks |= {CLIENT: _commands(found.client_hooks), SERVING: _commands(found.serving_hooks)}
    return extras, hooks


def _commands(listed: list[Hook]) -> tuple[Command, ...]:
    if not all(each.command for each in listed):
        raise SettingsError("the configuration file cannot be used: a hook has no command")
    return tuple(tuple(each.command) for each in listed)


def _extra(found: AgentCertificate) -> Extra:
    where = f"the configuration file cannot be used: certificate {found.name!r}"
    if names.dns_label(found.name):
        raise SettingsError(f"{where}: the name is not in lower case letters, digits and -")
    if found.purpose not in _PURPOSES:
        raise SettingsError(f"{where}: got purpose {found.purpose!r}, expected client or server")
    if not Path(found.folder).is_absolute():
        raise SettingsError(f"{where}: the folder {found.folder!r} is not absolute")
    kinds = [("Hostname", each) for each in found.addresses]
    alt_names = rotation.serving_names(kinds, allow_dns_only=True) or SubjectAltNames()
    template = RequestTemplate(
        Subject(common_name=found.common_name, organizations=tuple(found.organizations)),
        found.signer_name,
        _PURPOSES[found.purpose],
        alt_names,
        found.expiration_seconds,
        algorithm(found.algorithm),
    )
    return Extra(found.name, Path(found.folder), template)


def node_name(given: str, cert_dir: Path) -> str:
    """The name as given, else that of the certificate that is there, else this machine's host name.

    Raises:
        SettingsError: no node can have that name.
    """
    name = given.strip().lower()
    if not name:
        with contextlib.suppress(CertificateStoreError, OSError):
            found = CertificateStore(cert_dir).current()
            name = node_user.node_name_of(found.leaf.subject.common_name) if found is not None else ""
    name = name or socket.gethostname().lower()
    faults = names.subdomain(name)
    if faults:
        raise SettingsError(f"the node name {name!r} cannot be used: {faults[0]}", "choose another --node-name")
    return name


def local_address(text: str) -> tuple[str, int] | None:
    """``ADDRESS:PORT``, None for nothing; port 0 picks one. Raises :class:`SettingsError`."""
    if not text:
        return None
    host, _, port = text.rpartition(":")
    try:
        return str(ipaddress.ip_address(host.strip("[]"))), int(port)
    except ValueError as err:
        raise SettingsError(f"got {text!r}, expected ADDRESS:PORT such as 127.0.0.1:{HEALTHZ_PORT}") from err
