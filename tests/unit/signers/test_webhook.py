"""signers/webhook.py: what a service over HTTPS may answer, beside a certificate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from asynctest import async_test
from kubevouch.pki.errors import IssuedMismatchError, PolicyError
from kubevouch.signers.interface import SignerError, SignerUnavailable
from kubevouch.signers.webhook import AWAY_SECONDS, MOST_WAIT_SECONDS, THROTTLED_SECONDS
from scripted_server import reply, reply_json, reply_status
from signer_worlds import PLAIN, https_peer, wanted

WEBHOOK: dict[str, Any] = {"webhook": {"kubeconfigFile": "webhook.conf"}}
CFSSL: dict[str, Any] = {"cfssl": {"kubeconfigFile": "webhook.conf", "profile": "nodes"}}


@async_test
async def test_the_webhook_sees_what_was_decided_and_who_asks_it(tmp_path: Path) -> None:
    async with https_peer(tmp_path, *PLAIN, **WEBHOOK) as (world, peer):
        asked = wanted()
        await world.sign(asked)
        (seen,) = peer.server.seen
    review = msgspec.json.decode(seen.body)
    assert (review["apiVersion"], review["kind"]) == ("signing.kubevouch.io/v1alpha1", "SigningReview")
    request = review["request"]
    assert request["uid"] == "u"
    assert request["subject"] == "system:node:n1"
    assert request["reason"] == "AutoApproved"
    assert request["requester"] == "system:bootstrap:abcdef"
    assert seen.path == "/sign"
    assert seen.peer_certificate is not None


@pytest.mark.parametrize(
    ("way", "answer", "error", "why"),
    [
        (WEBHOOK, reply_json({"uid": "u", "refused": "not this machine"}), PolicyError, "^not this machine$"),
        (WEBHOOK, reply_json({"uid": "other", "certificate": "x"}), SignerError, "answered for other, asked was u"),
        (WEBHOOK, reply_json({"uid": "u", "certificate": "x"}), IssuedMismatchError, "does not parse"),
        (WEBHOOK, reply_json({"uid": 7}), SignerError, "something else than a certificate"),
        (WEBHOOK, reply(b"<html>"), SignerError, "something else than a certificate"),
        (WEBHOOK, reply(b"[" * 100_000), SignerError, "something else than a certificate"),
        (WEBHOOK, reply_status(403, "Forbidden", "who are you"), SignerError, "the webhook has refused: who are you"),
        (CFSSL, reply_json({"success": False, "errors": [{"code": 1, "message": "no profile"}]}), SignerError,
         "cfssl has refused: no profile"),
        (CFSSL, reply_json({"success": True, "result": None, "errors": []}), SignerError, "cfssl has refused"),
    ],
)  # fmt: skip
@async_test
async def test_what_is_no_certificate(
    tmp_path: Path, way: dict[str, Any], answer: Any, error: type[Exception], why: str
) -> None:
    async with https_peer(tmp_path, *PLAIN, **way) as (world, peer):
        peer.server.script(answer)
        with pytest.raises(error, match=why):
            await world.sign()


@pytest.mark.parametrize(
    ("answer", "seconds"),
    [
        (reply_json({"uid": "u", "retryAfterSeconds": 90}), 90),
        (reply_json({"uid": "u"}), THROTTLED_SECONDS),
        (reply_json({"uid": "u", "retryAfterSeconds": 1e9}), MOST_WAIT_SECONDS),
        (reply(b"slow down", 429, headers={"Retry-After": "120"}), 120),
        (reply(b"slow down", 429), THROTTLED_SECONDS),
        (reply(b"", 503, headers={"Retry-After": "40"}), 40),
        (reply(b"", 500), AWAY_SECONDS),
    ],
)
@async_test
async def test_who_decides_later_is_asked_later(tmp_path: Path, answer: Any, seconds: float) -> None:
    async with https_peer(tmp_path, *PLAIN, **WEBHOOK) as (world, peer):
        peer.server.script(answer)
        with pytest.raises(SignerUnavailable) as refusal:
            await world.sign()
        assert refusal.value.retry_after == pytest.approx(seconds, abs=1)
        peer.sign()
        assert await world.sign()
        assert len(peer.server.seen) == 2


@async_test
async def test_a_kubeconfig_that_cannot_be_read_now(tmp_path: Path) -> None:
    async with https_peer(tmp_path, *PLAIN, **WEBHOOK) as (world, _):
        (tmp_path / "webhook.conf").rename(tmp_path / "aside")
        with pytest.raises(SignerUnavailable, match="the webhook cannot be asked"):
            await world.sign()
        (tmp_path / "aside").rename(tmp_path / "webhook.conf")
        assert await world.sign()


@pytest.mark.parametrize("key", ["not hex, but secret", ""])
@async_test
async def test_a_key_that_is_none_is_not_shown(tmp_path: Path, key: str) -> None:
    way: dict[str, Any] = {"cfssl": {"kubeconfigFile": "webhook.conf", "authKeyFile": "auth.key"}}
    if key:
        (tmp_path / "auth.key").write_text(key)
        (tmp_path / "auth.key").chmod(0o600)
    async with https_peer(tmp_path, *PLAIN, **way) as (world, _):
        with pytest.raises(SignerUnavailable, match=r"auth\.key cannot be used") as refusal:
            await world.sign()
    assert "secret" not in str(refusal.value)
