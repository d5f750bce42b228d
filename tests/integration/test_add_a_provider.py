"""docs/attestation/add-a-provider.md: the package on the page is built, installed and tested as it stands there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import peers
from kubevouch.config import attestation_config

PAGE = (peers.ROOT / "docs" / "attestation" / "add-a-provider.md").read_text()
FILES = dict(re.findall(r"^```(?:toml|python)\n# (\S+)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
CONFIGURATION = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_the_package_on_the_page_is_a_provider(tmp_path: Path) -> None:
    project, installed = tmp_path / "project", tmp_path / "installed"
    for name, text in FILES.items():
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    pip = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--quiet", "--no-compile"]
    offline = ["--no-index", "--no-deps", "--no-build-isolation", "--target", str(installed), str(project)]
    built = subprocess.run([*pip, *offline], capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_rack.py"],
        cwd=project, env={**os.environ, "PYTHONPATH": str(installed)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert tested.returncode == 0, tested.stdout + tested.stderr
    assert "2 passed" in tested.stdout


def test_its_configuration_is_one() -> None:
    (text,) = CONFIGURATION
    assert [each.provider for each in attestation_config.decode(text.encode()).attestors] == ["rack"]
