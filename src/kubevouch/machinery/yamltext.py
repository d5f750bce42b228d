"""YAML to a tree of builtins as sigs.k8s.io/yaml reads it, and back.

YAML 1.1 booleans count, timestamps stay strings, keys become strings; anchors are bounded.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

MAX_NODES = 100_000  # more than any object that fits into a request body; stops alias bombs

_TIMESTAMP = "tag:yaml.org,2002:timestamp"
_BOOLEANS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


class YAMLError(ValueError):
    """The text is not YAML, or does not fit a JSON document."""


class _Loader(yaml.CSafeLoader):
    """CSafeLoader without timestamps, with duplicate keys recorded and aliases bounded."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self.duplicates: list[str] = []
        self.nodes = 0

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise YAMLError("yaml: document contains excessive aliasing")
        return super().construct_object(node, deep=deep)


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[str, Any]:
    loader.flatten_mapping(node)
    result: dict[str, Any] = {}
    for key_node, value_node in node.value:
        key = _key_text(loader.construct_object(key_node, deep=True))
        if key in result:
            loader.duplicates.append(f'line {key_node.start_mark.line + 1}: key "{key}" already set in map')
        result[key] = loader.construct_object(value_node, deep=True)
    return result


def _key_text(key: object) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, (str, int)):
        return str(key)
    if isinstance(key, float):
        return repr(key)
    raise YAMLError(f"json: unsupported map key {key!r}")


def _binary(_loader: _Loader, node: yaml.ScalarNode) -> str:
    return str(node.value)


_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)
_Loader.add_constructor("tag:yaml.org,2002:binary", _binary)
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}
# go-yaml resolves base-60 numbers nowhere; PyYAML does, so "1:30" would become 90.
_INT = re.compile(r"[-+]?0b[0-1_]+|[-+]?0[0-7_]+|[-+]?0o[0-7_]+|[-+]?(?:0|[1-9][0-9_]*)|[-+]?0x[0-9a-fA-F_]+")
_FLOAT = re.compile(
    r"[-+]?(?:[0-9][0-9_]*)\.[0-9_]*(?:[eE][-+]?[0-9]+)?|[-+]?[0-9][0-9_]*[eE][-+]?[0-9]+|\.[0-9][0-9_]*(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)
for _first, _resolvers in _Loader.yaml_implicit_resolvers.items():
    _Loader.yaml_implicit_resolvers[_first] = [
        (
            tag,
            re.compile(rf"^(?:{_INT.pattern})$")
            if tag.endswith(":int")
            else re.compile(rf"^(?:{_FLOAT.pattern})$")
            if tag.endswith(":float")
            else pattern,
        )
        for tag, pattern in _resolvers
    ]


def loads(data: bytes | str) -> tuple[Any, list[str]]:
    """The tree of one YAML document and what sigs.k8s.io/yaml says of repeated keys.

    Raises:
        YAMLError: not UTF-8, not YAML, or more than ``MAX_NODES`` nodes.
    """
    try:
        text = data.decode() if isinstance(data, bytes) else data
        loader = _Loader(text)
        try:
            return loader.get_single_data(), loader.duplicates
        finally:
            loader.dispose()
    except UnicodeDecodeError as err:
        raise YAMLError("yaml: control characters are not allowed") from err
    except RecursionError as err:
        raise YAMLError("yaml: exceeded max depth") from err
    except (yaml.YAMLError, ValueError) as err:
        if isinstance(err, YAMLError):
            raise
        mark = getattr(err, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark is not None else ""
        raise YAMLError(f"yaml: {where}{getattr(err, 'problem', None) or err}") from err


def load_documents(data: bytes | str) -> list[Any]:
    """The trees of a stream of documents, empty ones left out. Raises :class:`YAMLError`."""
    text = data.decode() if isinstance(data, bytes) else data
    documents = re.split(r"(?m)^---[ \t]*(?:#.*)?$", text)
    return [tree for tree in (loads(document)[0] for document in documents) if tree is not None]


def dumps(tree: Any) -> str:
    """``tree`` as block-style YAML with sorted keys, as kubectl prints it."""
    text = yaml.dump(tree, Dumper=_Dumper, default_flow_style=False, sort_keys=True, allow_unicode=True, width=1 << 20)
    return str(text)


class _Dumper(yaml.CSafeDumper):
    """CSafeDumper that prints long and multi-line strings as blocks, as go-yaml does."""


def _represent_str(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_str)
