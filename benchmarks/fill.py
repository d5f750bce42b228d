"""Many issued requests in a store, without the joins that would make them."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path

from kubevouch.api.catalog import CERTIFICATE_SIGNING_REQUESTS
from kubevouch.machinery.codec import protobuf
from kubevouch.machinery.meta import replace_metadata
from kubevouch.storage.options import DEFAULT_FILE, parse_store
from kubevouch.util.clock import SystemClock

_PREFIX = f"/registry/{CERTIFICATE_SIGNING_REQUESTS.plural}/"
_AT_ONCE = 2000


async def fill(data_dir: Path, count: int) -> None:
    """Copy what requests there are until there are ``count``. Nothing may run on the data directory."""
    store = await parse_store(f"sqlite:{data_dir / DEFAULT_FILE}", data_dir).open(SystemClock())
    codec = protobuf.codec_for(CERTIFICATE_SIGNING_REQUESTS.type)
    try:
        present = (await store.list(_PREFIX)).items
        patterns = [protobuf.unseal(item.value) for item in present]
        for at in range(len(present), count, _AT_ONCE):
            writes = []
            for number in range(at, min(at + _AT_ONCE, count)):
                sealed = patterns[number % len(patterns)]
                obj = replace_metadata(codec.decode(sealed.raw), name=f"filled-{number}", uid=str(uuid.uuid4()))
                value = protobuf.seal(sealed.api_version, sealed.kind, codec.encode(obj))
                writes.append(store.create(f"{_PREFIX}filled-{number}", value))
            await asyncio.gather(*writes)
    finally:
        await store.close()
