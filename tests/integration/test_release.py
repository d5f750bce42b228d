"""What is published is the same whoever builds it, and holds what a user needs and nothing else."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import release  # noqa: E402 - a script, beside the tests


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of two builds, which were compared."""
    into = tmp_path_factory.mktemp("dist")
    release.release(into)
    return into


def test_two_builds_are_one_and_are_summed(published: Path) -> None:
    sums = {line[66:]: line[:64] for line in (published / release.SUMS).read_text().splitlines()}
    assert sorted(Path(name).suffix for name in sums) == [".gz", ".whl"]
    assert sums == {name: digest for name, digest in release.digests(published).items() if name != release.SUMS}


def test_the_wheel_holds_the_program_alone(published: Path) -> None:
    (wheel,) = published.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "kubevouch/cli/main.py" in names
    assert {name.split("/")[0].partition("-")[0] for name in names} == {"kubevouch"}
    assert not [name for name in names if "/tests/" in name or name.endswith((".pyc", ".pem", ".key"))]


def test_builds_that_differ_are_not_kept(published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert published.exists()
    count = iter(range(2))

    def build(into: Path, _source: Path, _epoch: str, **_where: object) -> None:
        into.mkdir()
        (into / "kubevouch.whl").write_text(str(next(count)))

    monkeypatch.setattr(release, "build", build)
    with pytest.raises(release.DifferentBuildError):
        release.release(tmp_path / "dist")
    assert not (tmp_path / "dist").exists()
