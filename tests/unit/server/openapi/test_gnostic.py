"""server/openapi/gnostic.py against gnostic's messages, declared here on their own.

The table is google/gnostic's openapiv2/OpenAPIv2.proto, for every message that is used with all its fields: a wrong
number would land in another field or in none.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory, unknown_fields

from kubevouch.machinery.codec import gojson, json_codec
from kubevouch.server.openapi import gnostic, v2, v3
from unit.server.openapi.everything import VERSION, everything_served

Tree = dict[str, Any]
Descriptor = descriptor_pb2.FieldDescriptorProto

# name=number is a string, name:Type=number something else, a star means repeated.
MESSAGES = """
AdditionalPropertiesItem schema:Schema=1 boolean:bool=2
Any value:bytes=1 yaml=2
ApiKeySecurity type=1 name=2 in=3 description=4 vendor_extension*:NamedAny=5
BodyParameter description=1 name=2 in=3 required:bool=4 schema:Schema=5 vendor_extension*:NamedAny=6
Definitions additional_properties*:NamedSchema=1
Document swagger=1 info:Info=2 host=3 base_path=4 schemes*=5 consumes*=6 produces*=7 paths:Paths=8 \
 definitions:Definitions=9 parameters:bytes=10 responses:bytes=11 security*:SecurityRequirement=12 \
 security_definitions:SecurityDefinitions=13 tags*:bytes=14 external_docs:bytes=15 vendor_extension*:NamedAny=16
ExternalDocs description=1 url=2 vendor_extension*:NamedAny=3
Info title=1 version=2 description=3 terms_of_service=4 contact:bytes=5 license:bytes=6 vendor_extension*:NamedAny=7
ItemsItem schema*:Schema=1
JsonReference _ref=1 description=2
NamedAny name=1 value:Any=2
NamedPathItem name=1 value:PathItem=2
NamedResponseValue name=1 value:ResponseValue=2
NamedSchema name=1 value:Schema=2
NamedSecurityDefinitionsItem name=1 value:SecurityDefinitionsItem=2
NamedStringArray name=1 value:StringArray=2
NonBodyParameter header_parameter_sub_schema:bytes=1 form_data_parameter_sub_schema:bytes=2 \
 query_parameter_sub_schema:QueryParameterSubSchema=3 path_parameter_sub_schema:PathParameterSubSchema=4
Operation tags*=1 summary=2 description=3 external_docs:bytes=4 operation_id=5 produces*=6 consumes*=7 \
 parameters*:ParametersItem=8 responses:Responses=9 schemes*=10 deprecated:bool=11 security*:SecurityRequirement=12 \
 vendor_extension*:NamedAny=13
Parameter body_parameter:BodyParameter=1 non_body_parameter:NonBodyParameter=2
ParametersItem parameter:Parameter=1 json_reference:JsonReference=2
PathItem _ref=1 get:Operation=2 put:Operation=3 post:Operation=4 delete:Operation=5 options:Operation=6 \
 head:Operation=7 patch:Operation=8 parameters*:ParametersItem=9 vendor_extension*:NamedAny=10
PathParameterSubSchema required:bool=1 in=2 description=3 name=4 type=5 format=6 items:bytes=7 collection_format=8 \
 default:Any=9 pattern=16 enum*:Any=20 vendor_extension*:NamedAny=22
Paths vendor_extension*:NamedAny=1 path*:NamedPathItem=2
Properties additional_properties*:NamedSchema=1
QueryParameterSubSchema required:bool=1 in=2 description=3 name=4 allow_empty_value:bool=5 type=6 format=7 \
 items:bytes=8 collection_format=9 default:Any=10 pattern=17 enum*:Any=21 vendor_extension*:NamedAny=23
Response description=1 schema:SchemaItem=2 headers:bytes=3 examples:bytes=4 vendor_extension*:NamedAny=5
ResponseValue response:Response=1 json_reference:JsonReference=2
Responses response_code*:NamedResponseValue=1 vendor_extension*:NamedAny=2
Schema _ref=1 format=2 title=3 description=4 default:Any=5 multiple_of:double=6 maximum:double=7 \
 exclusive_maximum:bool=8 minimum:double=9 exclusive_minimum:bool=10 max_length:int64=11 min_length:int64=12 \
 pattern=13 max_items:int64=14 min_items:int64=15 unique_items:bool=16 max_properties:int64=17 \
 min_properties:int64=18 required*=19 enum*:Any=20 \
 additional_properties:AdditionalPropertiesItem=21 type:TypeItem=22 items:ItemsItem=23 all_of*:Schema=24 \
 properties:Properties=25 discriminator=26 read_only:bool=27 xml:bytes=28 external_docs:ExternalDocs=29 example:Any=30 \
 vendor_extension*:NamedAny=31
SchemaItem schema:Schema=1 file_schema:bytes=2
SecurityDefinitions additional_properties*:NamedSecurityDefinitionsItem=1
SecurityDefinitionsItem basic_authentication_security:bytes=1 api_key_security:ApiKeySecurity=2
SecurityRequirement additional_properties*:NamedStringArray=1
StringArray value*=1
TypeItem value*=1
"""
_FIELD = re.compile(r"(\w+?)(\*?)(?::(\w+))?=(\d+)")
_SCALARS = {
    "": Descriptor.TYPE_STRING, "bool": Descriptor.TYPE_BOOL, "bytes": Descriptor.TYPE_BYTES,
    "double": Descriptor.TYPE_DOUBLE, "int64": Descriptor.TYPE_INT64,
}  # fmt: skip


@pytest.fixture(scope="module")
def document_class() -> type[message.Message]:
    file = descriptor_pb2.FileDescriptorProto(name="openapiv2.proto", package="openapi.v2", syntax="proto3")
    for line in MESSAGES.strip().splitlines():
        name, *fields = line.split()
        declared = file.message_type.add(name=name)
        for text in fields:
            found = _FIELD.fullmatch(text)
            assert found is not None, text
            field_name, star, kind, number = found.groups()
            field = declared.field.add(name=field_name, number=int(number))
            field.label = Descriptor.LABEL_REPEATED if star else Descriptor.LABEL_OPTIONAL
            if (kind or "") in _SCALARS:
                field.type = _SCALARS[kind or ""]
            else:
                field.type, field.type_name = Descriptor.TYPE_MESSAGE, f".openapi.v2.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("openapi.v2.Document"))


# ------------------------------------------------------------------ messages back to JSON

_WIRE_NAMES = {
    "_ref": "$ref", "operation_id": "operationId", "additional_properties": "additionalProperties",
    "security_definitions": "securityDefinitions", "external_docs": "externalDocs", "multiple_of": "multipleOf",
    "exclusive_maximum": "exclusiveMaximum", "exclusive_minimum": "exclusiveMinimum", "max_length": "maxLength",
    "min_length": "minLength", "max_items": "maxItems", "min_items": "minItems", "max_properties": "maxProperties",
    "min_properties": "minProperties",
}  # fmt: skip
_MAPS = {
    "Definitions": "additional_properties", "Properties": "additional_properties", "Paths": "path",
    "Responses": "response_code", "SecurityDefinitions": "additional_properties",
    "SecurityRequirement": "additional_properties",
}  # fmt: skip
_ONE_OF = {
    "ParametersItem", "Parameter", "NonBodyParameter", "ResponseValue", "SchemaItem", "AdditionalPropertiesItem",
    "SecurityDefinitionsItem",
}  # fmt: skip


def to_json(msg: Any) -> Any:
    """The JSON that gnostic would have read this message from."""
    assert len(unknown_fields.UnknownFieldSet(msg)) == 0
    name = msg.DESCRIPTOR.name
    if name in _MAPS:
        assert [field.name for field, _ in msg.ListFields()] in ([], [_MAPS[name]])
        return {entry.name: to_json(entry.value) for entry in getattr(msg, _MAPS[name])}
    if name in _ONE_OF:
        ((_, value),) = msg.ListFields()
        return _value(value)
    if name == "Any":
        return json.loads(msg.yaml)
    if name in ("ItemsItem", "TypeItem"):
        ((_, (value,)),) = msg.ListFields()
        return value if isinstance(value, str) else to_json(value)
    if name == "StringArray":
        return list(msg.value)
    found: Tree = {}
    for field, value in msg.ListFields():
        if field.name == "vendor_extension":
            found |= {entry.name: to_json(entry.value) for entry in value}
        else:
            found[_WIRE_NAMES.get(field.name, field.name)] = _value(value)
    return found


def _value(value: Any) -> Any:
    if isinstance(value, message.Message):
        return to_json(value)
    if isinstance(value, (str, bool, int, float)):
        return value
    return [_value(item) for item in value]


# ------------------------------------------------------------------ tests


def parsed(document_class: type[message.Message], document: Tree) -> Any:
    msg = document_class()
    msg.ParseFromString(gnostic.encode(document))
    return msg


def test_the_messages_say_what_the_json_says(document_class: type[message.Message]) -> None:
    document = v2.build(v3.build(everything_served(), VERSION))
    assert to_json(parsed(document_class, document)) == gojson.loads(json_codec.encode(document))


def test_kubectl_finds_the_parameter_that_it_looks_for(document_class: type[message.Message]) -> None:
    msg = parsed(document_class, v2.build(v3.build(everything_served(), VERSION)))
    kind = {"group": "certificates.k8s.io", "version": "v1", "kind": "CertificateSigningRequest"}
    found = [
        {item.parameter.non_body_parameter.query_parameter_sub_schema.name for item in path.value.patch.parameters}
        for path in msg.paths.path
        if any(
            extension.name == "x-kubernetes-group-version-kind" and json.loads(extension.value.yaml) == kind
            for extension in path.value.patch.vendor_extension
        )
    ]
    assert len(found) == 3  # the object, approval, status
    assert all({"fieldValidation", "dryRun"} <= names for names in found)


def test_values_without_a_message_are_quoted_so_that_yaml_reads_them_as_text(
    document_class: type[message.Message],
) -> None:
    document = v2.build(v3.build(everything_served(), VERSION))
    document["definitions"] = {"Status": {"type": "string", "enum": ["True", "1", "no"]}}
    schema = parsed(document_class, document).definitions.additional_properties[0].value
    assert [item.yaml for item in schema.enum] == ['"True"', '"1"', '"no"']
