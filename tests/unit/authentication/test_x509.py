from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Sequence

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from asynctest import async_test
from kubevouch.authentication.interface import AuthenticationError, Credentials, UserInfo
from kubevouch.authentication.x509 import X509Authenticator
from kubevouch.pki.client_certificate import TrustAnchors
from kubevouch.revocation.revocations import Mark
from kubevouch.testing.clock import FakeClock
from unit.authentication.client_certificates import ANCHORS, HOUR, NOW, OTHER, chain, der
from unit.authorization.policy_cases import VECTORS


def presenting(peer_chain: tuple[bytes, ...]) -> Credentials:
    return Credentials(peer_chain=peer_chain)


# ------------------------------------------------------------------ identity


@async_test
async def test_user_of_a_certificate() -> None:
    presented = chain(organizations=("b", "a", "b"))
    found = await X509Authenticator(ANCHORS, FakeClock(NOW)).authenticate(presenting(presented))
    assert found is not None
    extra = {"authentication.kubernetes.io/credential-id": (f"X509SHA256={hashlib.sha256(presented[0]).hexdigest()}",)}
    assert found.user == UserInfo("alice", groups=("b", "a", "b"), extra=extra)
    assert found.method == "x509"
    assert found.expires == NOW + HOUR
    serial = x509.load_der_x509_certificate(presented[0]).serial_number
    assert found.credential == f"serial {serial:x}"


@async_test
async def test_no_certificate_is_no_credential() -> None:
    assert await X509Authenticator(ANCHORS, FakeClock(NOW)).authenticate(Credentials()) is None


def fixture(name: str) -> bytes:
    return (VECTORS / "fixtures-server" / name).read_bytes()


@async_test
async def test_certificate_without_a_common_name_names_nobody() -> None:
    authenticator = X509Authenticator(TrustAnchors.from_pem(fixture("ca.pem")), FakeClock(NOW))
    assert await authenticator.authenticate(presenting((der(fixture("client-no-cn.pem")),))) is None


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("client-two-uids.pem", "expected 1 UID, but found multiple: [u-1 u-2]"),
        ("client-expired.pem", "x509: certificate has expired or is not yet valid"),
        ("client-unknown-ca.pem", "x509: certificate signed by unknown authority"),
        ("client-server-auth-only.pem", "x509: certificate specifies an incompatible key usage"),
    ],
)
@async_test
async def test_bad_certificates(name: str, error: str) -> None:
    authenticator = X509Authenticator(TrustAnchors.from_pem(fixture("ca.pem")), FakeClock(NOW))
    with pytest.raises(AuthenticationError) as caught:
        await authenticator.authenticate(presenting((der(fixture(name)),)))
    assert error in str(caught.value)


@pytest.mark.parametrize("presented", [(b"",), (b"no certificate",), (b"x",) * 11])
@async_test
async def test_what_does_not_parse_is_a_bad_credential(presented: tuple[bytes, ...]) -> None:
    with pytest.raises(AuthenticationError):
        await X509Authenticator(ANCHORS, FakeClock(NOW)).authenticate(presenting(presented))


# ------------------------------------------------------------------ kept connections


@async_test
async def test_dates_are_checked_at_every_request() -> None:
    clock = FakeClock(NOW)
    authenticator, presented = X509Authenticator(ANCHORS, clock), presenting(chain())
    assert await authenticator.authenticate(presented) is not None
    clock.set(NOW + HOUR)
    assert await authenticator.authenticate(presented) is not None
    clock.set(NOW + HOUR + dt.timedelta(seconds=1))
    with pytest.raises(AuthenticationError, match="has expired or is not yet valid"):
        await authenticator.authenticate(presented)
    clock.set(NOW - HOUR - dt.timedelta(seconds=1))
    with pytest.raises(AuthenticationError, match="has expired or is not yet valid"):
        await authenticator.authenticate(presented)


@async_test
async def test_dates_of_the_whole_chain_count() -> None:
    clock = FakeClock(NOW)
    root, intermediate, leaf = three_certificates(intermediate_ends=NOW + HOUR)
    authenticator = X509Authenticator(TrustAnchors.from_pem(root), clock)
    presented = presenting((leaf, intermediate))
    assert await authenticator.authenticate(presented) is not None
    clock.set(NOW + 2 * HOUR)
    with pytest.raises(AuthenticationError):
        await authenticator.authenticate(presented)


def three_certificates(intermediate_ends: dt.datetime) -> tuple[bytes, bytes, bytes]:
    """A root as PEM, and below it an intermediate and a leaf, both as DER."""
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(3)]
    names = [x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]) for name in ("root", "middle", "alice")]
    ends = (NOW + 99 * HOUR, intermediate_ends, NOW + 99 * HOUR)
    made = []
    for index in range(3):
        issuer = max(index - 1, 0)
        made.append(
            x509.CertificateBuilder()
            .subject_name(names[index])
            .issuer_name(names[issuer])
            .public_key(keys[index].public_key())
            .serial_number(index + 1)
            .not_valid_before(NOW - HOUR)
            .not_valid_after(ends[index])
            .add_extension(x509.BasicConstraints(ca=index < 2, path_length=None), critical=True)
            .sign(keys[issuer], hashes.SHA256())
        )
    encoding = serialization.Encoding
    return made[0].public_bytes(encoding.PEM), made[1].public_bytes(encoding.DER), made[2].public_bytes(encoding.DER)


@async_test
async def test_replaced_anchors_count_at_once() -> None:
    authenticator, presented = X509Authenticator(ANCHORS, FakeClock(NOW)), presenting(chain())
    assert await authenticator.authenticate(presented) is not None
    authenticator.replace_anchors(OTHER)
    with pytest.raises(AuthenticationError, match="unknown authority"):
        await authenticator.authenticate(presented)
    authenticator.replace_anchors(ANCHORS)
    assert await authenticator.authenticate(presented) is not None


@async_test
async def test_revocation_reaches_open_connections() -> None:
    revoked: dict[int, str] = {}

    def why(marks: Sequence[Mark]) -> str:
        return revoked.get(marks[0].serial, "")

    authenticator, presented = X509Authenticator(ANCHORS, FakeClock(NOW), why), presenting(chain())
    assert await authenticator.authenticate(presented) is not None
    revoked[x509.load_der_x509_certificate(presented.peer_chain[0]).serial_number] = "node removed"
    with pytest.raises(AuthenticationError, match="revoked: node removed"):
        await authenticator.authenticate(presented)
    revoked.clear()
    assert await authenticator.authenticate(presented) is not None


@async_test
async def test_a_refusal_is_repeated_for_a_while_only() -> None:
    clock = FakeClock(NOW - HOUR - dt.timedelta(seconds=5))
    authenticator, presented = X509Authenticator(ANCHORS, clock), presenting(chain())
    for _ in range(2):
        with pytest.raises(AuthenticationError):
            await authenticator.authenticate(presented)
        clock.advance(5)
    clock.advance(5)
    assert await authenticator.authenticate(presented) is not None
