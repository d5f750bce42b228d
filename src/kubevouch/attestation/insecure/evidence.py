"""What a machine shows that proves nothing: that it knows it."""

from __future__ import annotations

import msgspec

NAME = "insecure"
VERSIONS = ("v1",)
PROVES = "nothing"
WARNING = (
    "insecure proves nothing: whoever has a bootstrap token gets the certificate of any node that is not there yet"
)


class Proof(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """``proves`` is ``nothing``, in so many words."""

    proves: str
