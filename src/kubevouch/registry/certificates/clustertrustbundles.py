"""ClusterTrustBundle (pkg/registry/certificates/clustertrustbundle; Kubernetes 1.36)."""

from __future__ import annotations

import datetime as dt

from kubevouch.api import catalog, certificates_v1beta1
from kubevouch.api.certificates_v1beta1 import ClusterTrustBundle
from kubevouch.machinery.field import FieldError
from kubevouch.machinery.text.names import path_segment_name
from kubevouch.registry.interface import Column, Context, Definition, Printer, Strategy
from kubevouch.registry.printing import NAME, or_none


class ClusterTrustBundleStrategy(Strategy[ClusterTrustBundle]):
    unconditional_update = False

    def validate(self, _ctx: Context, obj: ClusterTrustBundle) -> list[FieldError]:
        return certificates_v1beta1.validate_cluster_trust_bundle(obj)

    def validate_update(self, _ctx: Context, new: ClusterTrustBundle, old: ClusterTrustBundle) -> list[FieldError]:
        return certificates_v1beta1.validate_cluster_trust_bundle_update(new, old)


def _cells(obj: ClusterTrustBundle, _now: dt.datetime) -> list[object]:
    return [obj.metadata.name, or_none(obj.spec.signer_name)]


DEFINITION = Definition(
    resource=catalog.CLUSTER_TRUST_BUNDLES,
    strategy=ClusterTrustBundleStrategy(),
    # The strategy checks names itself: what is allowed depends on the signer.
    name_rule=path_segment_name,
    printer=Printer(
        (NAME, Column("SignerName", description="Whose certificates its trust anchors verify.")),
        _cells,
    ),
    selectable_fields={"spec.signerName": lambda obj: obj.spec.signer_name},
)
