"""ConfigMap.

Source: k8s.io/api/core/v1, pkg/apis/core/validation (Kubernetes 1.36).
"""

from __future__ import annotations

from typing import Annotated

from kubevouch.api.core_v1.secrets import IMMUTABLE_WHEN_SET, MAX_TOTAL_SIZE
from kubevouch.machinery import field
from kubevouch.machinery.declaration import wire
from kubevouch.machinery.field import FieldError
from kubevouch.machinery.meta import Object
from kubevouch.machinery.text import names


class ConfigMap(Object):
    """Values under keys that are not confidential."""

    immutable: Annotated[
        bool | None, wire(4, "True freezes the values for good; only the metadata can still change.")
    ] = None
    data: Annotated[dict[str, str], wire(2, "Values that are text.")] = {}
    binary_data: Annotated[
        dict[str, bytes], wire(3, "Values of any bytes; a key is either here or in data. Base64 in JSON.")
    ] = {}


def validate_config_map(config_map: ConfigMap) -> list[FieldError]:
    """What is wrong with a ConfigMap, metadata apart."""
    errors: list[FieldError] = []
    total = 0
    for key, text in config_map.data.items():
        path = f"data[{key}]"
        errors += (field.invalid(path, key, message) for message in names.config_map_key(key))
        if key in config_map.binary_data:
            errors.append(field.invalid(path, key, "duplicate of key present in binaryData"))
        total += len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))
    for key, value in config_map.binary_data.items():
        errors += (field.invalid(f"binaryData[{key}]", key, message) for message in names.config_map_key(key))
        total += len(value)
    if total > MAX_TOTAL_SIZE:
        # Kubernetes means the whole object by an empty path, and prints that as [].
        errors.append(field.too_long("[]", MAX_TOTAL_SIZE))
    return errors


def validate_config_map_update(new: ConfigMap, old: ConfigMap) -> list[FieldError]:
    """What is wrong with a change of a ConfigMap, metadata apart."""
    errors: list[FieldError] = []
    if old.immutable:
        if not new.immutable:
            errors.append(field.forbidden("immutable", IMMUTABLE_WHEN_SET))
        if new.data != old.data:
            errors.append(field.forbidden("data", IMMUTABLE_WHEN_SET))
        if new.binary_data != old.binary_data:
            errors.append(field.forbidden("binaryData", IMMUTABLE_WHEN_SET))
    return errors + validate_config_map(new)
