"""Plays abuses against a running kubevouch and writes what it cost it, as a table, JSON and pictures: ``make attack``.

Each abuse has a new ``kubevouch up`` on SQLite in a process of its own, and is played by a process of its own from
other addresses of the loopback network. ``--draw`` puts earlier results beside the new ones. docs/attacks.md says what
the rows mean.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime as dt
import json
import os
import re
import resource
import secrets
import sys
import tempfile
from pathlib import Path

import msgspec
import uvloop
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

import curves
from abuse_client import NODE_NAME, Target
from abuses import ABUSES, SINGLE, Abuse
from cluster import Cluster, running
from curves import Played, Record
from honest_machines import ATTESTATION
from http1 import Connection
from kubevouch.phases.certificates.certs import ensure_authority
from report import machine
from samples import Sampler

BEFORE_SECONDS = 2.0
MOST_RSS_MIB = 3072.0
_SECRETS = "/api/v1/namespaces/kube-system/secrets"
_GRACE_SECONDS = 90.0
_MONITOR = b"kubevouch_event_loop_stall_seconds"
_STALLS = re.compile(rb"^kubevouch_event_loop_stall_seconds_count ([0-9.e+]+)", re.MULTILINE)


async def play(abuse: Abuse, seconds: float, after: float, kubevouch: Path | None) -> Played:
    """One abuse against a server of its own, that is then left alone for ``after`` seconds."""
    with tempfile.TemporaryDirectory(prefix="kubevouch-attack-") as folder:
        flags = []
        if abuse.attests:
            configuration = Path(folder) / "attestation.yaml"
            configuration.write_text(ATTESTATION)
            flags = ["--attestation-config", str(configuration)]
        if abuse.ca is not None:
            ensure_authority(Path(folder) / "cluster" / "pki", "ca", now=dt.datetime.now(dt.UTC), algorithm=abuse.ca)
        async with running(Path(folder) / "cluster", kubevouch=kubevouch, flags=flags) as cluster:
            target = await _target(cluster, seconds * abuse.lasts)
            command = [str(Path(__file__).with_name("abuses.py")), abuse.key]
            attacker = await asyncio.create_subprocess_exec(
                sys.executable, *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
            )
            try:
                return await _watched(abuse, cluster, attacker, target, after)
            finally:
                if attacker.returncode is None:
                    attacker.kill()
                await attacker.wait()


async def _watched(
    abuse: Abuse, cluster: Cluster, attacker: asyncio.subprocess.Process, target: Target, after: float
) -> Played:
    assert attacker.stdin is not None and attacker.stdout is not None  # pipes were asked for
    attacker.stdin.write(msgspec.json.encode(target) + b"\n")
    if await attacker.stdout.readline() != b"prepared\n":
        raise RuntimeError(f"{abuse.key} could not be prepared")
    await cluster.quiet()
    stalls = await _stalls(cluster)
    sampler = Sampler(cluster, MOST_RSS_MIB)
    sampler.start()
    try:
        await asyncio.sleep(BEFORE_SECONDS)
        attacker.stdin.write(b"go\n")
        sampler.zero()
        told = asyncio.create_task(attacker.stdout.readline())
        give_up = target.seconds + _GRACE_SECONDS
        while not told.done() and not sampler.given_up and sampler.seconds < give_up:
            await asyncio.wait({told}, timeout=0.1)
        ended = sampler.seconds
        given_up = sampler.given_up or ("" if told.done() else f"not over after {give_up:.0f} s")
        if not told.done():
            attacker.kill()
        line = await told
        await asyncio.sleep(after)
    finally:
        samples = sampler.end()
    answers = json.loads(line) if line else {}
    seen = None if given_up or stalls is None else await _stalls(cluster)
    held = None if seen is None else seen - (stalls or 0)
    return Played(abuse.title, abuse.who, ended, given_up, answers, samples, held, os.getloadavg()[0])


async def _stalls(cluster: Cluster) -> int | None:
    """How often the server has seen its loop held; None if it does not look."""
    admin = await cluster.connect_as_admin()
    try:
        text = await admin.request("GET", "/metrics")
    finally:
        admin.close()
    found = _STALLS.search(text)
    if found is None:
        return 0 if _MONITOR in text else None  # before the first stall there is no line with a number
    return int(float(found[1]))


async def _target(cluster: Cluster, seconds: float) -> Target:
    """Credentials of every kind, made as an administrator makes them."""
    folder = cluster.data_dir.parent
    token_id, token_secret = secrets.token_hex(3), secrets.token_hex(8)
    data = {
        "token-id": token_id,
        "token-secret": token_secret,
        "usage-bootstrap-authentication": "true",
        "auth-extra-groups": "system:bootstrappers:kubeadm:default-node-token",
    }
    name = {"name": f"bootstrap-token-{token_id}"}
    tree = {"metadata": name, "type": "bootstrap.kubernetes.io/token", "stringData": data}
    admin: Connection = await cluster.connect_as_admin()
    await admin.request("POST", _SECRETS, json.dumps(tree).encode())
    admin.close()
    node_pair = folder / "node.pem"
    node_pair.write_bytes(_node_pair(cluster.data_dir / "pki"))
    return Target(
        host=cluster.host, port=cluster.port, ca_file=str(cluster.ca_file), token=f"{token_id}.{token_secret}",
        node_pair=str(node_pair), admin_pair=str(cluster.data_dir / "admin.pem"), seconds=seconds,
    )  # fmt: skip


def _node_pair(pki: Path) -> bytes:
    """A node's certificate and key, signed with the cluster's CA."""
    issuer = x509.load_pem_x509_certificate((pki / "ca.crt").read_bytes())
    issuer_key = serialization.load_pem_private_key((pki / "ca.key").read_bytes(), None)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:nodes"),
            x509.NameAttribute(NameOID.COMMON_NAME, f"system:node:{NODE_NAME}"),
        ]
    )
    now = dt.datetime.now(dt.UTC)
    builder = x509.CertificateBuilder(issuer.subject, subject, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - dt.timedelta(minutes=5)).not_valid_after(now + dt.timedelta(hours=2))
    builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
    certificate = builder.sign(issuer_key, hashes.SHA256())  # type: ignore[arg-type]  # a CA's key signs
    return certificate.public_bytes(serialization.Encoding.PEM) + key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


async def attack(keys: list[str], seconds: float, after: float, kubevouch: Path | None) -> dict[str, Played]:
    """All of them, one after another."""
    played = {}
    for key in keys:
        played[key] = await play((ABUSES | SINGLE)[key], seconds, after, kubevouch)
        print(curves.row(played[key]), flush=True)
    return played


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--into", type=Path, required=True, help="folder for attack.json, attack.md, SVGs")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long each abuse goes on at most")
    parser.add_argument("--after", type=float, default=8.0, help="seconds that are measured behind it")
    parser.add_argument("--kubevouch", type=Path, help="the command of another installation  [default: this one]")
    parser.add_argument("--label", default="now", help="what the curves are called")
    parser.add_argument("--draw", type=Path, nargs="*", default=[], metavar="JSON", help="earlier results, drawn too")
    parser.add_argument("--only", nargs="*", default=list(ABUSES), choices=[*ABUSES, *SINGLE], metavar="ABUSE",
                        help="none: only draw again")  # fmt: skip
    options = parser.parse_args()
    _, descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))
    earlier = [msgspec.json.decode(file.read_bytes(), type=Record) for file in options.draw]
    options.into.mkdir(parents=True, exist_ok=True)
    records = earlier
    if options.only:
        played = uvloop.run(attack(options.only, options.seconds, options.after, options.kubevouch))
        record = Record(options.label, machine(), played)
        (options.into / "attack.json").write_bytes(msgspec.json.encode(record) + b"\n")
        records = [*earlier, record]
    pages = [curves.table(record) for record in records]
    (options.into / "attack.md").write_text("\n".join([curves.comparison(records), *pages]))
    for key in records[-1].played:
        (options.into / f"{key}.svg").write_text(curves.svg(key, records))
    (options.into / "overview.svg").write_text(curves.overview(records))
    print(f"written to {options.into}")


if __name__ == "__main__":
    main()
