"""What each signer issues, for each kind of key and in each profile, as pkilint reads RFC 5280."""

from __future__ import annotations

import datetime as dt
import tomllib

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519
from pkilint import loader
from pkilint.pkix import certificate, extension, name
from pkilint.validation import ValidationFindingSeverity

import identity_world as world
import peers
from kubevouch.pki import authority, issuance, keys
from kubevouch.pki.authority import CertificateAuthority
from kubevouch.pki.issuance import SigningRules
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.profile import Profile
from kubevouch.pki.x509 import x509_request
from kubevouch.pki.x509.signature import PrivateKey
from kubevouch.pki.x509.subject import Subject
from kubevouch.pki.x509.subject_alt_names import SubjectAltNames
from kubevouch.signers.definition import rules_of
from signer_world import SIGNER, signer

NOW = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)
LISTED = frozenset(
    finding
    for each in tomllib.loads((peers.ROOT / "docs" / "compatibility.toml").read_text())["difference"]
    for finding in each.get("findings", ())
)
SKID_MISSING, SHORT_NAME, EC_ENCIPHERMENT = (
    "pkix.certificate_skid_end_entity_missing",
    "pkix.invalid_domain_name_syntax",
    "pkix.key_usage_value_prohibited_for_ec",
)
KEYS: dict[str, PrivateKey] = {
    **{each: keys.generate(each) for each in (KeyAlgorithm.RSA_2048, KeyAlgorithm.ECDSA_P256, KeyAlgorithm.ECDSA_P384)},
    "Ed25519": ed25519.Ed25519PrivateKey.generate(),
}
VALIDATOR = certificate.create_pkix_certificate_validator_container(
    certificate.create_decoding_validators(name.ATTRIBUTE_TYPE_MAPPINGS, extension.EXTENSION_MAPPINGS),
    [
        certificate.create_issuer_validator_container([]),
        certificate.create_validity_validator_container(),
        certificate.create_subject_validator_container([]),
        certificate.create_extensions_validator_container([]),
        certificate.create_spki_validator_container([]),
    ],
)


def findings(contents: bytes) -> set[str]:
    document = loader.RFC5280CertificateDocumentLoader().load_document(contents, "certificate")
    return {
        found.finding.code
        for result in VALIDATOR.validate(document.root)
        for found in result.finding_descriptions
        if found.finding.severity is not ValidationFindingSeverity.INFO
    }


def issued(ca: CertificateAuthority, key: PrivateKey, signer_name: str, rules: SigningRules) -> bytes:
    node = signer_name in (world.NODE_CLIENT, world.NODE_SERVING)
    subject = world.node_subject("worker-1") if node else Subject(common_name="a.example.com")
    names = SubjectAltNames()
    if signer_name in (world.NODE_SERVING, SIGNER):
        names = SubjectAltNames(dns_names=("worker-1.example.com",))
    purpose = "server auth" if signer_name in (world.NODE_SERVING, SIGNER) else "client auth"
    request = x509_request.parse_pem(world.request(subject, key, names))
    return issuance.issue(
        ca, request, signer_name=signer_name, usages=("digital signature", purpose), expiration_seconds=3600, now=NOW,
        rules=rules,
    ).contents  # fmt: skip


@pytest.mark.parametrize("algorithm", KEYS)
def test_what_signers_issue_has_no_findings_but_those_that_are_listed(algorithm: str) -> None:
    key = KEYS[algorithm]
    cluster = authority.create_authority("kubernetes", key, now=NOW)
    own = authority.create_authority("example.com/web", key, now=NOW, as_kubeadm=False)
    assert findings(cluster.certificate.contents) <= LISTED, algorithm
    assert findings(own.certificate.contents) == set()
    for signer_name in (world.NODE_CLIENT, world.NODE_SERVING, world.CLIENT, world.LEGACY):
        for profile in Profile:
            told = findings(issued(cluster, key, signer_name, SigningRules(profile=profile)))
            assert told == ({SKID_MISSING} if profile is Profile.COMPATIBLE else set()), (signer_name, profile)
            assert told <= LISTED
    rules = rules_of(
        signer(
            extensions={"crlDistributionPoints": ["http://a.example.com/b"], "ocspServers": ["http://c.example.com"]}
        ).spec
    )
    assert findings(issued(own, key, SIGNER, rules)) == set()
    later = authority.create_authority("later", key, now=NOW, as_kubeadm=False)
    assert findings(authority.cross_sign(own, later.certificate, now=NOW).contents) == set()


def test_the_linter_finds_something() -> None:
    short = SubjectAltNames(dns_names=("a",))
    key = KEYS["ECDSA-P256"]
    ca = authority.create_authority("kubernetes", key, now=NOW)
    request = x509_request.parse_pem(world.request(world.node_subject("a"), key, short))
    made = issuance.issue(
        ca, request, signer_name=world.NODE_SERVING, usages=world.SERVING_USAGES, expiration_seconds=None, now=NOW
    )
    assert findings(made.contents) == {SHORT_NAME} <= LISTED
    assert findings(ca.certificate.contents) == {SHORT_NAME, EC_ENCIPHERMENT} <= LISTED
