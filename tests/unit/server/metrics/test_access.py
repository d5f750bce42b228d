"""Metrics of configuration files and issuers."""

import datetime as dt

from prometheus_client import CollectorRegistry, generate_latest

from kubevouch.server.metrics.access import AccessMetrics, digest

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def samples(registry: CollectorRegistry, name: str) -> list[str]:
    lines = generate_latest(registry).decode().splitlines()
    return [line.removeprefix(name) for line in lines if line.startswith(f"{name}{{")]


def test_the_hash_of_nothing_is_nothing() -> None:
    assert digest(b"") == ""
    assert digest(b"testIssuer") == "sha256:29b34beedc55b972f2428f21bc588f9d38e5e8f7a7af825486e7bb4fd9caa2ad"


def test_a_file_has_one_hash_and_its_reloads() -> None:
    registry = CollectorRegistry()
    metrics = AccessMetrics(registry)
    prefix = "apiserver_authorization_config_controller"
    for content in (b"one", b"two"):
        metrics.config_in_use("authorization", content)
    metrics.config_reloaded("authorization", NOW, failed=False)
    metrics.config_reloaded("authorization", NOW, failed=True)
    metrics.config_reloaded("authorization", NOW, failed=True)
    [info] = samples(registry, f"{prefix}_last_config_info")
    assert f'hash="{digest(b"two")}"' in info
    counts = samples(registry, f"{prefix}_automatic_reloads_total")
    assert [each.partition("status=")[2] for each in counts] == ['"success"} 1.0', '"failure"} 2.0']
    assert len(samples(registry, f"{prefix}_automatic_reload_last_timestamp_seconds")) == 2
    assert not samples(registry, "apiserver_authentication_config_controller_last_config_info")


def test_an_issuer_that_is_gone_leaves_nothing_of_its_keys() -> None:
    registry = CollectorRegistry()
    metrics = AccessMetrics(registry)
    prefix = "apiserver_authentication_jwt_authenticator_jwks_fetch_last"
    for issuer in ("https://a", "https://b"):
        metrics.keys_fetched(issuer, b"{}", NOW)
        metrics.keys_fetched(issuer, None, NOW)
    metrics.keys_fetched("https://a", b'{"keys":[]}', NOW)
    assert len(samples(registry, f"{prefix}_key_set_info")) == 2
    assert len(samples(registry, f"{prefix}_timestamp_seconds")) == 4
    metrics.forget("https://a")
    metrics.forget("https://never")
    [left] = samples(registry, f"{prefix}_key_set_info")
    assert digest(b"https://b") in left
    assert all(digest(b"https://b") in each for each in samples(registry, f"{prefix}_timestamp_seconds"))
