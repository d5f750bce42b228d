from __future__ import annotations

import csv
import io
from xml.etree import ElementTree as ET

import pytest

from kubevouch.phases import join_bench_report as report
from kubevouch.phases.join_bench import Joined, Plan, Result

PLAN = Plan("bench-1", 4, 2, 60.0)
# In the order in which they ended; the third was refused, with a text that somebody else chose.
MACHINES = [
    Joined("bench-1-1", 0.5, 0.010, 0.040),
    Joined("bench-1-0", 0.0, 0.100, 0.900),
    Joined("bench-1-2", 0.6, 0.020, 0.020, '403 Forbidden: <b>no</b>, "never"'),
    Joined("bench-1-3", 0.7, 0.030, 0.300),
]
RESULT = Result(MACHINES, seconds=1.5, looks=[0.002, 0.004], unanswered=1, client_cpu=0.008)


@pytest.mark.parametrize(
    ("per_cent", "expected"), [(0.1, 1), (10, 1), (10.1, 2), (50, 5), (90, 9), (99, 10), (100, 10)]
)
def test_a_percentile_is_a_value_that_was_measured(per_cent: float, expected: float) -> None:
    assert report.percentile([7, 1, 10, 3, 4, 2, 8, 9, 6, 5], per_cent) == expected
    assert report.percentile([], per_cent) == 0


def test_who_was_refused_is_counted_and_not_timed() -> None:
    tree = report.tree(PLAN, "https://h:6443", RESULT)
    assert (tree["nodes"], tree["joined"], tree["joinsPerSecond"], tree["clientCPUPerMachine"]) == (4, 3, 2.0, 2.0)
    assert tree["join"] == {"count": 3, "p50": 300.0, "p90": 900.0, "p99": 900.0, "max": 900.0}
    assert tree["request"]["p50"] == 30.0 and tree["certificate"]["max"] == 800.0
    assert tree["getNodesMeanwhile"] == {"count": 2, "p50": 2.0, "p90": 4.0, "p99": 4.0, "max": 4.0, "unanswered": 1}
    assert tree["refused"] == [{"reason": MACHINES[2].refused, "count": 1}]


def test_the_table_has_each_machine_in_the_order_of_its_start() -> None:
    rows = list(csv.DictReader(io.StringIO(report.table(RESULT))))
    assert [row["machine"] for row in rows] == ["bench-1-0", "bench-1-1", "bench-1-2", "bench-1-3"]
    assert rows[0] == {
        "machine": "bench-1-0", "started_s": "0.0000", "request_ms": "100.000", "certificate_ms": "800.000",
        "join_ms": "900.000", "refused": "",
    }  # fmt: skip
    assert rows[2]["refused"] == MACHINES[2].refused


def test_the_picture_is_xml_and_every_certificate_is_in_it() -> None:
    root = ET.fromstring(report.svg(PLAN, "https://<h>:6443", RESULT))
    space = "{http://www.w3.org/2000/svg}"
    bars = root.findall(f"{space}rect")
    # The ends at 0.54, 0.9 and 1.0 s fall into three of the steps.
    assert [round(float(bar.attrib["x"]) - report._LEFT) for bar in bars] == [229, 384, 427]
    line = root.find(f"{space}polyline")
    assert line is not None and len(line.attrib["points"].split()) == report._STEPS
    assert any("https://<h>:6443" in (text.text or "") for text in root.findall(f"{space}text"))


def test_a_run_in_which_nobody_joined_has_a_picture_too() -> None:
    nobody = Result([MACHINES[2]], seconds=0.0, looks=[], unanswered=0, client_cpu=0.0)
    ET.fromstring(report.svg(PLAN, "https://h", nobody))
    assert report.tree(PLAN, "https://h", nobody)["join"]["max"] == 0
