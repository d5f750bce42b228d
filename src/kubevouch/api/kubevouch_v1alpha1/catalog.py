"""The kinds of our own: handles for clients, and the definitions that serve them.

``make reference`` writes the definitions to ``deploy/crds/``; ``kubevouch up`` applies them at each start.
"""

from __future__ import annotations

from kubevouch.api.kubevouch_v1alpha1 import GROUP, VERSION
from kubevouch.api.kubevouch_v1alpha1.allowed_machines import AllowedMachine
from kubevouch.api.kubevouch_v1alpha1.own_kind import AGE, Column, OwnKind
from kubevouch.machinery.scheme import Resource

ALLOWED_MACHINES = Resource(
    GROUP, VERSION, "AllowedMachine", "allowedmachines", AllowedMachine, namespaced=False, short_names=("am",)
)

ALLOWED_MACHINE_KIND = OwnKind(
    ALLOWED_MACHINES,
    columns=(
        Column("Node", ".spec.nodeName"),
        Column("Addresses", ".spec.addresses"),
        Column("Until", ".spec.notAfter"),
        AGE,
    ),
    selectable=(".spec.nodeName",),
)

OWN_KINDS = (ALLOWED_MACHINE_KIND,)
