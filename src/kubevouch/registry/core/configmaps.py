"""ConfigMap."""

from __future__ import annotations

import datetime as dt

from kubevouch.api import catalog, core_v1
from kubevouch.api.core_v1 import ConfigMap
from kubevouch.machinery.field import FieldError
from kubevouch.registry.interface import Column, Context, Definition, Printer, Strategy
from kubevouch.registry.printing import AGE, NAME, age


class ConfigMapStrategy(Strategy[ConfigMap]):
    def validate(self, _ctx: Context, obj: ConfigMap) -> list[FieldError]:
        return core_v1.validate_config_map(obj)

    def validate_update(self, _ctx: Context, new: ConfigMap, old: ConfigMap) -> list[FieldError]:
        return core_v1.validate_config_map_update(new, old)


def _cells(obj: ConfigMap, now: dt.datetime) -> list[object]:
    return [obj.metadata.name, len(obj.data) + len(obj.binary_data), age(obj.metadata.creation_timestamp, now)]


DEFINITION = Definition(
    resource=catalog.CONFIG_MAPS,
    strategy=ConfigMapStrategy(),
    printer=Printer((NAME, Column("Data", description="How many values there are."), AGE), _cells),
)
