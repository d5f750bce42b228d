"""controllers/bootstrap_signer.py: what cluster-info should hold."""

from __future__ import annotations

import pytest

from controller_world import NOW
from kubevouch.api.core_v1 import ConfigMap, Secret
from kubevouch.controllers.bootstrap_signer import next_expiry, signed
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.pki import jws


def _token(token_id: str, **more: str) -> Secret:
    entries = {"token-id": token_id, "token-secret": "s" * 16, "usage-bootstrap-signing": "true", **more}
    return Secret(
        metadata=ObjectMeta(name=f"bootstrap-token-{token_id}", namespace="kube-system"),
        type="bootstrap.kubernetes.io/token",
        data={key: value.encode() for key, value in entries.items()},
    )


def test_signatures_follow_the_tokens_and_nothing_else_changes() -> None:
    entries = {"kubeconfig": "payload", "other": "x", "jws-kubeconfig-gone00": "old", "jws-kubeconfig-": "odd"}
    secrets = [_token("abcdef"), _token("ghijkl", **{"usage-bootstrap-signing": "yes"})]
    assert signed(ConfigMap(data=entries), secrets, NOW) == {
        "kubeconfig": "payload",
        "other": "x",
        "jws-kubeconfig-abcdef": jws.sign(b"payload", "abcdef", "s" * 16),
    }
    assert entries["jws-kubeconfig-gone00"] == "old"


def test_without_a_kubeconfig_there_is_nothing_to_sign_and_an_empty_one_is_signed() -> None:
    assert signed(ConfigMap(data={"jws-kubeconfig-abcdef": "stale"}), [_token("abcdef")], NOW) is None
    assert "jws-kubeconfig-abcdef" in (signed(ConfigMap(data={"kubeconfig": ""}), [_token("abcdef")], NOW) or {})


@pytest.mark.parametrize(
    ("expirations", "seconds"),
    [
        ([], None),
        ([""], None),
        (["2026-11-21T12:00:09Z", "2026-11-21T12:00:03Z", "2026-11-21T11:00:00Z"], 3.0),
        (["never"], None),
    ],
)
def test_the_next_look_is_when_the_first_token_expires(expirations: list[str], seconds: float | None) -> None:
    secrets = [_token(f"abcde{number}", expiration=text) for number, text in enumerate(expirations)]
    assert next_expiry(secrets, NOW) == seconds
