"""Comma-separated values as Go reads them (encoding/csv): stricter about quotes than Python's csv module.

CSVError                  a quote where none may be; ``str()`` is Go's text, and quotes nothing of the input
"""

from __future__ import annotations

import re
from collections.abc import Iterator

# A field and what ends it. Quoted fields hold anything, with quotes doubled.
_OPEN = re.compile(r'"[^"]*(?:""[^"]*)*')
_FIELD = re.compile(r'(?:"([^"]*(?:""[^"]*)*)"|([^",\n]*))([,\n])')


class CSVError(ValueError):
    """The text is no CSV."""


def records(text: str) -> Iterator[list[str]]:
    """The fields of each record. Empty lines are none; white space counts; numbers of fields may differ.

    Raises:
        CSVError
    """
    text = text.replace("\r\n", "\n").removesuffix("\n") + "\n"
    at = 0
    while at < len(text):
        if text[at] == "\n":
            at += 1
            continue
        begun, record = at, list[str]()
        while True:
            found = _FIELD.match(text, at)
            if found is None:
                raise _error(text, begun, at)
            quoted, plain, end = found.groups()
            record.append(plain if quoted is None else quoted.replace('""', '"'))
            at = found.end()
            if end == "\n":
                break
        yield record


def _error(text: str, begun: int, at: int) -> CSVError:
    why = 'bare " in non-quoted-field'
    wrong = text.find('"', at)
    if text[at] == '"':
        why = 'extraneous or missing " in quoted-field'
        opened = _OPEN.match(text, at)
        assert opened is not None  # it begins with a quote
        wrong = min(opened.end(), len(text) - 1)
    first, line = (text.count("\n", 0, index) + 1 for index in (begun, wrong))
    column = wrong - text.rfind("\n", 0, wrong)
    record = f"record on line {first}; " if first != line else ""
    return CSVError(f"{record}parse error on line {line}, column {column}: {why}")
