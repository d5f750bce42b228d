"""Which lane a request takes."""

import pytest

from kubevouch.authentication.interface import UserInfo
from kubevouch.server.flow_control.lanes import DEFAULT_LIMITS, Lane, classify
from kubevouch.server.query import Query
from kubevouch.server.request_info import parse

CSRS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
NODE = UserInfo("system:node:a", groups=("system:nodes",))
JOINING = UserInfo("system:bootstrap:abcdef", groups=("system:bootstrappers",))
NOBODY = UserInfo("system:anonymous", groups=("system:unauthenticated",))
ROOT = UserInfo("root", groups=("system:masters",))
CONTROLLER = UserInfo("system:serviceaccount:kube-system:x", groups=("system:serviceaccounts:kube-system",))
PERSON = UserInfo("jane")


@pytest.mark.parametrize(
    ("method", "target", "user", "lane"),
    [
        ("POST", CSRS, NODE, Lane.RENEWAL),
        ("POST", CSRS, JOINING, Lane.JOIN),
        ("GET", f"{CSRS}?watch=true&fieldSelector=metadata.name=x", JOINING, Lane.JOIN),
        ("GET", f"{CSRS}?watch=true", JOINING, Lane.LISTS),
        ("GET", CSRS, NODE, Lane.LISTS),
        ("GET", CSRS, CONTROLLER, Lane.CONTROLLERS),
        ("GET", CSRS, ROOT, Lane.EXEMPT),
        ("GET", f"{CSRS}/x", PERSON, Lane.WORKLOAD),
        ("GET", "/api/v1/namespaces/kube-public/configmaps/cluster-info", NOBODY, Lane.ANONYMOUS),
        ("GET", "/livez", NOBODY, Lane.ANONYMOUS),
    ],
)
def test_lanes(method: str, target: str, user: UserInfo, lane: Lane) -> None:
    path, _, query = target.partition("?")
    assert classify(parse(method, path, Query(query)), user, "192.0.2.1")[0] is lane


def flow(path: str, user: UserInfo, source: str = "192.0.2.1") -> str:
    return classify(parse("GET", path, Query()), user, source)[1]


def test_flows_of_anonymous_requests() -> None:
    cluster_info = "/api/v1/namespaces/kube-public/configmaps/cluster-info"
    assert len({flow(path, NOBODY) for path in ("/livez", cluster_info, "/api", "/apis")}) == 3
    assert flow(cluster_info, NOBODY) != flow(cluster_info, NOBODY, "192.0.2.2")


def test_a_stolen_token_does_not_use_up_the_turns_of_its_fleet() -> None:
    assert flow("/api/v1/nodes/a", JOINING) != flow("/api/v1/nodes/a", JOINING, "203.0.113.9")


def test_shares_make_a_whole() -> None:
    assert sum(limits.share for limits in DEFAULT_LIMITS.values()) <= 105
    assert list(DEFAULT_LIMITS) == [lane for lane in Lane if lane is not Lane.EXEMPT]
