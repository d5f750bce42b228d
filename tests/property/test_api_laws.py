"""Laws of the api layer: conversions lose nothing, rules never fail on odd objects, parsers fail in one way only."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kubevouch.api import (
    authentication_v1,
    authorization_v1,
    certificates_v1,
    certificates_v1beta1,
    coordination_v1,
    core_v1,
    events_v1,
    meta_v1,
    rbac_v1,
)
from kubevouch.config import kubeconfig
from kubevouch.machinery import errors
from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.field import FieldError
from kubevouch.machinery.meta import DeleteOptions
from kubevouch.machinery.scheme import GroupVersionKind
from kubevouch.machinery.text import names
from kubevouch.records import bootstrap_tokens
from property.strategies import struct_strategy

NOW = dt.datetime(2031, 3, 1, tzinfo=dt.UTC)
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
lenient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


# ------------------------------------------------------------------ conversions


@lenient
@given(struct_strategy(events_v1.Event))
def test_an_event_survives_being_stored(event: events_v1.Event) -> None:
    assert events_v1.from_core(events_v1.to_core(event)) == event


@lenient
@given(struct_strategy(core_v1.Event))
def test_a_stored_event_survives_the_newer_view(event: core_v1.Event) -> None:
    assert events_v1.to_core(events_v1.from_core(event)) == event


@lenient
@given(struct_strategy(certificates_v1.CertificateSigningRequest))
def test_a_csr_survives_the_older_version(csr: certificates_v1.CertificateSigningRequest) -> None:
    assert certificates_v1beta1.to_v1(certificates_v1beta1.from_v1(csr)) == csr


# ------------------------------------------------------------------ rules

CREATE: list[tuple[type[msgspec.Struct], Callable[[Any], list[FieldError]]]] = [
    (certificates_v1.CertificateSigningRequest, certificates_v1.validate_certificate_signing_request),
    (certificates_v1beta1.ClusterTrustBundle, certificates_v1beta1.validate_cluster_trust_bundle),
    (core_v1.ConfigMap, core_v1.validate_config_map),
    (core_v1.Event, core_v1.validate_event),
    (core_v1.Event, lambda event: core_v1.validate_event(event, events_v1.API_VERSION)),
    (core_v1.Namespace, core_v1.validate_namespace),
    (core_v1.Node, core_v1.validate_node),
    (core_v1.Secret, core_v1.validate_secret),
    (core_v1.ServiceAccount, core_v1.validate_service_account),
    (coordination_v1.Lease, coordination_v1.validate_lease),
    (rbac_v1.ClusterRole, rbac_v1.validate_cluster_role),
    (rbac_v1.ClusterRoleBinding, rbac_v1.validate_cluster_role_binding),
    (rbac_v1.Role, rbac_v1.validate_role),
    (rbac_v1.RoleBinding, rbac_v1.validate_role_binding),
    (authentication_v1.TokenRequest, authentication_v1.validate_token_request),
    (authorization_v1.LocalSubjectAccessReview, authorization_v1.validate_local_subject_access_review),
    (authorization_v1.SelfSubjectAccessReview, authorization_v1.validate_self_subject_access_review),
    (authorization_v1.SubjectAccessReview, authorization_v1.validate_subject_access_review),
    (DeleteOptions, meta_v1.validate_delete_options),
    (meta_v1.CreateOptions, meta_v1.validate_create_options),
    (meta_v1.UpdateOptions, meta_v1.validate_update_options),
    (meta_v1.ListOptions, meta_v1.validate_list_options),
    (meta_v1.PatchOptions, lambda options: meta_v1.validate_patch_options(options, apply=True)),
]
UPDATE: list[tuple[type[msgspec.Struct], Callable[[Any, Any], list[FieldError]]]] = [
    (certificates_v1.CertificateSigningRequest, certificates_v1.validate_certificate_signing_request_update),
    (certificates_v1.CertificateSigningRequest, certificates_v1.validate_certificate_signing_request_approval_update),
    (certificates_v1.CertificateSigningRequest, certificates_v1.validate_certificate_signing_request_status_update),
    (certificates_v1beta1.ClusterTrustBundle, certificates_v1beta1.validate_cluster_trust_bundle_update),
    (core_v1.ConfigMap, core_v1.validate_config_map_update),
    (core_v1.Event, lambda new, old: core_v1.validate_event_update(new, old, events_v1.API_VERSION)),
    (core_v1.Namespace, core_v1.validate_namespace_finalize_update),
    (core_v1.Namespace, core_v1.validate_namespace_status_update),
    (core_v1.Node, core_v1.validate_node_update),
    (core_v1.Secret, core_v1.validate_secret_update),
    (coordination_v1.Lease, coordination_v1.validate_lease_update),
    (rbac_v1.ClusterRole, rbac_v1.validate_cluster_role_update),
    (rbac_v1.ClusterRoleBinding, rbac_v1.validate_cluster_role_binding_update),
    (rbac_v1.RoleBinding, rbac_v1.validate_role_binding_update),
]


def assert_tellable(problems: list[FieldError]) -> None:
    """The faults make a Status that can be sent."""
    if problems:
        status = errors.invalid(GroupVersionKind("g", "v1", "K"), "n", problems).status
        assert json_codec.decode(json_codec.encode(status), type(status)) == status


@pytest.mark.parametrize(("struct", "validate"), CREATE)
@settings(lenient, max_examples=30)
@given(data=st.data())
def test_any_object_can_be_judged(
    struct: type[msgspec.Struct], validate: Callable[[Any], list[FieldError]], data: st.DataObject
) -> None:
    assert_tellable(validate(data.draw(struct_strategy(struct))))


@pytest.mark.parametrize(("struct", "validate"), UPDATE)
@settings(lenient, max_examples=30)
@given(data=st.data())
def test_any_change_can_be_judged(
    struct: type[msgspec.Struct], validate: Callable[[Any, Any], list[FieldError]], data: st.DataObject
) -> None:
    objects = struct_strategy(struct)
    assert_tellable(validate(data.draw(objects), data.draw(objects)))


STORABLE = [
    (struct, create, update)
    for struct, create in CREATE
    for other, update in UPDATE
    if struct is other and struct not in (core_v1.Namespace, core_v1.Event)
]


@pytest.mark.parametrize(("struct", "create", "update"), STORABLE)
@settings(lenient, max_examples=30)
@given(data=st.data())
def test_what_could_be_created_can_be_written_again(
    struct: type[msgspec.Struct],
    create: Callable[[Any], list[FieldError]],
    update: Callable[[Any, Any], list[FieldError]],
    data: st.DataObject,
) -> None:
    obj = data.draw(struct_strategy(struct))
    # Kubernetes looks for repeated node addresses only when a Node changes.
    if not create(obj) and not (isinstance(obj, core_v1.Node) and obj.status.addresses):
        assert update(obj, obj) == []


# ------------------------------------------------------------------ signer names

parts = st.text("ab.-/A", max_size=12)


@lenient
@given(parts | st.builds("{}/{}".format, parts, parts))
def test_signer_names_are_accepted_as_their_rules_say(name: str) -> None:
    domain, slash, path = name.partition("/")
    labels = domain.split(".")
    good = (
        bool(slash)
        and "/" not in path
        and len(labels) >= 2
        and not any(names.dns_label(label) for label in labels)
        and not any(names.subdomain(part) for part in path.split("."))
    )
    assert (certificates_v1.validate_signer_name("f", name) == []) == good


# ------------------------------------------------------------------ parsers


@lenient
@given(st.text())
def test_a_text_is_a_token_or_no_token(text: str) -> None:
    try:
        token = bootstrap_tokens.parse_token(text)
    except bootstrap_tokens.TokenSyntaxError:
        return
    assert token.text == text


@lenient
@given(struct_strategy(core_v1.Secret), st.dictionaries(st.sampled_from(
    ["token-id", "token-secret", "expiration", "auth-extra-groups", "usage-bootstrap-signing"]
), st.binary(max_size=30)))  # fmt: skip
def test_any_secret_counts_or_is_refused(secret: core_v1.Secret, values: dict[str, bytes]) -> None:
    odd = core_v1.Secret(metadata=secret.metadata, type="bootstrap.kubernetes.io/token", data=secret.data | values)
    attempts: list[Callable[[], object]] = [
        lambda: bootstrap_tokens.accept_for_authentication(odd, "0123456789abcdef", NOW),
        lambda: bootstrap_tokens.accept_for_signing(odd, NOW),
        lambda: bootstrap_tokens.from_secret(odd),
    ]
    for attempt in attempts:
        with pytest.raises(bootstrap_tokens.BootstrapTokenError):
            attempt()
    bootstrap_tokens.expiration_of(odd, NOW)


ids = st.text("0123456789abcdefghijklmnopqrstuvwxyz", min_size=6, max_size=6)
token_secrets = st.text("0123456789abcdefghijklmnopqrstuvwxyz", min_size=16, max_size=16)
groups = st.from_regex(r"system:bootstrappers:[a-z0-9:-]{0,20}[a-z0-9]", fullmatch=True)
tokens = st.builds(
    bootstrap_tokens.BootstrapToken,
    token=st.builds(bootstrap_tokens.Token, token_id=ids, token_secret=token_secrets),
    description=st.text(st.characters(codec="utf-8")),
    # The years 2 to 9998, so that no time zone leads out of what a datetime holds.
    expires=st.none() | st.integers(-62_000_000_000, 253_000_000_000).map(lambda at: EPOCH + dt.timedelta(seconds=at)),
    usages=st.sampled_from([(), ("signing",), ("authentication",), ("authentication", "signing")]),
    groups=st.lists(groups, max_size=3).map(tuple),
)


@lenient
@given(tokens)
def test_a_token_survives_its_secret(token: bootstrap_tokens.BootstrapToken) -> None:
    assert bootstrap_tokens.from_secret(bootstrap_tokens.to_secret(token)) == token


@lenient
@given(st.text() | st.binary())
def test_a_text_is_a_kubeconfig_or_none(text: str | bytes) -> None:
    try:
        config = kubeconfig.load(text)
    except kubeconfig.KubeconfigError:
        return
    assert kubeconfig.load(kubeconfig.dump(config)) == config


plain = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), max_size=10)
configs = st.builds(
    kubeconfig.Kubeconfig,
    clusters=st.dictionaries(
        plain,
        st.builds(kubeconfig.Cluster, server=plain, certificate_authority_data=st.binary(), proxy_url=plain),
    ),
    users=st.dictionaries(
        plain,
        st.builds(
            kubeconfig.User,
            token=plain,
            client_key_data=st.binary(),
            impersonate_groups=st.lists(plain, max_size=2),
            exec=st.none()
            | st.builds(
                kubeconfig.ExecConfig,
                command=plain,
                args=st.lists(plain, max_size=2),
                interactive_mode=st.sampled_from(["Never", "IfAvailable", "Always"]),
            ),
        ),
    ),
    contexts=st.dictionaries(plain, st.builds(kubeconfig.Context, cluster=plain, user=plain, namespace=plain)),
    current_context=plain,
)


@lenient
@given(configs)
def test_a_kubeconfig_survives_its_file(config: kubeconfig.Kubeconfig) -> None:
    assert kubeconfig.load(kubeconfig.dump(config)) == config
