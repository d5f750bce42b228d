"""Where definitions come from, and what is said of what is none."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

import pytest

from kubevouch.testing.crds import DefinitionSourceError, definitions


def crd(plural: str = "widgets", **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.example.com", **metadata},
    }


TEXT = """\
    # comment
    apiVersion: apiextensions.k8s.io/v1
    kind: CustomResourceDefinition
    metadata: {name: widgets.example.com}
    ---
    ---
    apiVersion: apiextensions.k8s.io/v1
    kind: CustomResourceDefinition
    metadata: {name: gadgets.example.com}
"""


def names(source: Any) -> list[str]:
    return [tree["metadata"]["name"] for _, tree in definitions(source)]


def test_dicts_lists_and_text() -> None:
    assert names(crd()) == ["widgets.example.com"]
    assert names({"kind": "List", "items": [crd(), crd("gadgets")]}) == ["widgets.example.com", "gadgets.example.com"]
    assert names(TEXT) == ["widgets.example.com", "gadgets.example.com"]


def test_files_and_folders(tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_text(textwrap.dedent(TEXT))
    (tmp_path / "README.md").write_text("no definition")
    below = tmp_path / "more"
    below.mkdir()
    (below / "a.json").write_text(json.dumps(crd("doodads")))
    assert names(tmp_path / "b.yaml") == ["widgets.example.com", "gadgets.example.com"]
    assert names(str(tmp_path)) == ["widgets.example.com", "gadgets.example.com", "doodads.example.com"]
    assert [where for where, _ in definitions(below)] == [str(below / "a.json")]


def test_a_file_that_changed_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(crd()))
    assert names(path) == ["widgets.example.com"]
    path.write_text(json.dumps(crd("longer-name")))
    assert names(path) == ["longer-name.example.com"]


def test_what_generators_and_clusters_write_is_left_out() -> None:
    exported = {**crd(creationTimestamp=None, uid="u", resourceVersion="1"), "status": {"conditions": []}}
    assert definitions(exported) == [("the dict", crd())]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("---\n# only a comment\n---\n", "got nothing but empty documents, expected a CustomResourceDefinition"),
        ("a: {{ .Values.a }}\n", "line 1: got a template of Helm, expected YAML; give what `helm template` prints"),
        ("a: b\n\n{{- if .Values.crds }}\n", "line 3: got a template of Helm"),
        ("a: [\n", "yaml: "),
        ("kind: Deployment\napiVersion: apps/v1\n", "got the kind Deployment of apps/v1, expected CustomResourceDefin"),
        ("kind: CustomResourceDefinition\napiVersion: apiextensions.k8s.io/v1beta1\n", "since 1.22 has others"),
        ("kind: CustomResourceDefinition\napiVersion: apiextensions.k8s.io/v1\n", "without metadata.name"),
        ("kind: List\nitems: [1]\n", r"items\[0\]: got '1', expected a CustomResourceDefinition"),
        ("- a\n- b\n", r"got \"\['a', 'b'\]\", expected a Custom"),
    ],
)
def test_what_is_no_definition_is_told_where_it_is(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "chart.yaml"
    path.write_text(text)
    with pytest.raises(DefinitionSourceError, match=said) as caught:
        definitions(path)
    assert str(caught.value).startswith(str(path))


def test_what_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(DefinitionSourceError, match=r"nowhere.yaml', expected a file or a folder .*: No such file"):
        definitions(tmp_path / "nowhere.yaml")
    with pytest.raises(DefinitionSourceError, match=r"without a file of \.yaml, \.yml, \.json"):
        definitions(tmp_path)
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DefinitionSourceError, match=r"binary.yaml: "):
        definitions(tmp_path)
