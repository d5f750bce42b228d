"""Documents that openssl has signed, and what it makes of those that are accepted here."""

from __future__ import annotations

import base64
import datetime as dt
import json
import subprocess
from pathlib import Path

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import dsa, ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

import peers
from kubevouch.pki.errors import ParseError, SignatureError
from kubevouch.pki.x509 import cms, der, x509_certificate
from kubevouch.pki.x509.public_key import KeyKind
from kubevouch.pki.x509.signature import Digest, SignatureAlgorithm
from kubevouch.pki.x509.x509_certificate import Certificate

DOCUMENT = b'{\n  "region" : "zz-north-1",\r\n  "accountId" : "111122223333"\n}'
EVIDENCE = Path(__file__).parents[3] / "vectors" / "evidence"
KEYS = ("rsa", "ec", "dsa")
PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | dsa.DSAPrivateKey


def _certificate(name: str, public_key: object, issuer_key: ec.EllipticCurvePrivateKey, serial: int) -> bytes:
    """Signed by another key than its own: whoever takes one from outside looks at the key only."""
    names = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    return (
        x509.CertificateBuilder()
        .subject_name(names)
        .issuer_name(names)
        .public_key(public_key)  # type: ignore[arg-type]  # DSA, which the builder takes and does not announce
        .serial_number(serial)
        .not_valid_before(dt.datetime(2020, 1, 1, tzinfo=dt.UTC))
        .not_valid_after(dt.datetime(2120, 1, 1, tzinfo=dt.UTC))
        .add_extension(x509.SubjectKeyIdentifier(name.encode().ljust(20, b".")), critical=False)
        .sign(issuer_key, hashes.SHA256())
        .public_bytes(Encoding.PEM)
    )


class Signers:
    """A key of each kind with a certificate, in files for openssl."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._program = str(peers.binary("debian", "usr/bin/openssl"))
        (folder / "document").write_bytes(DOCUMENT)
        issuer = ec.generate_private_key(ec.SECP256R1())
        given: dict[str, PrivateKey] = {
            "rsa": rsa.generate_private_key(65537, 2048),
            "ec": issuer,
            "dsa": _dsa_parameters().generate_private_key(),
        }
        for serial, (name, key) in enumerate(given.items(), 7):
            pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
            (folder / f"{name}.key").write_bytes(pem)
            (folder / f"{name}.crt").write_bytes(_certificate(name, key.public_key(), issuer, serial))

    def certificate(self, name: str) -> Certificate:
        return x509_certificate.parse_pem((self.folder / f"{name}.crt").read_bytes())

    def sign(self, name: str, *options: str) -> bytes:
        signer = ("-signer", f"{self.folder}/{name}.crt", "-inkey", f"{self.folder}/{name}.key")
        form = ("-binary", "-nodetach", "-outform", "DER", "-in", f"{self.folder}/document")
        return self._openssl("cms", "-sign", *form, *signer, *options).stdout

    def openssl_accepts(self, name: str, contents: bytes) -> bytes | None:
        """The content, if openssl verifies it with that certificate."""
        (self.folder / "signed").write_bytes(contents)
        known = ("-certfile", f"{self.folder}/{name}.crt", "-nointern", "-noverify")
        done = self._openssl("cms", "-verify", "-binary", "-inform", "DER", "-in", f"{self.folder}/signed", *known)
        return None if done.returncode else done.stdout

    def _openssl(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run([self._program, *arguments], capture_output=True, check=False, timeout=60)


def _dsa_parameters() -> dsa.DSAParameters:
    """Those of a certificate that exists: making new ones takes seconds."""
    case = json.loads((EVIDENCE / "ev-aws-iid-008.json").read_text())
    pem = next(each["pem"] for each in case["roots"] if each["form"] == "pkcs7")
    key = x509.load_pem_x509_certificate(pem.encode()).public_key()
    assert isinstance(key, dsa.DSAPublicKey)
    return key.parameters()


@pytest.fixture(scope="module")
def signers(tmp_path_factory: pytest.TempPathFactory) -> Signers:
    return Signers(tmp_path_factory.mktemp("signers"))


FORMS = [
    ("rsa",),
    ("rsa", "-noattr"),
    ("rsa", "-nocerts", "-md", "sha384"),
    ("rsa", "-keyid", "-md", "sha512"),
    ("rsa", "-stream"),
    ("rsa", "-stream", "-noattr", "-nocerts"),
    ("rsa", "-keyopt", "rsa_padding_mode:pss", "-keyopt", "rsa_pss_saltlen:digest"),
    ("ec",),
    ("ec", "-noattr", "-keyid"),
    ("dsa",),
    ("dsa", "-nocerts", "-noattr"),
]


@pytest.mark.parametrize("form", FORMS, ids=" ".join)
def test_what_openssl_signs_verifies(signers: Signers, form: tuple[str, ...]) -> None:
    name, *options = form
    contents = signers.sign(name, *options)
    signed = cms.parse(contents)
    assert cms.verify(signed, signers.certificate(name)) == signers.openssl_accepts(name, contents) == DOCUMENT
    assert cms.parse_base64(base64.encodebytes(contents).decode()) == signed
    if "-nocerts" in options:
        with pytest.raises(SignatureError, match="got 0 certificates of the signer"):
            cms.signer(signed)
    else:
        assert cms.signer(signed) == signers.certificate(name)
    for other in KEYS:
        if other != name:
            with pytest.raises(SignatureError, match="another certificate than the expected one"):
                cms.verify(signed, signers.certificate(other))


@pytest.mark.parametrize("name", KEYS)
def test_sha1_only_where_the_caller_says_so(signers: Signers, name: str) -> None:
    signed = cms.parse(signers.sign(name, "-md", "sha1"))
    assert cms.verify(signed, signers.certificate(name), allow_sha1=True) == DOCUMENT
    with pytest.raises(SignatureError, match="signed with SHA-1"):
        cms.verify(signed, signers.certificate(name))


def test_dsa_with_a_hash_that_it_has_not(signers: Signers) -> None:
    signed = cms.parse(signers.sign("dsa", "-noattr"))
    longer = SignatureAlgorithm("SHA384-DSA", KeyKind.DSA, Digest.SHA384)
    with pytest.raises(SignatureError, match="signature algorithm specifies SHA384-DSA"):
        cms.verify(msgspec.structs.replace(signed, digest=Digest.SHA384, algorithm=longer), signers.certificate("dsa"))


def test_base64_has_one_form(signers: Signers) -> None:
    contents = signers.sign("ec", "-nocerts")
    text = base64.b64encode(contents).decode()
    cms.parse_base64(text)
    padded = text.rstrip("=")
    others = [text + "=", text + "====", text[:8] + "!" + text[8:], text[:8] + "=" + text[8:], text + "=A=="]
    others += [f"{padded}{'=' * more}" for more in range(4) if f"{padded}{'=' * more}" != text]
    for other in others:
        with pytest.raises(ParseError, match="not base64"):
            cms.parse_base64(other)


def test_a_certificate_of_that_name_with_another_key_does_not_verify(signers: Signers) -> None:
    for name, other in (("rsa", "ec"), ("ec", "dsa"), ("dsa", "rsa"), ("rsa", "dsa")):
        signed = cms.parse(signers.sign(name))
        key = x509.load_pem_x509_certificate((signers.folder / f"{other}.crt").read_bytes()).public_key()
        disguised = _certificate(name, key, ec.generate_private_key(ec.SECP256R1()), 7 + KEYS.index(name))
        with pytest.raises(SignatureError):
            cms.verify(signed, x509_certificate.parse_pem(disguised))


@pytest.mark.parametrize("form", [("rsa",), ("ec", "-noattr"), ("ec", "-stream"), ("dsa",)], ids=" ".join)
def test_no_changed_octet_is_accepted(signers: Signers, form: tuple[str, ...]) -> None:
    name, *options = form
    contents = signers.sign(name, "-nocerts", *options)
    certificate = signers.certificate(name)
    changed = [contents[:at] + bytes([contents[at] ^ 1 << at % 8]) + contents[at + 1 :] for at in range(len(contents))]
    changed += [contents[:at] for at in range(len(contents))] + [contents + b"\0", contents + contents]
    for each in changed:
        with pytest.raises((ParseError, SignatureError)):
            cms.verify(cms.parse(each), certificate)


def test_lengths_that_are_left_out_and_content_in_segments_as_aws_writes_them(signers: Signers) -> None:
    plain = cms.parse(signers.sign("dsa", "-nocerts", "-md", "sha1"))
    signer = signer_info(
        identifier=der.encode(der.SEQUENCE, plain.issuer_name, der.encode_integer(plain.serial)),
        digest=(sha1 := der.encode(der.SEQUENCE, OID("1.3.14.3.2.26"), b"\x05\x00")),
        attributes=b"\xa0" + plain.attributes[1:],
        algorithm=der.encode(der.SEQUENCE, OID("1.2.840.10040.4.1")),
        signature=plain.signature,
    )
    segments = b"".join(der.encode(der.OCTET_STRING, DOCUMENT[at : at + 20]) for at in range(0, len(DOCUMENT), 20))
    content = b"\x30\x80" + DATA + b"\xa0\x80\x24\x80" + segments + b"\0\0" * 3
    inner = b"\x30\x80" + der.encode_integer(1) + der.encode(der.SET, sha1) + content + der.encode(der.SET, signer)
    whole = b"\x30\x80" + SIGNED_DATA + b"\xa0\x80" + inner + b"\0\0" * 3
    assert signers.openssl_accepts("dsa", whole) == DOCUMENT
    assert cms.verify(cms.parse(whole), signers.certificate("dsa"), allow_sha1=True) == DOCUMENT
    assert signers.openssl_accepts("dsa", whole + b"\0") == DOCUMENT
    for changed in (whole + b"\0", whole[:-2], whole[:-1], whole.replace(segments, segments + b"\x02\x01\x01")):
        with pytest.raises(ParseError):
            cms.parse(changed)


# ------------------------------------------------------------------ structures by hand

OID = der.encode_object_identifier
SHA256 = der.encode(der.SEQUENCE, OID("2.16.840.1.101.3.4.2.1"))
ECDSA_SHA256 = der.encode(der.SEQUENCE, OID("1.2.840.10045.4.3.2"))
DATA, SIGNED_DATA = OID("1.2.840.113549.1.7.1"), OID("1.2.840.113549.1.7.2")


def attribute(oid: str, *values: bytes) -> bytes:
    return der.encode(der.SEQUENCE, OID(oid), der.encode(der.SET, *values))


CONTENT_TYPE = attribute("1.2.840.113549.1.9.3", DATA)
MESSAGE_DIGEST = attribute("1.2.840.113549.1.9.4", der.encode(der.OCTET_STRING, b"\x01" * 32))


def signer_info(
    *,
    version: int = 1,
    identifier: bytes = der.encode(der.SEQUENCE, der.encode(der.SEQUENCE, b""), der.encode_integer(7)),
    digest: bytes = SHA256,
    attributes: bytes = b"",
    algorithm: bytes = ECDSA_SHA256,
    signature: bytes = b"s",
    more: bytes = b"",
) -> bytes:
    octets = der.encode(der.OCTET_STRING, signature)
    return der.encode(
        der.SEQUENCE, der.encode_integer(version), identifier, digest, attributes, algorithm, octets, more
    )


def signed_data(
    *signers: bytes,
    version: int = 1,
    digests: bytes = SHA256,
    content: bytes = der.encode(0xA0, der.encode(der.OCTET_STRING, DOCUMENT)),
    content_type: bytes = DATA,
    certificates: bytes = b"",
    outer_type: bytes = SIGNED_DATA,
    more: bytes = b"",
) -> bytes:
    inner = der.encode(
        der.SEQUENCE,
        der.encode_integer(version),
        der.encode(der.SET, digests),
        der.encode(der.SEQUENCE, content_type, content),
        certificates,
        der.encode(der.SET, *signers),
        more,
    )
    return der.encode(der.SEQUENCE, outer_type, der.encode(0xA0, inner))


def signed_attributes(*members: bytes) -> bytes:
    return der.encode(0xA0, *members)


ONE = signer_info()
MALFORMED = {
    "no signer": (signed_data(), "expected one signer"),
    "two signers": (signed_data(ONE, ONE), "got 2 signers"),
    "no digest algorithm": (signed_data(ONE, digests=b""), "expected one signer and one digest"),
    "two digest algorithms": (signed_data(ONE, digests=SHA256 + SHA256), "got 2 digest algorithms"),
    "another digest announced": (
        signed_data(ONE, digests=der.encode(der.SEQUENCE, OID("2.16.840.1.101.3.4.2.3"))),
        "not the announced one",
    ),
    "MD5": (signed_data(ONE, digests=der.encode(der.SEQUENCE, OID("1.2.840.113549.2.5"))), "expected SHA-1 or SHA-2"),
    "parameters of a digest": (
        signed_data(ONE, digests=der.encode(der.SEQUENCE, OID("2.16.840.1.101.3.4.2.1"), der.encode_integer(1))),
        "without parameters",
    ),
    "another hash in the signature": (
        signed_data(signer_info(algorithm=der.encode(der.SEQUENCE, OID("1.2.840.10045.4.3.3")))),
        "expected one with SHA256",
    ),
    "parameters of a signature": (
        signed_data(
            signer_info(
                algorithm=der.encode(der.SEQUENCE, OID("1.2.840.10045.4.3.2"), der.encode_integer(1)),
            )
        ),
        "expected one with SHA256",
    ),
    "parameters twice": (
        signed_data(ONE, digests=der.encode(der.SEQUENCE, OID("2.16.840.1.101.3.4.2.1"), b"\x05\0\x05\0")),
        "trailing data in an algorithm",
    ),
    "no content": (signed_data(ONE, content=b""), "not inside"),
    "content twice": (
        signed_data(
            ONE, content=der.encode(0xA0, der.encode(der.OCTET_STRING, b"a"), der.encode(der.OCTET_STRING, b"b"))
        ),
        "trailing data",
    ),
    "content of another type": (signed_data(ONE, content_type=SIGNED_DATA), "got content of type"),
    "not signed data": (signed_data(ONE, outer_type=DATA), "got content of type"),
    "version 2": (signed_data(ONE, version=3), "version 3 of SignedData"),
    "signer's version": (signed_data(signer_info(version=3)), "not that of its signer's name"),
    "revocation lists": (signed_data(ONE, certificates=der.encode(0xA1, b"")), "tags don't match"),
    "another kind of certificate": (
        signed_data(ONE, certificates=der.encode(0xA0, der.encode(0xA1, b""))),
        "sequence tag mismatch",
    ),
    "many certificates": (
        signed_data(ONE, certificates=der.encode(0xA0, *[der.encode(der.SEQUENCE, b"")] * 9)),
        "got 9 certificates",
    ),
    "no certificate": (
        signed_data(ONE, certificates=der.encode(0xA0, der.encode(der.SEQUENCE, b""))),
        "malformed tbs certificate",
    ),
    "attributes without a digest": (
        signed_data(signer_info(attributes=signed_attributes(CONTENT_TYPE))),
        "expected content type and message digest",
    ),
    "attributes without a type": (
        signed_data(signer_info(attributes=signed_attributes(MESSAGE_DIGEST))),
        "expected content type and message digest",
    ),
    "no attributes": (signed_data(signer_info(attributes=signed_attributes())), "expected content type"),
    "a digest twice": (
        signed_data(signer_info(attributes=signed_attributes(CONTENT_TYPE, MESSAGE_DIGEST, MESSAGE_DIGEST))),
        "twice",
    ),
    "two digests in one": (
        signed_data(
            signer_info(
                attributes=signed_attributes(
                    CONTENT_TYPE,
                    attribute("1.2.840.113549.1.9.4", *[der.encode(der.OCTET_STRING, b"\x01" * 32)] * 2),
                )
            )
        ),
        "trailing data",
    ),
    "type of something else": (
        signed_data(
            signer_info(attributes=signed_attributes(attribute("1.2.840.113549.1.9.3", SIGNED_DATA), MESSAGE_DIGEST))
        ),
        "got content of type",
    ),
    "many attributes": (
        signed_data(signer_info(attributes=signed_attributes(*[attribute(f"1.2.3.{at}", b"") for at in range(33)]))),
        "got 33 signed attributes",
    ),
    # What was signed as attributes must not come back as a content without attributes.
    "attributes as the content": (
        signed_data(
            ONE,
            content=der.encode(0xA0, der.encode(der.OCTET_STRING, der.encode(der.SET, CONTENT_TYPE, MESSAGE_DIGEST))),
        ),
        "the content is a SET",
    ),
    "behind the signer": (signed_data(signer_info(more=der.encode_integer(1))), "trailing data"),
    "behind the signers": (signed_data(ONE, more=der.encode_integer(1)), "trailing data"),
    "behind everything": (signed_data(ONE) + b"\0", "trailing data"),
    "nothing": (b"", "sequence truncated"),
    "no structure": (b"!!!", "tags don't match"),
    "too long": (b"0" * (cms.MAX_BYTES + 1), "expected 65536 at most"),
    "endless": (b"\x30\x80" * 20, "too many levels"),
    "endless primitive": (b"\x30\x80\x04\x80\0\0\0\0", "indefinite length of a primitive"),
    "endless with a long tag": (b"\x30\x80\x3f\x80\0\0\0\0", "indefinite length of a primitive"),
    "without its end": (b"\x30\x80", "truncated tag or length"),
    "segments of something else": (b"\x30\x80\x24\x80\x02\x01\x01\0\0\0\0", "tags don't match"),
    "indefinite inside of definite": (
        der.encode(der.SEQUENCE, SIGNED_DATA, b"\xa0\x80\0\0"),
        "indefinite length found",
    ),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_what_is_no_structure_or_has_two_meanings_is_refused(case: str) -> None:
    contents, words = MALFORMED[case]
    with pytest.raises(ParseError, match=words):
        cms.parse(contents)


def test_the_structure_by_hand_is_read() -> None:
    assert cms.parse(signed_data(ONE)).content == DOCUMENT
    whole = signed_attributes(CONTENT_TYPE, MESSAGE_DIGEST)
    found = cms.parse(signed_data(signer_info(attributes=whole, more=der.encode(0xA1, b"anything"))))
    assert (found.message_digest, found.attributes[:1]) == (b"\x01" * 32, b"\x31")


@pytest.mark.parametrize("text", ["", "AAA", "AA=A", "A===", "ÀÀÀÀ", "AAAA!AAA", "AAAA=="])
def test_what_is_no_base64_is_refused(text: str) -> None:
    with pytest.raises(ParseError):
        cms.parse_base64(text)
