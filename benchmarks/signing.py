"""What it costs that a CA's key is elsewhere: the same signatures by a file, a token of SoftHSM and a signing process.

    .venv/bin/python benchmarks/signing.py [--signatures 400]

SoftHSM computes as this process does, so that the difference is PKCS #11 itself: sessions, threads, looking at what was
signed. An HSM adds its own time. It comes from .peers (make peers).
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from kubevouch.ledger.store import SQLiteLedger
from kubevouch.pki import keys
from kubevouch.pki.authority import create_authority
from kubevouch.pki.issuance import SigningRules
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509 import x509_request
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.subject import Subject
from kubevouch.signers import outside
from kubevouch.signers.catalog import PairFiles
from kubevouch.signers.file import FileSigner
from kubevouch.signers.interface import Approval, Requester, Signer, SignerUnavailable, Wanted
from kubevouch.signers.issuance import issue
from kubevouch.standalone.options import ClusterSigning
from kubevouch.standalone.sign import SignOptions, running
from kubevouch.util.clock import SystemClock
from kubevouch.util.files import write_new
from kubevouch.wellknown import KUBE_APISERVER_CLIENT_KUBELET_SIGNER

ROOT = Path(__file__).parents[1]
MODULE = ROOT / ".peers/debian/usr/lib/softhsm/libsofthsm2.so"
UTIL = ROOT / ".peers/debian/usr/bin/softhsm2-util"
PIN = "1234"
AT_ONCE = 8
_MS = 1000.0
_ALGORITHMS = {"P-256": KeyAlgorithm.ECDSA_P256, "RSA-2048": KeyAlgorithm.RSA_2048}


def _hsm(folder: Path) -> None:
    (folder / "tokens").mkdir()
    configuration = folder / "softhsm2.conf"
    configuration.write_text(f"directories.tokendir = {folder}/tokens\nobjectstore.backend = file\n")
    os.environ["SOFTHSM2_CONF"] = str(configuration)
    _util("--init-token", "--free", "--label", "ca", "--pin", PIN, "--so-pin", PIN)
    write_new(folder / "pin", PIN.encode())


def _util(*arguments: str) -> None:
    subprocess.run([UTIL, "--module", MODULE, *arguments], check=True, capture_output=True)


def _files(folder: Path, name: str, clock: SystemClock) -> tuple[Path, Path]:
    """The files of a new CA, whose key is in the token, too."""
    key = keys.generate(_ALGORITHMS[name])
    authority = create_authority(name, key, now=clock.now())
    certificate, file = folder / f"{name}.crt", folder / f"{name}.key"
    certificate.write_bytes(authority.certificate.pem())
    write_new(file, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    _util("--import", str(file), "--token", "ca", "--label", name, "--id", f"{len(name):02x}", "--pin", PIN)
    return certificate, file


def _wanted(number: int) -> Wanted:
    subject = Subject(common_name=f"system:node:n{number}", organizations=("system:nodes",))
    request = x509_request.parse_pem(build_request(keys.generate(KeyAlgorithm.ECDSA_P256), subject))
    usages = ["digital signature", "client auth"]
    return Wanted(f"csr-{number}", f"uid-{number}", KUBE_APISERVER_CLIENT_KUBELET_SIGNER, request, usages)


@asynccontextmanager
async def _process(folder: Path, files: tuple[Path, Path], clock: SystemClock) -> AsyncIterator[Signer]:
    options = SignOptions(folder / "s", folder / "ledger.db", ClusterSigning(PairFiles(str(files[0]), str(files[1]))))
    async with running(options, clock):
        yield outside.process_signer(folder / "s", files[0], SigningRules(), clock)


async def _measured(signer: Signer, ledger: SQLiteLedger, count: int, first: int) -> tuple[float, float]:
    """Milliseconds that one takes after another, and how many a second with :data:`AT_ONCE` of them."""
    clock = SystemClock()

    async def one(asked: Wanted) -> float:
        begun = time.perf_counter()
        while True:
            try:
                await issue(signer, Requester("r"), Approval("AutoApproved", ""), asked, now=clock.now(), ledger=ledger)
                return (time.perf_counter() - begun) * _MS
            except SignerUnavailable as err:
                await clock.sleep(err.retry_after)

    alone = [await one(_wanted(first + number)) for number in range(count // 4)]
    asked = [_wanted(first + count + number) for number in range(count)]
    begun = time.perf_counter()
    left = iter(asked)

    async def worker() -> None:
        for each in left:
            await one(each)

    await asyncio.gather(*(worker() for _ in range(AT_ONCE)))
    return statistics.median(alone), count / (time.perf_counter() - begun)


async def _run(count: int) -> None:
    clock = SystemClock()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        _hsm(folder)
        print(f"{'':24} {'median of one':>14} {f'{AT_ONCE} at once':>14}")
        for position, name in enumerate(_ALGORITHMS):
            files = _files(folder, name, clock)
            uri = f"pkcs11:token=ca;object={name}?module-path={MODULE}&pin-source=file:{folder}/pin"
            own = folder / name
            own.mkdir()
            ledger = await SQLiteLedger.open(own / "ledger.db", clock)
            async with _process(own, files, clock) as process:
                kinds: dict[str, Signer] = {
                    "file": FileSigner(*files), "pkcs11": FileSigner(files[0], uri), "process": process
                }  # fmt: skip
                for number, (kind, signer) in enumerate(kinds.items()):
                    first = (position * 10 + number) * 10 * count
                    alone, rate = await _measured(signer, ledger, count, first)
                    print(f"{name:12} {kind:11} {alone:11.2f} ms {rate:10.0f} 1/s", flush=True)
            await ledger.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--signatures", type=int, default=400)
    asyncio.run(_run(parser.parse_args().signatures))


if __name__ == "__main__":
    main()
