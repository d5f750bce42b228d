"""Secret, and what it has in common with ConfigMap and ServiceAccount."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kubevouch.api.core_v1 import ConfigMap, Namespace, Secret, ServiceAccount
from kubevouch.machinery.meta import ObjectMeta, replace_metadata
from kubevouch.registry.core import configmaps, namespaces, secrets, serviceaccounts
from kubevouch.registry.interface import Definition
from unit.registry.core.objects import CONTEXT, cells, read


@pytest.mark.parametrize(
    ("definition", "obj", "row"),
    [
        (secrets.DEFINITION, read(Secret, type="Opaque", data={"a": "", "b": ""}), ["a", "Opaque", 2, "5m"]),
        (configmaps.DEFINITION, read(ConfigMap, data={"a": ""}, binaryData={"b": ""}), ["a", 2, "5m"]),
        (serviceaccounts.DEFINITION, read(ServiceAccount), ["a", "5m"]),
        (namespaces.DEFINITION, read(Namespace, status={"phase": "Active"}), ["a", "Active", "5m"]),
    ],
)
def test_rows(definition: Definition[Any], obj: Any, row: list[object]) -> None:
    assert cells(definition, obj) == row
    assert len(definition.printer.columns) == len(row)


def test_a_secrets_type_stays_when_the_new_one_has_none() -> None:
    old, new = read(Secret, type="example.com/t"), read(Secret)
    assert secrets.DEFINITION.strategy.prepare_for_update(CONTEXT, new, old).type == "example.com/t"
    assert secrets.DEFINITION.selectable_fields["type"](old) == "example.com/t"


@pytest.mark.parametrize(
    ("definition", "kind"), [(configmaps.DEFINITION, ConfigMap), (secrets.DEFINITION, Secret)], ids=["map", "secret"]
)
def test_immutable_data(definition: Definition[Any], kind: type[Any]) -> None:
    meta = ObjectMeta(name="a", namespace="n", resource_version="1")
    old = kind(metadata=meta, immutable=True)
    new = msgspec.structs.replace(old, data={"k": b"v" if kind is Secret else "v"})
    assert [error.path for error in definition.strategy.validate_update(CONTEXT, new, old)] == ["data"]
    labelled = replace_metadata(old, labels={"a": "b"})
    assert definition.strategy.validate_update(CONTEXT, labelled, old) == []
