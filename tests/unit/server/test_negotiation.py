from __future__ import annotations

import pytest

from kubevouch.machinery.errors import APIStatusError
from kubevouch.server.negotiation import Negotiated, Transform, Use, check_routed, for_error, negotiate, wants_pretty

PROTOBUF = "application/vnd.kubernetes.protobuf"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
META = "as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
META_LIST = "as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
ALL = "only the following media types are accepted: application/json, application/yaml, " + PROTOBUF
STREAMS = f"only the following media types are accepted: application/json;stream=watch, {PROTOBUF};stream=watch"


@pytest.mark.parametrize(
    ("accept", "use", "content_type", "transform"),
    [
        ("", "object", "application/json", ""),
        ("*/*", "list", "application/json", ""),
        ("application/json", "object", "application/json", ""),
        ("APPLICATION/JSON", "object", "application/json", ""),
        ("application/yaml", "object", "application/yaml", ""),
        (PROTOBUF, "object", PROTOBUF, ""),
        (f"{PROTOBUF},application/json", "object", PROTOBUF, ""),
        (f"application/json,{PROTOBUF}", "object", "application/json", ""),
        (f"application/json;q=0.5,{PROTOBUF};q=0.9", "object", PROTOBUF, ""),
        ("text/html, application/yaml;q=0.1", "object", "application/yaml", ""),
        (f"{PROTOBUF};q=x, application/json;q=0.1", "object", "application/json", ""),
        ("", "watch", "application/json", ""),
        (PROTOBUF, "watch", f"{PROTOBUF};stream=watch", ""),
        ("application/yaml,application/json", "watch", "application/json", ""),
        (TABLE, "list", "application/json", "Table"),
        (f"{TABLE},application/json", "object", "application/json", "Table"),
        (TABLE.replace("v1", "v1beta1"), "list", "application/json", "Table"),
        (f"{PROTOBUF};as=Table;v=v1;g=meta.k8s.io,application/json", "list", "application/json", ""),
        (f"application/json;as=Table;v=v2;g=meta.k8s.io,{PROTOBUF}", "list", PROTOBUF, ""),
        (f"application/json;as=Table;v=v1;g=other,{PROTOBUF}", "list", PROTOBUF, ""),
        (f"application/json;as=Chair;v=v1;g=meta.k8s.io,{PROTOBUF}", "list", PROTOBUF, ""),
        (f"{PROTOBUF};{META}", "object", PROTOBUF, "PartialObjectMetadata"),
        (f"application/json;{META}", "watch", "application/json", "PartialObjectMetadata"),
        (f"application/json;{META_LIST}", "list", "application/json", "PartialObjectMetadataList"),
    ],
)
def test_first_acceptable_clause(accept: str, use: Use, content_type: str, transform: str) -> None:
    negotiated = negotiate(accept, use)
    assert (negotiated.content_type, negotiated.transform.kind) == (content_type, transform)
    assert negotiated.stream is (use == "watch")


@pytest.mark.parametrize(
    ("accept", "use", "message"),
    [
        ("text/html", "object", ALL),
        ("text/html", "watch", STREAMS),
        ("application/yaml", "watch", STREAMS),
        (f"{PROTOBUF};as=Table;v=v1;g=meta.k8s.io", "list", ALL),
        (
            f"application/json;{META},application/json",
            "list",
            "you requested PartialObjectMetadata, but the requested object is a list (*core.SecretList)",
        ),
        (
            f"application/json;{META_LIST}",
            "object",
            "you requested PartialObjectMetadataList, but the requested object is not a list (*core.SecretList)",
        ),
    ],
)
def test_nothing_acceptable(accept: str, use: Use, message: str) -> None:
    with pytest.raises(APIStatusError) as caught:
        negotiate(accept, use, go_type="*core.SecretList")
    assert (caught.value.code, caught.value.status.message) == (406, message)


def test_kinds_without_tables_come_as_they_are() -> None:
    assert negotiate(f"{TABLE},application/yaml", "list", tables=False).encoding == "yaml"


@pytest.mark.parametrize(
    "accept", ["", "*/*", "application/json", "text/html,*/*;q=0.1", TABLE, "application/yaml;q=0"]
)
def test_router_lets_known_types_in(accept: str) -> None:
    check_routed(accept, streams=False)


@pytest.mark.parametrize("accept", ["application/*", "text/html", "json", "*"])
@pytest.mark.parametrize("streams", [False, True])
def test_router_knows_exact_types_only(accept: str, streams: bool) -> None:
    with pytest.raises(APIStatusError) as caught:
        check_routed(accept, streams=streams)
    produced = f"application/json, application/yaml, {PROTOBUF}"
    if streams:
        produced += f", application/json;stream=watch, {PROTOBUF};stream=watch"
    assert caught.value.code == 406
    assert caught.value.status.message == f"406: Not Acceptable\n\nAvailable representations: {produced}"


@pytest.mark.parametrize(
    ("accept", "encoding"),
    [("", "json"), ("text/html", "json"), (PROTOBUF, "protobuf"), (f"{TABLE},{PROTOBUF}", "protobuf"), (TABLE, "json")],
)
def test_failures_are_always_told(accept: str, encoding: str) -> None:
    negotiated = for_error(accept)
    assert (negotiated.encoding, bool(negotiated.transform)) == (encoding, False)


def test_status_has_no_other_form() -> None:
    table = Negotiated("json", Transform("Table"), pretty=True)
    assert table.without_transform() == Negotiated("json", pretty=True)


@pytest.mark.parametrize(
    ("query", "agent", "pretty"),
    [
        ("", "curl/8", True),
        ("", "Wget/1", True),
        ("", "Mozilla/5.0 (X11)", True),
        ("", "kubectl/v1.36", False),
        ("", "", False),
        ("true", "kubectl", True),
        ("1", "", True),
        ("0", "curl/8", False),
        ("false", "curl/8", False),
    ],
)
def test_indented_for_people(query: str, agent: str, pretty: bool) -> None:
    assert wants_pretty(query, agent) is pretty
