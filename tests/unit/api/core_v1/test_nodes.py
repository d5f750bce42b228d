from __future__ import annotations

from kubevouch.api.core_v1 import Node, NodeCondition, Service, ServicePort, ServiceSpec, default_service
from kubevouch.api.core_v1.nodes import NodeSystemInfo
from kubevouch.api.core_v1.pods import PodSpec
from kubevouch.machinery.codec import json_codec


def test_an_empty_node_prints_as_in_go() -> None:
    assert json_codec.encode(Node()) == (
        b'{"metadata":{},"spec":{},"status":{"daemonEndpoints":{"kubeletEndpoint":{"Port":0}},"nodeInfo":'
        b'{"machineID":"","systemUUID":"","bootID":"","kernelVersion":"","osImage":"","containerRuntimeVersion":"",'
        b'"kubeletVersion":"","kubeProxyVersion":"","operatingSystem":"","architecture":""}}}'
    )


def test_conditions_print_unset_times_as_null() -> None:
    assert json_codec.encode(NodeCondition(type="Ready", status="True", reason="r")) == (
        b'{"type":"Ready","status":"True","lastHeartbeatTime":null,"lastTransitionTime":null,"reason":"r"}'
    )


def test_acronyms_in_wire_names() -> None:
    tree = b'{"spec":{"podCIDR":"1","podCIDRs":["1"],"providerID":"p","externalID":"e"}}'
    node = json_codec.decode(tree, Node)
    assert (node.spec.pod_cidr, node.spec.pod_cidrs, node.spec.provider_id) == ("1", ["1"], "p")
    assert json_codec.encode(node).startswith(
        b'{"metadata":{},"spec":{"podCIDR":"1","podCIDRs":["1"],"providerID":"p","externalID":"e"}'
    )
    assert NodeSystemInfo(os_image="x").os_image == "x"


def test_a_pod_without_containers_prints_null() -> None:
    assert json_codec.encode(PodSpec()) == b'{"containers":null}'


def test_service_defaults() -> None:
    service = default_service(Service(spec=ServiceSpec(ports=[ServicePort(port=443)])))
    assert json_codec.encode(service) == (
        b'{"metadata":{},"spec":{"ports":[{"protocol":"TCP","port":443,"targetPort":443}],"type":"ClusterIP",'
        b'"sessionAffinity":"None","internalTrafficPolicy":"Cluster"},"status":{"loadBalancer":{}}}'
    )
    assert default_service(service) is service
    assert default_service(Service(spec=ServiceSpec(type="ExternalName"))).spec.internal_traffic_policy is None
