from __future__ import annotations

from kubevouch.api.storage_v1 import CSIDriver, CSIDriverSpec, CSINode, CSINodeDriver, default_csi_driver
from kubevouch.machinery import json_codec


def test_csi_nodes_print_as_in_go() -> None:
    assert json_codec.encode(CSINode()) == b'{"metadata":{},"spec":{"drivers":null}}'
    assert json_codec.encode(CSINodeDriver(name="n", node_id="i")) == b'{"name":"n","nodeID":"i","topologyKeys":null}'


def test_defaults_of_a_driver() -> None:
    driver = default_csi_driver(CSIDriver(spec=CSIDriverSpec(attach_required=False)))
    assert json_codec.encode(driver) == (
        b'{"metadata":{},"spec":{"attachRequired":false,"podInfoOnMount":false,"volumeLifecycleModes":["Persistent"],'
        b'"storageCapacity":false,"fsGroupPolicy":"ReadWriteOnceWithFSType","requiresRepublish":false,'
        b'"seLinuxMount":false}}'
    )
    assert default_csi_driver(driver) is driver
