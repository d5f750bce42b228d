"""Defaults of definitions, and what can be said of them."""

from __future__ import annotations

from typing import Any

from kubevouch.api.apiextensions_v1.conditions import Finding, condition_of, is_true, with_finding, without_condition
from kubevouch.api.apiextensions_v1.definitions import CustomResourceDefinition, default_definition
from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.text.times import Time


def _defaulted(spec: dict[str, Any], status: dict[str, Any] | None = None) -> Any:
    tree = {"spec": spec, "status": status or {}}
    return json_codec.to_builtins(default_definition(json_codec.from_tree(tree, CustomResourceDefinition).value))


def test_names_follow_from_the_kind_where_there_is_one() -> None:
    assert _defaulted({"names": {"plural": "oxen", "kind": "Ox"}})["spec"]["names"] == {
        "plural": "oxen", "singular": "ox", "kind": "Ox", "listKind": "OxList",
    }  # fmt: skip
    given = {"plural": "oxen", "singular": "o", "kind": "Ox", "listKind": "Herd"}
    assert _defaulted({"names": given})["spec"]["names"] == given
    assert _defaulted({"names": {"plural": "oxen"}})["spec"]["names"] == {"plural": "oxen", "kind": ""}


def test_conversion_is_none_where_nothing_is_said_of_it() -> None:
    assert _defaulted({})["spec"]["conversion"] == {"strategy": "None"}
    assert _defaulted({"conversion": {}})["spec"]["conversion"] == {"strategy": ""}


def test_a_service_listens_on_443() -> None:
    def port(service: dict[str, Any]) -> Any:
        webhook = {"clientConfig": {"service": service}}
        conversion = _defaulted({"conversion": {"strategy": "Webhook", "webhook": webhook}})["spec"]["conversion"]
        return conversion["webhook"]["clientConfig"]["service"]["port"]

    assert port({"name": "a", "namespace": "b"}) == 443
    assert port({"name": "a", "namespace": "b", "port": 8443}) == 8443


def test_an_empty_list_of_stored_versions_is_filled() -> None:
    versions = [{"name": "v1"}, {"name": "v2", "storage": True}, {"name": "v3", "storage": True}]
    assert _defaulted({"versions": versions})["status"]["storedVersions"] == ["v2"]
    assert _defaulted({"versions": versions}, {"storedVersions": ["v1"]})["status"]["storedVersions"] == ["v1"]
    assert _defaulted({"versions": versions[:1]})["status"]["storedVersions"] is None


def test_the_time_of_a_condition_is_that_of_its_status() -> None:
    said = with_finding(CustomResourceDefinition(), Finding("A", "True", "Because", "so"), Time(1))
    said = with_finding(said, Finding("B", "False", "", ""), Time(2))
    other = with_finding(said, Finding("A", "True", "Since", "thus"), Time(3))
    found = condition_of(other, "A")
    assert found is not None
    assert (found.reason, found.message, found.last_transition_time) == ("Since", "thus", Time(1))
    found = condition_of(with_finding(other, Finding("A", "False", "", ""), Time(4)), "A")
    assert found is not None
    assert found.last_transition_time == Time(4)
    assert (is_true(other, "A"), is_true(other, "B"), is_true(other, "C")) == (True, False, False)
    assert condition_of(without_condition(other, "A"), "A") is None
