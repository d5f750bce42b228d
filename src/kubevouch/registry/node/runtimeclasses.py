"""RuntimeClass (pkg/registry/node/runtimeclass, pkg/apis/node/validation; Kubernetes 1.36)."""

from __future__ import annotations

import datetime as dt

from kubevouch.api import catalog
from kubevouch.api.core_v1.nodes import NO_EXECUTE, NO_SCHEDULE, PREFER_NO_SCHEDULE
from kubevouch.api.node_v1 import RuntimeClass
from kubevouch.machinery import field
from kubevouch.machinery.field import FieldError
from kubevouch.machinery.text import names
from kubevouch.registry.interface import Column, Context, Definition, Printer, Strategy
from kubevouch.registry.printing import AGE, NAME, age
from kubevouch.wellknown import ARCH_LABEL, OS_LABEL

_EFFECTS = (NO_EXECUTE, NO_SCHEDULE, PREFER_NO_SCHEDULE)


# pkg/api/node/util.go
_DEPRECATED = {
    old: f'deprecated since {since}; use "{label}" instead'
    for old, since, label in (
        ("beta.kubernetes.io/arch", "v1.14", ARCH_LABEL),
        ("beta.kubernetes.io/os", "v1.14", OS_LABEL),
        ("failure-domain.beta.kubernetes.io/region", "v1.17", "topology.kubernetes.io/region"),
        ("failure-domain.beta.kubernetes.io/zone", "v1.17", "topology.kubernetes.io/zone"),
        ("beta.kubernetes.io/instance-type", "v1.17", "node.kubernetes.io/instance-type"),
    )
}


class RuntimeClassStrategy(Strategy[RuntimeClass]):
    create_on_update = False
    unconditional_update = False

    def validate(self, _ctx: Context, obj: RuntimeClass) -> list[FieldError]:
        found = [field.invalid("handler", obj.handler, fault) for fault in names.dns_label(obj.handler)]
        for index, each in enumerate(obj.scheduling.tolerations if obj.scheduling is not None else ()):
            if each.effect and each.effect not in _EFFECTS:
                found.append(field.not_supported(f"scheduling.tolerations[{index}].effect", each.effect, _EFFECTS))
        return found

    def validate_update(self, ctx: Context, new: RuntimeClass, old: RuntimeClass) -> list[FieldError]:
        if new.handler != old.handler:
            return [field.invalid("handler", new.handler, "field is immutable")]
        return self.validate(ctx, new)

    def warnings_on_create(self, _ctx: Context, obj: RuntimeClass) -> list[str]:
        selector = obj.scheduling.node_selector if obj.scheduling is not None else {}
        return [f"scheduling.nodeSelector: {_DEPRECATED[label]}" for label in sorted(selector) if label in _DEPRECATED]

    def warnings_on_update(self, ctx: Context, new: RuntimeClass, _old: RuntimeClass) -> list[str]:
        return self.warnings_on_create(ctx, new)


def _cells(obj: RuntimeClass, now: dt.datetime) -> list[object]:
    return [obj.metadata.name, obj.handler, age(obj.metadata.creation_timestamp, now)]


DEFINITION = Definition(
    resource=catalog.RUNTIME_CLASSES,
    strategy=RuntimeClassStrategy(),
    printer=Printer((NAME, Column("Handler", description="The container runtime's name for it."), AGE), _cells),
)
