"""server/decoding.py: bodies of every media type, and Kubernetes' words for those that cannot be read."""

from __future__ import annotations

import json

import pytest

from kubevouch.api import catalog
from kubevouch.api.apiextensions_v1.definitions import (
    CustomResourceDefinition,
    CustomResourceDefinitionSpec,
    CustomResourceDefinitionVersion,
    CustomResourceValidation,
)
from kubevouch.api.apiextensions_v1.schema_props import JSONSchemaProps
from kubevouch.api.core_v1 import ConfigMap
from kubevouch.machinery.codec import protobuf
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.machinery.scheme import GroupVersionKind, Resource
from kubevouch.server.decoding import Body, apply_field_validation, decode, media_type, parse_tree
from kubevouch.server.negotiation import JSON, PROTOBUF, YAML

MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}}
CSR = catalog.CERTIFICATE_SIGNING_REQUESTS


def read(data: bytes, media: str = JSON, expected: Resource[ConfigMap] = catalog.CONFIG_MAPS) -> Body:
    return decode(data, media, expected, catalog.SCHEME)


def refusal(data: bytes, media: str = JSON, expected: Resource[ConfigMap] = catalog.CONFIG_MAPS) -> str:
    with pytest.raises(APIStatusError) as caught:
        read(data, media, expected)
    assert (caught.value.code, caught.value.reason) == (400, "BadRequest")
    return str(caught.value)


def sealed(obj: ConfigMap, api_version: str = "v1", kind: str = "ConfigMap") -> bytes:
    return protobuf.seal(api_version, kind, protobuf.codec_for(ConfigMap).encode(obj))


@pytest.mark.parametrize(
    ("header", "media"),
    [
        ("", JSON),
        ("application/json", JSON),
        ("application/JSON; charset=utf-8", JSON),
        (" application/yaml ", YAML),
        ("application/vnd.kubernetes.protobuf", PROTOBUF),
    ],
)
def test_media_types(header: str, media: str) -> None:
    assert media_type(header) == media


@pytest.mark.parametrize("header", ["text/plain", "application/xml", "json", "application/x-www-form-urlencoded"])
def test_other_media_types_are_415(header: str) -> None:
    with pytest.raises(APIStatusError) as caught:
        media_type(header)
    assert (caught.value.code, caught.value.reason) == (415, "UnsupportedMediaType")
    assert str(caught.value) == (
        "the body of the request was in an unknown format - accepted media types include: "
        "application/json, application/yaml, application/vnd.kubernetes.protobuf"
    )


@pytest.mark.parametrize(
    ("data", "media"),
    [
        (json.dumps(MAP).encode(), JSON),
        (b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: v}\n", YAML),
        (json.dumps(MAP).encode(), YAML),
        (sealed(ConfigMap(metadata=ObjectMeta(name="a"), data={"k": "v"})), PROTOBUF),
    ],
    ids=["json", "yaml", "json as yaml", "protobuf"],
)
def test_all_media_types_give_the_same_object_without_type_meta(data: bytes, media: str) -> None:
    body = read(data, media)
    assert body.obj == ConfigMap(metadata=ObjectMeta(name="a"), data={"k": "v"})
    assert body.gvk == GroupVersionKind("", "v1", "ConfigMap")
    assert (body.strict_errors, body.repeated_keys, body.resets_managed_fields) == ((), (), False)


@pytest.mark.parametrize(
    ("data", "media"),
    [
        (b'{"metadata":{"name":"a"}}', JSON),
        (b'{"apiVersion":null,"kind":null,"metadata":{"name":"a"}}', JSON),
        (b'{"apiVersion":"","kind":"","metadata":{"name":"a"}}', JSON),
        (sealed(ConfigMap(metadata=ObjectMeta(name="a")), "", ""), PROTOBUF),
    ],
)
def test_kind_and_version_default_to_those_of_the_url(data: bytes, media: str) -> None:
    assert read(data, media).obj == ConfigMap(metadata=ObjectMeta(name="a"))


def test_objects_are_defaulted() -> None:
    assert decode(b"{}", JSON, catalog.SECRETS, catalog.SCHEME).obj.type == "Opaque"


@pytest.mark.parametrize(
    ("data", "media", "message"),
    [
        (b"", JSON, "couldn't get version/kind; json parse error: unexpected end of JSON input (<empty>)"),
        (b"{", JSON, "couldn't get version/kind; json parse error: unexpected end of JSON input ({)"),
        (
            b"[]",
            JSON,
            (
                "couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type "
                "struct "
                '{ APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" '
                "} (5b5d)"
            ),
        ),
        (
            b'{"kind":1}',
            JSON,
            (
                "couldn't get version/kind; json parse error: json: cannot unmarshal number into Go struct field "
                '.kind of type string ({"kind":1})'
            ),
        ),
        (
            b'{"apiVersion":{},"kind":"A"}',
            JSON,
            (
                "couldn't get version/kind; json parse error: json: cannot unmarshal object into Go struct field "
                '.apiVersion of type string ({"apiVersion":{},"kind":"A"})'
            ),
        ),
        (
            b'{"apiVersion":"a/b/c","kind":"ConfigMap"}',
            JSON,
            'unexpected GroupVersion string: a/b/c ({"apiVersion":"a/b/c","kind":" ...)',
        ),
        (
            b"{}",
            PROTOBUF,
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0] ({})",
        ),
        (b"k8s\0", PROTOBUF, "empty body (6b387300)"),
    ],
)
def test_what_does_not_say_what_it_is(data: bytes, media: str, message: str) -> None:
    assert refusal(data, media) == f"the object provided is unrecognized (must be of type ConfigMap): {message}"


@pytest.mark.parametrize("length", [30, 31])
def test_a_long_body_is_cut_in_the_message(length: int) -> None:
    text = "{" + "x" * (length - 1)
    assert refusal(text.encode()).endswith(f"({text[:30]}{' ...' if length > 30 else ''})")


@pytest.mark.parametrize(
    ("kind", "api_version", "expected", "message"),
    [
        (
            "Secret",
            "v1",
            CSR,
            (
                'Secret in version "v1" cannot be handled as a CertificateSigningRequest: '
                "converting (v1.Secret) to (certificates.CertificateSigningRequest): unknown conversion"
            ),
        ),
        (
            "Secret",
            "v1",
            catalog.CONFIG_MAPS,
            (
                'Secret in version "v1" cannot be handled as a ConfigMap: '
                "converting (v1.Secret) to (core.ConfigMap): unknown conversion"
            ),
        ),
        (
            "Foo",
            "certificates.k8s.io/v1",
            CSR,
            (
                'Foo in version "v1" cannot be handled as a CertificateSigningRequest: no kind "Foo" is registered for '
                'version "certificates.k8s.io/v1" in scheme "pkg/api/legacyscheme/scheme.go:30"'
            ),
        ),
        (
            "CertificateSigningRequest",
            "certificates.k8s.io/v1beta1",
            CSR,
            (
                "the API version in the data (certificates.k8s.io/v1beta1) does not match the expected API version "
                "(certificates.k8s.io/v1)"
            ),
        ),
    ],
)
def test_another_kind_or_version(kind: str, api_version: str, expected: Resource[ConfigMap], message: str) -> None:
    assert refusal(json.dumps({"kind": kind, "apiVersion": api_version}).encode(), JSON, expected) == message


@pytest.mark.parametrize(
    ("tree", "expected", "why"),
    [
        (
            {"spec": {"signerName": 1}},
            CSR,
            ("json: cannot unmarshal number into Go struct field CertificateSigningRequestSpec.spec.signerName of type "
            "string"),
        ),
        ({"spec": {"request": "!"}}, CSR, "illegal base64 data at input byte 0"),
        ({"data": []}, catalog.CONFIG_MAPS, ("json: cannot unmarshal array into Go struct field ConfigMap.data of type "
         "map[string]string")),
    ],
)  # fmt: skip
def test_a_value_of_the_wrong_type(tree: object, expected: Resource[ConfigMap], why: str) -> None:
    kind = expected.kind
    assert refusal(json.dumps(tree).encode(), JSON, expected) == (
        f'{kind} in version "v1" cannot be handled as a {kind}: {why}'
    )


@pytest.mark.parametrize("raw", [b"\x0a\x05\x0a", b"\xff", b"\x0b"], ids=["cut off", "no tag", "group"])
def test_a_damaged_protobuf_message(raw: bytes) -> None:
    message = refusal(protobuf.seal("v1", "ConfigMap", raw), PROTOBUF)
    assert message.startswith('ConfigMap in version "v1" cannot be handled as a ConfigMap: ')


def test_a_damaged_schema_inside_a_definition_is_found_while_the_body_is_read() -> None:
    """It is stored as a message of its own, which nothing else would look into before somebody needs it."""
    damaged = JSONSchemaProps.from_message(b"\xff")
    version = CustomResourceDefinitionVersion(schema=CustomResourceValidation(open_api_v3_schema=damaged))
    definition = CustomResourceDefinition(spec=CustomResourceDefinitionSpec(versions=[version]))
    raw = protobuf.codec_for(CustomResourceDefinition).encode(definition)
    expected = catalog.CUSTOM_RESOURCE_DEFINITIONS
    with pytest.raises(APIStatusError, match="cannot be handled as a CustomResourceDefinition"):
        decode(protobuf.seal(expected.api_version, expected.kind, raw), PROTOBUF, expected, catalog.SCHEME)


STRANGE = b'{"metadata":{"name":"a","nme":"b"},"data":{"k":"1"},"dta":{},"data":{"k":"2"}}'
FOUND = ['duplicate field "data"', 'unknown field "dta"', 'unknown field "metadata.nme"']


def test_strict_reading_is_recorded_and_never_refused_here() -> None:
    body = read(STRANGE)
    assert sorted(body.strict_errors) == FOUND
    assert body.obj.data == {"k": "2"}


def test_yaml_says_more_about_repeated_keys() -> None:
    body = read(b"data:\n  k: '1'\n  k: '2'\nmetadata: {name: a}\n", YAML)
    assert body.repeated_keys == ('line 3: key "k" already set in map',)
    assert body.obj.data == {"k": "2"}


@pytest.mark.parametrize(("mode", "warned"), [("Ignore", []), ("Warn", FOUND)])
def test_what_strict_reading_found_is_passed_over_or_a_warning(mode: str, warned: list[str]) -> None:
    warnings: list[str] = []
    apply_field_validation(read(STRANGE), "ConfigMap", mode, warnings)
    assert sorted(warnings) == warned


def test_what_strict_reading_found_is_a_refusal() -> None:
    with pytest.raises(APIStatusError) as caught:
        apply_field_validation(read(b'{"spec":1,"dta":{}}'), "ConfigMap", "Strict", [])
    assert caught.value.code == 400
    assert str(caught.value) == (
        'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: unknown field "spec", '
        'unknown field "dta"'
    )


def test_all_repeated_keys_of_yaml_are_one_error() -> None:
    body = read(b"data:\n  k: '1'\n  k: '2'\n  k: '3'\nx: 1\n", YAML)
    with pytest.raises(APIStatusError) as caught:
        apply_field_validation(body, "ConfigMap", "Strict", [])
    assert str(caught.value).partition("strict decoding error: ")[2] == (
        'yaml: unmarshal errors:\n  line 3: key "k" already set in map\n  line 4: key "k" already set in map, '
        'unknown field "x"'
    )


@pytest.mark.parametrize("mode", ["Ignore", "Warn", "Strict"])
def test_a_clean_body_passes_in_every_mode(mode: str) -> None:
    warnings: list[str] = []
    apply_field_validation(read(json.dumps(MAP).encode()), "ConfigMap", mode, warnings)
    assert warnings == []


@pytest.mark.parametrize(("entries", "resets"), [("[]", True), ("null", False), ('[{"manager":"a"}]', False)])
def test_a_body_may_ask_to_forget_who_owns_what(entries: str, resets: bool) -> None:
    body = read(f'{{"metadata":{{"name":"a","managedFields":{entries}}}}}'.encode())
    assert body.resets_managed_fields is resets


@pytest.mark.parametrize(("media", "data"), [(JSON, b"{'a': 1}"), (YAML, b"a: [")])
def test_parse_tree_raises_value_errors(media: str, data: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_tree(data, media)
    assert parse_tree(b'{"a":1}', media) == ({"a": 1}, [])


@pytest.mark.parametrize("at", [b"v1", b"ConfigMap", b"bad-name"])
def test_a_protobuf_text_that_is_not_utf_8(at: bytes) -> None:
    data = sealed(ConfigMap(metadata=ObjectMeta(name="bad-name")))
    assert data.count(at) == 1
    assert "UTF-8" in refusal(data.replace(at, b"\xff" + at[1:]), PROTOBUF)
