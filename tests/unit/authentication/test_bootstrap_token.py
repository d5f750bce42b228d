from __future__ import annotations

import datetime as dt

import msgspec
import pytest

from asynctest import async_test
from kubevouch.api.core_v1.secrets import Secret
from kubevouch.authentication.bootstrap_token import MAX_REMEMBERED, BootstrapTokenAuthenticator
from kubevouch.authentication.interface import UserInfo
from kubevouch.machinery.meta import replace_metadata
from kubevouch.machinery.text.times import Time
from kubevouch.records import bootstrap_tokens, token_bounds
from kubevouch.records.bootstrap_tokens import BootstrapToken, parse_token
from kubevouch.testing.clock import FakeClock
from kubevouch.testing.logs import capture_logs

NOW = dt.datetime(2026, 6, 1, tzinfo=dt.UTC)
TOKEN = "abc123.0123456789abcdef"
ABOUT = "Bootstrap secret kube-system/bootstrap-token-abc123 matching bearer token "

GOOD = bootstrap_tokens.to_secret(
    BootstrapToken(
        parse_token(TOKEN),
        expires=NOW + dt.timedelta(seconds=30),
        usages=("authentication",),
        groups=("system:bootstrappers:z", "system:bootstrappers:a"),
    )
)


def changed(**values: bytes | None) -> Secret:
    data = {key: value for key, value in GOOD.data.items() if values.get(key.replace("-", "_"), value) is not None}
    for name, value in values.items():
        if value is not None:
            data[name.replace("_", "-")] = value
    return msgspec.structs.replace(GOOD, data=data)


def authenticator(secret: Secret | None, clock: FakeClock | None = None) -> BootstrapTokenAuthenticator:
    secrets = {} if secret is None else {secret.metadata.name: secret}
    return BootstrapTokenAuthenticator(secrets.get, clock or FakeClock(NOW))


@async_test
async def test_good_token() -> None:
    found = await authenticator(GOOD).authenticate_token(TOKEN)
    assert found is not None
    assert found.user == UserInfo(
        "system:bootstrap:abc123",
        groups=("system:bootstrappers", "system:bootstrappers:a", "system:bootstrappers:z"),
    )
    assert found.method == "bootstrap-token"


# In the order of the checks; each Secret has all the faults of those below it, so that the first one is told.
BAD_GROUP = b"system:masters"
BAD_GROUP_REASON = (
    'has invalid value for key auth-extra-groups: bootstrap group "system:masters" is invalid '
    r"(must match \Asystem:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]\z)."
)
FAULTS = [
    (replace_metadata(changed(token_secret=b"x"), deletion_timestamp=Time(0)), "is deleted and awaiting removal"),
    (
        msgspec.structs.replace(changed(token_secret=b"x"), type="Opaque"),
        "has invalid type, expected bootstrap.kubernetes.io/token.",
    ),
    (changed(token_secret=b"x", token_id=b"x", expiration=b"x"), "has invalid value for key token-secret."),
    (changed(token_secret=b"", token_id=b"x"), "has invalid value for key token-secret."),
    (changed(token_secret=None, token_id=b"x"), "has invalid value for key token-secret."),
    (changed(token_secret=b"0123456789abcdef\n"), "has invalid value for key token-secret."),
    (changed(token_id=b"x", expiration=b"x"), "has invalid value for key token-id."),
    (
        changed(usage_bootstrap_authentication=None, auth_extra_groups=BAD_GROUP),
        "not marked usage-bootstrap-authentication=true.",
    ),
    (
        changed(usage_bootstrap_authentication=b"True", auth_extra_groups=BAD_GROUP),
        "not marked usage-bootstrap-authentication=true.",
    ),
    (
        changed(auth_extra_groups=BAD_GROUP),
        BAD_GROUP_REASON,
    ),
]


@pytest.mark.parametrize(("secret", "reason"), FAULTS)
@async_test
async def test_what_is_wrong_is_logged_and_not_told(secret: Secret, reason: str) -> None:
    with capture_logs() as logs:
        assert await authenticator(secret).authenticate_token(TOKEN) is None
    assert [entry["reason"] for entry in logs] == [ABOUT + reason]
    assert "0123456789abcdef" not in str(logs)


@async_test
async def test_a_token_ends_at_its_time() -> None:
    clock = FakeClock(NOW)
    tokens = authenticator(GOOD, clock)
    clock.advance(29.999999)
    assert await tokens.authenticate_token(TOKEN) is not None
    clock.advance(0.000001)
    assert await tokens.authenticate_token(TOKEN) is None


@async_test
async def test_unknown_token() -> None:
    with capture_logs() as logs:
        assert await authenticator(None).authenticate_token(TOKEN) is None
    assert logs[0]["reason"] == "No secret of name bootstrap-token-abc123 to match bootstrap bearer token"
    assert logs[0]["log_level"] == "debug"


@pytest.mark.parametrize("text", ["", "abc123", TOKEN + "\n", TOKEN.upper(), "аbc123.0123456789abcdef", "x" * 5000])
@async_test
async def test_what_is_no_bootstrap_token_is_not_looked_up(text: str) -> None:
    def fail(name: str) -> Secret | None:
        raise AssertionError(f"looked up {name}")

    assert await BootstrapTokenAuthenticator(fail, FakeClock()).authenticate_token(text) is None


@async_test
async def test_a_bootstrap_token_is_for_no_audience() -> None:
    assert await authenticator(GOOD).authenticate_token(TOKEN, ["https://somewhere"]) is None


@async_test
async def test_a_bounded_token_is_told_apart_and_says_from_where_it_counts() -> None:
    annotations = token_bounds.to_annotations(token_bounds.parse(uses=1, source_ranges=["192.0.2.0/24"]))
    found = await authenticator(replace_metadata(GOOD, uid="u-1", annotations=annotations)).authenticate_token(TOKEN)
    assert found is not None
    assert found.user.extra == {"authentication.kubevouch.io/token-uid": ("u-1",)}
    assert [str(each) for each in found.source_ranges] == ["192.0.2.0/24"]
    assert found.credential == "token abc123"


@async_test
async def test_bounds_that_cannot_be_read_let_nobody_in() -> None:
    broken = replace_metadata(GOOD, annotations={token_bounds.SOURCE_RANGES_ANNOTATION: "everywhere"})
    assert await authenticator(broken).authenticate_token(TOKEN) is None


@async_test
async def test_what_was_accepted_is_judged_again() -> None:
    """A good Secret is read once; the bearer's half, the time and the Secret itself count each time."""
    clock, secrets = FakeClock(NOW), {GOOD.metadata.name: GOOD}
    asked = BootstrapTokenAuthenticator(secrets.get, clock)
    first = await asked.authenticate_token(TOKEN)
    assert first is not None
    assert await asked.authenticate_token(TOKEN) == first
    assert await asked.authenticate_token(TOKEN[:-1] + "0") is None
    secrets[GOOD.metadata.name] = changed(auth_extra_groups=b"system:bootstrappers:b")
    renewed = await asked.authenticate_token(TOKEN)
    assert renewed is not None
    assert renewed.user.groups == ("system:bootstrappers", "system:bootstrappers:b")
    secrets[GOOD.metadata.name] = changed(usage_bootstrap_authentication=None)
    assert await asked.authenticate_token(TOKEN) is None
    secrets[GOOD.metadata.name] = GOOD
    assert await asked.authenticate_token(TOKEN) == first
    clock.advance(30)
    assert await asked.authenticate_token(TOKEN) is None
    secrets.clear()
    assert await asked.authenticate_token(TOKEN) is None


@async_test
async def test_only_so_many_are_remembered() -> None:
    made = [bootstrap_tokens.generate_token() for _ in range(MAX_REMEMBERED + 2)]
    secrets = {each.secret_name: bootstrap_tokens.to_secret(BootstrapToken(each, usages=("authentication",)))
               for each in made}  # fmt: skip
    asked = BootstrapTokenAuthenticator(secrets.get, FakeClock(NOW))
    for each in (*made, made[0]):
        found = await asked.authenticate_token(each.text)
        assert found is not None
        assert found.user.name == each.user
    assert len(asked._accepted) == MAX_REMEMBERED
