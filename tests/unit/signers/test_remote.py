"""signers/remote.py: whom a signer believes, and what it hands on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from asynctest import async_test
from kubevouch.pki import keys
from kubevouch.pki.authority import create_authority, cross_sign
from kubevouch.pki.errors import AuthorityError, IssuedMismatchError, PolicyError
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509.subject import Subject
from kubevouch.signers.remote import Anchors
from kubevouch.testing.logs import capture_logs
from scripted_server import reply_json
from signer_worlds import NOW, PLAIN, https_peer, signed_by, wanted

WEBHOOK: dict[str, Any] = {"webhook": {"kubeconfigFile": "webhook.conf"}}


@async_test
async def test_what_came_behind_a_certificate_goes_behind_it(tmp_path: Path) -> None:
    issuing = create_authority("issuing", keys.generate(KeyAlgorithm.ECDSA_P256), now=NOW)
    async with https_peer(tmp_path, *PLAIN, **WEBHOOK) as (world, peer):
        link = cross_sign(peer.authority, issuing.certificate, now=NOW)
        text = signed_by(issuing, wanted(), NOW) + link.pem() + peer.authority.certificate.pem()
        peer.server.script(reply_json({"uid": "u", "certificate": text.decode()}))
        certificate = await world.sign()
        assert [each.contents for each in world.signer.chain_of(certificate)] == [link.contents]


@async_test
async def test_another_trusted_ca_counts_as_soon_as_it_is_in_the_file(tmp_path: Path) -> None:
    async with https_peer(tmp_path, *PLAIN, **WEBHOOK) as (world, peer):
        before = peer.authority
        peer.authority = create_authority("another", keys.generate(KeyAlgorithm.ECDSA_P256), now=NOW)
        trust = tmp_path / "trust.pem"
        trust.write_bytes(before.certificate.pem() + peer.authority.certificate.pem())
        assert await world.sign()
        trust.write_bytes(b"half a")
        with capture_logs() as logs:
            assert await world.sign(wanted("second"))
        assert "the trusted CAs are not taken over" in [line["event"] for line in logs]
        trust.write_bytes(before.certificate.pem())
        with pytest.raises(IssuedMismatchError, match="no way to a trusted CA"):
            await world.sign(wanted("third"))


@async_test
async def test_names_that_are_not_in_the_request_itself_are_not_asked_for(tmp_path: Path) -> None:
    """As those in pods' requests: who signs would read others, and the answer would stop the signer."""
    async with https_peer(tmp_path, *PLAIN, **WEBHOOK) as (world, peer):
        for other in (
            {"subject": Subject(common_name="system:node:n2", organizations=("system:nodes",))},
            {"contents": b"no request"},
        ):
            asked = msgspec.structs.replace(wanted(), request=msgspec.structs.replace(wanted().request, **other))
            with pytest.raises(PolicyError, match="reads names in requests, and those in this one are not the ones"):
                await world.sign(asked)
        assert peer.server.open_connections == 0
        peer.server.script(reply_json({"uid": "u", "certificate": signed_by(peer.authority, wanted(), NOW).decode()}))
        assert await world.sign()


def test_nobody_is_believed_without_a_ca(tmp_path: Path) -> None:
    with pytest.raises(AuthorityError, match=r"the trusted CAs of .*none.* cannot be read"):
        Anchors(tmp_path / "none")
