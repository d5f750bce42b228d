"""What a command costs grows with the number of requests, and not with its square.

Whoever has a bootstrap token may post thousands of requests; the person who wants to see them must still be able to.
Counted are the certificate requests that are read, the steps of Python and the pages that are asked for.
"""

from __future__ import annotations

import ast
import datetime as dt
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import kubevouch.cli
import kubevouch.phases
from kubevouch import wellknown
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS
from kubevouch.api.certificates_v1 import (
    CertificateSigningRequest,
    CertificateSigningRequestCondition,
    CertificateSigningRequestSpec,
    CertificateSigningRequestStatus,
)
from kubevouch.cli.main import run
from kubevouch.client.pager import PAGE_SIZE
from kubevouch.doctor import cluster as doctor
from kubevouch.doctor.findings import SHOWN, limited
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.machinery.text.times import Time
from kubevouch.pki import control_plane, keys
from kubevouch.pki.authority import create_authority, issue_leaf
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.subject import Subject
from kubevouch.reviews import csr_review, join_status
from kubevouch.reviews.csr_review import Requests
from kubevouch.testing import Cluster

NOW = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
KEY = keys.generate(KeyAlgorithm.ECDSA_P256)
NODE_SIGNER = wellknown.KUBE_APISERVER_CLIENT_KUBELET_SIGNER


def request(
    number: int, *, name: str = "", text: bytes = b"", certificate: bytes = b"", failed: bool = False
) -> CertificateSigningRequest:
    common_name = name or f"system:node:n{number}"
    spec = CertificateSigningRequestSpec(
        request=text or build_request(KEY, Subject(common_name=common_name, organizations=("system:nodes",))),
        signer_name=NODE_SIGNER, usages=["client auth", "digital signature"], username="system:bootstrap:abcdef",
    )  # fmt: skip
    conditions = [CertificateSigningRequestCondition(type="Failed", status="True")] if failed else []
    return CertificateSigningRequest(
        metadata=ObjectMeta(name=f"csr-{number}", uid=f"u{number}", creation_timestamp=Time.of(NOW)),
        spec=spec,
        status=CertificateSigningRequestStatus(certificate=certificate, conditions=conditions),
    )


@pytest.fixture(scope="module")
def certificate() -> bytes:
    authority = create_authority("kubernetes", keys.generate(KeyAlgorithm.ECDSA_P256), now=NOW)
    return issue_leaf(authority, control_plane.kubelet("n0"), KEY, now=NOW).pem()


@contextmanager
def steps() -> Iterator[list[int]]:
    """Calls of Python functions within the block."""
    count = [0]

    def profile(_frame: object, event: str, _argument: object) -> None:
        if event in ("call", "c_call"):
            count[0] += 1

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        yield count
    finally:
        sys.setprofile(before)


def reviewed(many: list[CertificateSigningRequest]) -> None:
    found = Requests(many)
    for each in found.all:
        csr_review.review(each, found, NOW)


def looked_for(many: list[CertificateSigningRequest]) -> None:
    join_status.requests_of("n1", Requests(many).all)


def examined(many: list[CertificateSigningRequest]) -> None:
    limited([*doctor.judge_requests(many, {}, now=NOW), *doctor.judge_names(many)])


@pytest.mark.parametrize("work", [reviewed, looked_for, examined])
@pytest.mark.parametrize("kind", ["one key", "one name", "issued", "unreadable", "failed"])
def test_twice_the_requests_are_twice_the_steps(
    kind: str, work: Callable[[list[CertificateSigningRequest]], None], certificate: bytes
) -> None:
    counts = []
    for size in (100, 200):
        many = [
            request(
                number,
                name="system:node:n0" if kind in ("one name", "issued") else "",
                text=b"nonsense" if kind == "unreadable" else b"",
                certificate=certificate if kind == "issued" else b"",
                failed=kind == "failed",
            )
            for number in range(size)
        ]
        work(many[:3])  # what is imported or cached at the first time
        with steps() as count:
            work(many)
        counts.append(count[0])
    assert counts[1] < 2.2 * counts[0], counts


def test_what_many_requests_say_stays_what_one_by_one_would() -> None:
    """The index knows two of each key and name, which is enough to know another one than itself."""
    many = [request(number, name=f"system:node:n{number % 3}") for number in range(9)]
    found = Requests(many)
    for each in many:
        mark = next(mark for mark in csr_review.review(each, found, NOW).marks if mark.code == "shared-key")
        other = next(other for other in found.all if int(other.metadata.uid[1:]) % 3 != int(each.metadata.uid[1:]) % 3)
        assert mark.text.startswith(f"{other.metadata.name} asks for ")


def test_the_ledger_is_merged_once(certificate: bytes) -> None:
    """As a rotation of the CA reads it."""
    source = (Path(kubevouch.phases.__file__).parent / "certificates" / "ca_rotation.py").read_text()
    loops = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.For | ast.While)]
    assert not [ast.unparse(loop) for loop in loops if "merged(" in ast.unparse(loop)]


def test_a_finding_of_which_there_are_thousands_is_counted() -> None:
    found = limited(doctor.judge_requests([request(number, failed=True) for number in range(1000)], {}, now=NOW))
    assert len(found) == SHOWN + 1
    assert found[-1].cause == f"{1000 - SHOWN} more of the kind"


def test_lists_are_read_in_pages_and_named_requests_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    size = PAGE_SIZE * 2 + 1
    with Cluster(https=True) as cluster:
        client = cluster.client()

        async def fill() -> None:
            for number in range(size):
                await client.create(CERTIFICATE_SIGNING_REQUESTS, request(number, name="n"))

        cluster.run(fill())
        monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
        asked = _requests_seen(cluster)
        assert run(["csr", "list"]) == 0
        assert capsys.readouterr().out.count("\n") == size + 1
        assert asked() == {"LIST": 3}
        assert run(["csr", "approve", "csr-7", "csr-8"]) == 0
        assert asked() == {"GET": 2, "UPDATE": 2}
        for words in (["doctor", "cluster"], ["join", "status", "n1"], ["token", "show", "abcdef"]):
            run(words)
            assert asked()["LIST"] <= 12, words
        capsys.readouterr()


def _requests_seen(cluster: Cluster) -> Callable[[], dict[str, int]]:
    """What has come for requests since the last time, by the server's own metric."""
    counted = "apiserver_request_total"
    before: dict[str, int] = {}

    def since() -> dict[str, int]:
        now: dict[str, int] = {}
        for line in _metrics(cluster).splitlines():
            if line.startswith(counted + "{") and 'resource="certificatesigningrequests"' in line:
                verb = line.partition('verb="')[2].partition('"')[0]
                now[verb] = now.get(verb, 0) + int(float(line.rpartition(" ")[2]))
        found = {verb: count - before.get(verb, 0) for verb, count in now.items() if count > before.get(verb, 0)}
        before.update(now)
        return found

    since()
    return since


def _metrics(cluster: Cluster) -> str:
    from wire import Wire

    return Wire.of_kubeconfig(cluster.kubeconfig, cluster.folder).request("GET", "/metrics").body.decode()


def test_nobody_asks_for_a_whole_collection_at_once() -> None:
    """A list without a limit is one answer of any size."""
    for package in (kubevouch.cli, kubevouch.phases):
        for path in Path(package.__file__ or "").parent.rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("client.list"):
                    # Where the options have a name, they are made with it right before.
                    lines = ast.unparse(node) + "".join(path.read_text().splitlines()[node.lineno - 2 : node.lineno])
                    assert "limit=" in lines, (path, node.lineno)
