"""Values that a kube-apiserver encrypted are read, and ours have the same form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from encryption_world import IDENTITY, KEY_1, KEY_2, Fixture, Recorded, configuration, fixtures, keys
from encryption_world import resource_transformers as transformers
from kubevouch.storage.encryption.interface import TransformError
from kubevouch.storage.encryption.transformers import Transformers

SECRET = "/registry/secrets/default/one"
OURS = [each for each in fixtures() if each.provider != "kms"]


def of(config: bytes, key: str = SECRET, recorder: Any = None) -> Transformers:
    """Those of a key that has some."""
    found = transformers(config, lambda _config: _Nothing(), recorder).of(key)
    assert found is not None
    return found


class _Nothing:
    """A plug-in that has written nothing."""

    prefix = b"k8s:enc:kms:v2:fixture-kms:"

    def read(self, body: bytes, key: bytes) -> Any:
        raise AssertionError((body, key))

    write = read


@pytest.mark.parametrize("fixture", OURS, ids=lambda each: each.name)
def test_what_a_kube_apiserver_wrote_is_read(fixture: Fixture) -> None:
    read = of(fixture.config, fixture.key).read(fixture.value, fixture.key.encode())
    assert read.plain == fixture.plain
    # Whatever stands in a configuration before what wrote the value has made it stale.
    assert read.stale is ("stale" in fixture.name)


@pytest.mark.parametrize("fixture", OURS, ids=lambda each: each.name)
def test_what_is_written_has_its_form(fixture: Fixture) -> None:
    found = of(fixture.config, fixture.key)
    written = found.write(fixture.plain, fixture.key.encode())
    assert found.read(written, fixture.key.encode()).plain == fixture.plain
    if "stale" not in fixture.name:
        encrypted = fixture.tree["encryption"]
        name = encrypted.get("key_name", "")
        prefix = f"k8s:enc:{fixture.provider}:v1:{name}:".encode() if name else b""
        assert len(written) == len(fixture.value)
        assert written.startswith(prefix) and fixture.value.startswith(prefix)
        assert (written == fixture.value) is (name == "")  # a nonce each


@pytest.mark.parametrize("fixture", OURS, ids=lambda each: each.name)
def test_only_what_binds_a_value_to_its_key_notices_that_it_was_moved(fixture: Fixture) -> None:
    found = of(fixture.config, fixture.key)
    if fixture.provider == "aesgcm":
        with pytest.raises(TransformError, match="cipher: message authentication failed"):
            found.read(fixture.value, fixture.key.encode() + b"x")
    else:
        assert found.read(fixture.value, fixture.key.encode() + b"x").plain == fixture.plain


@pytest.mark.parametrize(
    "fixture", [each for each in OURS if each.provider in ("aesgcm", "secretbox")], ids=lambda each: each.name
)
def test_a_byte_that_was_changed_is_noticed(fixture: Fixture) -> None:
    found = of(fixture.config, fixture.key)
    body = fixture.value.index(b"v1:") + 3 + len(fixture.tree["encryption"]["key_name"]) + 1
    for at in (body, body + 30, len(fixture.value) - 1):
        changed = bytearray(fixture.value)
        changed[at] ^= 1
        with pytest.raises(TransformError):
            found.read(bytes(changed), fixture.key.encode())


GCM, CBC, BOX = (keys(kind, ("a", KEY_1)) for kind in ("aesgcm", "aescbc", "secretbox"))
SHORT = "the stored data was shorter than the required size"
UNKNOWN = "no matching key was found for the provided"


@pytest.mark.parametrize(
    ("providers", "value", "why"),
    [
        ([GCM], b"k8s\x00plain", "no matching prefix found"),
        ([GCM], b"", "no matching prefix found"),
        ([IDENTITY], b"k8s:enc:aesgcm:v1:a:x", "no matching prefix found"),
        ([GCM], b"k8s:enc:aesgcm:v1:b:x", f"{UNKNOWN} AES transformer"),
        ([BOX], b"k8s:enc:secretbox:v1:b:x", f"{UNKNOWN} Secretbox transformer"),
        ([GCM], b"k8s:enc:aesgcm:v1:a:short", SHORT),
        ([GCM], b"k8s:enc:aesgcm:v1:a:" + bytes(12), "cipher: message authentication failed"),
        ([GCM], b"k8s:enc:aesgcm:v1:a:" + bytes(40), "cipher: message authentication failed"),
        (
            [keys("aesgcm", ("a", KEY_1), ("a", KEY_2))],
            b"k8s:enc:aesgcm:v1:a:" + bytes(40),
            "cipher: message authentication failed",
        ),
        ([CBC], b"k8s:enc:aescbc:v1:a:" + bytes(15), SHORT),
        ([CBC], b"k8s:enc:aescbc:v1:a:" + bytes(16), "invalid PKCS7 data (empty or not padded)"),
        ([CBC], b"k8s:enc:aescbc:v1:a:" + bytes(33), "the stored data is not a multiple of the block size"),
        ([BOX], b"k8s:enc:secretbox:v1:a:" + bytes(39), SHORT),
        ([BOX], b"k8s:enc:secretbox:v1:a:" + bytes(40), "output array was not large enough for encryption"),
        (
            [GCM, keys("aesgcm", ("b", KEY_1)), IDENTITY],
            b"k8s:enc:aesgcm:v1:b:short",
            f"[{UNKNOWN} AES transformer, {SHORT}]",
        ),
    ],
)
def test_what_cannot_be_read(providers: Sequence[dict[str, Any]], value: bytes, why: str) -> None:
    with pytest.raises(TransformError) as caught:
        of(configuration((["secrets"], providers))).read(value, SECRET.encode())
    assert str(caught.value) == why


def test_every_padding() -> None:
    found = of(configuration((["secrets"], [keys("aescbc", ("a", KEY_1))])))
    for size in range(34):
        written = found.write(bytes(range(size)), b"")
        assert len(written) == len(b"k8s:enc:aescbc:v1:a:") + 16 + 16 * (size // 16 + 1)
        assert found.read(written, b"").plain == bytes(range(size))


def test_a_key_of_the_same_name_in_another_provider_is_another() -> None:
    written = of(configuration((["secrets"], [keys("aesgcm", ("a", KEY_1))]))).write(b"value", SECRET.encode())
    both = [keys("aescbc", ("a", KEY_1)), keys("aesgcm", ("a", KEY_2)), keys("aesgcm", ("a", KEY_1))]
    read = of(configuration((["secrets"], both))).read(written, SECRET.encode())
    assert (read.plain, read.stale) == (b"value", True)


def test_the_second_key_of_the_first_provider_is_stale() -> None:
    written = of(configuration((["secrets"], [keys("aesgcm", ("a", KEY_1))]))).write(b"value", b"k")
    found = of(configuration((["secrets"], [keys("aesgcm", ("b", KEY_2), ("a", KEY_1))])))
    assert found.read(written, b"k").stale
    assert not found.read(found.write(b"value", b"k"), b"k").stale


def test_identity_first_decrypts_for_good() -> None:
    written = of(configuration((["secrets"], [keys("aesgcm", ("a", KEY_1))]))).write(b"value", b"k")
    recorder = Recorded()
    found = of(configuration((["secrets"], [IDENTITY, keys("aesgcm", ("a", KEY_1))])), recorder=recorder)
    assert found.read(written, b"k").stale
    assert found.write(b"value", b"k") == b"value"
    assert not found.read(b"value", b"k").stale
    assert recorder.values == [
        ("from_storage", "k8s:enc:aesgcm:v1:", "OK"),
        ("to_storage", "", "OK"),
        ("from_storage", "identity", "OK"),
    ]


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("/registry/secrets/default/x", "secret"),
        ("/registry/configmaps/default/x", "core"),
        ("/registry/minions/x", "core"),
        ("/registry/services/specs/default/x", "core"),
        ("/registry/services/endpoints/default/x", "core"),
        ("/registry/controllers/default/x", "core"),
        ("/registry/events/default/x", "core"),
        ("/registry/leases/default/x", "lease"),
        ("/registry/leasecandidates/default/x", "rest"),
        ("/registry/roles/default/x", "rbac"),
        ("/registry/clusterrolebindings/x", "rbac"),
        ("/registry/example.com/widgets/default/x", "widgets"),
        ("/registry/example.com/gadgets/x", "example"),
        ("/registry/apiextensions.k8s.io/customresourcedefinitions/x", "rest"),
        ("/registry/apiregistration.k8s.io/apiservices/x", "rest"),
        ("/registry/ingress/default/x", "rest"),
        ("/registry/deployments/default/x", "rest"),
        ("/registry/certificatesigningrequests/x", "rest"),
        # No resources: Kubernetes never encrypts them either.
        ("/registry/ranges/servicenodeports", None),
        ("/registry/masterleases/10.0.0.1", None),
        ("/registry/health", None),
        ("compact_rev_key", None),
    ],
)
def test_which_entry_counts_for_a_key(key: str, name: str | None) -> None:
    entries = {
        "secret": "secrets", "core": "*.", "lease": "leases.coordination.k8s.io", "rbac": "*.rbac.authorization.k8s.io",
        "widgets": "widgets.example.com", "example": "*.example.com", "rest": "*.*",
    }  # fmt: skip
    config = configuration(*(([resource], [keys("aesgcm", (name, KEY_1))]) for name, resource in entries.items()))
    found = transformers(config).of(key)
    if name is None:
        assert found is None
    else:
        assert found is not None and found.write(b"", b"").startswith(f"k8s:enc:aesgcm:v1:{name}:".encode())


def test_what_no_entry_names_is_stored_as_it_is() -> None:
    found = transformers(configuration((["secrets", "*.apps"], [keys("aesgcm", ("a", KEY_1))])))
    assert found.of("/registry/configmaps/default/x") is None
    assert found.of("/registry/pods/default/x") is None
    assert found.of("/registry/deployments/default/x") is not None


def test_a_resource_in_two_entries_is_written_by_the_first_and_read_by_both() -> None:
    old = of(configuration((["secrets"], [keys("aescbc", ("a", KEY_1))]))).write(b"value", b"k")
    found = of(
        configuration(
            (["secrets"], [keys("aesgcm", ("b", KEY_2))]), (["secrets", "pods"], [keys("aescbc", ("a", KEY_1))])
        )
    )
    assert found.read(old, b"k").stale
    assert found.write(b"value", b"k").startswith(b"k8s:enc:aesgcm:v1:b:")
