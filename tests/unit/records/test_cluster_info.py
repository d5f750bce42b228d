from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from kubevouch.api.core_v1 import ConfigMap
from kubevouch.records.cluster_info import (
    ClusterInfo,
    ClusterInfoError,
    build_kubeconfig,
    config_map,
    kubeconfig_of,
    parse_kubeconfig,
    signature_key,
)

INFO = ClusterInfo("https://api.blue.test:6443", b"-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n")
FIXTURES = {
    case["id"]: case
    for case in map(json.loads, (Path(__file__).parents[2] / "vectors" / "node.jsonl").read_text().splitlines())
    if case["id"].startswith("fx-")
}


@pytest.mark.parametrize("name", ["alpha", "beta", "alpha-beta"])
def test_the_text_is_that_of_kubeadm(name: str) -> None:
    text: Any = FIXTURES[f"fx-kubeconfig-{name}"]["given"]["text"]
    info = parse_kubeconfig(text)
    assert info.server == "https://api.blue.test:6443"
    assert info.certificate_authority_data.startswith(b"-----BEGIN CERTIFICATE-----\n")
    # YAML's two spellings of an empty string are the only freedom.
    assert build_kubeconfig(info).replace("''", '""') == text


def test_a_built_text_is_parsed_again() -> None:
    assert parse_kubeconfig(build_kubeconfig(INFO)) == INFO


def test_the_cluster_and_its_other_addresses_stand_where_the_signature_covers_them() -> None:
    servers = ("https://b.test:6443", "https://[::1]:6443")
    info = replace(INFO, cluster_id="8f2e7a10-9c5e-4a0b-b0c6-1d2f3a4b5c6d", servers=servers)
    text = build_kubeconfig(info)
    assert parse_kubeconfig(text) == info
    assert yaml.safe_load(text)["clusters"][0]["cluster"]["extensions"] == [
        {"name": "kubevouch.io/cluster", "extension": {"id": info.cluster_id, "servers": list(servers)}}
    ]


@pytest.mark.parametrize(
    "extension",
    ["", "x", "[]", "{id: 7}", "{id: 'a b'}", f"{{id: {'a' * 65}}}", "{servers: x}", "{servers: ['http://a']}",
     "{servers: ['https://a b']}", f"{{servers: [{', '.join(['https://a'] * 17)}]}}"],
)  # fmt: skip
def test_what_cannot_be_meant_beside_the_server_is_not_told(extension: str) -> None:
    entry = f"extensions: [{{name: kubevouch.io/cluster, extension: {extension}}}]"
    text = f"clusters:\n- name: ''\n  cluster: {{server: 'https://a', {entry}}}\n"
    assert parse_kubeconfig(text) == ClusterInfo("https://a", b"")


def test_the_unnamed_cluster_wins_over_the_current_context() -> None:
    clusters = "clusters:\n- {name: a, cluster: {server: https://a}}\n"
    context = "contexts:\n- {name: x, context: {cluster: a}}\ncurrent-context: x\n"
    assert parse_kubeconfig(clusters + context).server == "https://a"
    both = clusters + "- {name: '', cluster: {server: https://unnamed}}\n" + context
    assert parse_kubeconfig(both).server == "https://unnamed"


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("{{{ not yaml", "couldn't parse the kubeconfig file in the cluster-info ConfigMap: "),
        ("apiVersion: v1\nkind: Config\nclusters: []\n", "malformed kubeconfig in the cluster-info ConfigMap"),
        (
            "clusters: [{name: a}]\ncontexts: [{name: x, context: {cluster: b}}]\ncurrent-context: x",
            "malformed kubeconfig in the cluster-info ConfigMap",
        ),
    ],
)
def test_texts_without_a_cluster(text: str, start: str) -> None:
    with pytest.raises(ClusterInfoError) as caught:
        parse_kubeconfig(text)
    assert str(caught.value).startswith(start)


def test_the_config_map() -> None:
    published = config_map(INFO)
    assert (published.metadata.namespace, published.metadata.name) == ("kube-public", "cluster-info")
    assert parse_kubeconfig(kubeconfig_of(published)) == INFO
    assert signature_key("abc123") == "jws-kubeconfig-abc123"
    for empty in (ConfigMap(), ConfigMap(data={"kubeconfig": ""})):
        with pytest.raises(ClusterInfoError, match="there is no kubeconfig key in the cluster-info ConfigMap"):
            kubeconfig_of(empty)
