"""signers/catalog.py: which signers run with which files."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from controller_world import FIXTURES
from kubevouch.pki.policy import KUBERNETES_SIGNERS
from kubevouch.signers.catalog import PairFiles, SigningOptions, SigningOptionsError, build_signers
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
