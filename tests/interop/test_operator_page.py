"""docs/howto/test-an-operator.md: its programs, its definition and its tests, run as the suite that they are."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "test-an-operator.md"

# What the page says of kopf and faults.
KOPF = """
import kopf.testing

from test_website_operator import operator, website, website_in


def test_kopf_asks_again_by_itself(operator, kube_cluster, kube_namespace):
    faults = [
        kube_cluster.faults.error(code, verbs="patch", resources=["websites", "websites/status"])
        for code in (500, 429)
    ]
    faults.append(kube_cluster.faults.disconnect(verbs="patch", resources=["websites", "websites/status"]))
    kube_cluster.faults.wait_for_watch(resources="websites")
    kube_cluster.create(website_in(kube_namespace, title="Home"))
    for fault in faults:
        fault.wait(timeout=60)
    kube_cluster.wait_for(
        "websites", "home", kube_namespace, until=lambda site: site["status"]["publish"]["bytes"] > 0, timeout=60
    )


def test_kopf_watches_again(website, kube_cluster, kube_namespace):
    for how in ("end", "cut", "expire"):
        kube_cluster.faults.wait_for_watch(resources="websites", timeout=60)
        assert kube_cluster.faults.drop_watches(how, resources="websites")
        kube_cluster.apply(website_in(kube_namespace, title=how))
        kube_cluster.wait_for("cm", "home", kube_namespace, until=lambda f: how in f.data["index.html"], timeout=60)
"""


def files_of(page: str) -> dict[str, str]:
    """The blocks that begin with the name of a file."""
    blocks = re.findall(r"^```\w+\n# ([\w./-]+\.\w+)\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    return dict(blocks)


@pytest.mark.timeout(600)  # fourteen tests one after the other; what hangs among them ends, and is told, before
def test_every_program_of_the_page_runs(tmp_path: Path) -> None:
    page = PAGE.read_text()
    files = files_of(page)
    assert len(files) == page.count("\n```") // 2 == 12
    for name, text in {**files, "test_kopf.py": KOPF}.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    tests = sum(len(re.findall(r"^def test_", text, re.MULTILINE)) for text in (*files.values(), KOPF))
    # As in the shell of somebody who is logged in to a cluster.
    environment = {**os.environ, "KUBECONFIG": str(tmp_path / "nowhere"), "HOME": str(tmp_path)}
    environment.pop("PYTEST_XDIST_WORKER", None)
    options = ["-q", "-x", "-p", "no:cacheprovider", "--durations=5", "--timeout=120"]
    command = [sys.executable, "-m", "pytest", *options, str(tmp_path)]
    finished = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env=environment)
    assert f"{tests} passed" in finished.stdout, finished.stdout + finished.stderr
