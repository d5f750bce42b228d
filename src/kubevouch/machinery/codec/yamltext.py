"""YAML to a tree of builtins as sigs.k8s.io/yaml reads it, and back as it writes it.

    YAMLError (ValueError)    the text is no YAML, or fits no JSON document; ``str()`` is go-yaml's sentence

YAML 1.1 booleans count (``y`` and ``n`` too), timestamps stay strings, keys become strings, only the first document is
read. The tree is built from libyaml's events with a stack of our own: PyYAML's composer recurses in C and dies of
deeply nested texts. Aliases are counted with all that they stand for.

Sources: go.yaml.in/yaml/v2 resolve.go, decode.go, sigs.k8s.io/yaml (Kubernetes 1.36).
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from typing import Any, NamedTuple

import msgspec
import yaml

from kubevouch.machinery.codec import gojson
from kubevouch.machinery.text import gotext

MAX_NODES = 100_000  # more than any object that fits into a request body; stops alias bombs
MAX_DEPTH = 500  # go-yaml stops at 10,000, no declared type comes near either

_TAG = "tag:yaml.org,2002:"
_MERGE = "<<"


class YAMLError(ValueError):
    """The text is no YAML, or fits no JSON document; ``str()`` is go-yaml's sentence."""


# ------------------------------------------------------------------ scalars

_WORDS: dict[str, Any] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
_INT = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_TIMESTAMP = re.compile(
    r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}"
    r"(?:[Tt][0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}(?:\.[0-9]+)?(?:Z|[-+][0-9]{2}:[0-9]{2})"
    r"| [0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}(?:\.[0-9]+)?)?",
    re.ASCII,
)
_BASE_60 = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?", re.ASCII)
_MAX_DIGITS = 400  # beyond every float64; keeps Python from converting megabytes of digits


def _resolve(text: str) -> Any:
    """What a plain scalar means."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789" or _TIMESTAMP.fullmatch(text):
        return text
    plain = text.replace("_", "") if text[0] != "." else text
    if len(plain) > _MAX_DIGITS:
        return text
    match = _INT.fullmatch(plain)
    if match is not None:
        sign, *digits = match.groups()
        base, found = next((b, d) for b, d in zip((16, 2, 8, 10), digits, strict=True) if d is not None)
        value = int(found, base) * (-1 if sign == "-" else 1)
        if -(1 << 63) <= value < (1 << 64 if not sign else 1 << 63):
            return value
    return _number(float(plain), text) if _FLOAT.fullmatch(plain) else text


def _number(value: float, text: str) -> Any:
    """A float as it comes out of JSON: whole numbers are written without a point. Too large a literal stays a text."""
    if math.isinf(value):
        return text
    return int(value) if value.is_integer() and abs(value) < 1e21 else gojson.Number(gotext.json_float(value))


def _scalar(event: yaml.ScalarEvent) -> Any:
    tag, text = event.tag, event.value
    if tag is None:
        return _resolve(text) if event.implicit[0] else text
    kind = tag.removeprefix(_TAG)
    if kind == "binary":
        try:
            return base64.b64decode(text.replace("\n", ""), validate=True).decode("utf-8", "replace")
        except (binascii.Error, ValueError) as err:
            raise YAMLError("yaml: !!binary value contains invalid base64 data") from err
    if kind not in ("int", "float", "bool", "null"):
        return text
    value = _resolve(text)
    if kind == "float" and type(value) is int:
        return value
    if _kind_of(value) != kind:
        raise YAMLError(f"yaml: cannot decode !!{_kind_of(value)} `{text}` as a !!{kind}")
    return value


def _kind_of(value: Any) -> str:
    if value is None:
        return "null"
    for kind, name in ((bool, "bool"), (int, "int"), (float, "float")):
        if isinstance(value, kind):
            return name
    return "str"


# ------------------------------------------------------------------ building the tree


class _Built(NamedTuple):
    """A finished node: its value, the line it starts in and how many nodes it stands for."""

    value: Any
    line: int
    nodes: int


class _Open(msgspec.Struct):
    """A collection that has not ended."""

    value: dict[str, Any] | list[Any]
    line: int
    anchor: str | None
    nodes: int = 1
    key: _Built | None = None
    merges: bool = False  # the pending key is a plain "<<"


class _Builder:
    """Turns events into one tree."""

    def __init__(self) -> None:
        self.open: list[_Open] = []
        self.anchors: dict[str, _Built | None] = {}
        self.duplicates: list[str] = []
        self.nodes = 0

    def feed(self, event: yaml.Event) -> _Built | None:
        """The document's root once it is finished."""
        line = event.start_mark.line if event.start_mark else 0
        if isinstance(event, yaml.ScalarEvent):
            top = self.open[-1] if self.open else None
            if isinstance(top, _Open) and isinstance(top.value, dict) and top.key is None:
                top.merges = event.value == _MERGE and (event.implicit[0] or event.tag == f"{_TAG}merge")
            value = _scalar(event)
            if isinstance(value, float) and not math.isfinite(value):
                raise YAMLError(f"json: unsupported value: {gotext.go_float(value)}")
            return self.finish(_Built(value, line, 1), event.anchor)
        if isinstance(event, yaml.AliasEvent):
            return self.finish(self.aliased(event.anchor or "")._replace(line=line), None)
        if isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
            if len(self.open) >= MAX_DEPTH:
                raise YAMLError("yaml: exceeded max depth of 10000")
            empty: dict[str, Any] | list[Any] = {} if isinstance(event, yaml.MappingStartEvent) else []
            self.open.append(_Open(empty, line, event.anchor))
            if event.anchor:
                self.anchors[event.anchor] = None
        elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            ended = self.open.pop()
            return self.finish(_Built(ended.value, ended.line, ended.nodes), ended.anchor)
        return None

    def aliased(self, name: str) -> _Built:
        if name not in self.anchors:
            raise YAMLError(f"yaml: unknown anchor '{name}' referenced")
        target = self.anchors[name]
        if target is None:
            raise YAMLError(f"yaml: anchor '{name}' value contains itself")
        return target

    def finish(self, built: _Built, anchor: str | None) -> _Built | None:
        if anchor:
            self.anchors[anchor] = built
        if not self.open:
            return built
        parent = self.open[-1]
        parent.nodes += built.nodes
        if parent.nodes > MAX_NODES:
            raise YAMLError("yaml: document contains excessive aliasing")
        if isinstance(parent.value, list):
            parent.value.append(built.value)
        elif parent.key is None:
            parent.key = built
        else:
            self.put(parent, parent.value, parent.key, built)
            parent.key = None
        return None

    def put(self, parent: _Open, mapping: dict[str, Any], key: _Built, value: _Built) -> None:
        if parent.merges:
            parent.merges = False
            for each in _merged(value.value):
                mapping.update(each)
            return
        name = _key_text(key.value)
        if name in mapping:
            printed = gotext.go_syntax(key.value)
            self.duplicates.append(f"line {value.line + 1}: key {printed} already set in map")
        mapping[name] = value.value


def _merged(value: Any) -> list[dict[str, Any]]:
    maps = value[::-1] if isinstance(value, list) else [value]
    if not all(isinstance(each, dict) for each in maps):
        raise YAMLError("yaml: map merge requires map or sequence of maps as the value")
    return maps


def _key_text(key: Any) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, (dict, list)):
        raise YAMLError(f"yaml: invalid map key: {gotext.go_syntax(key)}")
    if key is None:
        raise YAMLError("unsupported map key of type: %!s(<nil>), key: <nil>")
    return gotext.go_value(key)


def loads(text: bytes | str) -> tuple[Any, list[str]]:
    """The tree of the first YAML document and what strict reading says of repeated keys.

    Raises:
        YAMLError: no YAML, more than ``MAX_NODES`` nodes, or what JSON cannot hold.
    """
    builder = _Builder()
    try:
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            root = builder.feed(event)
            if root is not None:
                return root.value, builder.duplicates
    except yaml.reader.ReaderError as err:
        raise YAMLError(f"yaml: {err.reason}") from err
    except yaml.MarkedYAMLError as err:
        raise YAMLError(f"yaml: {_where(err)}{err.problem}") from err
    except UnicodeError as err:
        raise YAMLError("yaml: control characters are not allowed") from err
    return None, []


def _where(err: yaml.MarkedYAMLError) -> str:
    """go-yaml's line: of the context if that is not in the first one, and one too low for a parser's complaint."""
    marks = (err.context_mark, err.problem_mark)
    line = next((mark.line for mark in marks if mark is not None and mark.line), 0)
    if line and isinstance(err, yaml.scanner.ScannerError):
        line += 1
    return f"line {line}: " if line else ""


def load_documents(text: bytes | str) -> list[Any]:
    """The trees of a stream of documents, empty ones left out. Raises :class:`YAMLError`."""
    try:
        whole = text.decode() if isinstance(text, bytes) else text
    except UnicodeDecodeError as err:
        raise YAMLError("yaml: invalid leading UTF-8 octet") from err
    documents = re.split(r"(?m)^---[ \t]*(?:#.*)?$", whole)
    return [tree for tree in (loads(document)[0] for document in documents) if tree is not None]


# ------------------------------------------------------------------ writing


def dumps(tree: Any, *, ascii_only: bool = False) -> str:
    """``tree`` as block-style YAML with sorted keys, as kubectl prints it.

    Args:
        ascii_only: write every other character as an escape.
    """
    text = yaml.dump(
        tree, Dumper=_Dumper, default_flow_style=False, sort_keys=True, allow_unicode=not ascii_only, width=1 << 20
    )
    # libyaml ends a document so whose last text keeps its line ends; go-yaml does not.
    return str(text).removesuffix("...\n")


class _Dumper(yaml.CSafeDumper):
    """CSafeDumper with go-yaml's choice of quotes and without anchors."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True


def _represent_str(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = None
    if "\n" in text:
        style = "|"
    elif text in _WORDS or not isinstance(_resolve(text), str) or _looks_old(text):
        style = '"'
    return dumper.represent_scalar(f"{_TAG}str", text, style=style)


def _looks_old(text: str) -> bool:
    """Texts that other YAML readers take for a time or a number of base 60."""
    return bool(_TIMESTAMP.fullmatch(text) or _BASE_60.fullmatch(text))


_Dumper.add_representer(str, _represent_str)
_Dumper.add_representer(gojson.Number, lambda dumper, number: dumper.represent_scalar(f"{_TAG}float", number.text))
_Dumper.add_representer(gojson.Duplicates, lambda dumper, items: dumper.represent_dict(items))
