from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kubevouch.api.core_v1 import Secret
from kubevouch.machinery.meta import ObjectMeta, replace_metadata
from kubevouch.machinery.text.times import Time
from kubevouch.records.bootstrap_tokens import (
    BootstrapToken,
    BootstrapTokenError,
    Token,
    TokenRefusedError,
    TokenSettingsError,
    TokenSyntaxError,
    WeakTokenError,
    accept_for_authentication,
    accept_for_signing,
    expiration_of,
    from_secret,
    generate_token,
    groups_of,
    lost_since,
    no_secret_text,
    parse_token,
    parse_token_id,
    secret_name,
    to_secret,
    token_id_of_name,
    token_id_of_user,
    turned_off,
    verify_group,
    verify_strength,
    verify_usages,
)
from kubevouch.records.token_bounds import Bounds

VECTORS = Path(__file__).parents[2] / "vectors"
NOW = dt.datetime(2031, 3, 1, 12, tzinfo=dt.UTC)
ABOUT = "Bootstrap secret kube-system/bootstrap-token-abc123 matching bearer token "


def cases(file: str, *areas: str) -> list[dict[str, Any]]:
    return [case for case in map(json.loads, (VECTORS / file).read_text().splitlines()) if case["area"] in areas]


def secret(values: dict[str, str] | None = None, *, name: str = "bootstrap-token-abc123", **metadata: Any) -> Secret:
    values = {
        "token-id": "abc123",
        "token-secret": "0123456789abcdef",
        "usage-bootstrap-authentication": "true",
        "usage-bootstrap-signing": "true",
    } | (values or {})
    return Secret(
        metadata=ObjectMeta(name=name, namespace="kube-system", **metadata),
        type="bootstrap.kubernetes.io/token",
        data={key: value.encode() for key, value in values.items()},
    )


# ------------------------------------------------------------------ the token


def test_parse() -> None:
    token = parse_token("abc123.0123456789abcdef")
    assert (token.token_id, token.token_secret) == ("abc123", "0123456789abcdef")
    assert token.text == "abc123.0123456789abcdef"
    assert token.user == "system:bootstrap:abc123"
    assert token.secret_name == "bootstrap-token-abc123"


@pytest.mark.parametrize(
    "text",
    [
        "", "abc123", "abc123.", "abc123.0123456789abcdef\n", " abc123.0123456789abcdef", "abc12.0123456789abcdef",
        "Abc123.0123456789abcdef", "abc123-0123456789abcdef", "abc123.0123456789abcde٣", "abc123.0123456789abcdef0",
    ],
)  # fmt: skip
def test_texts_that_are_no_token(text: str) -> None:
    with pytest.raises(TokenSyntaxError):
        parse_token(text)


@pytest.mark.parametrize(
    "case", [c for c in cases("node.jsonl", "tokens") if c["when"] == "parse"], ids=lambda c: c["id"]
)
def test_parse_cases(case: dict[str, Any]) -> None:
    assert case["then"]["ok"] is False
    with pytest.raises(TokenSyntaxError):
        parse_token(case["given"]["token"])


def test_nothing_shows_the_secret_half() -> None:
    assert "0123456789abcdef" not in repr(parse_token("abc123.0123456789abcdef"))
    with pytest.raises(TokenSyntaxError) as caught:
        parse_token("abc123.0123456789abcdeF")
    assert "0123456789" not in str(caught.value)
    shown = repr(from_secret(secret()))
    assert "abc123" in shown
    assert "0123456789abcdef" not in shown


def test_token_ids() -> None:
    assert parse_token_id("abc123") == "abc123"
    with pytest.raises(TokenSyntaxError):
        parse_token_id("abc1234")
    assert secret_name("abc123") == "bootstrap-token-abc123"
    assert token_id_of_name("bootstrap-token-abc123") == "abc123"
    for name in ("abc123", "bootstrap-token-abc123\n", "bootstrap-token-ABC123", "x-bootstrap-token-abc123"):
        assert token_id_of_name(name) is None


def test_generated_tokens_are_tokens_over_the_whole_alphabet() -> None:
    letters: Counter[str] = Counter()
    for _ in range(300):
        letters.update(parse_token(generate_token().text).text)
    del letters["."]
    assert len(letters) == 36


def test_generation_takes_its_randomness_from_an_argument() -> None:
    picked = iter("abc123k4x09zq7m2w8r5tj")
    assert generate_token(lambda alphabet: alphabet[alphabet.index(next(picked))]).text == "abc123.k4x09zq7m2w8r5tj"


# ------------------------------------------------------------------ settings


def test_usages() -> None:
    assert verify_usages(["signing", "authentication", "signing"]) == ("authentication", "signing")
    assert verify_usages([]) == ()
    with pytest.raises(TokenSettingsError, match="invalid bootstrap token usage string: a,b, valid usage options: sig"):
        verify_usages(["b", "signing", "a"])


@pytest.mark.parametrize(
    "group",
    ["system:bootstrappers:a", "system:bootstrappers:kubeadm:default-node-token", f"system:bootstrappers:{'a' * 256}"],
)
def test_good_groups(group: str) -> None:
    assert verify_group(group) == group


@pytest.mark.parametrize(
    "group",
    [
        "", "system:bootstrappers", "system:bootstrappers:", "system:bootstrappers:a-", "system:bootstrappers:A",
        "system:masters", " system:bootstrappers:a", "system:bootstrappers:a\n", f"system:bootstrappers:{'a' * 257}",
    ],
)  # fmt: skip
def test_bad_groups(group: str) -> None:
    with pytest.raises(TokenSettingsError):
        verify_group(group)


def test_the_text_about_a_bad_group() -> None:
    with pytest.raises(TokenSettingsError) as caught:
        verify_group("system:masters")
    assert str(caught.value) == (
        'bootstrap group "system:masters" is invalid (must match \\Asystem:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]\\z)'
    )


def test_groups_of_a_secret_are_sorted_and_unique() -> None:
    extra = "system:bootstrappers:b,system:bootstrappers:a,system:bootstrappers:b"
    assert groups_of(secret({"auth-extra-groups": extra})) == [
        "system:bootstrappers",
        "system:bootstrappers:a",
        "system:bootstrappers:b",
    ]
    assert groups_of(secret({"auth-extra-groups": ""})) == ["system:bootstrappers"]
    for bad in ("system:bootstrappers:a,", "system:bootstrappers:a, system:bootstrappers:b"):
        with pytest.raises(TokenSettingsError):
            groups_of(secret({"auth-extra-groups": bad}))


# ------------------------------------------------------------------ expiration


@pytest.mark.parametrize(
    ("text", "expired", "remaining"),
    [
        (None, False, None),
        ("", False, None),
        ("2031-03-01T13:00:00Z", False, 3600.0),
        ("2031-03-01T14:00:00+01:00", False, 3600.0),
        ("2031-03-01T12:00:00,5Z", False, 0.5),
        ("2031-03-02T1:00:00Z", False, 46800.0),
        ("2031-03-01T12:00:00Z", True, 0.0),
        ("2031-03-01T11:59:59Z", True, 0.0),
        ("0000-01-01T00:00:00Z", True, 0.0),
        ("9999-12-31T23:59:59Z", False, (dt.datetime(9999, 12, 31, 23, 59, 59, tzinfo=dt.UTC) - NOW).total_seconds()),
        ("never", True, 0.0),
        ("2031-03-02T12:00:00Z\n", True, 0.0),
        ("2031-03-02t12:00:00z", True, 0.0),
        ("\udcff", True, 0.0),
    ],
)
def test_expiration(text: str | None, expired: bool, remaining: float | None) -> None:
    values = {} if text is None else {"expiration": text}
    given = secret() if text != "\udcff" else msgspec.structs.replace(secret(), data={"expiration": b"\xff"})
    result = expiration_of(secret(values) if text != "\udcff" else given, NOW)
    assert result.expired == expired
    assert (None if result.remaining is None else result.remaining.total_seconds()) == remaining


SYNCS = [
    case
    for case in cases("controllers.jsonl", "tokencleaner")
    if case["when"].get("action") == "sync" and "delete_http_status" not in case["given"]
]


@pytest.mark.parametrize("case", SYNCS, ids=lambda case: case["id"])
def test_verified_cleaner_cases(case: dict[str, Any]) -> None:
    """What kube-controller-manager 1.36.2 deletes, keeps and looks at again."""
    given = case["given"]["secret"]
    if given is None or given["type"] != "bootstrap.kubernetes.io/token":
        return
    values = {key: value.encode() for key, value in given["data_utf8"].items()}
    now = dt.datetime.fromisoformat(case["when"]["now"])
    result = expiration_of(Secret(data=values), now)
    assert result.expired == (case["then"]["outcome"] in ("deleted", "gone"))
    if "requeue_after_s" in case["then"]:
        remaining = None if result.remaining is None else result.remaining.total_seconds()
        assert remaining == case["then"]["requeue_after_s"]


# ------------------------------------------------------------------ authentication


@pytest.mark.parametrize(
    "case", [c for c in cases("node.jsonl", "tokens") if c["when"] == "authenticate"], ids=lambda c: c["id"]
)
def test_authentication_cases(case: dict[str, Any]) -> None:
    given = dict(case["given"]["secret"])
    deleted = given.pop("deletionTimestamp", None)
    metadata = ObjectMeta(
        name=given.pop("name"), namespace="kube-system", deletion_timestamp=Time.parse(deleted) if deleted else None
    )
    subject = Secret(
        metadata=metadata, type=given.pop("type"), data={key: value.encode() for key, value in given.items()}
    )
    token = parse_token(case["given"]["bearer"])
    now = dt.datetime.fromisoformat(case["given"]["now"])
    if case["then"]["ok"]:
        assert accept_for_authentication(subject, token.token_secret, now) == case["then"]["groups"]
        assert case["then"].get("user", token.user) == token.user
    else:
        with pytest.raises(TokenRefusedError):
            accept_for_authentication(subject, token.token_secret, now)


EXPIRED = "Expired bootstrap token in kube-system/bootstrap-token-abc123 Secret: 2031-03-01T11:00:00Z"
UNPARSABLE = "Unparseable expiration time in kube-system/bootstrap-token-abc123 Secret. Treating as expired."


@pytest.mark.parametrize(
    ("subject", "text"),
    [
        (secret(deletion_timestamp=Time(0)), f"{ABOUT}is deleted and awaiting removal"),
        (
            msgspec.structs.replace(secret(), type="Opaque"),
            f"{ABOUT}has invalid type, expected bootstrap.kubernetes.io/token.",
        ),
        (secret({"token-secret": "0123456789abcdef\n"}), f"{ABOUT}has invalid value for key token-secret."),
        (secret({"token-secret": ""}), f"{ABOUT}has invalid value for key token-secret."),
        (secret({"token-id": "zzzzzz"}), f"{ABOUT}has invalid value for key token-id."),
        (secret({"expiration": "2031-03-01T11:00:00Z"}), EXPIRED),
        (secret({"expiration": "soon"}), UNPARSABLE),
        (
            secret({"usage-bootstrap-authentication": "True"}),
            f"{ABOUT}not marked usage-bootstrap-authentication=true.",
        ),
        (
            secret({"auth-extra-groups": "x"}),
            (
                f'{ABOUT}has invalid value for key auth-extra-groups: bootstrap group "x" is invalid (must match '
                "\\Asystem:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]\\z)."
            ),
        ),
    ],
)
def test_why_a_bearer_stays_out(subject: Secret, text: str) -> None:
    with pytest.raises(TokenRefusedError) as caught:
        accept_for_authentication(subject, "0123456789abcdef", NOW)
    assert str(caught.value) == text


def test_the_order_of_the_checks() -> None:
    """Each step fails alone in the test above; here everything is wrong, and the first step speaks."""
    all_wrong = secret(
        {"token-secret": "x", "token-id": "y", "expiration": "never", "usage-bootstrap-authentication": "no"},
        deletion_timestamp=Time(0),
    )
    with pytest.raises(TokenRefusedError, match="awaiting removal"):
        accept_for_authentication(all_wrong, "0123456789abcdef", NOW)
    alive = msgspec.structs.replace(
        all_wrong, metadata=msgspec.structs.replace(all_wrong.metadata, deletion_timestamp=None)
    )
    with pytest.raises(TokenRefusedError, match="key token-secret"):
        accept_for_authentication(alive, "0123456789abcdef", NOW)


def test_the_text_about_a_secret_that_is_not_there() -> None:
    assert no_secret_text("abc123") == "No secret of name bootstrap-token-abc123 to match bootstrap bearer token"


# ------------------------------------------------------------------ signing


def test_signing_takes_any_secret_half() -> None:
    assert accept_for_signing(secret({"token-secret": "my voice"}), NOW) == Token("abc123", "my voice")
    assert accept_for_signing(secret(deletion_timestamp=Time(0)), NOW).token_id == "abc123"


@pytest.mark.parametrize(
    ("subject", "start"),
    [
        (secret(name="bootstrap-token-abc1234"), "Invalid secret name"),
        (secret({"token-id": ""}), "No key in Secret: token-id"),
        (secret({"token-id": "zzzzzz"}), "Token ID doesn't match secret name"),
        (secret({"token-secret": ""}), "No key in Secret: token-secret"),
        (secret({"expiration": "2031-03-01T11:00:00Z"}), "Expired bootstrap token"),
        (secret({"usage-bootstrap-signing": "true\n"}), "Not marked usage-bootstrap-signing=true"),
    ],
)
def test_why_cluster_info_is_not_signed(subject: Secret, start: str) -> None:
    with pytest.raises(TokenRefusedError) as caught:
        accept_for_signing(subject, NOW)
    assert str(caught.value).startswith(start)
    assert "0123456789abcdef" not in str(caught.value)


# ------------------------------------------------------------------ Secret and token


def test_a_token_survives_its_secret() -> None:
    token = BootstrapToken(
        token=parse_token("abc123.0123456789abcdef"),
        description="for ähm",
        expires=NOW,
        usages=("authentication", "signing"),
        groups=("system:bootstrappers:b", "system:bootstrappers:a"),
    )
    written = to_secret(token)
    assert (written.metadata.name, written.metadata.namespace) == ("bootstrap-token-abc123", "kube-system")
    assert written.data["expiration"] == b"2031-03-01T12:00:00Z"
    assert from_secret(written) == token


def test_what_is_not_set_is_not_written() -> None:
    written = to_secret(BootstrapToken(token=parse_token("abc123.0123456789abcdef")))
    assert sorted(written.data) == ["token-id", "token-secret"]
    assert from_secret(written) == BootstrapToken(token=parse_token("abc123.0123456789abcdef"))


def test_bad_settings_are_not_written() -> None:
    token = parse_token("abc123.0123456789abcdef")
    with pytest.raises(TokenSettingsError):
        to_secret(BootstrapToken(token=token, usages=("x",)))
    with pytest.raises(TokenSettingsError):
        to_secret(BootstrapToken(token=token, groups=("system:masters",)))


@pytest.mark.parametrize(
    "broken",
    [
        secret({"token-id": ""}),
        secret({"token-secret": ""}),
        secret({"token-id": "zzzzzz"}),
        secret({"token-secret": "short"}),
        secret({"expiration": "soon"}),
        secret({"expiration": "0000-01-01T00:00:00Z"}),
    ],
)
def test_secrets_without_a_token(broken: Secret) -> None:
    with pytest.raises(BootstrapTokenError) as caught:
        from_secret(broken)
    assert "bootstrap-token-abc123" in str(caught.value)
    assert "0123456789abcdef" not in str(caught.value)


def test_usages_that_are_not_exactly_true_do_not_count() -> None:
    token = from_secret(secret({"usage-bootstrap-signing": "True", "usage-bootstrap-own": "true"}))
    assert token.usages == ("authentication", "own")


@pytest.mark.parametrize(
    ("user", "token_id"),
    [("system:bootstrap:abcdef", "abcdef"), ("system:bootstrap:abc", ""), ("abcdef", ""), ("system:node:abcdef", "")],
)
def test_users_that_are_tokens(user: str, token_id: str) -> None:
    assert token_id_of_user(user) == token_id


def test_bounds_go_into_the_secret_and_come_out_of_it() -> None:
    token = parse_token("abc123.k7wq2nx4mz8tbr5h")
    bounded = BootstrapToken(token, usages=("authentication",), bounds=Bounds(uses=3, node_names=("worker-*",)))
    made = to_secret(bounded)
    assert (made.type, made.metadata.namespace) == ("bootstrap.kubernetes.io/token", "kube-system")
    assert from_secret(made) == bounded
    spoilt = dict.fromkeys(made.metadata.annotations, "nonsense!")
    with pytest.raises(TokenSettingsError, match=r'^Secret "bootstrap-token-abc123": '):
        from_secret(replace_metadata(made, annotations=spoilt))


def test_a_token_that_is_turned_off_is_for_nothing() -> None:
    off = turned_off(secret({"usage-bootstrap-other": "true"}))
    assert {key: value for key, value in off.data.items() if key.startswith("usage-")} == {
        "usage-bootstrap-authentication": b"false", "usage-bootstrap-signing": b"false",
    }  # fmt: skip
    assert off.data["token-secret"] == b"0123456789abcdef"
    with pytest.raises(TokenRefusedError, match="not marked usage-bootstrap-authentication=true"):
        accept_for_authentication(off, "0123456789abcdef", NOW)
    with pytest.raises(TokenRefusedError, match="Not marked usage-bootstrap-signing=true: kube-system/"):
        accept_for_signing(off, NOW)


def test_a_secret_that_can_be_guessed_is_refused() -> None:
    strong = parse_token("abc123.k7wq2nx4mz8tbr5h")
    assert verify_strength(strong) is strong
    with pytest.raises(WeakTokenError, match=r"^the secret of the token abc123 is worth about [0-9]+ bits"):
        verify_strength(parse_token("abc123.0123456789abcdef"))


def test_a_secret_without_a_token_secret_lets_nobody_in() -> None:
    empty = msgspec.structs.replace(secret(), data={k: v for k, v in secret().data.items() if k != "token-secret"})
    with pytest.raises(TokenRefusedError, match="has invalid value for key token-secret"):
        accept_for_authentication(empty, "0123456789abcdef", NOW)


@pytest.mark.parametrize(
    ("now", "lost"),
    [
        (secret({"auth-extra-groups": "system:bootstrappers:a,system:bootstrappers:b"}), ""),
        (secret({"auth-extra-groups": "system:bootstrappers:b"}), "its bootstrap token no longer gives system:"),
        (secret({"usage-bootstrap-authentication": "false"}), "its bootstrap token counts no more: "),
        (secret({"expiration": "2031-03-01T11:59:59Z"}), "its bootstrap token counts no more: "),
        (secret(deletion_timestamp=Time.of(NOW)), "its bootstrap token counts no more: "),
        (None, "its bootstrap token is gone"),
    ],
)  # fmt: skip
def test_what_a_token_gave_and_gives_no_more(now: Secret | None, lost: str) -> None:
    stamped = ["system:bootstrappers", "system:bootstrappers:a", "system:authenticated"]
    found = lost_since(now, stamped, NOW)
    assert found.startswith(lost) and bool(found) is bool(lost)
    assert "0123456789abcdef" not in found
