from __future__ import annotations

import datetime as dt

import msgspec
import pytest

from decisions import request_pem
from kubevouch import wellknown
from kubevouch.api.certificates_v1 import (
    CertificateSigningRequest,
    CertificateSigningRequestSpec,
    CertificateSigningRequestStatus,
)
from kubevouch.api.core_v1 import ConfigMap
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.machinery.text.times import Time
from kubevouch.pki.x509 import x509_request
from kubevouch.records import node_recovery
from kubevouch.records.node_recovery import (
    CloneError,
    KeyReplacedError,
    Record,
    RecoveryBudgetError,
    RecoveryPolicy,
    RecoveryRecordError,
    RecoveryRefusedError,
    Use,
)

NOW = dt.datetime(2031, 3, 1, 12, tzinfo=dt.UTC)
DAY = dt.timedelta(days=1)
POLICY = RecoveryPolicy(uses=2, window=10 * DAY)
RECORD = Record(node="a", key="k1", changed=NOW - 100 * DAY)


def used(record: Record, key: str, next_key: str, request: str = "r", now: dt.datetime = NOW) -> Record:
    return node_recovery.use(record, Use(key, next_key, request), POLICY, now=now)


def test_a_use_replaces_the_key() -> None:
    record = used(RECORD, "k1", "k2")
    assert (record.key, record.former, record.uses, record.request, record.changed) == ("k2", ("k1",), (NOW,), "r", NOW)


def test_the_same_use_again_is_no_other_use() -> None:
    record = used(RECORD, "k1", "k2")
    assert used(record, "k1", "k2") is record


def test_who_holds_the_next_key_is_told_that_it_counts() -> None:
    with pytest.raises(KeyReplacedError):
        used(used(RECORD, "k1", "k2"), "k1", "k2", "another")


@pytest.mark.parametrize("next_key", ["k3", "k1"])
def test_a_former_key_with_another_successor_is_a_clone(next_key: str) -> None:
    with pytest.raises(CloneError, match="another machine has a copy"):
        used(used(RECORD, "k1", "k2"), "k1", next_key)


def test_a_key_of_two_uses_ago_is_a_clone_whatever_comes_next() -> None:
    record = used(used(RECORD, "k1", "k2"), "k2", "k3")
    for next_key in ("k2", "k3", "k4"):
        with pytest.raises(CloneError):
            used(record, "k1", next_key)


def test_a_former_key_is_never_registered_again() -> None:
    with pytest.raises(CloneError):
        used(used(RECORD, "k1", "k2"), "k2", "k1")


def test_an_unknown_key_is_refused_and_is_no_clone() -> None:
    with pytest.raises(RecoveryRefusedError, match="not the one that is registered") as caught:
        used(RECORD, "x", "y")
    assert not isinstance(caught.value, CloneError)
    with pytest.raises(RecoveryRefusedError, match="no recovery key is registered"):
        node_recovery.use(None, Use("x", "y", "r"), POLICY, now=NOW)


@pytest.mark.parametrize("wanted", [("k2", "k3"), ("k1", "k2"), ("k1", "k9")])
def test_a_locked_node_recovers_with_no_key(wanted: tuple[str, str]) -> None:
    locked = node_recovery.lock(used(RECORD, "k1", "k2"), "why", now=NOW)
    with pytest.raises(RecoveryRefusedError, match="is locked: why"):
        used(locked, *wanted)
    assert node_recovery.lock(locked, "another", now=NOW + DAY) is locked
    assert used(node_recovery.unlock(locked), "k2", "k3").key == "k3"


def test_the_budget_is_for_a_window() -> None:
    record = used(used(RECORD, "k1", "k2"), "k2", "k3", now=NOW + DAY)
    with pytest.raises(RecoveryBudgetError) as caught:
        used(record, "k3", "k4", now=NOW + 2 * DAY)
    assert caught.value.retry_after == 8 * DAY
    # The first use leaves the window, and is forgotten.
    later = used(record, "k3", "k4", now=NOW + 10 * DAY)
    assert later.uses == (NOW + DAY, NOW + 10 * DAY)


def test_former_keys_are_bounded() -> None:
    record = RECORD
    for number in range(150):
        record = used(record, record.key, f"n{number}", now=NOW + number * 10 * DAY)
    assert len(record.former) == 100 and record.former[-1] == "n148"


# ------------------------------------------------------------------ registration


def test_the_first_key_is_registered_whoever_asks() -> None:
    for joined in (True, False):
        record = node_recovery.register(None, "a", ["k1", "k2"], joined=joined, asked=NOW)
        assert record == Record(node="a", key="k1", changed=NOW)


def test_a_key_that_is_registered_or_is_the_next_one_changes_nothing() -> None:
    for keys in (["k1"], ["k0", "k1"], ["k1", "k2"]):
        assert node_recovery.register(RECORD, "a", keys, joined=False, asked=NOW) is None


def test_a_request_from_before_the_last_change_is_no_news() -> None:
    record = used(RECORD, "k1", "k2")
    for asked in (NOW, NOW - DAY):
        assert node_recovery.register(record, "a", ["k1"], joined=True, asked=asked) is None


def test_a_join_changes_the_key_and_a_renewal_does_not() -> None:
    record = node_recovery.register(RECORD, "a", ["k5"], joined=True, asked=NOW)
    assert record is not None and (record.key, record.former, record.request) == ("k5", ("k1",), "")
    with pytest.raises(CloneError, match="another recovery key than the registered one"):
        node_recovery.register(RECORD, "a", ["k5"], joined=False, asked=NOW)


def test_a_key_that_was_replaced_is_a_clone_even_in_a_join() -> None:
    record = used(RECORD, "k1", "k2")
    for joined in (True, False):
        with pytest.raises(CloneError, match="was replaced"):
            node_recovery.register(record, "a", ["k1"], joined=joined, asked=NOW + DAY)


# ------------------------------------------------------------------ objects


def test_a_record_keeps_its_config_map() -> None:
    stored = node_recovery.config_map(RECORD)
    assert stored.metadata.name == "node-recovery.a" and stored.metadata.namespace == "kubevouch-system"
    assert node_recovery.record_of(stored) == RECORD and node_recovery.is_record(stored)
    locked = node_recovery.lock(used(RECORD, "k1", "k2"), "why", now=NOW)
    labelled = msgspec.structs.replace(
        stored, metadata=msgspec.structs.replace(stored.metadata, labels={"mine": "1"}, resource_version="7")
    )
    again = node_recovery.config_map(locked, labelled)
    assert node_recovery.record_of(again) == locked and again.metadata.resource_version == "7"
    assert again.metadata.labels == {"mine": "1", node_recovery.LOCKED_LABEL: "true"}
    assert node_recovery.config_map(RECORD, again).metadata.labels == {"mine": "1"}


def test_a_long_name_has_a_record_too() -> None:
    one, other = (node_recovery.record_name("a" * 252 + each) for each in "xy")
    assert one != other and max(len(one), len(other)) <= 253


@pytest.mark.parametrize("text", ["", "{", "[]", '{"node":"a"}', '{"node":"a","key":"k","changed":"then"}'])
def test_what_is_no_record(text: str) -> None:
    with pytest.raises(RecoveryRecordError, match=r"node-recovery\.a holds no recovery record"):
        node_recovery.record_of(ConfigMap(metadata=ObjectMeta(name="node-recovery.a"), data={"record": text}))


A, B = "a" * 64, "b" * 64


def request(username: str, annotation: str, *, issued: bool = True, **spec: str) -> CertificateSigningRequest:
    meta = ObjectMeta(
        name="r", annotations={node_recovery.KEYS_ANNOTATION: annotation}, creation_timestamp=Time.of(NOW)
    )
    return CertificateSigningRequest(
        metadata=meta,
        spec=CertificateSigningRequestSpec(
            request=request_pem(spec.get("subject", "system:node:a"), "system:nodes"),
            signer_name=spec.get("signer", wellknown.KUBE_APISERVER_CLIENT_KUBELET_SIGNER),
            username=username,
        ),
        status=CertificateSigningRequestStatus(certificate=b"x" if issued else b""),
    )


def test_a_node_registers_with_its_own_identity() -> None:
    csr = request("system:node:a", f"{A},{B}", issued=False, signer=wellknown.KUBELET_SERVING_SIGNER)
    found = node_recovery.registration_of(csr)
    assert found is not None and (found.node_name, found.keys, found.joined, found.asked) == ("a", (A, B), False, NOW)


def test_a_join_registers_once_it_has_its_certificate() -> None:
    found = node_recovery.registration_of(request("system:bootstrap:abcdef", A))
    assert found is not None and (found.node_name, found.joined) == ("a", True)
    assert node_recovery.registration_of(request("system:bootstrap:abcdef", A, issued=False)) is None


@pytest.mark.parametrize(
    "csr",
    [
        request("system:node:a", ""),
        request("system:node:a", f"{A},short"),
        request("system:node:a", A.upper()),
        request("kubevouch:recovery:a", A),
        request("system:bootstrap:abcdef", A, signer=wellknown.KUBE_APISERVER_CLIENT_SIGNER),
        request("system:bootstrap:abcdef", A, subject="somebody"),
    ],
)
def test_what_registers_nothing(csr: CertificateSigningRequest) -> None:
    assert node_recovery.registration_of(csr) is None


def test_a_recovering_user_wants_one_request() -> None:
    csr = request("kubevouch:recovery:a", "")
    key = node_recovery.digest(x509_request.parse_pem(csr.spec.request or b"").public_key)
    wanted = Use(A, B, key)
    extra = node_recovery.user_extra(wanted)
    assert node_recovery.verify_request(csr.spec, "kubevouch:recovery:a", extra) == wanted
    other = node_recovery.user_extra(Use(A, B, A))
    for spec, username, its_extra in (
        (csr.spec, "kubevouch:recovery:b", extra),
        (csr.spec, "kubevouch:recovery:a", other),
        (csr.spec, "kubevouch:recovery:a", {}),
        (csr.spec, "kubevouch:recovery:a", {**extra, node_recovery.KEY_EXTRA: (A, B)}),
        (msgspec.structs.replace(csr.spec, request=b"x"), "kubevouch:recovery:a", extra),
        (
            msgspec.structs.replace(csr.spec, signer_name=wellknown.KUBELET_SERVING_SIGNER),
            "kubevouch:recovery:a",
            extra,
        ),
    ):
        with pytest.raises(RecoveryRefusedError):
            node_recovery.verify_request(spec, username, its_extra)
