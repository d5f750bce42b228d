"""Secret.

Source: k8s.io/api/core/v1, pkg/apis/core/validation (Kubernetes 1.36).
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from kubevouch import wellknown
from kubevouch.machinery import field
from kubevouch.machinery.codec import gojson
from kubevouch.machinery.declaration import wire
from kubevouch.machinery.field import FieldError
from kubevouch.machinery.meta import Object
from kubevouch.machinery.text import names

MAX_TOTAL_SIZE = 1 << 20  # bytes of all values of a Secret or ConfigMap together
IMMUTABLE_WHEN_SET = "field is immutable when `immutable` is set"
_REDACTED = "<secret contents redacted>"


class Secret(Object):
    """Small confidential values under keys."""

    immutable: Annotated[
        bool | None, wire(5, "True freezes the values for good; only the metadata can still change.")
    ] = None
    data: Annotated[dict[str, bytes], wire(2, "The values; base64 in JSON.")] = {}
    string_data: Annotated[
        dict[str, str], wire(4, "Values as plain text, for writing only: they are merged over data and never returned.")
    ] = {}
    type: Annotated[str, wire(3, "What the values are for; cannot change.")] = ""


def default_secret(secret: Secret) -> Secret:
    """``stringData`` moves into ``data``, and a Secret without a type is Opaque."""
    if secret.string_data:
        merged = secret.data | {key: text.encode() for key, text in secret.string_data.items()}
        secret = msgspec.structs.replace(secret, data=merged, string_data={})
    return secret if secret.type else msgspec.structs.replace(secret, type=wellknown.OPAQUE_SECRET)


def validate_secret(secret: Secret) -> list[FieldError]:
    """What is wrong with a Secret, metadata apart. Bootstrap tokens are not looked into, as in Kubernetes."""
    errors: list[FieldError] = []
    total = 0
    for key, value in secret.data.items():
        errors += (field.invalid(f"data[{key}]", key, message) for message in names.config_map_key(key))
        total += len(value)
    if total > MAX_TOTAL_SIZE:
        errors.append(field.too_long("data", MAX_TOTAL_SIZE))
    return errors + _type_errors(secret)


def _type_errors(secret: Secret) -> list[FieldError]:
    match secret.type:
        case wellknown.SERVICE_ACCOUNT_TOKEN_SECRET:
            if not secret.metadata.annotations.get(wellknown.SERVICE_ACCOUNT_NAME_ANNOTATION):
                return [field.required(f"metadata.annotations[{wellknown.SERVICE_ACCOUNT_NAME_ANNOTATION}]")]
            return []
        case wellknown.DOCKERCFG_SECRET:
            return _json_object_errors(secret, wellknown.DOCKERCFG_KEY)
        case wellknown.DOCKER_CONFIG_JSON_SECRET:
            return _json_object_errors(secret, wellknown.DOCKER_CONFIG_JSON_KEY)
        case wellknown.BASIC_AUTH_SECRET:
            keys = (wellknown.BASIC_AUTH_USERNAME_KEY, wellknown.BASIC_AUTH_PASSWORD_KEY)
            return [] if any(key in secret.data for key in keys) else [_required_key(key) for key in keys]
        case wellknown.SSH_AUTH_SECRET:
            key = wellknown.SSH_PRIVATE_KEY_KEY
            return [] if secret.data.get(key) else [_required_key(key)]
        case wellknown.TLS_SECRET:
            keys = (wellknown.TLS_CERTIFICATE_KEY, wellknown.TLS_PRIVATE_KEY_KEY)
            return [_required_key(key) for key in keys if key not in secret.data]
        case _:
            return []


def _required_key(key: str) -> FieldError:
    return field.required(f"data[{key}]")


def _json_object_errors(secret: Secret, key: str) -> list[FieldError]:
    if key not in secret.data:
        return [_required_key(key)]
    try:
        tree = gojson.loads(secret.data[key])
    except gojson.JSONSyntaxError as err:
        return [field.invalid(f"data[{key}]", _REDACTED, str(err))]
    if tree is None or isinstance(tree, dict):
        return []
    got = _json_kind(tree)
    return [
        field.invalid(
            f"data[{key}]", _REDACTED, f"json: cannot unmarshal {got} into Go value of type map[string]interface {{}}"
        )
    ]


def _json_kind(value: object) -> str:
    """Go's word for a JSON value that is no object."""
    if isinstance(value, list):
        return "array"
    if isinstance(value, bool):
        return "bool"
    return "string" if isinstance(value, str) else "number"


def validate_secret_update(new: Secret, old: Secret) -> list[FieldError]:
    """What is wrong with a change of a Secret, metadata apart."""
    errors: list[FieldError] = []
    if new.type != old.type:
        errors.append(field.invalid("type", field.TypedString(new.type), "field is immutable"))
    if old.immutable:
        if not new.immutable:
            errors.append(field.forbidden("immutable", IMMUTABLE_WHEN_SET))
        if new.data != old.data:
            errors.append(field.forbidden("data", IMMUTABLE_WHEN_SET))
    return errors + validate_secret(new)
