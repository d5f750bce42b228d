"""Builds what is published: sdist and wheel, twice and in different places, and compares them octet by octet.

Somebody else who builds the same commit with the versions in requirements.lock gets the same files, so that what is
published can be held against its source. Usage: ``release.py INTO``.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SUMS = "SHA256SUMS"


class DifferentBuildError(Exception):
    """Two builds of one commit are not the same."""


def commit_time() -> str:
    """Seconds since 1970: the time stamp of everything that is packed (reproducible-builds.org, SOURCE_DATE_EPOCH)."""
    return subprocess.check_output(["git", "log", "-1", "--format=%ct"], cwd=ROOT, text=True).strip()


def build(into: Path, source: Path, epoch: str, *, umask: int, zone: str) -> None:
    """Build the committed files, unpacked at ``source``, so that nothing of the machine but its Python plays a part."""
    archive = subprocess.check_output(["git", "archive", "HEAD"], cwd=ROOT)
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(source, filter="data")
    env = {"PATH": os.environ["PATH"], "TZ": zone, "SOURCE_DATE_EPOCH": epoch, "PYTHONHASHSEED": str(umask)}
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(into)],
        cwd=source, env=env, umask=umask, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def digests(folder: Path) -> dict[str, str]:
    """SHA-256 of each file."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


def release(into: Path) -> dict[str, str]:
    """Build twice, keep one. Raises DifferentBuildError, after which ``into`` holds nothing new."""
    epoch = commit_time()
    with tempfile.TemporaryDirectory(prefix="kubevouch-release-") as scratch:
        first, second = Path(scratch, "first"), Path(scratch, "second")
        for number, built in enumerate((first, second)):
            source = Path(scratch, "source" * (number + 1))
            source.mkdir()
            build(built, source, epoch, umask=(0o022, 0o077)[number], zone=("UTC", "Asia/Tokyo")[number])
        if digests(first) != digests(second):
            raise DifferentBuildError(f"got {digests(second)} from the second build, expected {digests(first)}")
        into.mkdir(parents=True, exist_ok=True)
        for path in first.iterdir():
            (into / path.name).write_bytes(path.read_bytes())
        found = digests(first)
    (into / SUMS).write_text("".join(f"{digest}  {name}\n" for name, digest in found.items()))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("into", type=Path)
    for name, digest in release(parser.parse_args().into).items():
        print(f"{digest}  {name}")


if __name__ == "__main__":
    main()
