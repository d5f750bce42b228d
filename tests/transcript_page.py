"""Runs the terminal sessions that a page of the manual shows, as a reader would type them.

A block is fenced as ``console``: lines that begin with ``$ `` are typed (after a backslash at the end the next line
belongs to them), ``^C`` is Control-C, everything else is what has to be printed. ``<!-- server -->`` before a block
names the terminal in which it is typed, or several; the operator's without it. Elsewhere than there the last command of
a block may go on running, and a later block may begin with what it prints meanwhile. A line ``…`` stands for any lines.
``<!-- not run -->`` leaves a block out.

What differs from run to run is compared by its kind. Names, tokens, hashes and addresses are learned where they are
printed first, and replaced in the commands that follow.
"""

from __future__ import annotations

import os
import queue
import re
import signal
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path

import processes

_OPERATOR = "operator"
_MARK = "---- the command has ended:"
_FENCE = re.compile(r"(?:^<!-- (?P<where>[a-z, ]+) -->\n)?^```console\n(?P<body>.*?)^```$", re.DOTALL | re.MULTILINE)
# What is learned: its text on the page stands for the text that was printed.
_LEARNED = re.compile(r"node-csr-[\w-]{43}|\b[a-z0-9]{6}\.[a-z0-9]{16}\b|sha256:[0-9a-f]{64}|\b192\.0\.2\.\d+\b")
# What may differ every time, with the expression for it.
_FREE = {
    r"[0-9a-f]{64}": r"[0-9a-f]{64}",
    r"\b[0-9a-f]{8}\b": r"[0-9a-f]{8}",
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:Z|\+00:00| UTC)": r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:Z|\+00:00| UTC)",
    r"\d{4}-\d\d-\d\d-\d\d-\d\d-\d\d": r"\d{4}-\d\d-\d\d-\d\d-\d\d-\d\d",
    r"I\d{4} [\d:.]+ +\d+ ": r"I\d{4} [\d:.]+ +\d+ ",
    r"[A-Z][a-z]{2} +\d+ \d\d:\d\d": r"[A-Z][a-z]{2} +\d+ \d\d:\d\d",
    r"\b\d+\.\d s\b": r"\d+\.\d s",
    r"\b(?:\d+[ywdhms])+\b": r"(?:\d+[ywdhms])+",
    "…": ".*?",
}  # fmt: skip
# IDs of tokens are learned with the tokens; of other words the expression takes what they are.
_WORD = r"\b[a-z0-9]{6}\b"
_PART = re.compile("|".join(f"({each})" for each in [_LEARNED.pattern, r"\s+", *_FREE, _WORD]))
_NAME = re.compile(f"{_LEARNED.pattern}|{_WORD}")


@dataclass(frozen=True)
class Entry:
    """A command (empty for output that goes on) and what it has to print."""

    command: str
    shown: tuple[str, ...]


@dataclass(frozen=True)
class Block:
    terminals: tuple[str, ...]
    entries: tuple[Entry, ...]


def blocks_of(page: str) -> list[Block]:
    """The blocks of a page that are run."""
    found = []
    for match in _FENCE.finditer(page):
        where = match["where"] or _OPERATOR
        if where != "not run":
            found.append(Block(tuple(where.split(", ")), tuple(_entries(match["body"].splitlines()))))
    return found


def _entries(lines: list[str]) -> list[Entry]:
    entries: list[tuple[str, list[str]]] = []
    goes_on = False
    for line in lines:
        if goes_on:
            command, shown = entries.pop()
            entries.append((f"{command}\n{line}", shown))
        elif line.startswith("$ ") or line == "^C":
            entries.append((line.removeprefix("$ "), []))
        elif not entries:
            entries.append(("", [line]))
        else:
            entries[-1][1].append(line)
        goes_on = (goes_on or line.startswith("$ ")) and line.endswith("\\")
    return [Entry(command, tuple(shown)) for command, shown in entries]


class Learned:
    """What the page's names, tokens, hashes and addresses are in this run."""

    def __init__(self) -> None:
        self.known: dict[str, str] = {}

    def replaced(self, text: str) -> str:
        return _NAME.sub(lambda match: self.known.get(match[0], match[0]), text)

    def matches(self, shown: str, printed: str) -> bool:
        """Whether ``printed`` is what the page shows; learns from it if so."""
        learned: list[str] = []
        pattern = ""
        end = 0
        for part in _PART.finditer(shown):
            pattern += re.escape(shown[end : part.start()]) + self._expression(part[0], learned)
            end = part.end()
        found = re.fullmatch(pattern + re.escape(shown[end:]), printed.rstrip())
        if found is None:
            return False
        for each, actual in zip(learned, found.groups(), strict=True):
            self.known[each] = actual
            if re.fullmatch(r"[a-z0-9]{6}\.[a-z0-9]{16}", each):
                self.known[each[:6]] = actual[:6]
        return True

    def _expression(self, text: str, learned: list[str]) -> str:
        if text.isspace():
            return r"\s+"
        if text in self.known:
            return re.escape(self.known[text])
        if _LEARNED.fullmatch(text):
            if text in learned:
                return rf"(?:\{learned.index(text) + 1})"
            learned.append(text)
            return r"([\w.:-]+?)"
        if re.fullmatch(_WORD, text):
            return text
        return next(allowed for kind, allowed in _FREE.items() if re.fullmatch(kind, text))


class Terminal:
    """A shell, and what it prints line by line."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._shell = subprocess.Popen(
            ["bash", "--norc", "--noprofile"],
            cwd=folder, env=environment, text=True, bufsize=1, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        self.running = False
        # Control-C is for the command, not for the shell.
        self._write("trap : INT\n")

    def _read(self) -> None:
        assert self._shell.stdout is not None
        for line in self._shell.stdout:
            self._lines.put(line.rstrip("\n"))

    def _write(self, text: str) -> None:
        assert self._shell.stdin is not None
        self._shell.stdin.write(text)
        self._shell.stdin.flush()

    def type(self, command: str) -> None:
        """The mark is printed when the command has ended."""
        self._write(f"{command}\nprintf '\\n{_MARK} %s\\n' $?\n")
        self.running = True

    def interrupt(self) -> None:
        os.killpg(self._shell.pid, signal.SIGINT)

    def line(self) -> str:
        """The next line that is not empty."""
        while not (line := self._lines.get(timeout=processes.PATIENCE_SECONDS)):
            pass
        return line

    def rest(self) -> tuple[list[str], int]:
        """What is printed until the command has ended, and its exit code."""
        lines = []
        while not (line := self.line()).startswith(_MARK):
            lines.append(line)
        self.running = False
        return lines, int(line.removeprefix(_MARK))

    def close(self) -> None:
        os.killpg(self._shell.pid, signal.SIGKILL)
        self._shell.wait()
        self._reader.join()
        for stream in (self._shell.stdin, self._shell.stdout):
            assert stream is not None
            stream.close()


class Reader:
    """Somebody who types what a page says, in as many terminals as it needs."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._folder, self._environment = folder, environment
        self._terminals: dict[str, Terminal] = {}
        self._learned = Learned()

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._terminals.values():
            each.close()

    def follow(self, block: Block) -> None:
        """Type a block; raises AssertionError where something else is printed than the page shows."""
        for each in block.terminals:
            self._type(each, block.entries)

    def _type(self, where: str, entries: tuple[Entry, ...]) -> None:
        if where not in self._terminals:
            self._terminals[where] = Terminal(self._folder, self._environment)
        terminal = self._terminals[where]
        for number, entry in enumerate(entries):
            if entry.command == "^C":
                terminal.interrupt()
            elif entry.command:
                if terminal.running:
                    terminal.rest()
                terminal.type(self._learned.replaced(entry.command))
            goes_on = where != _OPERATOR and number == len(entries) - 1 and entry.command != "^C"
            (self._as_it_comes if goes_on else self._whole)(terminal, entry)

    def _whole(self, terminal: Terminal, entry: Entry) -> None:
        printed, code = terminal.rest()
        wanted = [line for line in entry.shown if line.strip()]
        position, leap = 0, False
        for line in wanted:
            if line.strip() == "…":
                leap = True
                continue
            start = position
            while leap and position < len(printed) and not self._learned.matches(line, printed[position]):
                position += 1
            leap = False
            assert position < len(printed), _told(entry, line, printed[start:])
            assert self._learned.matches(line, printed[position]), _told(entry, line, printed[position:])
            position += 1
        assert leap or position == len(printed), _told(entry, "nothing more", printed[position:])
        expected_to_fail = any(line.startswith(("error:", "Error from server")) for line in wanted)
        assert (code != 0) == expected_to_fail or entry.command == "^C", f"{entry.command}\nends with {code}: {printed}"

    def _as_it_comes(self, terminal: Terminal, entry: Entry) -> None:
        for line in entry.shown:
            if line.strip():
                printed = terminal.line()
                assert self._learned.matches(line, printed), _told(entry, line, [printed])


def _told(entry: Entry, wanted: str, printed: list[str]) -> str:
    return "\n".join(["", f"$ {entry.command}", f"the page shows: {wanted}", "it printed:", *printed])
