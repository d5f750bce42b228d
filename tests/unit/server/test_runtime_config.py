"""server/runtime_config.py"""

from __future__ import annotations

from typing import Any

import pytest

from kubevouch.api.catalog import (
    CERTIFICATE_SIGNING_REQUESTS,
    CERTIFICATE_SIGNING_REQUESTS_V1BETA1,
    CLUSTER_TRUST_BUNDLES,
    LEASES,
)
from kubevouch.machinery.scheme import Resource
from kubevouch.server.runtime_config import RuntimeConfig, RuntimeConfigError

V1, V1BETA1, BUNDLES = CERTIFICATE_SIGNING_REQUESTS, CERTIFICATE_SIGNING_REQUESTS_V1BETA1, CLUSTER_TRUST_BUNDLES
NAMES: dict[str, Resource[Any]] = {"csr": V1, "csr-beta": V1BETA1, "bundles": BUNDLES, "leases": LEASES}


@pytest.mark.parametrize(
    ("text", "served"),
    [
        ("", "csr leases"),
        ("certificates.k8s.io/v1beta1=true", "csr csr-beta bundles leases"),
        ("certificates.k8s.io/v1beta1", "csr csr-beta bundles leases"),
        ("certificates.k8s.io/v1beta1/clustertrustbundles=true", "csr bundles leases"),
        (
            "certificates.k8s.io/v1beta1/certificatesigningrequests=0, certificates.k8s.io/v1beta1=1",
            "csr bundles leases",
        ),
        ("api/beta=true", "csr csr-beta bundles leases"),
        ("api/all=true", "csr csr-beta bundles leases"),
        ("api/all=true,api/beta=false", "csr leases"),
        ("api/beta=false,api/all=true", "csr leases"),
        ("api/beta=true,certificates.k8s.io/v1beta1=false", "csr leases"),
        ("api/all=false,coordination.k8s.io/v1=true", "leases"),
        ("api/alpha=true", "csr leases"),
    ],
)
def test_what_is_served(text: str, served: str) -> None:
    config = RuntimeConfig.parse(text)
    assert [name for name, resource in NAMES.items() if config.serves(resource)] == served.split()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("extensions/v1=true", "unknown api groups extensions"),
        ("a/v1=true,b/v1=true", "unknown api groups a,b"),
        ("v1=true", "runtime-config invalid key v1"),
        ("a/b/c/d=true", "runtime-config invalid key a/b/c/d"),
        ("storage.k8s.io/v2=true", "group version storage.k8s.io/v2 that has not been registered"),
        (
            "storage.k8s.io/v1=yes",
            'invalid value of storage.k8s.io/v1: yes, err: strconv.ParseBool: parsing "yes": invalid syntax',
        ),
        ("api/beta=x", 'invalid value of api/beta: x, err: strconv.ParseBool: parsing "x": invalid syntax'),
        (
            "storage.k8s.io/v1/CSINodes=true",
            (
                "invalid key storage.k8s.io/v1/CSINodes: group/version/resource and resource is always lowercase "
                'plural, not "CSINodes"'
            ),
        ),
        ("api/all=false", "invalid key with only api/all=false"),
    ],
)
def test_what_is_refused(text: str, message: str) -> None:
    with pytest.raises(RuntimeConfigError) as caught:
        RuntimeConfig.parse(text)
    assert str(caught.value) == message
