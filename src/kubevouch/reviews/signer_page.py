"""What a signer does, in the sentences that every signer's author is asked to publish (KEP-1513, "Signers"). Pure.

A CertificateSigner's page follows from its spec, which is also what it does. Those of Kubernetes' own signers follow
from the rules in ``pki/policy.py``, and are the same in every cluster.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from kubevouch import wellknown
from kubevouch.api.kubevouch_v1alpha1.certificate_signers import (
    DROP,
    READY,
    STRICT,
    CertificateSigner,
    CertificateSignerSpec,
    SignerAltNames,
    SignerAuthorities,
    SignerExtensions,
    SignerSubject,
    SignerTrust,
)
from kubevouch.machinery.text.gotext import format_duration
from kubevouch.pki.policy import KUBERNETES_SIGNERS

SECTIONS = (
    "Trust distribution", "Permitted subjects", "Permitted names", "Permitted extensions", "Permitted key usages",
    "Lifetime", "CA certificates", "Chain",
)  # fmt: skip
"""What there is to say of each signer, in the order in which it is said."""


class Page(msgspec.Struct, frozen=True):
    """``sections``: sentences by heading; ``notes``: what is so now and may change."""

    signer_name: str
    description: str
    sections: Mapping[str, Sequence[str]]
    notes: Sequence[str] = ()


def page_of(obj: CertificateSigner) -> Page:
    """The page of one's own signer."""
    spec = obj.spec
    sections = {
        "Trust distribution": list(_trust(spec, obj.metadata.name)),
        "Permitted subjects": list(_subjects(spec.subject or SignerSubject())),
        "Permitted names": list(_names(spec.alt_names or SignerAltNames())),
        "Permitted extensions": list(_extensions(spec.extensions or SignerExtensions())),
        "Permitted key usages": list(_usages(spec)),
        "Lifetime": list(_lifetime(spec)),
        "CA certificates": list(_authorities(spec.authorities or SignerAuthorities())),
        "Chain": list(_chain(spec)),
    }
    return Page(spec.signer_name, spec.description, sections, tuple(_notes(obj)))


def kubernetes_page(signer_name: str) -> Page:
    """The page of one of Kubernetes' four. Raises ``KeyError`` for another name."""
    return Page(signer_name, _WHAT_FOR[signer_name], dict(zip(SECTIONS, _KUBERNETES[signer_name], strict=True)))


def _fails(otherwise: str, what: str) -> str:
    return f"{what} are left out." if otherwise == DROP else f"A request with {what.lower()} fails."


def _trust(spec: CertificateSignerSpec, name: str) -> Iterator[str]:
    trust = spec.trust or SignerTrust()
    if trust.cluster_trust_bundle:
        yield f"The CAs are in the ClusterTrustBundle of {spec.signer_name}."
    if trust.config_map:
        yield f"The CAs are ca.crt of the ConfigMap {wellknown.SIGNERS_NAMESPACE}/trust-{name}."
    if trust.description:
        yield trust.description
    if not (trust.cluster_trust_bundle or trust.config_map or trust.description):
        yield "The CA is not distributed."
    elif trust.cluster_trust_bundle or trust.config_map:
        wait = f", for {_seconds(trust.overlap_seconds)} at least," if trust.overlap_seconds else ""
        yield f"The next CA is published{wait} before it signs, the former one until nothing of it is valid."


def _subjects(subject: SignerSubject) -> Iterator[str]:
    lists = {
        "common name": subject.common_names,
        "organizations": subject.organizations,
        "organizational units": subject.organizational_units,
        "countries": subject.countries,
        "provinces": subject.provinces,
        "localities": subject.localities,
        "street addresses": subject.street_addresses,
        "postal codes": subject.postal_codes,
        "serial number": subject.serial_numbers,
    }
    for what, patterns in lists.items():
        if patterns:
            yield f"{what.capitalize()}: {', '.join(patterns)}."
    if subject.anything:
        yield "Anything else that does not begin with system: is permitted, too."
        return
    if not any(lists.values()):
        yield "None: the subject is empty."
    if subject.required:
        yield f"There has to be one of: {', '.join(subject.required)}."
    yield _fails(subject.otherwise, "Other attributes and values")


def _names(names: SignerAltNames) -> Iterator[str]:
    lists = {
        "DNS names": names.dns_names,
        "IP addresses in": names.ip_ranges,
        "E-mail addresses": names.email_addresses,
        "URIs": names.uris,
    }
    for what, patterns in lists.items():
        if patterns:
            yield f"{what}: {', '.join(patterns)}."
    if not any(lists.values()):
        yield "None."
    else:
        yield f"{names.most} at most{', at least one' if names.required else ''}."
    if names.wildcards and names.dns_names:
        yield "Names with a wildcard are permitted where a star of the pattern stands for it."
    yield _fails(names.otherwise, "Other names")


def _extensions(extensions: SignerExtensions) -> Iterator[str]:
    if extensions.permitted:
        yield f"Copied from the request, as not critical: {', '.join(extensions.permitted)}."
    for what, urls in (
        ("CRLs", extensions.crl_distribution_points),
        ("OCSP", extensions.ocsp_servers),
        ("the CA's certificate", extensions.ca_issuers),
    ):
        if urls:
            yield f"Every certificate says where {what} {'are' if what == 'CRLs' else 'is'} found: {', '.join(urls)}."
    yield _fails(extensions.otherwise, "Other extensions")


def _usages(spec: CertificateSignerSpec) -> Iterator[str]:
    usages = spec.usages
    yield f"{', '.join(usages.permitted)}."
    if usages.required:
        yield f"There have to be: {', '.join(usages.required)}."
    yield _fails(usages.otherwise, "Other usages")


def _lifetime(spec: CertificateSignerSpec) -> Iterator[str]:
    lifetime = spec.lifetime
    longest = lifetime.max_seconds or lifetime.default_seconds
    yield f"{_seconds(lifetime.default_seconds)} unless something is asked for, {_seconds(longest)} at most."
    if lifetime.otherwise == DROP:
        yield f"A request for more gets {_seconds(longest)}."
    else:
        yield "A request for more fails."
    if lifetime.spread_percent:
        yield f"Each ends sooner by another part, up to {lifetime.spread_percent} %, so that not all end together."
    yield "None outlives the CA."


def _authorities(authorities: SignerAuthorities) -> Iterator[str]:
    if authorities.allowed:
        yield f"Issued, with a path length of {authorities.max_path_length} at most."
        yield "What is permitted of names binds the CA's own certificate, not what it issues."
    elif authorities.otherwise == DROP:
        yield "Not issued: who asks for one gets a certificate that is no CA's."
    else:
        yield "Not issued: a request for one fails."


def _chain(spec: CertificateSignerSpec) -> Iterator[str]:
    if spec.chain:
        yield (
            "The first block of status.certificate is the certificate, those behind it are intermediates, each after "
            "one that it certifies, to be presented in TLS handshakes."
        )
    else:
        yield "status.certificate holds the certificate alone."


def _notes(obj: CertificateSigner) -> Iterator[str]:
    if obj.spec.profile == STRICT:
        yield "Weak keys, SHA-1 and malformed names are refused (the strict profile)."
    for each in obj.status.authorities:
        state = "signs" if each.signs_since and not each.retired_at else "signs next" if not each.signs_since else "was"
        yield f"CA {each.subject}, {each.fingerprint[:16]}…, until {each.not_after}: {state}."
    for condition in obj.status.conditions:
        if condition.type == READY and condition.status != wellknown.CONDITION_TRUE:
            yield f"Not ready: {condition.message}"


def _seconds(seconds: int) -> str:
    return format_duration(dt.timedelta(seconds=seconds))


# ------------------------------------------------------------------ Kubernetes' own

_WHAT_FOR = {
    wellknown.KUBELET_SERVING_SIGNER: "Serving certificates of kubelets, which kube-apiserver believes.",
    wellknown.KUBE_APISERVER_CLIENT_KUBELET_SIGNER: "Client certificates of kubelets, which kube-apiserver believes.",
    wellknown.KUBE_APISERVER_CLIENT_SIGNER: "Client certificates that kube-apiserver believes.",
    wellknown.LEGACY_UNKNOWN_SIGNER: "Certificates for which nothing is promised.",
}
_NODE = "Exactly the organization system:nodes, and a common name of system:node: and a node's name; others fail."
_LIFE = (
    "--cluster-signing-duration of the signer, unless less is asked for; ten minutes at least, and not beyond the CA's "
    "end."
)
_COPIED = "Copied are the alternative names; all other requested extensions are left out."
_NO_CA = "Never issued: who asks for one gets a certificate that is no CA's."
_ALONE = "status.certificate holds the certificate alone."
_KUBERNETES: dict[str, tuple[tuple[str, ...], ...]] = {
    wellknown.KUBELET_SERVING_SIGNER: (
        ("kube-apiserver believes its certificates at a kubelet's port.",),
        (_NODE,),
        ("DNS names and IP addresses, at least one of them; e-mail addresses and URIs fail.",),
        (_COPIED,),
        ("digital signature and server auth, with or without key encipherment; others fail.",),
        (_LIFE,),
        (_NO_CA,),
        (_ALONE,),
    ),
    wellknown.KUBE_APISERVER_CLIENT_KUBELET_SIGNER: (
        ("kube-apiserver believes its certificates as those of clients.",),
        (_NODE,),
        ("None; a request with names fails.",),
        ("All requested extensions are left out.",),
        ("digital signature and client auth, with or without key encipherment; others fail.",),
        (_LIFE,),
        (_NO_CA,),
        (_ALONE,),
    ),
    wellknown.KUBE_APISERVER_CLIENT_SIGNER: (
        ("kube-apiserver believes its certificates as those of clients.",),
        ("Any but the group system:masters, and by the strict profile the names of nodes.",),
        ("DNS names, e-mail addresses, IP addresses and URIs.",),
        (_COPIED,),
        ("client auth, beside it digital signature and key encipherment; others fail.",),
        (_LIFE,),
        (_NO_CA,),
        (_ALONE,),
    ),
    wellknown.LEGACY_UNKNOWN_SIGNER: (
        ("None.",),
        ("Any but names that begin with system:.",),
        ("DNS names, e-mail addresses, IP addresses and URIs.",),
        (_COPIED,),
        ("Any; by the strict profile neither cert sign nor crl sign.",),
        (_LIFE,),
        (_NO_CA,),
        (_ALONE,),
    ),
}
assert set(_KUBERNETES) == set(KUBERNETES_SIGNERS)


# ------------------------------------------------------------------ forms


def markdown(page: Page) -> str:
    """The page as a document of its own."""
    lines = [f"# {page.signer_name}", ""]
    if page.description:
        lines += [page.description, ""]
    for heading, sentences in page.sections.items():
        lines += [f"## {heading}", "", *(f"- {_escaped(each)}" for each in sentences), ""]
    if page.notes:
        lines += ["## Now", "", *(f"- {_escaped(each)}" for each in page.notes), ""]
    return "\n".join(lines)


def _escaped(text: str) -> str:
    """Stars of patterns are stars."""
    return text.replace("\n", " ").replace("*", "\\*").replace("_", "\\_")
