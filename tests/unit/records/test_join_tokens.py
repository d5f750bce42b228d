"""One-time join tokens."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from device_certificates import NOW
from kubevouch.api.core_v1.secrets import Secret
from kubevouch.records import join_tokens
from kubevouch.records.join_tokens import JoinToken, JoinTokenError, JoinTokenRefusedError, Record

_CASES = [json.loads(line) for line in (Path(__file__).parents[2] / "vectors" / "node.jsonl").read_text().splitlines()]
USES = [case for case in _CASES if case["when"] == "use join token"]
TOKEN = join_tokens.generate()
HOUR = dt.timedelta(hours=1)
RECORD = join_tokens.plan(TOKEN, "worker-7", HOUR, NOW)


def step(record: Record, key: str, now: dt.datetime) -> tuple[str, Record]:
    """The step that fails, and what is stored."""
    try:
        used = join_tokens.use(record, key, now)
    except JoinTokenRefusedError as err:
        return err.step, record
    try:
        join_tokens.verify_in_time(used)
    except JoinTokenRefusedError as err:
        return err.step, used
    return "", used


@pytest.mark.parametrize("case", USES, ids=[case["id"] for case in USES])
def test_the_cases(case: dict[str, Any]) -> None:
    """The uses are those of different machines, each with a key of its own."""
    given = case["given"]
    ttl = dt.timedelta(seconds=given["ttl_s"])
    record = join_tokens.plan(TOKEN, "worker-7", ttl, dt.datetime.fromisoformat(given["created"]))
    results = []
    for number, moment in enumerate(given["uses"]):
        failed, record = step(record, f"key {number}", dt.datetime.fromisoformat(moment))
        results.append(not failed)
    assert results == case["then"]["results"]


def test_one_key_may_come_again_until_its_certificate_must_be_there() -> None:
    failed, used = step(RECORD, "K1", NOW)
    assert (failed, used.used_by, used.used_at) == ("", "K1", NOW)
    assert step(used, "K1", NOW + HOUR) == ("", used)
    assert step(used, "K2", NOW)[0] == "used"
    assert step(used, "K1", NOW + HOUR + dt.timedelta(seconds=1))[0] == "used"


def test_a_use_that_comes_too_late_burns_the_token() -> None:
    late = NOW + HOUR + dt.timedelta(seconds=1)
    failed, burnt = step(RECORD, "K1", late)
    assert (failed, burnt.used_by) == ("expired", "K1")
    # Not even a clock that is set back lets it count again, nor another key.
    assert step(burnt, "K1", NOW)[0] == "expired"
    assert step(burnt, "K2", NOW)[0] == "used"
    assert step(RECORD, "K1", NOW + HOUR)[0] == ""


def test_who_reads_the_secret_cannot_come_in_with_it() -> None:
    stored = repr(join_tokens.to_secret(RECORD).data)
    assert TOKEN.secret not in stored
    assert TOKEN.key().private_bytes_raw() not in join_tokens.to_secret(RECORD).data.values()
    assert TOKEN.secret not in repr(TOKEN)


def test_a_signature_is_for_one_cluster_and_one_key() -> None:
    signature = TOKEN.sign("a cluster", b"d" * 32)
    join_tokens.verify_signature(RECORD, signature, join_tokens.signed_message("a cluster", b"d" * 32))
    for cluster, digest in (("another", b"d" * 32), ("a cluster", b"e" * 32), ("", b"d" * 32)):
        with pytest.raises(JoinTokenRefusedError, match="no such join token"):
            join_tokens.verify_signature(RECORD, signature, join_tokens.signed_message(cluster, digest))
    other = join_tokens.plan(JoinToken(TOKEN.token_id, "0" * 32), "worker-7", HOUR, NOW)
    with pytest.raises(JoinTokenRefusedError, match="no such join token"):
        join_tokens.verify_signature(other, signature, join_tokens.signed_message("a cluster", b"d" * 32))


@pytest.mark.parametrize("used", [False, True])
def test_the_secret_holds_the_record(used: bool) -> None:
    record = join_tokens.use(RECORD, "ab" * 32, NOW) if used else RECORD
    secret = join_tokens.to_secret(record)
    assert secret.metadata.namespace == "kubevouch-join-tokens"
    assert join_tokens.from_secret(secret) == record


def changed(secret: Secret, **data: bytes | None) -> Secret:
    merged = {**secret.data, **{key.replace("_", "-"): value for key, value in data.items()}}
    return msgspec.structs.replace(secret, data={key: value for key, value in merged.items() if value is not None})


WHOLE = join_tokens.to_secret(RECORD)


@pytest.mark.parametrize(
    "secret",
    [
        msgspec.structs.replace(WHOLE, type="Opaque"), changed(WHOLE, public_key=b"short"),
        changed(WHOLE, public_key=None), changed(WHOLE, machine=None), changed(WHOLE, expiration=b"tomorrow"),
        changed(WHOLE, token_id=b"00000000"), changed(WHOLE, token_id=b"../x"), changed(WHOLE, machine=b"\xff"),
        changed(WHOLE, used_at=b"x"),
    ],
)  # fmt: skip
def test_what_is_no_join_token(secret: Secret) -> None:
    with pytest.raises(JoinTokenError):
        join_tokens.from_secret(secret)


def test_what_is_no_text_of_a_token() -> None:
    for text in ("", "a.b", TOKEN.text + "\n", TOKEN.text.upper(), TOKEN.token_id, "x" * 4000):
        with pytest.raises(JoinTokenError) as caught:
            join_tokens.parse(text)
        assert not text or text not in str(caught.value)
    assert join_tokens.parse(TOKEN.text) == TOKEN


@pytest.mark.parametrize(
    ("machine", "ttl"),
    [("Worker-7", HOUR), ("", HOUR), ("a/b", HOUR), ("worker-7", dt.timedelta()), ("worker-7", dt.timedelta(days=31))],
)
def test_what_no_token_may_be_for(machine: str, ttl: dt.timedelta) -> None:
    with pytest.raises(JoinTokenError):
        join_tokens.plan(TOKEN, machine, ttl, NOW)


def test_when_nobody_asks_for_it_any_more() -> None:
    used = join_tokens.use(RECORD, "K1", NOW)
    day = dt.timedelta(days=1)
    assert not join_tokens.is_over(RECORD, NOW + HOUR + day)
    assert join_tokens.is_over(RECORD, NOW + HOUR + day + dt.timedelta(seconds=1))
    assert join_tokens.is_over(used, NOW + join_tokens.RETRY + day + dt.timedelta(seconds=1))
