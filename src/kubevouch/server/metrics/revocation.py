"""What is revoked, whom that has refused, and how old what is published of it is."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, Metric

from kubevouch.api.kubevouch_v1alpha1.certificate_revocations import REASONS
from kubevouch.revocation.publication import PREFIX, Publication
from kubevouch.revocation.revocations import Revocations
from kubevouch.server.metrics.catalog import gauge

_FULL = "/full.crl"


def collect(revocations: Revocations, publication: Publication | None, now: dt.datetime) -> Iterator[Metric]:
    """Read at a scrape."""
    reasons = Counter(dict.fromkeys(REASONS, 0))
    reasons.update(each.reason for each in revocations)
    yield gauge(
        "kubevouch_revocations",
        "CertificateRevocations, by reason.",
        ("reason",),
        {(reason,): float(count) for reason, count in reasons.items()},
    )
    yield gauge(
        "kubevouch_revoked_values",
        "Serial numbers, fingerprints, keys, names and periods that are revoked.",
        (),
        {(): float(revocations.values)},
    )
    refused = CounterMetricFamily(
        "kubevouch_revoked_refusals", "Requests, and looks at watches, that a revocation or a lock-out refused."
    )
    refused.add_metric((), float(revocations.refused))
    yield refused
    if publication is None:
        return
    lists: dict[tuple[str, ...], float] = {
        (path.removeprefix(f"{PREFIX}/crl/").removesuffix(_FULL),): (each.until - now).total_seconds()
        for path, each in publication.documents.items()
        if path.endswith(_FULL)
    }
    yield gauge(
        "kubevouch_crl_remaining_seconds",
        "For how long the full CRL of an authority may still be used; below zero it is too old.",
        ("issuer",),
        lists,
    )
    answers = CounterMetricFamily(
        "kubevouch_ocsp_answers", "OCSP answers: kept, signed, signed for a nonce, refused.", labels=("kind",)
    )
    for kind, count in publication.answers.items():
        answers.add_metric((kind,), float(count))
    yield answers
