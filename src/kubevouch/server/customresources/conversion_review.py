"""What conversion webhooks are asked, and what of their answers can be believed; no I/O.

    ConversionFailed      the answer cannot be used; ``str()`` says why

Source: apiextensions-apiserver pkg/apiserver/conversion/webhook_converter.go (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from kubevouch.api.admissionregistration_v1.webhooks import REVIEW_VERSIONS
from kubevouch.api.apiextensions_v1 import GROUP
from kubevouch.machinery import field
from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.custom_object import CustomCodec, CustomObject
from kubevouch.machinery.object_meta import validate_annotations, validate_labels
from kubevouch.machinery.scheme import GroupVersionKind
from kubevouch.machinery.text.gotext import quote

Tree = dict[str, Any]

KIND = "ConversionReview"
_CODEC = CustomCodec()


class ConversionFailed(Exception):
    """A webhook could not be asked, or its answer cannot be used."""


def review_version(versions: Sequence[str]) -> str:
    """The first that is known here. Raises :class:`ConversionFailed` when none is."""
    found = next((version for version in versions if version in REVIEW_VERSIONS), None)
    if found is None:
        raise ConversionFailed("no supported conversion review versions")
    return found


def review(objects: Sequence[CustomObject], api_version: str, uid: str, version: str) -> bytes:
    """The ConversionReview that asks for ``objects`` in ``api_version``."""
    request = {
        "uid": uid,
        "desiredAPIVersion": api_version,
        "objects": [msgspec.Raw(_CODEC.to_json(each)) for each in objects],
    }
    return json_codec.encode({"kind": KIND, "apiVersion": f"{GROUP}/{version}", "request": request})


def gvk_of(obj: CustomObject) -> GroupVersionKind:
    """The kind that an object says it has."""
    group, _, version = obj.api_version.rpartition("/")
    return GroupVersionKind(group, version, obj.kind)


def converted(
    answer: bytes, objects: Sequence[CustomObject], api_version: str, uid: str, version: str
) -> list[CustomObject]:
    """The objects in a webhook's answer, each with the metadata of its original but for labels and annotations.

    Raises:
        ConversionFailed
    """
    about = f"conversion webhook for {gvk_of(objects[0])}"
    try:
        found = _objects_in(answer, uid, version)
    except ConversionFailed as err:
        raise ConversionFailed(f"{about} failed: {err}") from err
    if len(found) != len(objects):
        raise ConversionFailed(f"{about} returned {len(found)} objects, expected {len(objects)}")
    several = len(objects) > 1
    made = []
    for index, (original, tree) in enumerate(zip(objects, found, strict=True)):
        try:
            made.append(_believed(original, tree, api_version))
        except _Unbelievable as err:
            # Kubernetes counts from one once it has read an object of a list.
            number = index + (err.what != "read")
            where = f"invalid converted object at index {number}" if several else "invalid object at index 0"
            if err.what == "object" and not several:
                where = "invalid object"
            elif err.what == "metadata":
                where = f"invalid metadata in object at index {number}" if several else "invalid metadata"
            raise ConversionFailed(f"{about} returned {where}: {err}") from err
    return made


def _objects_in(answer: bytes, uid: str, version: str) -> list[Any]:
    try:
        tree = msgspec.json.decode(answer)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as err:
        raise ConversionFailed(f"couldn't get version/kind; json parse error: {err}") from err
    if not isinstance(tree, dict):
        raise ConversionFailed(
            f"couldn't get version/kind; json parse error: json: cannot unmarshal {json_codec.go_kind(tree)} into Go "
            "value of type struct"
        )
    if version == "v1":
        _expect_review(tree)
    response = tree.get("response")
    if not isinstance(response, dict):
        raise ConversionFailed("no response provided")
    if version == "v1" and response.get("uid", "") != uid:
        raise ConversionFailed(f"expected response.uid={quote(uid)}, got {quote(str(response.get('uid') or ''))}")
    result = response.get("result")
    result = result if isinstance(result, dict) else {}
    if result.get("status") != "Success":
        status = result.get("status") or ""
        raise ConversionFailed(str(result.get("message") or f"response.result.status was '{status}', not 'Success'"))
    objects = response.get("convertedObjects") or []
    if not isinstance(objects, list):
        raise ConversionFailed(
            f"json: cannot unmarshal {json_codec.go_kind(objects)} into Go struct field "
            "ConversionResponse.response.convertedObjects of type []runtime.RawExtension"
        )
    return objects


def _expect_review(tree: Tree) -> None:
    wanted = GroupVersionKind(GROUP, "v1", KIND)
    api_version, kind = tree.get("apiVersion"), tree.get("kind")
    group, _, version = (api_version if isinstance(api_version, str) else "").rpartition("/")
    got = GroupVersionKind(group, version, kind if isinstance(kind, str) else "")
    if got != wanted:
        raise ConversionFailed(f"expected webhook response of {wanted}, got {got}")


# ------------------------------------------------------------------ one object


class _Unbelievable(Exception):
    """``what``: could not be ``read``, is another ``object`` or ``version``, or has wrong ``metadata``."""

    def __init__(self, what: str, why: str) -> None:
        super().__init__(why)
        self.what = what


def _believed(original: CustomObject, tree: Any, api_version: str) -> CustomObject:
    if not isinstance(tree, dict):
        raise _Unbelievable(
            "read", f"json: cannot unmarshal {json_codec.go_kind(tree)} into Go value of type map[string]interface {{}}"
        )
    kind = tree.get("kind")
    if not isinstance(kind, str) or not kind:
        raise _Unbelievable("read", f"Object 'Kind' is missing in '{json_codec.encode(tree).decode()[:256]}'")
    got = tree.get("apiVersion")
    got = got if isinstance(got, str) else ""
    if got != api_version:
        why = f"invalid groupVersion (expected {api_version}, received {got})"
        raise _Unbelievable("version", why)
    if kind != original.kind:
        raise _Unbelievable("version", f"invalid kind (expected {original.kind}, received {kind})")
    metadata = tree.get("metadata")
    given = metadata if isinstance(metadata, dict) else {}
    mine = original.metadata
    for name, key, value in (
        ("name", "name", mine.name), ("namespace", "namespace", mine.namespace), ("UID", "uid", mine.uid),
    ):  # fmt: skip
        other = given.get(key)
        other = other if isinstance(other, str) else ""
        if other != value:
            raise _Unbelievable("object", f"must have the same {name}: {value} != {other}")
    if "metadata" not in tree:
        raise _Unbelievable("metadata", "missing metadata in converted object")
    if not isinstance(metadata, dict):
        raise _Unbelievable("metadata", f"invalid metadata of type {_go_type(metadata)} in converted object")
    labels = _texts(given, "labels", mine.labels)
    annotations = _texts(given, "annotations", mine.annotations)
    try:
        plain = _CODEC.from_tree({**tree, "metadata": {}}).value
    except json_codec.UnmarshalError as err:
        raise _Unbelievable("read", str(err)) from err
    meta = msgspec.structs.replace(mine, labels=labels, annotations=annotations)
    made: CustomObject = msgspec.structs.replace(plain, metadata=meta)
    return made


def _texts(metadata: Tree, name: str, before: dict[str, str]) -> dict[str, str]:
    found = metadata.get(name)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise _Unbelievable("metadata", f"invalid metadata.{name} of type {_go_type(found)} in converted object")
    for key, value in found.items():
        if not isinstance(value, str):
            why = f"metadata.{name}[{key}] must be a string, but is {_go_type(value)} in converted object"
            raise _Unbelievable("metadata", why)
    if found != before:
        # The path of annotations is Kubernetes' own slip.
        errors = (
            validate_labels(found, "metadata.labels")
            if name == "labels"
            else validate_annotations(found, "metadata.annotation")
        )
        if errors:
            raise _Unbelievable("metadata", field.aggregate(errors))
    return found


def _go_type(value: Any) -> str:
    if value is None:
        return "<nil>"
    for types, name in ((bool, "bool"), (int, "int64"), (float, "float64"), (str, "string"), (list, "[]interface {}")):
        if isinstance(value, types):
            return name
    return "map[string]interface {}"
