from __future__ import annotations

from kubevouch.api import catalog
from kubevouch.api.core_v1 import Node
from kubevouch.api.core_v1.nodes import NodeSpec, Taint
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.machinery.text.times import Time
from kubevouch.phases.mark_control_plane import mark, patch_for
from kubevouch.testing import Cluster
from kubevouch.wellknown import CONTROL_PLANE_LABEL

SINCE = Time.parse("2031-03-01T12:00:00Z")


def test_a_node_gets_what_kubeadm_gives_it_and_keeps_what_it_has() -> None:
    with Cluster() as cluster:
        assert cluster.run(mark(cluster.client(), "cp-2")) is False
        taints = [Taint(key="gpu", effect="NoExecute", time_added=SINCE)]
        cluster.create(Node(metadata=ObjectMeta(name="cp-2", labels={"a": "b"}), spec=NodeSpec(taints=taints)))
        for _ in range(2):
            assert cluster.run(mark(cluster.client(), "cp-2")) is True
            node = cluster.get(catalog.NODES, "cp-2")
            assert node.metadata.labels == {
                "a": "b", CONTROL_PLANE_LABEL: "", "node.kubernetes.io/exclude-from-external-load-balancers": "",
            }  # fmt: skip
            # The server says of a new node that it is not ready yet.
            assert [each for each in node.spec.taints if "not-ready" not in each.key] == [
                *taints, Taint(key=CONTROL_PLANE_LABEL, effect="NoSchedule"),
            ]  # fmt: skip
        assert patch_for(node) == {}
