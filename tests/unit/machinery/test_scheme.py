"""machinery/scheme.py and declaration.py: names of kinds, paths, quantities."""

from __future__ import annotations

import pytest

from kubevouch.api import catalog
from kubevouch.machinery.declaration import Quantity, RawJSON
from kubevouch.machinery.scheme import GroupResource, GroupVersion, GroupVersionKind, Scheme
from unit.machinery.widgets import WIDGETS, Widget


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("v1", ("", "v1")),
        ("a.b/v1", ("a.b", "v1")),
        ("", ("", "")),
        ("/v1", ("", "v1")),
        ("a/", ("a", "")),
    ],
)
def test_group_versions(text: str, parsed: tuple[str, str]) -> None:
    assert GroupVersion.parse(text) == parsed
    assert str(GroupVersion("a.b", "v1")) == "a.b/v1"
    assert str(GroupVersion("", "v1")) == "v1"


@pytest.mark.parametrize("text", ["a/b/c", "//", "a//b"])
def test_two_slashes_are_too_many(text: str) -> None:
    with pytest.raises(ValueError, match=f"^unexpected GroupVersion string: {text}$"):
        GroupVersion.parse(text)


def test_names_as_go_prints_them() -> None:
    assert str(GroupVersionKind("g", "v1", "K")) == "g/v1, Kind=K"
    assert str(GroupVersionKind("", "v1", "K")) == "/v1, Kind=K"
    assert (str(GroupResource("g", "ks")), str(GroupResource("", "ks"))) == ("ks.g", "ks")


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        ((), "/apis/example.com/v1/widgets"),
        (("n",), "/apis/example.com/v1/namespaces/n/widgets"),
        (("n", "a"), "/apis/example.com/v1/namespaces/n/widgets/a"),
        (("n", "a", "status"), "/apis/example.com/v1/namespaces/n/widgets/a/status"),
    ],
)
def test_paths(arguments: tuple[str, ...], path: str) -> None:
    assert WIDGETS.path(*arguments) == path
    assert catalog.NODES.path(name="n") == "/api/v1/nodes/n"


def test_what_follows_from_a_kinds_name() -> None:
    assert (WIDGETS.singular, WIDGETS.list_kind, WIDGETS.api_version) == ("widget", "WidgetList", "example.com/v1")
    # As kube-apiserver 1.36 publishes it.
    assert catalog.CONFIG_MAPS.storage_version_hash == "qFsyl6wFWjQ="
    assert catalog.SECRETS.storage_version_hash == "S6u1pOWzb84="


def test_a_scheme_knows_kinds_and_their_defaults() -> None:
    scheme = Scheme.of([WIDGETS])
    assert scheme.kinds[WIDGETS.gvk] is Widget
    assert list(scheme.versions("example.com", "Widget")) == [WIDGETS.gvk]
    assert scheme.knows_group_version("example.com", "v1")
    assert not scheme.knows_group_version("example.com", "v2")
    widget = Widget()
    assert scheme.default(widget) is widget
    scheme.add(WIDGETS, lambda obj: Widget(kind="defaulted") if obj == widget else obj)
    assert scheme.default(widget).kind == "defaulted"


def test_values_that_compare_by_their_content() -> None:
    assert len({Quantity("1"), Quantity("1"), Quantity("1.0")}) == 2
    assert len({RawJSON(b"1"), RawJSON(b"1"), RawJSON(b"2")}) == 2
    assert Quantity("1") != "1"
    assert RawJSON(b"1") != b"1"
