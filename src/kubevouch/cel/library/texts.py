"""Functions on strings, and finding with regular expressions.

Source: cel-go ext/strings.go, k8s.io/apiserver/pkg/cel/library/regex.go (Kubernetes 1.36).
"""

from __future__ import annotations

from typing import Any

from kubevouch.cel.functions import function, method
from kubevouch.cel.regular_expressions import compiled
from kubevouch.cel.values import EvaluationError, Run

# Go's unicode.IsSpace; Python's own strip takes four control characters more.
_BLANKS = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
_UPPER = bytes(range(65, 91)).decode()
_TO_LOWER = str.maketrans(_UPPER, _UPPER.lower())
_ESCAPES = str.maketrans(
    {
        "\a": "\\a",
        "\b": "\\b",
        "\f": "\\f",
        "\n": "\\n",
        "\r": "\\r",
        "\t": "\\t",
        "\v": "\\v",
        '"': '\\"',
        "\\": "\\\\",
    }
)
_TO_UPPER = str.maketrans(_UPPER.lower(), _UPPER)


def _within(text: str, index: int) -> int:
    if 0 <= index <= len(text):
        return index
    raise EvaluationError(f"index out of range: {index}")


@method("charAt", "string int")
def _char_at(text: str, index: int) -> str:
    place = _within(text, index)
    return text[place : place + 1]


@method("indexOf", "string string")
def _index_of(text: str, part: str, *, run: Run) -> int:
    run.spend(len(text) // 10)
    return text.find(part)


@method("indexOf", "string string int")
def _index_of_from(text: str, part: str, start: int, *, run: Run) -> int:
    run.spend(len(text) // 10)
    return text.find(part, _within(text, start))


@method("lastIndexOf", "string string")
def _last_index_of(text: str, part: str, *, run: Run) -> int:
    run.spend(len(text) // 10)
    return text.rfind(part)


@method("lastIndexOf", "string string int")
def _last_index_of_to(text: str, part: str, last: int, *, run: Run) -> int:
    run.spend(len(text) // 10)
    return text.rfind(part, 0, _within(text, last) + len(part))


@method("lowerAscii", "string")
def _lower_ascii(text: str, *, run: Run) -> str:
    run.spend_on_text(text)
    return text.translate(_TO_LOWER)


@method("upperAscii", "string")
def _upper_ascii(text: str, *, run: Run) -> str:
    run.spend_on_text(text)
    return text.translate(_TO_UPPER)


@method("trim", "string")
def _trim(text: str, *, run: Run) -> str:
    run.spend_on_text(text)
    return text.strip(_BLANKS)


@method("substring", "string int")
def _substring_from(text: str, start: int, *, run: Run) -> str:
    run.spend_on_text(text)
    return text[_within(text, start) :]


@method("substring", "string int int")
def _substring(text: str, start: int, end: int, *, run: Run) -> str:
    run.spend_on_text(text)
    if start > end:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {end}")
    return text[_within(text, start) : _within(text, end)]


@method("replace", "string string string")
def _replace_all(text: str, part: str, by: str, *, run: Run) -> str:
    return _replace(text, part, by, -1, run=run)


@method("replace", "string string string int")
def _replace(text: str, part: str, by: str, count: int, *, run: Run) -> str:
    run.spend_on_text(text, text)
    found = text.count(part) if count < 0 else min(text.count(part), count)
    # Replacing can multiply a text.
    run.work(-(-found * len(by) // 10))
    return text.replace(part, by, count)


@method("split", "string string")
def _split_all(text: str, separator: str, *, run: Run) -> list[str]:
    return _split(text, separator, -1, run=run)


@method("split", "string string int")
def _split(text: str, separator: str, count: int, *, run: Run) -> list[str]:
    run.spend_on_text(text, text)
    if count == 0:
        return []
    if not separator:
        cut = len(text) if count < 0 else min(count - 1, len(text))
        return [*text[:cut], text[cut:]] if cut < len(text) else list(text)
    return text.split(separator, count - 1 if count > 0 else -1)


@method("join", "list(string)")
def _join(items: list[Any], *, run: Run) -> str:
    return _join_by(items, "", run=run)


@method("join", "list(string) string")
def _join_by(items: list[Any], separator: str, *, run: Run) -> str:
    run.spend(len(items))
    if not all(type(item) is str for item in items):
        raise EvaluationError("no such overload")
    run.spend(-(-(sum(map(len, items)) + len(separator) * len(items)) // 5))
    return separator.join(items)


@method("find", "string string")
def _find(text: str, pattern: str, *, run: Run) -> str:
    found = compiled(pattern, text, run).search(text)
    return str(found.group()) if found else ""


@method("findAll", "string string")
def _find_all(text: str, pattern: str, *, run: Run) -> list[str]:
    return _find_some(text, pattern, -1, run=run)


@method("findAll", "string string int")
def _find_some(text: str, pattern: str, count: int, *, run: Run) -> list[str]:
    found: list[str] = []
    if count == 0:
        return found
    matches = compiled(pattern, text, run).finditer(text)
    end = -1
    for match in matches:
        # Go leaves out an empty match right behind another one.
        if match.start() == match.end() == end:
            continue
        # As long as ten other steps.
        run.spend(10)
        end = match.end()
        found.append(match.group())
        if len(found) == count:
            break
    return found


@function("strings.quote", "string")
def _quote(text: str, *, run: Run) -> str:
    run.spend_on_text(text, text)
    return f'"{text.translate(_ESCAPES)}"'
