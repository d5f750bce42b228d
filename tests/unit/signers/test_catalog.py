"""signers/catalog.py: which signers run with which files."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from controller_world import FIXTURES, fixture
from kubevouch.pki.issuance import SigningRules
from kubevouch.pki.policy import KUBERNETES_SIGNERS
from kubevouch.pki.profile import Profile
from kubevouch.pki.x509 import x509_certificate
from kubevouch.signers.catalog import PairFiles, SigningOptions, SigningOptionsError, build_signers
from kubevouch.signers.file import FileSigner
from kubevouch.signers.interface import SignerError
from kubevouch.testing.logs import capture_logs
from kubevouch.wellknown import KUBE_APISERVER_CLIENT_SIGNER, KUBELET_SERVING_SIGNER

PAIR = PairFiles(str(FIXTURES / "ca-ec.crt"), str(FIXTURES / "ca-ec.key"))


def test_signers_without_a_pair_do_not_run() -> None:
    with capture_logs() as logs:
        signers = build_signers(SigningOptions(pairs={KUBE_APISERVER_CLIENT_SIGNER: PAIR}))
    assert list(signers) == [KUBE_APISERVER_CLIENT_SIGNER]
    assert {line["signer"] for line in logs if "signer" in line} == set(KUBERNETES_SIGNERS) - {
        KUBE_APISERVER_CLIENT_SIGNER
    }


def test_without_any_pair_none_runs() -> None:
    with capture_logs() as logs:
        assert build_signers(SigningOptions()) == {}
    assert [line["event"] for line in logs] == ["Skipping CSR signer controller because no csr cert/key was specified"]


def test_contradictions_are_all_told() -> None:
    options = SigningOptions(PAIR, {KUBELET_SERVING_SIGNER: PairFiles(certificate_file="c")})
    with pytest.raises(SigningOptionsError) as refusal:
        build_signers(options)
    assert refusal.value.problems == [
        '"cluster-signing-kubelet-serving": cannot specify cert without key',
        "cannot specify --cluster-signing-{cert,key}-file and other --cluster-signing-*-file flags at the same time",
    ]
    options = SigningOptions(pairs={KUBELET_SERVING_SIGNER: PairFiles(key_file="k")})
    with pytest.raises(SigningOptionsError, match=r"^\"cluster-signing-kubelet-serving\": cannot .* key without cert$"):
        build_signers(options)


RULES = SigningRules(profile=Profile.COMPATIBLE)


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (SigningOptions(PAIR, rules=RULES), KUBERNETES_SIGNERS),
        (SigningOptions(pairs={KUBELET_SERVING_SIGNER: PAIR}, rules=RULES), (KUBELET_SERVING_SIGNER,)),
    ],
)
def test_signers_have_the_rules_that_were_set(options: SigningOptions, names: tuple[str, ...]) -> None:
    signers = build_signers(options)
    assert tuple(signers) == names
    assert all(signer.rules is RULES for signer in signers.values())


def test_of_several_certificates_the_keys_own_signs_where_that_was_set(tmp_path: Path) -> None:
    certificate, key = tmp_path / "ca.crt", tmp_path / "ca.key"
    certificate.write_bytes(fixture("ca-rsa.crt") + fixture("ca-ec.crt"))
    key.touch(mode=0o600)
    key.write_bytes(fixture("ca-ec.key"))
    assert len(build_signers(SigningOptions(PairFiles(str(certificate), str(key), bundle=True)))) == 4
    with pytest.raises(SignerError, match="private key type does not match"):
        build_signers(SigningOptions(PairFiles(str(certificate), str(key))))


@pytest.mark.parametrize(
    ("options", "name"),
    [
        (SigningOptions(PairFiles("gone.crt", "gone.key")), "kubernetes.io/kubelet-serving"),
        (
            SigningOptions(pairs={KUBE_APISERVER_CLIENT_SIGNER: PairFiles("gone.crt", "k")}),
            KUBE_APISERVER_CLIENT_SIGNER,
        ),
    ],
)
def test_a_pair_that_is_not_there(options: SigningOptions, name: str) -> None:
    with pytest.raises(SignerError) as refusal:
        build_signers(options)
    assert str(refusal.value) == (
        f'failed to init {name} certificate controller: error reading CA cert file "gone.crt": open gone.crt: '
        "no such file or directory"
    )


def test_each_of_the_four_has_its_own_ca_and_its_own_lifetime(tmp_path: Path) -> None:
    def own(name: str) -> PairFiles:
        return PairFiles(str(FIXTURES / f"{name}.crt"), str(FIXTURES / f"{name}.key"))

    names = dict(zip(KUBERNETES_SIGNERS, ("ca-ec", "ca-rsa", "ca-p384", "ca-ed25519"), strict=True))
    hours = {name: dt.timedelta(hours=number) for number, name in enumerate(KUBERNETES_SIGNERS, 1)}
    signers = build_signers(
        SigningOptions(pairs={each: own(ca) for each, ca in names.items()}, rules=RULES, durations=hours)
    )
    for name, signer in signers.items():
        assert isinstance(signer, FileSigner)
        assert signer.authority.certificate.pem() == x509_certificate.parse_pem(fixture(f"{names[name]}.crt")).pem()
        assert signer.rules.signing_duration == hours[name] and signer.rules.profile is Profile.COMPATIBLE
    # One CA for all, and another lifetime for one of them.
    shared = build_signers(
        SigningOptions(PAIR, rules=RULES, durations={KUBELET_SERVING_SIGNER: hours[KUBELET_SERVING_SIGNER]})
    )
    lives = {name: each.rules.signing_duration for name, each in shared.items()}
    assert lives == dict.fromkeys(KUBERNETES_SIGNERS, RULES.signing_duration) | {
        KUBELET_SERVING_SIGNER: hours[KUBELET_SERVING_SIGNER]
    }
