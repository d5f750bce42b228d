from __future__ import annotations

from kubevouch.api.core_v1 import ConfigMap, validate_config_map, validate_config_map_update
from kubevouch.machinery.codec import json_codec

MIB = 1 << 20
IMMUTABLE = "Forbidden: field is immutable when `immutable` is set"


def faults(config_map: ConfigMap) -> list[str]:
    return [str(error) for error in validate_config_map(config_map)]


def test_json_order() -> None:
    config_map = ConfigMap(immutable=False, data={"a": "1"}, binary_data={"b": b"\xff"})
    assert json_codec.encode(config_map) == (
        b'{"metadata":{},"immutable":false,"data":{"a":"1"},"binaryData":{"b":"/w=="}}'
    )


def test_a_key_is_in_one_map_only() -> None:
    assert faults(ConfigMap(data={"k": ""}, binary_data={"k": b""})) == [
        'data[k]: Invalid value: "k": duplicate of key present in binaryData'
    ]


def test_keys_of_both_maps_are_checked() -> None:
    assert [text.partition(":")[0] for text in faults(ConfigMap(data={"a b": ""}, binary_data={"c d": b""}))] == [
        "data[a b]",
        "binaryData[c d]",
    ]


def test_size_is_in_bytes_over_both_maps_and_its_path_is_odd() -> None:
    assert faults(ConfigMap(data={"a": "ä" * (MIB // 2)})) == []
    too_big = ConfigMap(data={"a": "ä" * (MIB // 2)}, binary_data={"b": b"1"})
    assert faults(too_big) == ["[]: Too long: may not be more than 1048576 bytes"]


def test_update_of_an_immutable_one() -> None:
    old = ConfigMap(immutable=True, data={"a": "1"}, binary_data={"b": b"1"})
    assert [str(error) for error in validate_config_map_update(ConfigMap(), old)] == [
        f"immutable: {IMMUTABLE}",
        f"data: {IMMUTABLE}",
        f"binaryData: {IMMUTABLE}",
    ]
    assert validate_config_map_update(old, old) == []
    assert validate_config_map_update(old, ConfigMap()) == []
