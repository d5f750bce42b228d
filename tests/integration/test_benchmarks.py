"""``make bench`` runs to its end and says what it promises; how fast is not this test's business."""

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parents[2]


def test_a_run_leaves_table_json_and_picture(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "run.py"), "--into", str(tmp_path), "--runs", "1"]
    sizes = ["--joins", "70", "--listed", "70", "--watchers", "5", "--seconds", "0.1", "--lists", "300", "--crowd", "6"]
    done = subprocess.run([*command, *sizes], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "results.json").read_bytes())
    measures = results["measures"]
    assert results["about"]["joins"] == "70"
    assert all(len(each["runs"]) == 1 for each in measures.values())
    # So few watchers may fit into memory that was there already.
    assert all(each["median"] > 0 for key, each in measures.items() if not key.endswith("_rss"))
    table = (tmp_path / "results.txt").read_text()
    assert all(each["title"] in table for each in measures.values())
    picture = ElementTree.parse(tmp_path / "results.svg").getroot()
    named = {text.text for text in picture.iter("{http://www.w3.org/2000/svg}text")}
    assert {each["title"] for each in measures.values() if each["wanted"]} <= named


def test_a_short_endurance_run_says_where_the_memory_is(tmp_path: Path) -> None:
    into = tmp_path / "looks.json"
    command = [sys.executable, str(ROOT / "benchmarks" / "endurance.py"), "--seconds", "4", "--every", "2"]
    done = subprocess.run([*command, "--into", str(into)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    record = json.loads(into.read_bytes())
    assert {"join", "list", "watch", "patch", "apply", "lease", "bad credential", "refused"} <= record["done"].keys()
    assert record["failed"] == {}
    for kind in ("rss", "disk", "objects", "history", "encodings", "store_uncompacted"):
        assert record["looks"][-1][kind] > 0


def test_custom_objects_are_measured_beside_config_maps() -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "custom.py"), "--count", "5", "--runs", "1"]
    done = subprocess.run([*command, "--watchers", "2"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if "share" in line and ", " in line][1:]
    assert len(rows) == 12
    assert sum("ConfigMap" in row and row.endswith("share 1.00") for row in rows) == 4


def test_keys_elsewhere_are_measured_beside_files() -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "signing.py"), "--signatures", "8"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = [line.split()[:2] for line in done.stdout.splitlines() if line.endswith("1/s")]
    assert rows == [[name, kind] for name in ("P-256", "RSA-2048") for kind in ("file", "pkcs11", "process")]
