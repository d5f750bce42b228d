"""pki/name_constraints.py: which names a CA may vouch for. openssl looks at the same chains."""

from __future__ import annotations

import datetime as dt
import ipaddress
import subprocess
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kubevouch.pki import name_constraints
from kubevouch.pki.name_constraints import MAX_COMPARISONS, mailbox_of, violation
from kubevouch.pki.x509.x509_certificate import Certificate, parse_der

KEY = ec.derive_private_key(0xC0, ec.SECP256R1())
NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
LEAF = "leaf"


def general(text: str) -> x509.GeneralName:
    kind, _, value = text.partition(":")
    if kind == "ip":
        return x509.IPAddress(ipaddress.ip_network(value) if "/" in value else ipaddress.ip_address(value))
    # A name that the library would refuse is what some of the cases are about.
    name: x509.GeneralName
    if kind == "dns":
        name = x509.DNSName._init_without_validation(value)
    elif kind == "email":
        name = x509.RFC822Name._init_without_validation(value)
    else:
        name = x509.UniformResourceIdentifier._init_without_validation(value)
    return name


def made(name: str, issuer: str, *extensions: x509.ExtensionType, ca: bool) -> Certificate:
    def called(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    builder = (
        x509.CertificateBuilder().subject_name(called(name)).issuer_name(called(issuer)).public_key(KEY.public_key())
        .serial_number(7).not_valid_before(NOW).not_valid_after(NOW + dt.timedelta(days=36500))
        .add_extension(x509.BasicConstraints(ca, None), critical=True)
    )  # fmt: skip
    for extension in extensions:
        builder = builder.add_extension(extension, critical=isinstance(extension, x509.NameConstraints))
    return parse_der(builder.sign(KEY, hashes.SHA256()).public_bytes(serialization.Encoding.DER))


def constraints(permitted: str, excluded: str) -> x509.NameConstraints:
    lists = [[general(each) for each in text.split()] or None for text in (permitted, excluded)]
    return x509.NameConstraints(*lists)


def chain(names: str, permitted: str = "", excluded: str = "") -> list[Certificate]:
    said = [x509.SubjectAlternativeName([general(each) for each in names.split()])] if names else []
    return [
        made(LEAF, "ca", *said, ca=False),
        made("ca", "ca", *([constraints(permitted, excluded)] if permitted or excluded else []), ca=True),
    ]


NOT, BY = "is not permitted by any constraint", "is excluded by constraint"
# Names, permitted, excluded, what is said.
CASES: list[tuple[str, str, str, str]] = [
    ("dns:a.example", "", "", ""),
    ("", "dns:example", "", ""),
    ("dns:example", "dns:example", "", ""),
    ("dns:A.Example", "dns:eXample", "", ""),
    ("dns:a.b.example", "dns:example", "", ""),
    ("dns:evilexample", "dns:example", "", NOT),
    ("dns:example.evil", "dns:example", "", NOT),
    ("dns:a.example dns:evil", "dns:example", "", NOT),
    ("dns:a.example", "dns:other dns:example", "", ""),
    ("dns:example", "dns:.example", "", NOT),
    ("dns:a.example", "dns:.example", "", ""),
    ("dns:a.example", "", "dns:example", BY),
    ("dns:evilexample", "", "dns:example", ""),
    ("dns:a.example", "dns:example", "dns:a.example", BY),
    ("dns:b.example", "dns:example", "dns:a.example", ""),
    ("dns:*.example", "", "dns:a.example", BY),
    ("dns:*.example", "", "dns:a.b.example", ""),
    ("dns:*.example", "dns:example", "", ""),
    ("dns:*.example", "dns:a.example", "", NOT),
    ("ip:10.1.2.3", "ip:10.0.0.0/8", "", ""),
    ("ip:11.1.2.3", "ip:10.0.0.0/8", "", NOT),
    ("ip:10.1.2.3", "", "ip:10.1.0.0/16", BY),
    ("ip:10.1.2.3", "ip:::/0", "", NOT),
    ("ip:fd00::1", "ip:fd00::/8", "", ""),
    ("ip:::ffff:10.0.0.1", "ip:10.0.0.0/8", "", NOT),
    ("dns:a.example", "ip:10.0.0.0/8", "", ""),
    ("ip:10.0.0.1", "dns:example", "", ""),
    ("email:a@example", "email:example", "", ""),
    ("email:a@EXAMPLE", "email:a@example", "", ""),
    ("email:A@example", "email:a@example", "", NOT),
    ("email:a@evilexample", "email:example", "", NOT),
    ("email:a@example", "", "email:a@example", BY),
]
# What Go judges in its own way, or refuses to judge.
ALONE: list[tuple[str, str, str, str]] = [
    ("uri:spiffe://example/x", "uri:example", "", ""),
    ("uri:https://a.example:443/x", "uri:.example", "", ""),
    ("uri:https://example", "uri:.example", "", NOT),
    ("uri:https://evil/example", "uri:example", "", NOT),
    ("uri:https://a.example", "", "uri:example", BY),
    ("uri:urn:a:b", "dns:example", "", "URI with empty host"),
    ("uri:https://10.0.0.1/", "dns:example", "", "URI with IP"),
    ("uri:https://[::1]:80/", "dns:example", "", "URI with IP"),
    ("email:a", "dns:example", "", "cannot parse rfc822Name"),
    ("email:a@b.example", "email:example", "", ""),
    ("dns:a..example", "dns:example", "", "cannot parse dnsName"),
    ("dns:a.example.", "dns:example", "", "cannot parse dnsName"),
]


@pytest.mark.parametrize(("names", "permitted", "excluded", "told"), [*CASES, *ALONE])
def test_what_a_ca_may_vouch_for(names: str, permitted: str, excluded: str, told: str) -> None:
    found = violation(chain(names, permitted, excluded))
    assert told in found and bool(told) is bool(found)


def test_openssl_judges_alike(tmp_path: Path) -> None:
    differing = []
    for case in CASES:
        leaf, ca = chain(*case[:3])
        (tmp_path / "leaf").write_bytes(leaf.pem())
        (tmp_path / "ca").write_bytes(ca.pem())
        command = ["openssl", "verify", "-no-CApath", "-no-CAstore", "-attime", str(int(NOW.timestamp()) + 60)]
        ran = subprocess.run(
            [*command, "-CAfile", str(tmp_path / "ca"), str(tmp_path / "leaf")], capture_output=True, check=False
        )
        if (ran.returncode == 0) is bool(case[3]):
            differing.append(case)
    # openssl does not know what a wildcard could stand for.
    assert [case for case in differing if not case[0].startswith("dns:*")] == []


def test_the_words_are_go_s() -> None:
    assert violation(chain("dns:a", "dns:b")) == 'DNS name "a" is not permitted by any constraint'
    assert violation(chain("dns:a.b", "", "dns:b")) == 'DNS name "a.b" is excluded by constraint "b"'
    assert violation(chain("ip:10.0.0.1", "", "ip:10.0.0.0/8")) == (
        'IP address "10.0.0.1" is excluded by constraint "10.0.0.0/8"'
    )


def test_constraints_bind_every_certificate_below_and_none_above_or_beside() -> None:
    names = x509.SubjectAlternativeName([general("dns:ca.evil")])
    leaf = made(LEAF, "middle", x509.SubjectAlternativeName([general("dns:a.example")]), ca=False)
    middle = made("middle", "ca", names, ca=True)
    within = constraints("dns:example", "")
    assert "ca.evil" in violation([leaf, middle, made("ca", "ca", within, ca=True)])
    assert violation([leaf, made("middle", "ca", names, within, ca=True), made("ca", "ca", ca=True)]) == ""
    own = made("ca", "ca", x509.SubjectAlternativeName([general("dns:evil")]), within, ca=True)
    assert violation([leaf, made("middle", "ca", ca=True), own]) == ""
    both = [leaf, made("middle", "ca", constraints("dns:b.example", ""), ca=True), made("ca", "ca", within, ca=True)]
    assert "not permitted" in violation(both)


def test_a_common_name_is_no_dns_name() -> None:
    assert violation([made("evil", "ca", ca=False), chain("", "dns:example")[1]]) == ""


def test_work_is_counted_before_it_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(name_constraints, "MAX_COMPARISONS", 3)
    assert violation(chain("dns:a dns:b", "dns:a dns:b")).startswith("more than 3 comparisons")
    assert violation(chain("dns:a", "dns:a dns:b")) == "" and MAX_COMPARISONS > 3


@pytest.mark.parametrize(
    ("address", "mailbox"),
    [
        ("a@b", ("a", "b")), ('"a b"@c', ("a b", "c")), ('"a\\"b"@c', ('a"b', "c")), ("a\\ b@c", ("a b", "c")),
        ("a.b@c.d", ("a.b", "c.d")), ("@b", None), ("a", None), ("", None), (".a@b", None), ("a.@b", None),
        ("a..b@c", None), ("a b@c", None), ("a@b.", None), ("a@b@c", ("a", "b@c")), ('"a@b', None), ('"a\0"@b', None),
        ("a@", ("a", "")),
    ],
)  # fmt: skip
def test_mailboxes(address: str, mailbox: tuple[str, str] | None) -> None:
    assert mailbox_of(address) == mailbox
