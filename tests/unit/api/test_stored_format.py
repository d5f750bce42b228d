"""What lies in a store is Kubernetes' own, to the byte: held against what a kube-apiserver 1.36.2 wrote into etcd."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kubevouch.api import catalog, events_v1
from kubevouch.machinery.codec import protobuf
from kubevouch.machinery.codec.object_codec import ObjectCodec
from kubevouch.machinery.custom_object import CustomCodec
from kubevouch.machinery.meta import replace_metadata
from kubevouch.machinery.scheme import Resource

from .test_field_numbers import declared

VECTORS = Path(__file__).parents[2] / "vectors"
FIXTURES: dict[str, dict[str, Any]] = {
    path.stem: json.loads(path.read_text()) for path in sorted((VECTORS / "etcd").glob("*.json"))
}
CUSTOM_GROUPS = ("fixtures.example.com/", "mini.example.com/", "enc.example.com/")
# Kubernetes keeps kinds that kubevouch has none of.
NOT_OURS = {"ipaddress-kubernetes", "masterlease", "priorityclass", "prioritylevel-exempt-bootstrap"}
OURS = sorted(FIXTURES.keys() - NOT_OURS)


def plain(fixture: dict[str, Any]) -> bytes:
    return base64.b64decode(fixture.get("plain_b64") or fixture["value_b64"])


def resource_of(key: str) -> Resource[Any] | None:
    """None for a custom kind."""
    place = key.removeprefix("/registry/")
    if place.startswith(CUSTOM_GROUPS):
        return None
    (found,) = [each for each in catalog.STORED if place.startswith(f"{each.storage_prefix or each.plural}/")]
    return found


def codec_of(resource: Resource[Any] | None) -> tuple[ObjectCodec[Any], str, str, str]:
    if resource is None:
        return CustomCodec(), "", "", ""
    return resource.codec, resource.api_version, resource.stored_api_version, resource.kind


@pytest.mark.parametrize("name", OURS)
def test_a_value_of_kubernetes_is_the_object_that_it_showed_and_is_written_again_byte_for_byte(name: str) -> None:
    fixture = FIXTURES[name]
    resource = resource_of(fixture["key"])
    codec, api_version, stored_version, kind = codec_of(resource)

    obj = codec.from_value(plain(fixture), api_version, kind)
    shown = replace_metadata(catalog.SCHEME.default(obj), resource_version=str(fixture["mod_revision"]))
    if fixture["object"]["apiVersion"] == events_v1.API_VERSION:
        shown, codec = events_v1.from_core(shown), catalog.EVENTS_V1.codec
        kind, api_version = "Event", events_v1.API_VERSION
    assert json.loads(codec.whole_json(codec.to_json(shown), kind, api_version)) == fixture["object"]

    codec, _, stored_version, kind = codec_of(resource)
    assert codec.to_value(obj, stored_version, kind) == plain(fixture)


@pytest.mark.parametrize("name", [name for name in OURS if resource_of(FIXTURES[name]["key"])])
def test_the_key_is_that_of_kubernetes(name: str) -> None:
    fixture = FIXTURES[name]
    resource = resource_of(fixture["key"])
    assert resource is not None
    meta = fixture["object"]["metadata"]
    place = f"{meta['namespace']}/{meta['name']}" if resource.namespaced else meta["name"]
    assert fixture["key"] == f"/registry/{resource.storage_prefix or resource.plural}/{place}"


JUNK: tuple[Any, ...] = (None, [], {}, "x", 5, 1.5, True, [None], [{}], {"a": 1}, "9" * 400, 1e300)


def places(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    members = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in members:
        yield from places(value, (*path, key))


def with_junk(tree: Any, path: tuple[Any, ...], junk: Any) -> Any:
    if not path:
        return junk
    made = list(tree) if isinstance(tree, list) else dict(tree)
    made[path[0]] = with_junk(made[path[0]], path[1:], junk)
    return made


@pytest.mark.parametrize(
    "name", ["crd-rich", "csr-issued", "custom-written-as-v1beta1", "mutatingwebhookconfiguration"]
)
def test_what_is_none_is_refused_and_what_is_read_can_be_used(name: str) -> None:
    """One value that ends a server's following of its store in any other way ends everything."""
    fixture = FIXTURES[name]
    codec, api_version, stored_version, kind = codec_of(resource_of(fixture["key"]))
    value = plain(fixture)
    whole = json.loads(value) if value.startswith(b"{") else fixture["object"]
    read = 0
    for number, path in enumerate(places(whole)):
        for junk in JUNK[number % 3 :: 3]:
            try:
                obj = codec.from_value(json.dumps(with_junk(whole, path, junk)).encode(), api_version, kind)
            except ValueError:
                continue
            shown = catalog.SCHEME.default(obj)
            codec.to_value(shown, stored_version, kind)
            codec.to_json(shown)
            read += 1
    assert read > 10


# ------------------------------------------------------------------ what is written even when it is empty

GROUPS = {
    "api.core.v1": "core/v1", "meta.v1": "meta/v1", "api.coordination.v1": "coordination.k8s.io/v1",
    "api.rbac.v1": "rbac.authorization.k8s.io/v1", "api.certificates.v1": "certificates.k8s.io/v1",
    "api.certificates.v1beta1": "certificates.k8s.io/v1beta1", "api.storage.v1": "storage.k8s.io/v1",
    "api.node.v1": "node.k8s.io/v1", "api.admissionregistration.v1": "admissionregistration.k8s.io/v1",
    "api.admissionregistration.v1beta1": "admissionregistration.k8s.io/v1", "api.resource.v1": "resource.k8s.io/v1",
}  # fmt: skip
# Alpha in 1.36, or of kinds that are not served: their numbers are known to nobody here.
NOT_DECLARED = {
    "EphemeralContainerCommon", "ImageVolumeStatus", "NodeAllocatableResourceClaimStatus", "StorageClass",
    "TopologySelectorLabelRequirement",
}  # fmt: skip


def always_written() -> dict[tuple[str, str], set[int]]:
    table = {}
    group = ""
    for line in (VECTORS / "always_written.txt").read_text().splitlines():
        if line.startswith("["):
            group = line.strip("[]")
        elif line and not line.startswith("#"):
            message, numbers = line.split(": ")
            table[group, message] = set(map(int, numbers.split()))
    return table


def written(struct: type[msgspec.Struct]) -> set[int]:
    """The numbers of the fields of an empty message."""
    data, at, found = protobuf.codec_for(struct).encode(struct()), 0, set()
    while at < len(data):
        tag, at = varint(data, at)
        found.add(tag >> 3)
        size, at = varint(data, at)
        at += size if tag & 7 == 2 else 0
    return found


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while data[at] & 0x80:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
    return value | data[at] << shift, at + 1


@pytest.mark.parametrize(("group", "message"), [(group, name) for group, name in always_written() if group in GROUPS])
def test_an_empty_message_has_the_fields_that_go_always_writes(group: str, message: str) -> None:
    struct = declared(GROUPS[group]).get(message)
    if struct is None:
        assert message in NOT_DECLARED
    else:
        assert written(struct) == always_written()[group, message]


@pytest.mark.parametrize("group", ["api.core.v1", "api.rbac.v1", "api.storage.v1", "api.node.v1"])
def test_what_the_table_does_not_name_writes_nothing_when_it_is_empty(group: str) -> None:
    # Of kinds that the table leaves out: read off the same code.
    elsewhere = {
        "ComponentCondition": {1, 2, 3, 4}, "ComponentStatus": {1}, "EndpointAddress": {1, 3},
        "EndpointPort": {1, 2, 3}, "Endpoints": {1}, "ScopedResourceSelectorRequirement": {1, 2},
        "ResourceQuota": {1, 2, 3}, "LimitRangeItem": {1}, "LimitRange": {1, 2}, "NFSVolumeSource": {1, 2, 3},
    }  # fmt: skip
    table = always_written()
    for name, struct in declared(GROUPS[group]).items():
        if (group, name) not in table:
            assert written(struct) == elsewhere.get(name, set()), name


def test_the_storage_version_of_each_kind_is_that_of_kubernetes() -> None:
    """In etcd each kind has one version, whichever it was written in (facts: table of kube-apiserver 1.36.2)."""
    stored = {each.plural: each.stored_api_version for each in catalog.STORED}
    assert {name: version for name, version in stored.items() if re.search("alpha|beta", version)} == {
        "clustertrustbundles": "certificates.k8s.io/v1beta1",
        "podcertificaterequests": "certificates.k8s.io/v1beta1",
        "mutatingadmissionpolicies": "admissionregistration.k8s.io/v1beta1",
        "mutatingadmissionpolicybindings": "admissionregistration.k8s.io/v1beta1",
        "customresourcedefinitions": "apiextensions.k8s.io/v1beta1",
    }


def test_the_page_has_every_kind_with_its_key_and_version() -> None:
    page = (VECTORS.parents[1] / "docs" / "reference" / "storage.md").read_text()
    for each in catalog.STORED:
        place = f"{'NAMESPACE/' if each.namespaced else ''}NAME"
        form = "JSON" if each is catalog.CUSTOM_RESOURCE_DEFINITIONS else "protobuf"
        key = f"`{each.storage_prefix or each.plural}/{place}`"
        assert f"| {each.kind} | {key} | `{each.stored_api_version}` | {form} |" in page
