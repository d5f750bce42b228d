"""What is remembered between requests is bounded in bytes, whoever asks for whatever, and however often."""

from __future__ import annotations

import datetime as dt
import functools
import importlib
import pkgutil
from collections.abc import Callable
from typing import Any

import pytest

import kubevouch
from kubevouch.api import certificates_v1
from kubevouch.api.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestSpec
from kubevouch.authentication.client_chain import ClientChainVerifier
from kubevouch.authentication.interface import UserInfo
from kubevouch.authorization import rbac
from kubevouch.authorization.interface import Attributes
from kubevouch.authorization.rbac import RBACPolicy
from kubevouch.cel.regular_expressions import compiled_pattern
from kubevouch.controllers.approval import name_admission
from kubevouch.machinery.text import names
from kubevouch.machinery.writing import field_set
from kubevouch.pki import keys, node_user
from kubevouch.pki.client_certificate import TrustAnchors
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509 import der, pem, x509_certificate, x509_request
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.subject import Subject
from kubevouch.records import certificate_ledger
from kubevouch.server import negotiation
from kubevouch.testing.clock import FakeClock
from throwaway_ca import ThrowawayCA

LONG = "9" * 100_000
NOW = dt.datetime(2026, 6, 1, tzinfo=dt.UTC)

# What a cache's keys are made of. "types": of this program's types, settings and constants, which clients do not make.
OF_TYPES = {
    "api.apiextensions_v1.schema_props._shape",
    "config.authentication_config_rules._environment", "config.authorization_config._environment",
    "authorization.bootstrap_policy.bootstrap_policy", "authorization.bootstrap_policy.cluster_trust_bundle_policy",
    "authorization.bootstrap_policy.node_rules", "authorization.controller_policy.kubernetes_controller_policy",
    "authorization.controller_policy.kubevouch_controller_policy",
    "authorization.kubeadm_policy.kubeadm_certs_policy", "authorization.kubeadm_policy.kubeadm_policy",
    "authorization.ledger_policy.cluster_ledger_policy", "authorization.attestation_policy.attested_joining_policy",
    "authorization.ledger_policy.ledger_policy", "authorization.revocation_policy.revocation_policy",
    "authorization.recovery_policy.recovery_policy", "cel.compiler._engine", "cel.declarations.declarations",

    "machinery.codec.elements._fields",
    "machinery.codec.json_codec._decoder", "machinery.codec.json_codec._type_meta",
    "machinery.codec.protobuf._descriptor_file", "machinery.codec.protobuf._filler", "machinery.codec.protobuf._maker",
    "machinery.codec.protobuf._message_class", "machinery.codec.protobuf._support_file",
    "api.apiextensions_v1.schema_message._messages", "machinery.codec.protobuf._unknown_class",
    "machinery.codec.protobuf.envelope_prefix",
    "machinery.writing.struct_compare._plan", "machinery.writing.typed_tree.merge_type",
    "pki.x509.certificate_builder._usage_extensions",
    # The paths of modules and of files with secrets that somebody has named to this process.
    "signers.pkcs11.module",
    "util.files.log_exposure", "api.storage_keys._built_in",
    # Of this machine: its rights, and libraries.
    "authorization.attestation_policy.attestation_policy", "client.tls_resident_key._library",
    "client.tls_resident_key._signer",
    # The names of log fields.
    "util.redact._names_secret",
    "machinery.schema._opaque_fields",
    # Schemas of definitions: an administrator's, and four of them.
    "api.apiextensions_v1.schema_props._unpacked",
    "api.kubevouch_v1alpha1.own_kind._compiled",
    # The files that a test names.
    "testing.crds._of_file_as_it_was",
    # The names and types of a policy's variables: an administrator's, and 64 of them.
    "api.admissionregistration_v1.expressions._environment",
}  # fmt: skip


# Something long for each of the others, in the way in which clients reach it.
FED: dict[str, Callable[[str], object]] = {
    "api.certificates_v1._found_fault": lambda text: certificates_v1._request_fault(text.encode()),
    "records.certificate_ledger._totals": lambda text: certificate_ledger.totals_of(
        {certificate_ledger.TOTALS_ANNOTATION: text}
    ),
    "cel.regular_expressions._compile": lambda text: compiled_pattern(text[:4000]),
    "machinery.writing.field_set._cached_order": lambda text: field_set._order(f'v:"{text}"'),
    "machinery.writing.field_set._cached_set": lambda text: field_set.from_fields_v1(b'{"f:%s":{}}' % text.encode()),
    "machinery.writing.field_set._text_key_element": lambda text: field_set.key_element(("name",), (text,)),
    "machinery.text.names._is_qualified": names.qualified_name,
    "controllers.approval.name_admission._parsed": lambda text: name_admission._names_and_keys(_csr(text)),
    "pki.x509.der._object_identifier": lambda text: der.object_identifier(b"\x2a" * len(text)),
    "pki.node_user._node_name_of": lambda text: node_user.node_name_of(f"system:node:{text}"),
    "pki.x509.subject._parse_certified": lambda text: x509_certificate.parse_der(_certificate(text)),
    "pki.x509.x509_certificate._parse_first": lambda text: x509_certificate.parse_der(_certificate(text)),
    "pki.x509.x509_request._parse_pem": lambda text: x509_request.parse_pem(_request(text), limit=1 << 20),
}
# Numbers, and texts that are refused when they are long, cut, or of one size before they get here.
SMALL = {
    "admission.own_kind_protection._wanted", "controllers.decision_protection._wanted",
    "machinery.text.quantity.canonical", "machinery.text.quantity.rounded_up_to_milli",
    "machinery.codec.protobuf.field_head", "pki.x509.public_key._p256_point", "pki.x509.x509_request._failure",
    "util.addresses.source_prefix", "util.addresses.wider_prefixes", "server.negotiation._clauses",
    "server.negotiation._negotiated", "server.metrics.encryption._key_hash",
}  # fmt: skip


def _certificate(text: str) -> bytes:
    block = pem.first_block(ThrowawayCA().issue("a", organizations=(text[:60],) * (len(text) // 60)).certificate)
    assert block is not None
    return block.contents


def _csr(text: str) -> CertificateSigningRequest:
    signer = "kubernetes.io/kube-apiserver-client-kubelet"
    return CertificateSigningRequest(spec=CertificateSigningRequestSpec(request=_request(text), signer_name=signer))


def _request(text: str) -> bytes:
    return build_request(keys.generate(KeyAlgorithm.ECDSA_P256), Subject(common_name="a", organizations=(text,)))


def _caches() -> dict[str, Any]:
    found = {}
    for module in pkgutil.walk_packages(kubevouch.__path__, "kubevouch."):
        if module.name.endswith("__main__"):
            continue
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, functools._lru_cache_wrapper) and value.__module__ == module.name:
                found[f"{value.__module__}.{value.__qualname__}".removeprefix("kubevouch.")] = value
    return found


def test_every_cache_of_a_function_is_known() -> None:
    """A new one says here what its keys are made of; without a bound only those that no client makes."""
    caches = _caches()
    assert set(caches) == OF_TYPES | set(FED) | SMALL
    assert [name for name in [*FED, *SMALL] if caches[name].cache_parameters()["maxsize"] is None] == []


@pytest.mark.parametrize("name", FED)
def test_long_texts_are_not_remembered(name: str) -> None:
    cache = _caches()[name]
    cache.cache_clear()
    FED[name](LONG)
    # The name of a certificate's issuer is the short one that all have.
    assert cache.cache_info().currsize == (name == "pki.x509.subject._parse_certified")


def test_of_an_accept_header_so_much_is_remembered() -> None:
    for number in range(500):
        negotiation.negotiate(f"application/json,{number}{LONG}", "object")
    assert negotiation._negotiated.cache_info().currsize <= 256
    assert negotiation._clauses.cache_info().currsize <= 256
    known = negotiation._clauses.cache_info().hits
    negotiation._negotiated.cache_clear()
    negotiation.negotiate(f"application/json,499{LONG}"[: negotiation.MAX_ACCEPT_BYTES], "object")
    assert negotiation._clauses.cache_info().hits == known + 1


# ------------------------------------------------------------------ by user


def _asked(policy: RBACPolicy, user: str = "u", name: str = "", groups: tuple[str, ...] = ()) -> None:
    policy.decide(Attributes(UserInfo(user, groups=groups), "get", "", "v1", "nodes", name=name))


def _held(policy: RBACPolicy) -> int:
    return sum(len(grants.decisions) for grants in policy._users.values())


def test_a_review_of_long_names_leaves_nothing() -> None:
    """SelfSubjectAccessReview is for everybody with a credential, and its names have no limit but the body's."""
    policy = RBACPolicy()
    for number in range(50):
        _asked(policy, name=f"{number}{LONG}")
        _asked(policy, user=f"{number}{LONG}")
        _asked(policy, groups=(f"{number}", LONG))
    assert _held(policy) == 0
    assert len(policy._users) == 1


def test_decisions_of_all_users_have_one_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rbac, "MAX_DECISIONS_IN_ALL", 100)
    monkeypatch.setattr(rbac, "MAX_DECISIONS", 30)
    monkeypatch.setattr(rbac, "MAX_USERS", 7)
    policy = RBACPolicy()
    most = 0
    for number in range(5000):
        _asked(policy, user=f"u{number % 5}", name=str(number))
        _asked(policy, user=f"v{number // 40}", name=str(number))
        most = max(most, _held(policy))
        assert len(policy._users) <= 7
    assert 60 < most <= 100


def test_certificates_that_somebody_shows_behind_his_own_are_bounded() -> None:
    authority = ThrowawayCA()
    leaf = pem.first_block(authority.issue("alice").certificate)
    assert leaf is not None
    junk = [_certificate(f"{number}") for number in range(20)]
    verifier = ClientChainVerifier(
        TrustAnchors.from_pem(authority.bundle), FakeClock(NOW), lambda chain: chain[0], remembered_bytes=6000
    )
    for other in junk:
        assert verifier.verify((leaf.contents, other)).conclusion.subject.common_name == "alice"
        held = sum(len(each) for shown in verifier._verified for each in shown)
        assert held == verifier._verified_bytes <= 6000
    verifier.replace_anchors(TrustAnchors.from_pem(authority.bundle))
    assert verifier._verified_bytes == 0
