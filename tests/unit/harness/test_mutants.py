import importlib.util
import json
from pathlib import Path
from types import ModuleType

import peers

RECORDED = """before

<!-- figures: scripts/mutants.py --report -->

| module | mutants | killed | too slow | survived | no test reaches it |
|---|---|---|---|---|---|
| **pki** | 13 | 9 | 0 | 3 | 1 |
| `pki/gone` | 1 | 0 | 0 | 0 | 1 |
| `pki/jws` | 5 | 4 | 0 | 1 | 0 |
| `pki/pins` | 7 | 5 | 0 | 2 | 0 |
| **all** | 13 | 9 | 0 | 3 | 1 |

<!-- end of figures -->
after
"""


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mutants", peers.ROOT / "scripts" / "mutants.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_report_keeps_what_is_recorded_of_modules_that_were_not_run(tmp_path: Path) -> None:
    report = tmp_path / "mutants.md"
    report.write_text(RECORDED)
    results = {"pki.pins": (8, 1, 0, 0), "authentication.x509": (3, 0, 0, 0), "pki.errors": (0, 0, 0, 0)}
    for name, counts in results.items():
        kinds = dict(zip(("killed", "slow", "survived", "untested"), counts, strict=True))
        (tmp_path / f"{name}.json").write_text(json.dumps(kinds))
    script().write_report(report, tmp_path)
    text = report.read_text()
    assert [line for line in text.splitlines() if line.startswith(("|", "before", "after"))] == [
        "before",
        "| module | mutants | killed | too slow | survived | no test reaches it |",
        "|---|---|---|---|---|---|",
        "| **pki** | 14 | 12 | 1 | 1 | 0 |",
        "| `pki/jws` | 5 | 4 | 0 | 1 | 0 |",
        "| `pki/pins` | 9 | 8 | 1 | 0 | 0 |",
        "| **authentication** | 3 | 3 | 0 | 0 | 0 |",
        "| `authentication/x509` | 3 | 3 | 0 | 0 | 0 |",
        "| **all** | 17 | 15 | 1 | 1 | 0 |",
        "after",
    ]
    script().write_report(report, tmp_path / "nothing")
    assert report.read_text() == text


def test_the_committed_report_is_one_that_the_script_reads_and_writes(tmp_path: Path) -> None:
    report = tmp_path / "mutants.md"
    committed = (peers.ROOT / "docs" / "mutants.md").read_text()
    report.write_text(committed)
    script().write_report(report, tmp_path / "nothing")
    assert report.read_text() == committed
