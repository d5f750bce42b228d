"""What a person is shown of a stored value, and what not."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

import aio
from kubevouch.cli.main import run
from kubevouch.phases import store as judging
from kubevouch.phases import store_inspection as phase
from kubevouch.storage.sqlite import SQLiteStore

FIXTURES = sorted((Path(__file__).parents[2] / "vectors/etcd").glob("*.json"))
SECRET = b'{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},"data":{"password":"aHVudGVyMg=="}}'


def fixture(path: Path) -> tuple[str, bytes, Any]:
    tree = json.loads(path.read_bytes())
    return tree["key"], base64.b64decode(tree["value_b64"]), tree["object"]


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_what_kubernetes_stored_is_shown_and_is_sound(path: Path) -> None:
    key, value, obj = fixture(path)
    found = phase.read(key, value)
    if obj is None:  # kept by kube-apiserver for itself
        return
    if found.tree is None:
        assert found.form.startswith("encrypted") or "does not know" in found.wrong
        return
    assert found.tree["kind"] == obj["kind"]
    assert found.tree["metadata"]["name"] == obj["metadata"]["name"]
    assert judging.judged(key, value) == ""


def test_every_form_is_named() -> None:
    assert phase.form_of(b"k8s:enc:aescbc:v1:key1:\x00\x01") == "encrypted, aescbc v1 key1"
    assert phase.form_of(b"k8s:enc:kms:v2:plugin:\x0a") == "encrypted, kms v2 plugin"
    assert phase.form_of(b"k8s:enc:") == "encrypted"
    assert phase.form_of(b"k8s\x00\x0a") == "protobuf"
    assert phase.form_of(b' {"a":1}\n') == "JSON"
    assert phase.form_of(b"") == "empty"
    assert phase.read("/registry/configmaps/a/b", b"apiVersion: v1\nkind: ConfigMap\n").form == "YAML"
    for value in (
        b"k8s\x00\xff",
        b"text",
        b"",
        b"[1]",
        b"{",
        b"k8s:enc:aesgcm:v1:k:\x00",
        b"k8s\x00\x0a\x04\x0a\x02v1",
    ):
        found = phase.read("/registry/configmaps/a/b", value)
        assert found.tree is None and found.wrong, value


def test_no_secret_is_shown_unasked() -> None:
    tree = json.loads(SECRET)
    applied = {"kubectl.kubernetes.io/last-applied-configuration": SECRET.decode(), "other": "shown"}
    tree |= {"stringData": {"token": "aHVudGVyMg=="}, "metadata": {"name": "s", "annotations": applied}}
    shown = json.dumps(phase.hidden(tree))
    assert "aHVudGVyMg" not in shown and "password" in shown and '"other": "shown"' in shown
    for odd in (
        "aHVudGVyMg==",
        {"data": "aHVudGVyMg=="},
        {"data": ["aHVudGVyMg=="]},
        {"data": {"a": {"b": "aHVudGVyMg=="}}},
    ):
        assert "aHVudGVyMg" not in json.dumps(phase.hidden(odd))


def test_it_is_one_by_its_key_or_by_its_kind() -> None:
    read = phase.read("/registry/secrets/a/b", b'{"kind":"Other"}')
    assert phase.is_secret("/registry/secrets/a/b", read)
    assert phase.is_secret("/registry/other/a/b", phase.read("/registry/other/a/b", SECRET))
    assert not phase.is_secret("/registry/configmaps/a/b", read)
    encrypted = phase.read("/registry/secrets/a/b", b"k8s:enc:aescbc:v1:key1:\x00")
    assert not phase.is_secret("/registry/secrets/a/b", encrypted), "whoever has the bytes has nothing"


@pytest.fixture
def store(tmp_path: Path) -> str:
    async def fill() -> None:
        store = await SQLiteStore.open(tmp_path / "s.db")
        await store.create("/registry/secrets/a/s", SECRET)
        await store.create("/registry/secrets/a/sealed", b"k8s:enc:aescbc:v1:key1:\x00")
        await store.create("/registry/events/a/e", b'{"apiVersion":"v1","kind":"Event"}', ttl=600)
        await store.close()

    aio.run(fill())
    return str(tmp_path / "s.db")


def test_a_key_a_prefix_and_everything(store: str, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    def shown(*arguments: str, code: int = 0) -> str:
        assert run(["store", "inspect", *arguments, "--store", store]) == code
        out, err = capsysbinary.readouterr()
        assert b"aHVudGVyMg" not in err
        return (out if not code else err).decode()

    assert "encrypted, aescbc v1 key1" in shown() and "events" in shown("-o", "yaml")
    assert len(json.loads(shown("secrets/", "-o", "json"))["keys"]) == 2
    assert "expires" in shown("/registry/events/a/e") and "EXPIRES" in shown("events")
    for form in ("text", "json", "yaml"):
        assert "aHVudGVyMg" not in shown("secrets/a/s", "-o", form)
        assert "aHVudGVyMg" in shown("secrets/a/s", "-o", form, "--show-secrets")
    assert "--show-secrets" in shown("secrets/a/s", "-o", "raw", code=3)
    assert shown("secrets/a/s", "-o", "raw", "--show-secrets") == SECRET.decode()
    assert "it is encrypted" in shown("secrets/a/sealed", code=1)
    assert shown("secrets/a/sealed", "-o", "raw").startswith("k8s:enc:aescbc")
    assert "no key that begins with /registry/nodes" in shown("nodes", code=1)
    assert "expected the whole key" in shown("secrets", "-o", "raw", code=3)


def test_what_lies_among_secrets_is_shown_only_where_no_secret_can_be() -> None:
    tree = {"kind": "Secret", "metadata": {"name": "s"}, "type": "Opaque", "Data": {"k": "aHVudGVyMg"}, "spec": ["x"]}
    shown = {"kind": "Secret", "metadata": {"name": "s"}, "type": "Opaque", "Data": {"k": "(hidden)"}}
    assert phase.hidden(tree) == shown | {"spec": "(hidden)"}


@pytest.mark.parametrize("number", [2**63 - 1, -(2**63)])
def test_a_time_that_no_calendar_has_is_shown_as_the_number_that_it_is(number: int) -> None:
    assert phase.moment(number) == f"{number} microseconds since 1970"
