#!/usr/bin/env python3
"""What asking whether a certificate is revoked costs, with 100,000 serial numbers: in microseconds and in memory.

benchmarks/revocations.py [--serials 100000]
"""

from __future__ import annotations

import argparse
import datetime as dt
import gc
import random
import statistics
import sys
import timeit
import tracemalloc

from kubevouch.api.kubevouch_v1alpha1.certificate_revocations import (
    MAX_NUMBERS,
    CertificateRevocation,
    CertificateRevocationSpec,
    IssuedNumbers,
    RevocationTargets,
)
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.machinery.text.times import Time
from kubevouch.revocation.revocations import Mark, Revocations

_NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
_ISSUER = bytes(range(20))
_ROUNDS, _IN_A_ROUND = 7, 20_000


def objects(serials: list[int]) -> list[CertificateRevocation]:
    """As many as they need, as they come out of the store."""
    parts = [serials[start : start + MAX_NUMBERS] for start in range(0, len(serials), MAX_NUMBERS)]
    return [
        CertificateRevocation(
            metadata=ObjectMeta(name=f"many-{number}", creation_timestamp=Time.of(_NOW)),
            spec=CertificateRevocationSpec(
                revoked=RevocationTargets(
                    serials=[IssuedNumbers(issuer=_ISSUER.hex(), numbers=[f"{each:x}" for each in part])]
                ),
                reason="keyCompromise",
            ),
        )
        for number, part in enumerate(parts, 1)
    ]


def mark(serial: int) -> Mark:
    return Mark(_ISSUER, serial, b"f" * 32, b"k" * 32, "system:node:worker-1", _NOW)


def microseconds(revocations: Revocations, serial: int) -> float:
    """Of one question about a client with one certificate, the median of several rounds."""
    marks = (mark(serial),)
    taken = timeit.repeat(lambda: revocations.why(marks), number=_IN_A_ROUND, repeat=_ROUNDS)
    return statistics.median(taken) / _IN_A_ROUND * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--serials", type=int, default=100_000)
    count = parser.parse_args().serials
    draw = random.Random(1)
    serials = [draw.getrandbits(127) for _ in range(count)]
    gc.collect()
    tracemalloc.start()
    revocations = Revocations()
    revocations.load(objects(serials))
    gc.collect()
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    empty = Revocations.none()
    sys.stdout.write(
        f"{len(revocations)} objects, {revocations.values} serial numbers: {held / 1e6:.1f} MB with the objects\n"
        f"nothing is revoked                 {microseconds(empty, 1):5.2f} µs a request\n"
        f"a certificate that is not revoked  {microseconds(revocations, 1):5.2f} µs a request\n"
        f"a certificate that is revoked      {microseconds(revocations, serials[-1]):5.2f} µs a request\n"
    )


if __name__ == "__main__":
    main()
