"""reviews/signer_page.py: each section says what the spec does."""

from __future__ import annotations

from typing import Any

import pytest

from kubevouch.pki.policy import KUBERNETES_SIGNERS
from kubevouch.reviews.signer_page import SECTIONS, kubernetes_page, markdown, page_of
from signer_world import signer


def told(section: str, **changes: Any) -> str:
    return " ".join(page_of(signer(**changes)).sections[section])


@pytest.mark.parametrize(
    ("section", "changes", "sentence"),
    [
        ("Trust distribution", {"trust": None}, "The CA is not distributed."),
        ("Trust distribution", {"trust": {"clusterTrustBundle": True}}, "ClusterTrustBundle of example.com/web"),
        ("Trust distribution", {"trust": {"configMap": True, "overlapSeconds": 60}}, "kubevouch-signers/trust-web"),
        ("Trust distribution", {"trust": {"configMap": True, "overlapSeconds": 60}}, "for 1m0s at least, before"),
        ("Trust distribution", {"trust": {"description": "By hand."}}, "By hand."),
        ("Permitted subjects", {"subject": None}, "None: the subject is empty. A request with other"),
        ("Permitted subjects", {"subject": {"anything": True}}, "Anything else that does not begin with system:"),
        ("Permitted subjects", {"subject": {"countries": ["DE"], "required": ["countries"]}}, "one of: countries"),
        ("Permitted subjects", {"subject": {"otherwise": "Drop"}}, "are left out."),
        ("Permitted names", {"altNames": None}, "None. A request with other names fails."),
        ("Permitted names", {"altNames": {"ipRanges": ["10.0.0.0/8"], "required": True}}, "100 at most, at least one."),
        ("Permitted names", {"altNames": {"dnsNames": ["*"], "wildcards": True}}, "Names with a wildcard"),
        ("Permitted extensions", {"extensions": {"permitted": ["1.2.3"]}}, "as not critical: 1.2.3."),
        ("Permitted extensions", {"extensions": {"crlDistributionPoints": ["http://a"]}}, "where CRLs are found: http"),
        ("Permitted key usages", {"usages": {"permitted": ["any"], "required": ["any"]}}, "There have to be: any."),
        ("Lifetime", {}, "1h0m0s unless something is asked for, 2h0m0s at most. A request for more gets 2h0m0s."),
        (
            "Lifetime",
            {"lifetime": {"defaultSeconds": 600, "otherwise": "Fail", "spreadPercent": 5}},
            "more fails. Each",
        ),
        ("CA certificates", {}, "Not issued: a request for one fails."),
        ("CA certificates", {"authorities": {"otherwise": "Drop"}}, "a certificate that is no CA's"),
        ("CA certificates", {"authorities": {"allowed": True, "maxPathLength": 2}}, "path length of 2 at most"),
        ("Chain", {}, "those behind it are intermediates"),
        ("Chain", {"chain": False}, "the certificate alone"),
    ],
)
def test_each_sentence(section: str, changes: dict[str, Any], sentence: str) -> None:
    assert sentence in told(section, **changes)


def test_every_page_has_every_section() -> None:
    for page in (page_of(signer()), *map(kubernetes_page, KUBERNETES_SIGNERS)):
        assert tuple(page.sections) == SECTIONS and all(page.sections.values())
        text = markdown(page)
        assert [line[3:] for line in text.splitlines() if line.startswith("## ")][: len(SECTIONS)] == list(SECTIONS)
