"""Which signers there are and which files they sign with: kube-controller-manager's ``--cluster-signing-*`` flags.

    SigningOptionsError    settings that contradict each other; ``problems`` holds Kubernetes' sentences

Source: cmd/kube-controller-manager/app/certificates.go, …/app/options/csrsigningcontroller.go (Kubernetes 1.36).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from pathlib import Path

import msgspec

from kubevouch.machinery.text.gotext import quote
from kubevouch.pki.errors import AuthorityError
from kubevouch.pki.issuance import SigningRules
from kubevouch.pki.policy import KUBERNETES_SIGNERS, rules_signer
from kubevouch.signers.file import FileSigner
from kubevouch.signers.interface import Signer, SignerError
from kubevouch.signers.keys import KeyOptions
from kubevouch.util.clock import Clock, SystemClock
from kubevouch.util.logger import get_logger
from kubevouch.wellknown import (
    KUBE_APISERVER_CLIENT_KUBELET_SIGNER,
    KUBE_APISERVER_CLIENT_SIGNER,
    KUBELET_SERVING_SIGNER,
    LEGACY_UNKNOWN_SIGNER,
)

log = get_logger("signers.catalog")


class SigningOptionsError(SignerError):
    """Settings that contradict each other."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class PairFiles(msgspec.Struct, frozen=True):
    """The names of a certificate's file and of its key's, or a key's ``pkcs11:`` URI; both may be empty.

    Args:
        bundle: the file may hold other CA certificates beside the key's own; Kubernetes then refuses to sign.
    """

    certificate_file: str = ""
    key_file: str = ""
    bundle: bool = False

    def __bool__(self) -> bool:
        return bool(self.certificate_file or self.key_file)


FLAG_PREFIXES: Mapping[str, str] = {
    KUBELET_SERVING_SIGNER: "cluster-signing-kubelet-serving",
    KUBE_APISERVER_CLIENT_KUBELET_SIGNER: "cluster-signing-kubelet-client",
    KUBE_APISERVER_CLIENT_SIGNER: "cluster-signing-kube-apiserver-client",
    LEGACY_UNKNOWN_SIGNER: "cluster-signing-legacy-unknown",
}
"""Before ``-cert-file`` and ``-key-file``, by signer name."""

# What the errors call them, which is not what the flags are called.
_LABELS: Mapping[str, str] = {
    KUBELET_SERVING_SIGNER: "cluster-signing-kubelet-serving",
    KUBE_APISERVER_CLIENT_KUBELET_SIGNER: "cluster-signing-kube-apiserver-client",
    KUBE_APISERVER_CLIENT_SIGNER: "cluster-signing-kube-apiserver",
    LEGACY_UNKNOWN_SIGNER: "cluster-signing-legacy-unknown",
}


class SigningOptions(msgspec.Struct, frozen=True):
    """``default`` signs for all four signers; ``pairs``, by signer name, only for those that it names.

    Args:
        keys: what opens the keys.
        clock: for keys that are not in this process.
        named: the directory of the CAs that CertificateSigners may name; None is the usual one.
        durations: by signer name, where it is another one than in ``rules``.
        socket: of the signing process that has the key of ``default``, which then names its certificate only.
        attested: signers for machines that have proven what they are; they sign as the kubelets' do, with their CA.
        outside: a SigningConfiguration; the signers that it names are its authorities' own, whatever else is said here.
        kubernetes: the four signers of Kubernetes are among those that run; else ``attested`` ones alone.
    """

    default: PairFiles = PairFiles()
    pairs: Mapping[str, PairFiles] = msgspec.field(default_factory=dict)
    rules: SigningRules = msgspec.field(default_factory=SigningRules)
    keys: KeyOptions = msgspec.field(default_factory=KeyOptions)
    clock: Clock = msgspec.field(default_factory=SystemClock)
    named: Path | None = None
    durations: Mapping[str, dt.timedelta] = msgspec.field(default_factory=dict)
    socket: Path | None = None
    outside: Path | None = None
    attested: tuple[str, ...] = ()
    kubernetes: bool = True

    @property
    def signer_names(self) -> tuple[str, ...]:
        """Those that sign with the cluster's CAs."""
        return (*(KUBERNETES_SIGNERS if self.kubernetes else ()), *self.attested)

    def rules_of(self, signer_name: str) -> SigningRules:
        """The rules of one of them."""
        duration = self.durations.get(rules_signer(signer_name))
        return self.rules if duration is None else msgspec.structs.replace(self.rules, signing_duration=duration)

    def problems(self) -> list[str]:
        """What contradicts, in kube-controller-manager's words and order."""
        pairs = {name: self.pairs[name] for name in _LABELS if self.pairs.get(name)}
        contradictions = []
        if self.socket is not None and (self.default.key_file or pairs):
            contradictions.append("cannot specify --signing-socket and a key at the same time")
        for name, pair in pairs.items():
            if not pair.certificate_file:
                contradictions.append(f"{quote(_LABELS[name])}: cannot specify key without cert")
            elif not pair.key_file:
                contradictions.append(f"{quote(_LABELS[name])}: cannot specify cert without key")
        if self.default and pairs:
            contradictions.append(
                "cannot specify --cluster-signing-{cert,key}-file and other --cluster-signing-*-file flags at the "
                "same time"
            )
        return contradictions


def build_signers(options: SigningOptions) -> dict[str, Signer]:
    """The signers that run, by signer name.

    Raises:
        SigningOptionsError: the settings contradict each other.
        SignerError: a pair cannot be loaded; with kube-controller-manager's text.
    """
    problems = options.problems()
    if problems:
        raise SigningOptionsError(problems)
    signers = _outside(options)
    return signers | {name: signer for name, signer in _here(options).items() if name not in signers}


def _outside(options: SigningOptions) -> dict[str, Signer]:
    if options.outside is None:
        return {}
    # Parsers of YAML and of kubeconfigs, which few signers need.
    from kubevouch.signers import outside

    signers: dict[str, Signer] = {}
    for authority in outside.load(options.outside).authorities:
        for name in authority.signer_names:
            if name not in options.signer_names:
                raise SignerError(
                    f"got signerName {name} in {options.outside}, expected {', '.join(options.signer_names)}"
                )
            signers[name] = outside.remote_signer(
                authority, options.outside.parent, options.rules_of(name), options.clock
            )
    return signers


def _here(options: SigningOptions) -> dict[str, Signer]:
    if options.socket is not None:
        from kubevouch.signers import outside

        trusted = Path(options.default.certificate_file)
        return {
            name: outside.process_signer(options.socket, trusted, options.rules_of(name), options.clock)
            for name in options.signer_names
        }
    if options.default:
        # One signer for all of the same rules: the files are looked at once a signature.
        by_rules: dict[dt.timedelta, Signer] = {}
        for name in options.signer_names:
            duration = options.rules_of(name).signing_duration
            if duration not in by_rules:
                by_rules[duration] = _load(name, options.default, options)
        return {name: by_rules[options.rules_of(name).signing_duration] for name in options.signer_names}
    by_signer = {name: options.pairs.get(rules_signer(name)) for name in options.signer_names}
    chosen = {name: pair for name, pair in by_signer.items() if pair}
    if not chosen:
        log.info("Skipping CSR signer controller because no csr cert/key was specified")
    for name in options.signer_names if chosen else ():
        if name in KUBERNETES_SIGNERS and name not in chosen:
            log.info(
                "Skipping CSR signer controller because specific files were specified for other signers and not this "
                "one",
                signer=name,
            )
    return {name: _load(name, pair, options) for name, pair in chosen.items()}


def _load(signer_name: str, pair: PairFiles, options: SigningOptions) -> Signer:
    try:
        return FileSigner(
            pair.certificate_file, pair.key_file, options.rules_of(signer_name), bundle=pair.bundle, keys=options.keys,
            clock=options.clock,
        )  # fmt: skip
    except AuthorityError as err:
        raise SignerError(f"failed to init {signer_name} certificate controller: {err}") from err
