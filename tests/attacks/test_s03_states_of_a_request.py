"""S3: what stands before the gate to a certificate and behind it: its writer, its states, and keys on disk."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import controller_world
import identity_world as world
import kubevouch
from asynctest import async_test
from controller_world import NOW
from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS
from kubevouch.api.certificates_v1 import (
    CertificateSigningRequest,
    CertificateSigningRequestCondition,
    CertificateSigningRequestSpec,
    CertificateSigningRequestStatus,
)
from kubevouch.controllers import csr_approving, csr_signing
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.machinery.text.times import Time

ROOT = Path(kubevouch.__file__).parent

# What a person does on a control plane's own disk, with the key at hand.
ON_DISK = {
    "phases/certificates/certs.py",
    "phases/certificates/certs_renewal.py",
    "phases/certificates/control_plane_pki.py",
    "phases/kubeconfig.py",
    "testing/cluster_pki.py",
}


def _calls() -> Iterator[tuple[str, str, ast.Call]]:
    """Module, what is called as it is written, and the call."""
    for path in sorted(ROOT.rglob("*.py")):
        module = path.relative_to(ROOT).as_posix()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                yield module, ast.unparse(node.func), node


CALLS = tuple(_calls())


def callers(*written: str) -> set[str]:
    return {module for module, called, _ in CALLS if called in written or called.rpartition(".")[2] in written}


def test_the_control_planes_own_certificates_are_made_where_its_key_is() -> None:
    """Neither server, nor controllers, nor agent make one."""
    made = callers("issue_leaf", "create_authority", "cross_sign")
    assert made <= ON_DISK | {module for module in made if module.startswith(("phases/", "testing/", "demo/"))}
    assert not {module.partition("/")[0] for module in made} & {
        "server", "controllers", "agent", "registry", "signers", "admission", "authentication", "standalone",
    }  # fmt: skip


def test_nobody_builds_a_certificate_past_all_of_this() -> None:
    assert callers("CertificateBuilder", "CertificateSigningRequestBuilder") == set()


def test_one_writer_of_issued_certificates() -> None:
    writers = {
        module
        for module, called, node in CALLS
        if called.endswith("structs.replace") or called == "CertificateSigningRequestStatus"
        if any(keyword.arg == "certificate" for keyword in node.keywords)
    }
    # The second converts a stored one to another version of the API; the others write no status: a CA's certificate
    # while it is rolled over, and the ledger's entry.
    elsewhere = {"signers/rollover.py", "ledger/entries.py"}
    assert writers - elsewhere == {"controllers/csr_signing.py", "api/certificates_v1beta1.py"}


def condition(kind: str, status: str = "True") -> CertificateSigningRequestCondition:
    at = Time.of(NOW)
    return CertificateSigningRequestCondition(type=kind, status=status, last_update_time=at, last_transition_time=at)


@pytest.mark.parametrize(
    ("conditions", "issued"),
    [
        ((), False),
        (("Denied",), False),
        (("Failed",), False),
        (("JoinStuck",), False),
        (("Approved", "Denied"), False),
        (("Denied", "Approved"), False),
        (("Approved", "Failed"), False),
        (("Failed", "Approved"), False),
        (("approved",), False),
        (("Approved ",), False),
        (("Approved", "JoinStuck"), True),
        (("Approved",), True),
    ],
)
@async_test
async def test_nothing_is_finished_before_it_is_approved(conditions: tuple[str, ...], issued: bool) -> None:
    """Every state that a store may hold, however it got there; the approver does not run."""
    csr = CertificateSigningRequest(
        metadata=ObjectMeta(name="a", uid="1", creation_timestamp=Time.of(NOW)),
        spec=CertificateSigningRequestSpec(
            request=world.node_request("worker-1"), signer_name=world.NODE_CLIENT, usages=list(world.CLIENT_USAGES)
        ),
        status=CertificateSigningRequestStatus(conditions=[condition(kind) for kind in conditions]),
    )
    async with controller_world.world() as at:
        await at.put(CERTIFICATE_SIGNING_REQUESTS, csr)
        await at.run(csr_signing.NAME)
        written = [each for each in at.writes("PUT") if each.status.certificate]
    assert bool(written) is issued


@async_test
async def test_a_decided_request_is_not_decided_again() -> None:
    for kind in ("Approved", "Denied"):
        csr = CertificateSigningRequest(
            metadata=ObjectMeta(name="a", uid="1", creation_timestamp=Time.of(NOW)),
            spec=CertificateSigningRequestSpec(
                request=world.node_request("worker-1"),
                signer_name=world.NODE_CLIENT,
                usages=list(world.CLIENT_USAGES),
                username="system:bootstrap:abcdef",
                groups=list(world.TOKEN_GROUPS),
            ),
            status=CertificateSigningRequestStatus(conditions=[condition(kind, "False")]),
        )
        async with controller_world.world() as at:
            await at.put(CERTIFICATE_SIGNING_REQUESTS, csr)
            await at.run(csr_approving.NAME)
            assert at.writes("PUT") == []
