"""The exec plug-in under the name that says by which method it proves."""

from __future__ import annotations

import os
import sys
import tomllib
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import processes
from kubevouch.attestation import catalog

PROJECT = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]


def program(folder: Path, name: str) -> Path:
    path = folder / name
    path.write_text(f"#!{sys.executable}\nfrom kubevouch.cli.kubelet_authenticator import main\nmain()\n")
    path.chmod(0o755)
    return path


def test_its_name_says_which_method(tmp_path: Path) -> None:
    named = program(tmp_path, "kubelet-authenticator-x509pop")
    linked = tmp_path / "kubelet-authenticator-sshpop"
    os.symlink(named, linked)
    for each, name in ((named, "x509pop"), (linked, "sshpop")):
        ended = processes.run(each, "--rootfs", "./none", "--provider-setting", f"{name}.a", cwd=tmp_path)
        assert (ended.code, ended.stdout) == (3, "")
        assert ended.stderr.startswith(
            f"error: got the setting '{name}.a', expected [METHOD.]KEY=VALUE of {name}, each"
        )


@pytest.mark.parametrize("name", ["kubelet-authenticator", "plugin"])
def test_a_name_that_says_nothing(tmp_path: Path, name: str) -> None:
    ended = processes.run(program(tmp_path, name), cwd=tmp_path)
    assert (ended.code, ended.stdout) == (3, "")
    assert ended.stderr.startswith(f"error: got the program name '{name}', expected kubelet-authenticator-NAME\nhint: ")


def test_every_method_of_ours_has_its_program() -> None:
    methods = set(PROJECT["entry-points"][catalog.ATTESTORS])
    programs = {name.removeprefix("kubelet-authenticator-") for name in PROJECT["scripts"]}
    assert methods <= programs
    assert not entry_points(group="console_scripts", name="kubelet-authenticator-null")
