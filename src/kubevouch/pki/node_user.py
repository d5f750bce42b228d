"""Which node a user name or a common name stands for: the one place where such a name is taken apart.

What comes out of here becomes the name of an object, a part of a path, a label and what a wild card is matched with.
A name that was only cut off its prefix has been any text at all: ``system:node:a/../b``, or one with a newline that
passes ``worker-*`` (the mistake of CVE-2021-27099).
"""

from __future__ import annotations

from functools import lru_cache

from kubevouch.machinery.text import names
from kubevouch.wellknown import NODE_USER_PREFIX

# RFC 1123 section 2.1. What is longer is no name, and is not remembered.
_LONGEST = len(NODE_USER_PREFIX) + 253


def node_name_of(user_name: str) -> str:
    """The node's name, a DNS-1123 subdomain; empty if it is no node's user name, or no node can have that name."""
    if not user_name.startswith(NODE_USER_PREFIX) or len(user_name) > _LONGEST:
        return ""
    return _node_name_of(user_name)


# A join asks a dozen times, for two names.
@lru_cache(maxsize=1024)
def _node_name_of(user_name: str) -> str:
    return checked_node_name(user_name[len(NODE_USER_PREFIX) :])


def checked_node_name(text: str) -> str:
    """``text`` if a node can be called so, else empty."""
    return "" if names.subdomain(text) else text
