"""kube-controller-manager's ``--cluster-signing-*`` flags, for ``kubevouch up``."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kubevouch.cli.flags.durations import DURATION

if TYPE_CHECKING:
    from kubevouch.standalone.options import ClusterSigning

_FILE = click.Path(path_type=Path, dir_okay=False)
_KEY = "FILE|PKCS11-URI"
# Word in the flags, and name after kubernetes.io/.
_SIGNERS = {
    "kubelet-serving": "kubelet-serving",
    "kubelet-client": "kube-apiserver-client-kubelet",
    "kube-apiserver-client": "kube-apiserver-client",
    "legacy-unknown": "legacy-unknown",
}


def _pair(word: str, what: str) -> tuple[Callable[..., Any], ...]:
    return (
        click.option(f"--cluster-signing-{word}cert-file", type=_FILE, help=f"CA that signs {what}"),
        click.option(
            f"--cluster-signing-{word}key-file",
            metavar=_KEY,
            help="Its key: a PEM file, also encrypted as PKCS #8, or a pkcs11: URI (RFC 7512).",
        ),
    )


_FLAGS = (
    click.option(
        "--cluster-signing-duration",
        type=DURATION,
        default="8760h",
        show_default=True,
        help="Life of signed certificates, unless a shorter one is asked for.",
    ),
    *(
        click.option(
            f"--cluster-signing-{word}-duration",
            type=DURATION,
            help=f"The same for kubernetes.io/{name}.  [default: that of all]",
        )
        for word, name in _SIGNERS.items()
    ),
    click.option(
        "--allow-ml-dsa",
        is_flag=True,
        help="Sign requests of ML-DSA keys, too, which Kubernetes' own components cannot verify.",
    ),
    *_pair("", "for all signers.  [default: pki/ca.crt and pki/ca.key of the data directory]"),
    *(
        flag
        for word, name in _SIGNERS.items()
        for flag in _pair(f"{word}-", f"for kubernetes.io/{name}; others then need their own.")
    ),
    click.option(
        "--cluster-signing-key-passphrase-file",
        type=_FILE,
        help="File with what opens encrypted keys of the flags above.  [default: the systemd credential "
        "ca-key-passphrase]",
    ),
    click.option(
        "--signing-socket",
        type=_FILE,
        help="Socket of the kubevouch sign that has the key of the CA; --cluster-signing-cert-file is its certificate.",
    ),
    click.option(
        "--signing-config",
        type=_FILE,
        help="SigningConfiguration with CAs whose keys other programs have: webhooks, ACME, CFSSL, Vault.",
    ),
    click.option("--pkcs11-module", type=_FILE, help="Shared library of the tokens whose URI has no module-path."),
    click.option(
        "--pkcs11-pin-file",
        type=_FILE,
        help="File with the PIN of tokens whose URI has no pin-source.  [default: the systemd credential pkcs11-pin]",
    ),
    click.option(
        "--signer-ca-dir",
        type=click.Path(path_type=Path, file_okay=False),
        help="Directory of the CAs that CertificateSigners may name: NAME.crt with NAME.key, with NAME.uri, which "
        "holds a pkcs11: URI, or with NAME.yaml, a SigningConfiguration.  [default: pki/signers of the data directory]",
    ),
)


def signing_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the flags to a command."""
    for flag in reversed(_FLAGS):
        command = flag(command)
    return command


def take_signing(flags: dict[str, Any]) -> ClusterSigning:
    """What the flags say; takes them out of ``flags``. Raises :class:`click.BadParameter`."""
    from kubevouch.signers.catalog import PairFiles
    from kubevouch.signers.keys import KeyOptions
    from kubevouch.standalone.options import ClusterSigning

    def files(word: str) -> PairFiles:
        certificate, key = (flags.pop(f"cluster_signing_{word}{part}_file") for part in ("cert", "key"))
        return PairFiles(str(certificate or ""), str(key or ""))

    duration = _positive(flags.pop("cluster_signing_duration"), "--cluster-signing-duration")
    names = ("cluster_signing_key_passphrase_file", "pkcs11_module", "pkcs11_pin_file")
    keys = KeyOptions(*(str(flags.pop(name) or "") for name in names))
    socket, outside = flags.pop("signing_socket"), flags.pop("signing_config")
    default = files("")
    pairs = {f"kubernetes.io/{name}": files(f"{word.replace('-', '_')}_") for word, name in _SIGNERS.items()}
    durations = {}
    for word, name in _SIGNERS.items():
        own: dt.timedelta | None = flags.pop(f"cluster_signing_{word.replace('-', '_')}_duration")
        if own is not None:
            durations[f"kubernetes.io/{name}"] = _positive(own, f"--cluster-signing-{word}-duration")
    return ClusterSigning(
        default,
        {name: pair for name, pair in pairs.items() if pair},
        duration,
        keys,
        flags.pop("signer_ca_dir"),
        durations,
        flags.pop("allow_ml_dsa"),
        socket,
        outside,
    )


def _positive(duration: dt.timedelta, flag: str) -> dt.timedelta:
    if duration <= dt.timedelta():
        raise click.BadParameter("expected a duration such as 8760h", param_hint=f"'{flag}'")
    return duration
