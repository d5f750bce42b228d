"""records/cluster_identity.py: by what proofs name the cluster that they are made for."""

from __future__ import annotations

from kubevouch.pki import pins
from kubevouch.pki.x509 import x509_certificate
from kubevouch.records.cluster_identity import identity, is_pin, pins_in
from throwaway_ca import ThrowawayCA

FIRST, SECOND = (x509_certificate.parse_bundle(ThrowawayCA(name).pair.certificate)[0] for name in ("first", "second"))


def test_what_the_cluster_tells_comes_before_its_ca() -> None:
    assert identity("5f6c1b2a", [FIRST]) == "5f6c1b2a"


def test_a_cluster_that_tells_nothing_is_known_by_its_first_ca() -> None:
    assert identity("", [SECOND, FIRST]) == pins.pin_of(SECOND)
    assert is_pin(identity("", [FIRST])) and not is_pin("5f6c1b2a")


def test_without_either_there_is_nothing_to_make_a_proof_for() -> None:
    assert identity("", []) == ""


def test_every_ca_of_a_bundle_is_known() -> None:
    assert pins_in(FIRST.pem() + SECOND.pem()) == {pins.pin_of(FIRST), pins.pin_of(SECOND)}
    assert pins_in(FIRST.pem()) == {pins.pin_of(FIRST)}


def test_what_is_no_bundle_names_no_cluster() -> None:
    assert pins_in(b"") == pins_in(b"-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n") == frozenset()
