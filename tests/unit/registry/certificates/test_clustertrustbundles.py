from __future__ import annotations

import datetime as dt

from kubevouch.api.certificates_v1beta1 import ClusterTrustBundle, ClusterTrustBundleSpec
from kubevouch.authentication.interface import UserInfo
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.registry.certificates.clustertrustbundles import DEFINITION
from kubevouch.registry.interface import Context
from throwaway_ca import ThrowawayCA

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
CONTEXT = Context(user=UserInfo("jane"), now=NOW, api_version="certificates.k8s.io/v1beta1")
ANCHOR = ThrowawayCA().bundle.decode()


def bundle(signer_name: str = "", name: str = "b", trust_bundle: str = ANCHOR) -> ClusterTrustBundle:
    spec = ClusterTrustBundleSpec(signer_name=signer_name, trust_bundle=trust_bundle)
    return ClusterTrustBundle(metadata=ObjectMeta(name=name), spec=spec)


def test_bundles_are_validated_when_they_are_made_and_when_they_change() -> None:
    strategy = DEFINITION.strategy
    assert strategy.validate(CONTEXT, bundle()) == []
    assert [error.path for error in strategy.validate(CONTEXT, bundle(trust_bundle="no anchor"))] == [
        "spec.trustBundle"
    ]
    assert strategy.validate_update(CONTEXT, bundle(), bundle()) == []
    changed = strategy.validate_update(CONTEXT, bundle("a.b/c", "a.b:c:x"), bundle("a.b/d", "a.b:c:x"))
    assert [error.path for error in changed] == ["spec.signerName"]


def test_the_row() -> None:
    assert DEFINITION.printer.cells(bundle(), NOW) == ["b", "<none>"]
    assert DEFINITION.printer.cells(bundle("a.b/c"), NOW) == ["b", "a.b/c"]
