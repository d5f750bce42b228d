"""A device's certificate and the way to its root: each rule broken alone, refused by its name."""

from __future__ import annotations

import datetime as dt

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from device_certificates import CLIENT_AUTH, NOW, SERVER_AUTH, Issued, authority, issue
from kubevouch.pki.client_certificate import TrustAnchors
from kubevouch.pki.device_chain import MAX_BYTES, MAX_CERTIFICATES, verify_device_chain, verify_size
from kubevouch.pki.errors import DeviceChainError
from kubevouch.pki.keys import load_public_key

ROOT = authority("root")
LINE = authority("line", ROOT, path_length=0)
NEXT_LINE = authority("line 2", ROOT)
OLD_LINE = authority("old line", ROOT, ends=NOW - dt.timedelta(days=1))
DAY = dt.timedelta(days=1)


def refused(*chain: Issued, by: TrustAnchors = ROOT.anchors, now: dt.datetime = NOW) -> str:
    """The step that fails; empty if none does."""
    try:
        verify_device_chain([each.der for each in chain], by, now=now)
    except DeviceChainError as err:
        return err.step
    return ""


def test_the_way_is_found_whatever_the_order_and_whatever_else_is_shown() -> None:
    device = issue("device", LINE, usages=[CLIENT_AUTH])
    chain = verify_device_chain([device.der, NEXT_LINE.der, LINE.der, ROOT.der], ROOT.anchors, now=NOW)
    assert [each.subject.common_name for each in chain] == ["device", "line", "root"]


@pytest.mark.parametrize(
    ("step", "chain"),
    [
        ("", (issue("d", ROOT),)),
        ("", (issue("d", LINE, ca=None), LINE)),
        ("size", ()),
        ("size", (issue("d", ROOT), *[LINE] * MAX_CERTIFICATES)),
        ("size", (issue("d", ROOT, dns=[f"name-{each}.example" for each in range(600)]),)),
        ("ca", (issue("d", ROOT, ca=True),)),
        ("ca", (ROOT,)),
        ("key-usage", (issue("d", ROOT, digital_signature=False),)),
        ("key-usage", (issue("d", ROOT, digital_signature=None),)),
        ("chain", (issue("d"),)),
        ("chain", (issue("d", LINE),)),
        ("chain", (issue("d", authority("root")),)),
        ("chain", (issue("d", authority("line", ROOT, path_length=0)), LINE)),
        ("chain", (issue("d", ROOT, issuer="line"), LINE)),
        ("validity", (issue("d", ROOT, ends=NOW - DAY),)),
        ("validity", (issue("d", ROOT, begins=NOW + DAY),)),
        ("validity", (issue("d", OLD_LINE), OLD_LINE)),
        ("critical-extension", (issue("d", ROOT, unknown_critical=True),)),
        ("eku", (issue("d", ROOT, usages=[SERVER_AUTH]),)),
        ("", (issue("d", ROOT, usages=[SERVER_AUTH, CLIENT_AUTH]),)),
    ],
)
def test_what_is_wrong_with_a_chain_has_a_name(step: str, chain: tuple[Issued, ...]) -> None:
    assert refused(*chain) == step


@pytest.mark.parametrize(
    ("step", "above"),
    [
        ("", authority("m", ROOT)),
        ("ca", issue("m", ROOT)),
        ("ca", issue("m", ROOT, ca=None)),
        ("key-usage", authority("m", ROOT, cert_sign=False)),
        ("eku", authority("m", ROOT, usages=[SERVER_AUTH])),
        ("critical-extension", authority("m", ROOT, unknown_critical=True)),
        ("name-constraints", authority("m", ROOT, permitted=["other.example"])),
        ("", authority("m", ROOT, permitted=["example.test"])),
        ("validity", authority("m", ROOT, begins=NOW + DAY)),
        ("key-size", authority("m", ROOT, key=ec.generate_private_key(ec.SECP224R1()))),
    ],
)
def test_what_is_wrong_with_an_intermediate_has_a_name(step: str, above: Issued) -> None:
    assert refused(issue("d", above, dns=["d.example.test"]), above) == step


def test_a_ca_below_one_that_allows_none() -> None:
    below = authority("below", LINE)
    assert refused(issue("d", below), below, LINE) == "path-length"
    # However many others stand beside the way.
    assert refused(issue("d", LINE), below, LINE) == ""


def test_a_root_that_has_ended_vouches_for_nobody() -> None:
    old = authority("old root", ends=NOW - DAY)
    assert refused(issue("d", old), by=old.anchors) == "validity"


def test_constraints_of_the_root_hold_too() -> None:
    held = authority("root", permitted=["line1.example"])
    assert refused(issue("d", held, dns=["d.line2.example"]), by=held.anchors) == "name-constraints"
    assert refused(issue("d", held, dns=["d.line1.example"]), by=held.anchors) == ""


def test_a_trusted_device_certificate_is_no_root() -> None:
    alone = issue("d")
    assert refused(alone, by=alone.anchors) == "ca"


def test_cas_that_certify_each_other_lead_nowhere() -> None:
    one, two = authority("one"), authority("two")
    crossed = (authority("one", two, key=one.key), authority("two", one, key=two.key))
    # Seen to be a circle, and not given up after so many signatures.
    with pytest.raises(DeviceChainError, match="is known or trusted") as caught:
        verify_device_chain([each.der for each in (issue("d", one), *crossed)], ROOT.anchors, now=NOW)
    assert caught.value.step == "chain"


def test_one_way_that_is_right_is_enough() -> None:
    """A CA that was certified again: the old certificate has ended, and stands first."""
    renewed = authority("old line", ROOT, key=OLD_LINE.key)
    assert refused(issue("d", OLD_LINE), OLD_LINE, renewed) == ""


def test_many_roots_of_one_name_do_not_cost_more_than_a_few_signatures() -> None:
    many = TrustAnchors.from_pem("".join(authority("root").pem for _ in range(21)).encode())
    with pytest.raises(DeviceChainError, match="more than 20 signatures") as caught:
        verify_device_chain([issue("d", ROOT).der], many, now=NOW)
    assert caught.value.step == "chain"


def test_a_certificate_ends_where_it_says() -> None:
    device = issue("d", ROOT).der
    for broken in (device + b"\0", device[:-1], b"", b"\x30\x80", device[: MAX_BYTES // 100]):
        with pytest.raises(DeviceChainError) as caught:
            verify_device_chain([broken], ROOT.anchors, now=NOW)
        assert caught.value.step == "structure"


def test_no_octet_of_a_chain_can_be_changed() -> None:
    """Whatever is changed, some step sees it: nothing below the signatures is left unsigned."""
    device = issue("d", LINE)
    for each in (0, 1):
        whole = [device.der, LINE.der]
        # The last octets are the signature's own: a flip there changes nothing but it.
        for place in range(0, len(whole[each]), 3):
            changed = bytearray(whole[each])
            changed[place] ^= 0x01
            mixed = [bytes(changed) if index == each else other for index, other in enumerate(whole)]
            with pytest.raises(DeviceChainError):
                verify_device_chain(mixed, ROOT.anchors, now=NOW)


@pytest.mark.parametrize(("bits", "step"), [(1024, "key-size"), (2048, "")])
def test_short_rsa_keys(bits: int, step: str) -> None:
    key = rsa.generate_private_key(65537, bits)
    assert refused(issue("d", ROOT, key=key)) == step


def test_a_key_that_costs_more_to_check_than_to_make() -> None:
    numbers = rsa.RSAPublicNumbers(65537, (1 << 8199) | 1)
    info = numbers.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    with pytest.raises(DeviceChainError) as caught:
        verify_size(load_public_key(info), "device")
    assert caught.value.step == "key-size"
