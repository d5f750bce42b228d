"""Impersonation headers: whom a request wants to act as. Whether it may, ``authorization/impersonation.py`` decides.

Source: k8s.io/apiserver/pkg/endpoints/filters/impersonation (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import unquote

from kubevouch.authentication.interface import UserInfo
from kubevouch.machinery import errors
from kubevouch.machinery.text import gotext, names
from kubevouch.wellknown import (
    ANONYMOUS_USER,
    AUTHENTICATED_GROUP,
    SERVICE_ACCOUNT_USER_PREFIX,
    SERVICE_ACCOUNTS_GROUP,
    SERVICE_ACCOUNTS_GROUP_PREFIX,
    UNAUTHENTICATED_GROUP,
)

USER_HEADER = "impersonate-user"
UID_HEADER = "impersonate-uid"
GROUP_HEADER = "impersonate-group"
EXTRA_HEADER_PREFIX = "impersonate-extra-"


def requested(headers: Mapping[str, Sequence[str]]) -> UserInfo | None:
    """The identity that the headers (by lower-case name) ask for, exactly as written, or None if they ask for none.

    Raises:
        APIStatusError: 400, because a UID, a group or an extra is asked for without a user name.
    """
    name = _first(headers, USER_HEADER)
    uid = _first(headers, UID_HEADER)
    groups = tuple(headers.get(GROUP_HEADER, ()))
    extra: dict[str, tuple[str, ...]] = {}
    has_extra = False
    for header, values in headers.items():
        if header.startswith(EXTRA_HEADER_PREFIX):
            has_extra = True
            if values:
                key = unescape_extra_key(header[len(EXTRA_HEADER_PREFIX) :])
                extra[key] = extra.get(key, ()) + tuple(values)
    if name:
        return UserInfo(name, uid, groups, extra)
    if uid or groups or has_extra:
        shown = _go_syntax(uid, groups, extra)
        raise errors.bad_request(f"requested {shown} without impersonating a user name")
    return None


def _first(headers: Mapping[str, Sequence[str]], name: str) -> str:
    values = headers.get(name)
    return values[0] if values else ""


def unescape_extra_key(key: str) -> str:
    """The key of an extra header: lower case, percent-decoded where that works (Go's ``url.PathUnescape``)."""
    lowered = key.lower()
    for position in range(len(lowered)):
        if lowered[position] == "%" and not _is_hex(lowered[position + 1 : position + 3]):
            return lowered
    return unquote(lowered)


def _is_hex(digits: str) -> bool:
    return len(digits) == 2 and all(digit in "0123456789abcdef" for digit in digits)


def _go_syntax(uid: str, groups: tuple[str, ...], extra: Mapping[str, tuple[str, ...]]) -> str:
    """The wanted user as Go's ``%#v`` prints the pointer to it."""
    shown_groups = gotext.string_slice_syntax(groups) if groups else "[]string(nil)"
    pairs = ", ".join(f"{gotext.quote(key)}:{gotext.string_slice_syntax(extra[key])}" for key in sorted(extra))
    shown_extra = f"map[string][]string{{{pairs}}}" if extra else "map[string][]string(nil)"
    return f'&user.DefaultInfo{{Name:"", UID:{gotext.quote(uid)}, Groups:{shown_groups}, Extra:{shown_extra}}}'


def resulting_user(wanted: UserInfo) -> UserInfo:
    """Who the request acts as once impersonation is allowed, in the legacy mode.

    A service account gets its two fixed groups when no group was asked for; everybody gets the group that says whether
    somebody vouched for the name. Nothing of the requester carries over.
    """
    groups = wanted.groups
    account = service_account_of(wanted.name)
    if account is not None and not groups:
        groups = service_account_groups(account[0])
    return UserInfo(wanted.name, wanted.uid, with_standing(wanted.name, groups), wanted.extra)


def with_standing(name: str, groups: tuple[str, ...]) -> tuple[str, ...]:
    """``groups`` with ``system:authenticated`` or, for the anonymous user, ``system:unauthenticated``."""
    standing = UNAUTHENTICATED_GROUP if name == ANONYMOUS_USER else AUTHENTICATED_GROUP
    if UNAUTHENTICATED_GROUP in groups or standing in groups:
        return groups
    return (*groups, standing)


def service_account_groups(namespace: str) -> tuple[str, str]:
    """The groups that every service account of a namespace is in."""
    return SERVICE_ACCOUNTS_GROUP, f"{SERVICE_ACCOUNTS_GROUP_PREFIX}{namespace}"


def service_account_of(name: str) -> tuple[str, str] | None:
    """Namespace and name in a service account's user name, or None for other users."""
    if not name.startswith(SERVICE_ACCOUNT_USER_PREFIX):
        return None
    parts = name[len(SERVICE_ACCOUNT_USER_PREFIX) :].split(":")
    if len(parts) != 2 or names.dns_label_name(parts[0], False) or names.subdomain(parts[1]):
        return None
    return parts[0], parts[1]
