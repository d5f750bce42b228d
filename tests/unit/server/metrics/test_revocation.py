"""What is revoked, and whom it has refused, in numbers."""

from __future__ import annotations

import datetime as dt

from kubevouch.revocation.publication import PREFIX, Document, Publication
from kubevouch.server.metrics.revocation import collect
from unit.pki.x509.test_ocsp import CA, asked
from unit.revocation.test_publication import ISSUER, answer
from unit.revocation.test_revocations import NOW, certificate, holding, marks, revocation, serials


def test_it_counts() -> None:
    revocations = holding(revocation(serials=serials(7, 8)), revocation("r2", "certificateHold", nodes=["b"]))
    publication = Publication(revocations)
    publication.publish({ISSUER: CA}, {f"{PREFIX}/crl/aa/full.crl": Document(b"", "", NOW + dt.timedelta(hours=1))})
    assert revocations.why(marks(certificate())) and not revocations.why(marks(certificate(serial=9)))
    for octets in (asked(), asked(), asked(nonce=b"n"), b"junk"):
        answer(publication, octets, NOW)
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for family in collect(revocations, publication, NOW)
        for sample in family.samples
    }
    assert samples["kubevouch_revocations", "keyCompromise"] == samples["kubevouch_revocations", "certificateHold"] == 1
    assert samples["kubevouch_revocations", "superseded"] == 0
    assert samples[("kubevouch_revoked_values",)] == 3
    assert samples[("kubevouch_revoked_refusals_total",)] == 1
    assert samples["kubevouch_crl_remaining_seconds", "aa"] == 3600
    kinds = {name[1]: value for name, value in samples.items() if name[0] == "kubevouch_ocsp_answers_total"}
    assert kinds == {"kept": 1, "signed": 1, "nonce": 1, "refused": 1}
    assert len(list(collect(revocations, None, NOW))) == 3
