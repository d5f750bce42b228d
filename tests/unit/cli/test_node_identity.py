"""``kubevouch node ban``, ``forget``, ``replace`` …: what they write. What it does to a machine is the approver's."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import msgspec
import pytest
from click.testing import CliRunner

from kubevouch.api.kubevouch_v1alpha1.catalog import CERTIFICATE_REVOCATIONS, NODE_IDENTITIES
from kubevouch.api.kubevouch_v1alpha1.certificate_revocations import CertificateRevocation
from kubevouch.api.kubevouch_v1alpha1.node_identities import (
    AttestedClaim,
    ExpectedHardware,
    NodeIdentity,
    NodeIdentitySpec,
    NodeIdentityStatus,
)
from kubevouch.cli import node_identity
from kubevouch.cli.exit_codes import ExitCode
from kubevouch.cli.main import cli
from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.machinery.text.times import Time
from kubevouch.testing.cluster import Cluster

Run = Callable[..., tuple[int, str]]
STATUS = NodeIdentityStatus(
    provider="tpm",
    identity="sha256:ab",
    strength="measured",
    last_seen=Time.parse("2026-01-01T00:00:00Z"),
    claims=[
        AttestedClaim(name="tpm.ekHash", value="ab", source="tpm-activation", strength="tpm"),
        AttestedClaim(name="aws.tag.role", value="db", source="aws-ec2", strength="cloud", tenant_controlled=True),
    ],
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(https=True, controllers=("certificaterevocations",)) as cluster:
        yield cluster


@pytest.fixture
def run(cluster: Cluster) -> Run:
    def asked(*arguments: str, text: str = "") -> tuple[int, str]:
        command = ["node", *arguments, "--kubeconfig", str(cluster.kubeconfig)]
        ended = CliRunner().invoke(cli, command, input=text)
        told = (
            str(ended.exception) if ended.exception is not None and not isinstance(ended.exception, SystemExit) else ""
        )
        return ended.exit_code, ended.output + told

    return asked


@pytest.fixture
def claimed(cluster: Cluster, request: pytest.FixtureRequest) -> str:
    """The name of a node of this test's own, which a machine has."""
    name = str(request.node.name).replace("_", "-")[:60].strip("-")
    client = cluster.client()
    made = cluster.run(client.create(NODE_IDENTITIES, NodeIdentity(metadata=ObjectMeta(name=name))))
    cluster.run(client.update(NODE_IDENTITIES, msgspec.structs.replace(made, status=STATUS), subresource="status"))
    return name


def holds(cluster: Cluster, name: str) -> list[CertificateRevocation]:
    found = cluster.run(cluster.client().list(CERTIFICATE_REVOCATIONS)).items
    return [each for each in found if each.spec.revoked.nodes == [name]]


def spec(cluster: Cluster, name: str) -> dict[str, object]:
    found: dict[str, object] = json_codec.to_builtins(cluster.run(cluster.client().get(NODE_IDENTITIES, name)).spec)
    return found


def test_who_has_which_name(run: Run, claimed: str) -> None:
    code, told = run("identities")
    assert code == 0 and f"{claimed}" in told and "measured" in told and "claimed" in told
    (entry,) = [each for each in json.loads(run("identities", "-o", "json")[1]) if each["node"] == claimed]
    assert entry["status"]["identity"] == "sha256:ab" and entry["state"] == "claimed"
    code, told = run("identity", claimed)
    assert code == 0 and "tpm-activation" in told and "(tenant's word)" in told
    assert run("identity", "nobody")[0] == ExitCode.FAILED


def test_a_ban_is_an_object_and_a_revocation_and_can_be_taken_back(cluster: Cluster, run: Run, claimed: str) -> None:
    assert run("ban", claimed, text="n\n")[0] != 0
    assert not spec(cluster, claimed).get("banned")
    for _ in range(2):
        assert run("ban", claimed, "--why", "cloned disk", "--yes")[0] == 0
    assert spec(cluster, claimed) == {"banned": True, "bannedReason": "cloned disk"}
    held = holds(cluster, claimed)
    assert held and {each.spec.reason for each in held} == {"certificateHold"}
    assert "banned: cloned disk" in run("identities")[1]

    code, told = run("forget", claimed, "--yes")
    assert code == ExitCode.FAILED and "banned" in told
    assert run("replace", claimed, "--expect-new-hardware")[0] == ExitCode.FAILED
    # A removal's hold stays when a ban is taken back, and the other way round.
    assert run("remove", claimed, "--yes")[0] == 0
    assert run("unban", claimed)[0] == 0
    left = holds(cluster, claimed)
    assert len(left) == 1 and left[0].metadata.name.startswith("node-")
    assert run("unban", claimed)[0] == ExitCode.FAILED


def test_a_ban_reaches_what_was_issued_by_the_servers_clock(cluster: Cluster, run: Run, claimed: str) -> None:
    """The clock of whoever types it may be behind, as this cluster's, which stands still, is ahead."""
    cluster.clock.advance(3600)
    assert run("ban", claimed, "--yes")[0] == 0
    (held,) = holds(cluster, claimed)
    assert held.spec.revoked.issued_until == Time.of(cluster.clock.now().replace(microsecond=0))


def test_lifting_a_removal_leaves_a_ban(cluster: Cluster, run: Run, claimed: str) -> None:
    assert run("ban", claimed, "--yes")[0] == run("remove", claimed, "--yes")[0] == run("lift", claimed)[0] == 0
    left = holds(cluster, claimed)
    assert [each.metadata.name.startswith("banned-") for each in left] == [True]


def test_a_machine_can_be_banned_before_it_came(cluster: Cluster, run: Run) -> None:
    assert run("ban", "never-seen", "--yes")[0] == 0
    assert spec(cluster, "never-seen") == {"banned": True}


def test_renewal_and_other_hardware_are_the_operators_word(cluster: Cluster, run: Run, claimed: str) -> None:
    assert run("renew-now", claimed)[0] == 0
    assert spec(cluster, claimed)["renewAfter"]
    assert run("replace", claimed)[0] == 2
    assert run("replace", claimed, "--expect-new-hardware", "--within", "0")[0] == 2
    for cannot_be in ("", "  ", "sha256:cd\n", "\x1b[2J", "\udcff", "x" * 1025, "é" * 513):
        code, told = run("replace", claimed, "--expect-new-hardware", "--identity", cannot_be)
        assert code == 2 and "got --identity" in told, cannot_be
    assert not spec(cluster, claimed).get("expectNewHardware")
    code, told = run("replace", claimed, "--expect-new-hardware", "--identity", "sha256:cd")
    assert code == 0 and f"the machine sha256:cd may take the name {claimed}" in told
    expected = spec(cluster, claimed)["expectNewHardware"]
    assert isinstance(expected, dict) and expected["identity"] == "sha256:cd" and expected["until"]
    assert "other hardware until" in run("identities")[1]
    for command in ("renew-now", "replace", "forget", "unban"):
        more = {"replace": ["--expect-new-hardware"], "forget": ["--yes"]}.get(command, [])
        code, told = run(command, "nobody", *more)
        assert code == ExitCode.FAILED and "nobody" in told


@pytest.mark.parametrize(
    ("until", "used", "shown"),
    [
        ("9999-01-01T00:00:00Z", None, "other hardware until 9999-01-01T00:00:00Z"),
        ("9999-01-01T00:00:00Z", "9999-01-01T00:00:00Z", "claimed"),
        ("9999-01-01T00:00:00Z", "9998-01-01T00:00:00Z", "other hardware until 9999-01-01T00:00:00Z"),
        ("2000-01-01T00:00:00Z", None, "claimed"),
    ],
)
def test_a_permission_that_is_used_or_over_is_no_state(until: str, used: str | None, shown: str) -> None:
    replaced = None if used is None else Time.parse(used)
    status = msgspec.structs.replace(STATUS, replaced_until=replaced)
    spec = NodeIdentitySpec(expect_new_hardware=ExpectedHardware(until=Time.parse(until)))
    each = NodeIdentity(metadata=ObjectMeta(name="n"), spec=spec, status=status)
    assert node_identity.shown_state(each) == shown


def test_what_is_forgotten_is_gone(cluster: Cluster, run: Run, claimed: str) -> None:
    assert run("forget", claimed, text="n\n")[0] != 0
    assert run("forget", claimed, "--yes")[0] == 0
    assert run("identity", claimed)[0] == ExitCode.FAILED
