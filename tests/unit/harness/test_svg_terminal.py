import os
import subprocess
import sys
from xml.etree import ElementTree

import peers

SCRIPT = peers.ROOT / "scripts" / "svg_terminal.py"

RECORDING = "before\n$ kubectl get csr\n\x1b[32mok\x1b[0m  <none> & done\n$ exit\n"


def render(recording: str, *arguments: str, **environment: str) -> bytes:
    return subprocess.run(
        [sys.executable, SCRIPT, "--title", "a title", *arguments],
        input=recording.encode(),
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        check=True,
    ).stdout


def lines_of(svg: bytes) -> list[str]:
    rows: dict[float, str] = {}
    for element in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text"):
        rows[float(element.attrib["y"])] = rows.get(float(element.attrib["y"]), "") + (element.text or "")
    return [text.replace("\N{NO-BREAK SPACE}", " ").rstrip() for text in rows.values()]


def test_lines_are_those_of_the_session() -> None:
    assert lines_of(render(RECORDING)) == ["a title", "before", "$ kubectl get csr", "ok  <none> & done", "$ exit"]


def test_terminal_of_the_caller_changes_nothing() -> None:
    assert render(RECORDING, COLUMNS="20", NO_COLOR="1", TERM="dumb") == render(RECORDING, COLUMNS="200", TERM="xterm")


def test_width_wraps() -> None:
    assert lines_of(render("x" * 15, "--width", "10")) == ["a title", "x" * 10, "x" * 5]


def test_nothing_is_loaded_from_elsewhere() -> None:
    assert b"url(" not in render(RECORDING).replace(b"url(#", b"")
