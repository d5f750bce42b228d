"""``make attack`` runs to its end and says what it promises; what an abuse costs is not this test's business."""

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parents[2]


def attacked(into: Path, *more: str) -> dict[str, dict[str, object]]:
    command = [sys.executable, str(ROOT / "benchmarks" / "attack.py"), "--into", str(into), "--after", "0.6", *more]
    done = subprocess.run([*command, "--seconds", "0.5"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    record: dict[str, dict[str, dict[str, object]]] = json.loads((into / "attack.json").read_bytes())
    return record["played"]


def test_an_attack_leaves_table_json_and_pictures(tmp_path: Path) -> None:
    earlier, command = tmp_path / "earlier", str(Path(sys.executable).with_name("kubevouch"))
    attacked(earlier, "--only", "bad-credentials", "--kubevouch", command, "--label", "then")
    played = attacked(tmp_path, "--only", "bad-credentials", "--draw", str(earlier / "attack.json"))
    (abuse,) = played.values()
    assert abuse["given_up"] == ""
    samples = abuse["samples"]
    assert isinstance(samples, list) and samples[0]["at"] < 0 < samples[-1]["at"]
    assert all(sample["rss_mib"] > 0 and sample["descriptors"] > 0 for sample in samples)
    assert str(abuse["title"]) in (tmp_path / "attack.md").read_text()
    picture = ElementTree.parse(tmp_path / "bad-credentials.svg").getroot()
    named = {text.text for text in picture.iter("{http://www.w3.org/2000/svg}text")}
    assert {abuse["title"], "then", "now"} <= named
    ElementTree.parse(tmp_path / "overview.svg")
