"""What a watch sends: changes, bookmarks, and a Status when it cannot go on."""

from __future__ import annotations

from typing import Any

import msgspec

from kubevouch.machinery.meta import Status
from kubevouch.storage.interface import Revision
from kubevouch.storage.watchcache.resource_cache import Change


class Bookmark(msgspec.Struct, frozen=True):
    """Progress without a change; ``initial_end`` marks the end of a streaming list's first part."""

    revision: Revision
    initial_end: bool = False


WatchItem = Change[Any] | Bookmark | Status
