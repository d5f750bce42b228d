"""Columns and annotations of requests: computed by the server, whatever a client writes there."""

from __future__ import annotations

import datetime as dt

import msgspec
import pytest

from join_requests import KEY
from kubevouch.api.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestSpec
from kubevouch.authentication.interface import UserInfo
from kubevouch.cli.main import run
from kubevouch.machinery.meta import ObjectMeta, replace_metadata
from kubevouch.pki.x509 import x509_request
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.subject import Subject
from kubevouch.pki.x509.subject_alt_names import SubjectAltNames
from kubevouch.registry.certificates import derived_facts
from kubevouch.registry.certificates.certificatesigningrequests import DEFINITION, RecordedRefusals, definition
from kubevouch.registry.interface import Context
from serving_requests import asks

NOW = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
CTX = Context(user=UserInfo("system:node:n1", groups=("system:nodes",)), now=NOW, api_version="certificates.k8s.io/v1")
CSR = asks("csr-1")
KEY_OF_CSR = x509_request.parse_pem(CSR.spec.request or b"").public_key.fingerprint().hex()
PREFIX = derived_facts.ANNOTATION_PREFIX


def test_columns_behind_those_of_kubernetes() -> None:
    made = definition(None, ("subject", "names", "fingerprint", "key"))
    before = len(DEFINITION.printer.columns)
    assert [each.name for each in made.printer.columns][before:] == ["Subject", "Names", "Fingerprint", "Key"]
    assert list(made.printer.cells(CSR, NOW))[before:] == [
        "CN=system:node:n1, O=system:nodes", "n1,10.0.0.9", KEY_OF_CSR, "ECDSA 256"
    ]  # fmt: skip
    assert definition(None).printer.columns == DEFINITION.printer.columns


def odd(names: SubjectAltNames, common_name: str = "x") -> CertificateSigningRequest:
    pem = build_request(KEY, Subject(common_name=common_name), names)
    return msgspec.structs.replace(CSR, spec=msgspec.structs.replace(CSR.spec, request=pem))


def test_what_a_requester_puts_there_does_nothing_to_a_terminal() -> None:
    hostile = odd(SubjectAltNames(dns_names=("\x1b[2J", "a\nb")), "\x1b]0;x\x07\u202e")
    (subject, names) = derived_facts.cells(hostile, ("subject", "names"))
    assert f"{subject}{names}".isprintable()
    assert derived_facts.cells(odd(SubjectAltNames()), ("names",)) == ["<none>"]


def test_long_names_are_cut() -> None:
    many = odd(SubjectAltNames(dns_names=tuple(f"n{number}.example.com" for number in range(200))))
    (cell,) = derived_facts.cells(many, ("names",))
    assert len(str(cell).encode()) <= derived_facts.MAX_CELL_BYTES
    (annotation,) = derived_facts.annotations_of(many, ("names",)).values()
    assert len(annotation.encode()) <= derived_facts.MAX_ANNOTATION_BYTES


def test_what_cannot_be_read_has_none() -> None:
    spec = CertificateSigningRequestSpec(request=b"x", signer_name="a.b/c")
    unreadable = CertificateSigningRequest(metadata=ObjectMeta(name="a"), spec=spec)
    assert derived_facts.cells(unreadable, ("subject", "key")) == ["<none>", "<none>"]
    assert derived_facts.annotations_of(unreadable, ("subject",)) == {}


FORGED = {f"{PREFIX}fingerprint": "00", f"{PREFIX}other": "x", "mine": "y"}


def test_annotations_that_no_client_writes() -> None:
    made = definition(RecordedRefusals(), annotated=("fingerprint", "names"))
    told = {f"{PREFIX}fingerprint": KEY_OF_CSR, f"{PREFIX}names": "n1,10.0.0.9", "mine": "y"}
    created = made.strategy.prepare_for_create(CTX, replace_metadata(CSR, annotations=FORGED))
    assert created.metadata.annotations == told
    for way in (made.strategy, *(each.strategy for each in made.subresources)):
        changed = way.prepare_for_update(CTX, replace_metadata(created, annotations=FORGED), created)
        assert changed.metadata.annotations == told
        bare = way.prepare_for_update(CTX, replace_metadata(created, annotations={}), created)
        assert bare.metadata.annotations.keys() == told.keys() - {"mine"}


def test_without_the_option_annotations_are_the_clients() -> None:
    created = definition(None).strategy.prepare_for_create(CTX, replace_metadata(CSR, annotations=FORGED))
    assert created.metadata.annotations == FORGED


@pytest.mark.parametrize("flag", ["--csr-columns", "--csr-annotations"])
def test_a_fact_that_there_is_not(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["up", flag, "subject,colour"]) == 3
    assert "got 'colour', expected some of subject, names, fingerprint, key" in capsys.readouterr().err
