"""An InventoryConfiguration says where machines are listed, and what is wrong with it is told by its field."""

from __future__ import annotations

import pytest

from kubevouch.config import inventory_config
from kubevouch.config.config_file import ConfigFileError
from kubevouch.config.inventory_config import FileSource, ObjectSource

HEAD = "apiVersion: kubevouch.io/v1alpha1\nkind: InventoryConfiguration\n"
OBJECTS = "apiVersion: cluster.x-k8s.io/v1beta1, kind: Machine, resource: machines, nodeName: .status.nodeRef.name"


def sources(*lines: str) -> bytes:
    return (HEAD + "sources:\n" + "".join(f"- {{{line}}}\n" for line in lines)).encode()


def test_sources_in_their_order() -> None:
    config = inventory_config.decode(
        sources("name: racks, file: {path: a.yaml}", f"name: capi, objects: {{{OBJECTS}, namespaced: true}}")
    )
    first, second = config.sources
    assert (first.name, first.file, first.interval_seconds) == ("racks", FileSource(path="a.yaml"), 60)
    assert second.objects == ObjectSource(
        api_version="cluster.x-k8s.io/v1beta1", kind="Machine", resource="machines", namespaced=True,
        node_name=".status.nodeRef.name",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("name: a", 'sources[0]: Invalid value: "a": expected exactly one of file, url and objects'),
        ("name: a, file: {path: x}, url: {url: 'https://a/'}", "expected exactly one of file, url and objects"),
        ("name: A B, file: {path: x}", "sources[0].name: Invalid value"),
        ("name: a, file: {path: ''}", "sources[0].file.path: Required value"),
        ("name: a, file: {path: x}, intervalSeconds: 1", "sources[0].intervalSeconds: Invalid value: 1: expected 5 to"),
        ("name: a, url: {url: 'http://a/'}", "sources[0].url.url: Invalid value"),
        ("name: a, url: {url: 'https://u:p@a/'}", "sources[0].url.url: Invalid value"),
        ("name: a, url: {url: 'https://a:99999/'}", "sources[0].url.url: Invalid value"),
        ("name: a, url: {url: 'https://a/', clientKey: k}", "expected clientCertificate and clientKey, or neither"),
        ("name: a, url: {url: 'https://a/', timeoutSeconds: 600}", "sources[0].url.timeoutSeconds"),
        (f"name: a, objects: {{{OBJECTS}, addresses: '.a['}}", "sources[0].objects.addresses"),
        ("name: a, objects: {apiVersion: v1, kind: Node, resource: nodes, nodeName: .metadata.name}",
         "sources[0].objects.apiVersion: Invalid value"),
        ("name: a, objects: {apiVersion: a/v1}", "sources[0].objects.nodeName: Required value"),
        ("name: a, file: {path: x}, colour: red", "unknown field"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told(line: str, why: str) -> None:
    with pytest.raises(ConfigFileError) as caught:
        inventory_config.decode(sources(line))
    assert why in str(caught.value)


def test_names_are_told_apart_and_counted() -> None:
    with pytest.raises(ConfigFileError, match="Duplicate value"):
        inventory_config.decode(sources("name: a, file: {path: x}", "name: a, file: {path: z}"))
    with pytest.raises(ConfigFileError, match="Too many"):
        inventory_config.decode(sources(*(f"name: a{number}, file: {{path: x}}" for number in range(17))))
