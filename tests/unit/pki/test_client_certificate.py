"""Who may stand above a client's certificate: what is no CA, or may not sign certificates, vouches for nobody."""

from __future__ import annotations

import datetime as dt

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kubevouch.pki.client_certificate import (
    MAX_PRESENTED,
    MAX_SIGNATURE_CHECKS,
    TrustAnchors,
    identify,
    is_issued_by,
    verify_chain,
    verify_presented,
)
from kubevouch.pki.errors import ChainError, ClientCertificateError, UnknownAuthorityError
from kubevouch.pki.x509 import der
from kubevouch.pki.x509.x509_certificate import Certificate, parse_der

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
USAGES = (
    "digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
    "key_cert_sign", "crl_sign", "encipher_only", "decipher_only",
)  # fmt: skip


class Link:
    """A certificate and its key, under ``parent`` or by itself."""

    def __init__(
        self,
        name: str,
        parent: Link | None = None,
        *,
        ca: bool | None = True,
        usage: tuple[str, ...] = (),
        path_length: int | None = None,
        extensions: tuple[x509.ExtensionType, ...] = (),
        key: ec.EllipticCurvePrivateKey | None = None,
        purpose: x509.ObjectIdentifier = ExtendedKeyUsageOID.CLIENT_AUTH,
    ) -> None:
        self.key = key or ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        signer = parent or self
        builder = (
            x509.CertificateBuilder()
            .subject_name(self.name)
            .issuer_name(signer.name)
            .public_key(self.key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(NOW - dt.timedelta(days=1))
            .not_valid_after(NOW + dt.timedelta(days=1))
        )
        if ca is not None:
            builder = builder.add_extension(x509.BasicConstraints(ca=ca, path_length=path_length), critical=True)
        if usage:
            builder = builder.add_extension(x509.KeyUsage(**{each: each in usage for each in USAGES}), critical=True)
        if parent is not None:
            builder = builder.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        for extension in extensions:
            builder = builder.add_extension(extension, critical=True)
        made = builder.sign(signer.key, hashes.SHA256())
        self.certificate: Certificate = parse_der(made.public_bytes(serialization.Encoding.DER))


def chain(*, ca: bool | None = True, usage: tuple[str, ...] = (), between: bool = False) -> tuple[Link, ...]:
    """From the leaf to the anchor; what is said is said of the one that signs the leaf."""
    if not between:
        anchor = Link("anchor", ca=ca, usage=usage)
        return Link("leaf", anchor, ca=False), anchor
    anchor = Link("anchor")
    middle = Link("middle", anchor, ca=ca, usage=usage)
    return Link("leaf", middle, ca=False), middle, anchor


def refusal(links: tuple[Link, ...], now: dt.datetime = NOW) -> str:
    with pytest.raises(ClientCertificateError) as caught:
        verified(links, now)
    return str(caught.value)


def verified(links: tuple[Link, ...], now: dt.datetime = NOW) -> None:
    leaf, *middle, anchor = (link.certificate for link in links)
    found = verify_chain(leaf, tuple(middle), TrustAnchors([anchor]), now=now)
    assert found == (leaf, *middle, anchor)


@pytest.mark.parametrize("between", [False, True])
@pytest.mark.parametrize("usage", [(), ("key_cert_sign",), ("crl_sign", "key_cert_sign")])
def test_a_ca_that_may_sign_certificates(usage: tuple[str, ...], between: bool) -> None:
    links = chain(usage=usage, between=between)
    verified(links)
    assert is_issued_by(links[0].certificate, links[1].certificate)


@pytest.mark.parametrize("between", [False, True])
@pytest.mark.parametrize(
    ("ca", "usage"),
    [(True, ("crl_sign",)), (True, ("digital_signature",)), (False, ("key_cert_sign",)), (None, ("key_cert_sign",))],
    ids=["crl-only", "signature-only", "no-ca", "no-constraints"],
)
def test_one_that_may_not(ca: bool | None, usage: tuple[str, ...], between: bool) -> None:
    links = chain(ca=ca, usage=usage, between=between)
    with pytest.raises(ClientCertificateError):
        verified(links)
    assert not is_issued_by(links[0].certificate, links[1].certificate)


def test_why_a_parent_does_not_count() -> None:
    told = "x509: invalid signature: parent certificate cannot sign this kind of certificate"
    why = f'x509: certificate signed by unknown authority (possibly because of "{told}" while trying to verify '
    for links in (chain(ca=False), chain(usage=("crl_sign",)), chain(ca=False, between=True)):
        assert refusal(links) == f'{why}candidate authority certificate "{links[1].name.rfc4514_string()[3:]}")'


@pytest.mark.parametrize("between", [False, True])
def test_dates_count_to_the_second(between: bool) -> None:
    links, second = chain(between=between), dt.timedelta(seconds=1)
    begin, end = NOW - dt.timedelta(days=1), NOW + dt.timedelta(days=1)
    verified(links, begin)
    verified(links, end)
    told = "x509: certificate has expired or is not yet valid: current time"
    assert refusal(links, begin - second) == f"{told} 2025-12-30T23:59:59Z is before 2025-12-31T00:00:00Z"
    assert refusal(links, end + second) == f"{told} 2026-01-02T00:00:01Z is after 2026-01-02T00:00:00Z"


def test_as_deep_as_an_authority_allows() -> None:
    for allowed in (0, 1, None):
        anchor = Link("anchor", path_length=allowed)
        verified((Link("leaf", anchor, ca=False), anchor))
        middle = Link("middle", anchor, path_length=0)
        links = (Link("leaf", middle, ca=False), middle, anchor)
        if allowed != 0:
            verified(links)
            lower = Link("lower", middle)
            assert "too many intermediates for path length" in refusal((Link("leaf", lower), lower, middle, anchor))
        else:
            assert "x509: too many intermediates for path length constraint" in refusal(links)


def test_what_is_not_understood_is_refused() -> None:
    unknown = x509.UnrecognizedExtension(x509.ObjectIdentifier("1.2.3.4"), b"\x05\x00")
    anchor = Link("anchor")
    assert (
        refusal((Link("leaf", anchor, ca=False, extensions=(unknown,)), anchor)) == "x509: unhandled critical extension"
    )
    middle = Link("middle", anchor, extensions=(unknown,))
    assert "x509: unhandled critical extension" in refusal((Link("leaf", middle, ca=False), middle, anchor))


@pytest.mark.parametrize("between", [False, True])
def test_constraints_of_a_ca_bind_what_is_below_it(between: bool) -> None:
    names = x509.NameConstraints([x509.DNSName("example")], None)
    policies = x509.PolicyConstraints(0, None)

    def called(name: str) -> x509.SubjectAlternativeName:
        return x509.SubjectAlternativeName([x509.DNSName(name)])

    def links(constraint: x509.ExtensionType, *said: x509.ExtensionType) -> tuple[Link, ...]:
        anchor = Link("anchor", extensions=() if between else (constraint,))
        if not between:
            return Link("leaf", anchor, ca=False, extensions=said), anchor
        middle = Link("middle", anchor, extensions=(constraint,))
        return Link("leaf", middle, ca=False, extensions=said), middle, anchor

    by = "middle" if between else "anchor"
    verified(links(names))
    verified(links(names, called("leaf.example")))
    assert refusal(links(names, called("leaf.evilexample"))) == (
        'x509: a root or intermediate certificate is not authorized to sign for this name: DNS name "leaf.evilexample" '
        "is not permitted by any constraint"
    )
    assert refusal(links(policies)) == f'"{by}" has policy constraints, which are not evaluated'
    unknown = x509.NameConstraints([x509.RegisteredID(x509.ObjectIdentifier("1.2.3"))], None)
    assert "x509: unhandled critical extension" in refusal(links(unknown, called("leaf.example")))


def test_another_way_is_taken_around_a_ca_that_may_not_sign_the_name() -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    names = x509.NameConstraints(None, [x509.DNSName("example")])
    anchor = Link("anchor")
    bad, good = (Link("middle", anchor, key=key, extensions=said) for said in ((names,), ()))
    leaf = Link("leaf", good, ca=False, extensions=(x509.SubjectAlternativeName([x509.DNSName("a.example")]),))
    for between in ((bad, good), (good, bad)):
        found = verify_presented(
            [each.certificate.contents for each in (leaf, *between)], TrustAnchors([anchor.certificate]), now=NOW
        )
        assert found[1] == good.certificate


def test_the_purpose_binds_every_certificate() -> None:
    server = ExtendedKeyUsageOID.SERVER_AUTH
    told = "x509: certificate specifies an incompatible key usage"
    anchor = Link("anchor")
    assert refusal((Link("leaf", anchor, ca=False, purpose=server), anchor)) == told
    middle = Link("middle", anchor, purpose=server)
    assert refusal((Link("leaf", middle, ca=False), middle, anchor)) == told
    verified((Link("leaf", anchor, ca=False, purpose=ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE), anchor))


# ------------------------------------------------------------------ many ways, and none


def test_every_way_is_tried() -> None:
    """Authorities of one name: those that signed nothing, one with constraints, and the right one."""
    right = Link("anchor")
    leaf = Link("leaf", right, ca=False).certificate
    again = Link("anchor", key=right.key, extensions=(x509.PolicyConstraints(0, None),)).certificate
    anchors = TrustAnchors([Link("anchor").certificate, again, Link("anchor").certificate, right.certificate])
    assert verify_chain(leaf, [], anchors, now=NOW) == (leaf, right.certificate)


def test_the_way_may_go_through_any_of_those_presented() -> None:
    anchor = Link("anchor")
    middle = Link("middle", anchor)
    leaf = Link("leaf", middle, ca=False).certificate
    stray = [Link("middle").certificate, Link("middle", Link("stranger"), key=middle.key).certificate]
    found = verify_chain(leaf, [*stray, middle.certificate], TrustAnchors([anchor.certificate]), now=NOW)
    assert found == (leaf, middle.certificate, anchor.certificate)


@pytest.mark.parametrize(("strangers", "found"), [(MAX_SIGNATURE_CHECKS - 1, True), (MAX_SIGNATURE_CHECKS, False)])
def test_signatures_are_checked_so_many_times_only(strangers: int, found: bool) -> None:
    right = Link("anchor")
    leaf = Link("leaf", right, ca=False).certificate
    key = ec.generate_private_key(ec.SECP256R1())
    others = [Link("anchor", key=key).certificate for _ in range(strangers)]
    anchors = TrustAnchors([*others, right.certificate])
    if found:
        assert verify_chain(leaf, [], anchors, now=NOW)[1] == right.certificate
    else:
        with pytest.raises(ChainError, match="signature check attempts limit reached"):
            verify_chain(leaf, [], anchors, now=NOW)


def test_authorities_that_certify_each_other_lead_nowhere() -> None:
    one, other = Link("one"), Link("other")
    ring = [Link("one", other, key=one.key).certificate, Link("other", one, key=other.key).certificate]
    leaf = Link("leaf", one, ca=False).certificate
    with pytest.raises(UnknownAuthorityError, match=r"^x509: certificate signed by unknown authority$"):
        verify_chain(leaf, ring * 3, TrustAnchors([Link("anchor").certificate]), now=NOW)


def test_an_anchor_itself_is_trusted_and_its_namesake_is_not() -> None:
    anchor, namesake = Link("anchor", ca=None), Link("anchor", ca=None)
    anchors = TrustAnchors([anchor.certificate])
    assert verify_chain(anchor.certificate, [], anchors, now=NOW) == (anchor.certificate,)
    assert namesake.certificate not in anchors and "anchor" not in anchors
    with pytest.raises(ClientCertificateError):
        verify_chain(namesake.certificate, [], anchors, now=NOW)


def test_so_many_may_be_presented() -> None:
    links = chain(between=True)
    leaf, middle, _ = (link.certificate.contents for link in links)
    anchors = TrustAnchors([links[-1].certificate])
    presented = [leaf, *[middle] * (MAX_PRESENTED - 1)]
    assert len(verify_presented(presented, anchors, now=NOW)) == 3
    with pytest.raises(ChainError, match=r"^got 11 client certificates, at most 10 are looked at$"):
        verify_presented([*presented, middle], anchors, now=NOW)
    with pytest.raises(ClientCertificateError, match=r"^tls: failed to parse certificate from client: "):
        verify_presented([leaf, middle[:-1]], anchors, now=NOW)


def test_who_it_is_and_until_when() -> None:
    leaf = chain()[0].certificate
    found = identify(leaf)
    assert found is not None
    assert (found.username, found.groups, found.uid, found.not_after) == ("leaf", (), "", leaf.not_after)
    assert found.credential_id == f"X509SHA256={leaf.fingerprint().hex()}"


def test_who_signed_it_by_name_and_key() -> None:
    anchor = Link("anchor")
    leaf = Link("leaf", anchor).certificate
    assert is_issued_by(leaf, anchor.certificate)
    assert not is_issued_by(leaf, Link("other", key=anchor.key).certificate)
    assert not is_issued_by(leaf, Link("anchor").certificate)


def version_1(name: str, parent: Link) -> Link:
    """A certificate without extensions, which cannot say whether it is a CA's."""
    made = Link(name, parent)
    builder = (
        x509.CertificateBuilder()
        .subject_name(made.name)
        .issuer_name(parent.name)
        .public_key(made.key.public_key())
        .serial_number(1)
        .not_valid_before(NOW - dt.timedelta(days=1))
        .not_valid_after(NOW + dt.timedelta(days=1))
    )
    third = builder.sign(parent.key, hashes.SHA256())
    version = b"\xa0\x03\x02\x01\x02"
    before, found, after = third.tbs_certificate_bytes.partition(version)
    assert found and len(before) in (3, 4)
    signed = der.encode(der.SEQUENCE, after)
    signature = parent.key.sign(signed, ec.ECDSA(hashes.SHA256()))
    algorithm = bytes.fromhex("300a06082a8648ce3d040302")
    made.certificate = parse_der(der.encode(der.SEQUENCE, signed, algorithm, der.encode_bit_string(signature)))
    return made


def test_version_1_is_a_ca_only_where_it_is_trusted_itself() -> None:
    anchor = Link("anchor")
    middle = version_1("middle", anchor)
    assert middle.certificate.version == 1
    leaf = Link("leaf", middle, ca=False)
    assert "x509: certificate is not authorized to sign other certificates" in refusal((leaf, middle, anchor))
    verified((leaf, middle))
