"""CustomResourceDefinitions as projects keep them: files, folders of files, YAML, JSON, dicts.

DefinitionSourceError    what was given holds no definitions, or something else besides
"""

from __future__ import annotations

import asyncio
import functools
import json
import os
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kubevouch.api.catalog import CUSTOM_RESOURCE_DEFINITIONS
from kubevouch.client.interface import Client
from kubevouch.machinery.codec import json_codec, yamltext
from kubevouch.testing.waiting import wait_for

Source = str | os.PathLike[str] | Mapping[str, Any]
"""A path of a file or a folder, YAML or JSON text of more than one line, or a definition as a dict."""

Definitions = list[tuple[str, dict[str, Any]]]
"""Each with where it is from."""

API_VERSION, KIND = CUSTOM_RESOURCE_DEFINITIONS.api_version, CUSTOM_RESOURCE_DEFINITIONS.kind
_SUFFIXES = (".yaml", ".yml", ".json")
_LISTS = ("List", f"{KIND}List")
_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_QUERY = "?fieldValidation=Strict&fieldManager=kubevouch-testing"


class DefinitionSourceError(ValueError):
    """What is no definition; the text says where it is, and what to do."""


def definitions(source: Source) -> Definitions:
    """The definitions in ``source``, each with where it is from. Documents without anything are passed over.

    Raises:
        DefinitionSourceError: there is none, or there is something else.
    """
    if isinstance(source, Mapping):
        return list(_checked("the dict", source))
    if isinstance(source, str) and "\n" in source:
        return _found("the text", _read("the text", textwrap.dedent(source)))
    path = Path(source)
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.suffix in _SUFFIXES and file.is_file())
        if not files:
            raise DefinitionSourceError(f"got the folder {path} without a file of {', '.join(_SUFFIXES)}")
        return [found for file in files for found in _of_file(file)]
    return _of_file(path)


async def put(client: Client, found: Definitions) -> list[str]:
    """Make or change definitions. Returns their names, once their kinds are served.

    Raises:
        DefinitionSourceError: refused, by the server or because of a name that another definition has.
    """
    return list(await asyncio.gather(*(_put_one(client, where, tree) for where, tree in found)))


async def _put_one(client: Client, where: str, tree: dict[str, Any]) -> str:
    name = str(tree["metadata"]["name"])
    answer = await client.raw("POST", f"{_PATH}{_QUERY}", json_codec.encode(tree), _JSON)
    if answer.status == 409:
        present = json.loads((await client.raw("GET", f"{_PATH}/{name}")).body)
        metadata = {**tree["metadata"], "resourceVersion": present["metadata"]["resourceVersion"]}
        body = json_codec.encode({**tree, "metadata": metadata})
        answer = await client.raw("PUT", f"{_PATH}/{name}{_QUERY}", body, _JSON)
    if answer.status not in (200, 201):
        raise DefinitionSourceError(f"{where}: {json.loads(answer.body).get('message', answer.body)}")
    judged = await wait_for(client, CUSTOM_RESOURCE_DEFINITIONS, name, until=_is_judged)
    for condition in judged.status.conditions or ():
        if condition.type == "NamesAccepted" and condition.status == "False":
            raise DefinitionSourceError(f"{where}: the names of {name} are not accepted: {condition.message}")
    return name


_JSON = {"Content-Type": "application/json"}


def _is_judged(definition: Any) -> bool:
    found = {condition.type: condition.status for condition in definition.status.conditions or ()}
    return found.get("Established") == "True" or found.get("NamesAccepted") == "False"


# ------------------------------------------------------------------ files


def _of_file(path: Path) -> Definitions:
    try:
        state = path.stat()
    except OSError as err:
        raise DefinitionSourceError(
            f"got {str(path)!r}, expected a file or a folder of definitions, YAML, or a dict: {err.strerror}"
        ) from err
    return list(_of_file_as_it_was(path, state.st_mtime_ns, state.st_size))


@functools.lru_cache(maxsize=256)
def _of_file_as_it_was(path: Path, _changed: int, _size: int) -> tuple[tuple[str, dict[str, Any]], ...]:
    """A suite reads the same files for each of its clusters; 10,000 lines take a while. Nobody changes the trees."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as err:
        raise DefinitionSourceError(f"{path}: {err}") from err
    return tuple(_found(str(path), _read(str(path), text)))


def _read(where: str, text: str) -> list[Any]:
    try:
        return yamltext.load_documents(text)
    except yamltext.YAMLError as err:
        template = next((number for number, line in enumerate(text.splitlines(), 1) if "{{" in line), 0)
        if template:
            raise DefinitionSourceError(
                f"{where}, line {template}: got a template of Helm, expected YAML; give what `helm template` prints"
            ) from err
        raise DefinitionSourceError(f"{where}: {err}") from err


def _found(where: str, documents: Sequence[Any]) -> Definitions:
    found: Definitions = []
    for number, document in enumerate(documents, 1):
        if document is not None:
            found += _checked(where if len(documents) == 1 else f"{where}, document {number}", document)
    if not found:
        raise DefinitionSourceError(f"{where}: got nothing but empty documents, expected a {KIND}")
    return found


def _checked(where: str, tree: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    if not isinstance(tree, Mapping):
        raise DefinitionSourceError(f"{where}: got {str(tree)[:60]!r}, expected a {KIND}")
    kind, version = str(tree.get("kind") or "nothing"), str(tree.get("apiVersion") or "no version")
    if kind in _LISTS and isinstance(tree.get("items"), Sequence):
        for number, item in enumerate(tree["items"]):
            yield from _checked(f"{where}, items[{number}]", item)
    elif kind != KIND:
        raise DefinitionSourceError(
            f"{where}: got the kind {kind} of {version}, expected {KIND} of {API_VERSION}; keep definitions in a file "
            "or a folder of their own, and apply all else with apply_all"
        )
    elif version != API_VERSION:
        raise DefinitionSourceError(
            f"{where}: got {KIND} of {version}, expected {API_VERSION}; no version of Kubernetes since 1.22 has others"
        )
    elif not isinstance(tree.get("metadata"), Mapping) or not tree["metadata"].get("name"):
        raise DefinitionSourceError(f"{where}: got a {KIND} without metadata.name")
    else:
        # What a generator or a cluster has written there is for the server to fill in.
        metadata = {key: value for key, value in tree["metadata"].items() if key not in _SERVERS}
        yield where, {**{key: value for key, value in tree.items() if key != "status"}, "metadata": metadata}


_SERVERS = ("creationTimestamp", "generation", "managedFields", "resourceVersion", "uid", "selfLink")
