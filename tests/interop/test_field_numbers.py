"""The table of field numbers, from which the second reader reads, against those inside of Kubernetes' own programs.

kubectl carries the descriptors of all messages as compressed data, up to 1.34; later ones still have the struct tags.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from functools import cache

import pytest
from google.protobuf import descriptor_pb2
from google.protobuf.message import DecodeError

import peers
from property.second_reader import TABLE

Field = descriptor_pb2.FieldDescriptorProto
_GZIP = b"\x1f\x8b\x08"
_LONGEST = 1 << 21
_SCALARS = {
    Field.TYPE_STRING: "s",
    Field.TYPE_BYTES: "bytes",
    Field.TYPE_BOOL: "b",
    Field.TYPE_INT32: "i32",
    Field.TYPE_INT64: "i64",
}
_TAG = re.compile(rb'protobuf:"\w+,(?P<number>\d+),[^"]{0,200}?name=(?P<name>\w+)')
# Nothing in kubectl reads these.
ABSENT = {"apiextensions.k8s.io/v1"}
# Younger than 1.32: the whole version, or the message.
YOUNGER = {
    "resource.k8s.io/v1",
    "ClusterTrustBundle",
    "ClusterTrustBundleSpec",
    "NodeSwapStatus",
    "PodCertificateProjection",
    "FileKeySelector",
    "ContainerRestartRule",
    "ContainerRestartRuleOnExitCodes",
    "ContainerExtendedResourceRequest",
    "PodExtendedResourceClaimStatus",
    "ForNode",
} | {f"PodCertificateRequest{part}" for part in ("", "Spec", "Status")}


@cache
def program(version: str) -> bytes:
    return peers.kubectl(version).read_bytes()


def descriptors(content: bytes) -> Iterator[descriptor_pb2.FileDescriptorProto]:
    at = content.find(_GZIP)
    while at >= 0:
        try:
            raw = zlib.decompressobj(31).decompress(content[at : at + _LONGEST], _LONGEST)
            found = descriptor_pb2.FileDescriptorProto.FromString(raw)
            if found.name.endswith("generated.proto"):
                yield found
        except (zlib.error, DecodeError):
            pass  # other compressed data, or none
        at = content.find(_GZIP, at + 1)


@cache
def published() -> dict[str, dict[str, descriptor_pb2.DescriptorProto]]:
    return {
        file.package: {message.name: message for message in file.message_type} for file in descriptors(program("1.32"))
    }


def package(group: str) -> str:
    name, version = group.split("/")
    return f"k8s.io.{'apimachinery.pkg.apis' if name == 'meta' else 'api'}.{name.split('.')[0]}.{version}"


def message_of(group: str, name: str) -> descriptor_pb2.DescriptorProto:
    """Of its version, or of the one from which it came; numbers stay when a kind becomes stable."""
    group_versions = (group, group.replace("/v1", "/v1beta1"), group.replace("/v1", "/v1alpha1"))
    found = (published().get(package(each), {}).get(name) for each in group_versions)
    return next(message for message in found if message is not None)


def notation(message: descriptor_pb2.DescriptorProto, field: descriptor_pb2.FieldDescriptorProto) -> str:
    """A type as the table spells it."""
    kind = _SCALARS.get(field.type) or field.type_name.rpartition(".")[2]
    for entry in message.nested_type:
        if entry.name == kind and entry.options.map_entry:
            value = notation(entry, entry.field[1])
            return f"map<string, {'string' if value == 's' else value}>"
    return f"[]{kind}" if field.label == Field.LABEL_REPEATED else kind


MESSAGES = [(group, name) for group in TABLE for name in TABLE[group] if not {group, name} & (YOUNGER | ABSENT)]


@pytest.mark.parametrize(("group", "name"), MESSAGES)
def test_a_message_of_the_table_is_the_one_that_kubernetes_has(group: str, name: str) -> None:
    entry, message = TABLE[group][name], message_of(group, name)
    theirs = {field.name: [field.number, notation(message, field)] for field in message.field}
    ours = {field: [number, kind] for field, (number, kind) in entry["fields"].items()}
    assert {field: ours[field] for field in ours if field in theirs} == {
        field: theirs[field] for field in theirs if field in ours
    }
    if not entry["partial"]:
        assert set(theirs) <= set(ours)
    # What 1.32 has not is in a later one.
    for field in set(ours) - set(theirs):
        assert (ours[field][0], field) in tags()


@pytest.mark.parametrize(
    ("group", "name"), [(group, name) for group in TABLE if group not in ABSENT for name in TABLE[group]]
)
def test_the_newest_kubectl_has_a_field_of_each_number_and_name(group: str, name: str) -> None:
    if name not in ("ExtraValue", "Verbs"):  # no structs in Go
        fields = TABLE[group][name]["fields"].items()
        # Go embeds it without a name.
        assert {(number, field) for field, (number, _) in fields if field != "ephemeralContainerCommon"} <= tags()


@cache
def tags() -> set[tuple[int, str]]:
    """Number and name of every field that Go's reflection knows in the newest kubectl."""
    found = _TAG.finditer(program("1.37"))
    return {(int(each["number"]), each["name"].decode()) for each in found}
