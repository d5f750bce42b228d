"""Continue tokens (k8s.io/apiserver/pkg/storage/continue.go, Kubernetes 1.36)."""

from __future__ import annotations

import base64
import binascii
import posixpath
import re

import msgspec

from kubevouch.machinery import errors
from kubevouch.machinery.codec import gojson, json_codec

VERSION = "meta.k8s.io/v1"
MAX_TOKEN_BYTES = 4096  # a key is at most a few hundred bytes
_ALPHABET = re.compile(r"[A-Za-z0-9_-]*", re.ASCII)

TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)


class ContinueToken(msgspec.Struct, frozen=True):
    """Where a paged list goes on: from ``start`` (a key below the prefix that is listed) as of ``revision``.

    Revision -1 stands for "the newest state", the inconsistent continuation.
    """

    revision: int
    start: str

    def encode(self) -> str:
        text = json_codec.encode_in_order({"v": VERSION, "rv": self.revision, "start": self.start})
        return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


def _refuse(why: str) -> errors.APIStatusError:
    return errors.bad_request(f"invalid continue token: {why}")


def decode(text: str) -> ContinueToken:
    """Raises ``APIStatusError`` (400) with Kubernetes' words for everything that is not a token."""
    tree = _tree(text)
    if tree.get("v") != VERSION:
        version = tree.get("v") if isinstance(tree.get("v"), str) else ""
        raise _refuse(f"continue key is not valid: server does not recognize this encoded version {version}")
    revision, start = tree.get("rv", 0), tree.get("start", "")
    if not isinstance(revision, int) or isinstance(revision, bool) or not isinstance(start, str):
        raise _refuse("continue key is not valid: json: cannot unmarshal")
    if not -(1 << 63) <= revision < 1 << 63:
        raise _refuse("continue key is not valid: json: cannot unmarshal")
    if revision == 0:
        raise _refuse(f"continue key is not valid: incorrect encoded start resourceVersion (version {VERSION})")
    if not start:
        raise _refuse(f"continue key is not valid: encoded start key empty (version {VERSION})")
    # A token may come from the watch cache (leading slash) or from etcd (none); it must stay below the prefix.
    key = start if start.startswith("/") else f"/{start}"
    # Unlike Go's path.Clean, normpath leaves two leading slashes as they are.
    if posixpath.normpath(key) != key or key.startswith("//"):
        raise _refuse(f"continue key is not valid: {start}")
    return ContinueToken(revision, key[1:])


def _tree(text: str) -> dict[str, object]:
    if len(text) > MAX_TOKEN_BYTES:
        raise _refuse("continue key is not valid: too long")
    if not _ALPHABET.fullmatch(text) or len(text) % 4 == 1:
        good = _ALPHABET.match(text)
        at = good.end() if good is not None and good.end() < len(text) else len(text) - len(text) % 4
        raise _refuse(f"continue key is not valid: illegal base64 data at input byte {at}")
    try:
        data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        tree = gojson.loads(data)
    except (binascii.Error, gojson.JSONSyntaxError) as err:
        raise _refuse(f"continue key is not valid: {err}") from err
    if not isinstance(tree, dict):
        raise _refuse("continue key is not valid: json: cannot unmarshal into Go value of type storage.continueToken")
    return tree
