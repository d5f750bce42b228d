"""Who may act as whom.

Kubernetes 1.36 knows five modes. The four constrained ones ask for two permissions: to do this very thing while acting
as somebody (verb ``impersonate-on:<mode>:<verb>`` on the target of the request), and to act as that identity (verb
``impersonate:<mode>``). The legacy mode asks for verb ``impersonate`` alone. The first mode that allows decides; if
none does, the client sees why the first one that applied refused.

Source: k8s.io/apiserver/pkg/endpoints/filters/impersonation (KEP-5284, Kubernetes 1.36).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec
from msgspec import structs
from msgspec.structs import replace

from kubevouch.authentication.impersonation import (
    resulting_user,
    service_account_groups,
    service_account_of,
    with_standing,
)
from kubevouch.authentication.interface import UserInfo
from kubevouch.authorization.interface import Attributes, Authorizer, Decision
from kubevouch.authorization.messages import forbidden
from kubevouch.machinery import field
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.field import FieldError
from kubevouch.machinery.text import names
from kubevouch.machinery.text.gotext import quote
from kubevouch.pki.node_user import node_name_of
from kubevouch.wellknown import (
    MASTERS_GROUP,
    NODE_NAME_EXTRA,
    NODES_GROUP,
)

LEGACY_VERB = "impersonate"

_AUTHENTICATION = "authentication.k8s.io"
# From so many groups or extra values on, one permission for all of them is looked for first.
_MANY = 4
# Whose node a service account's pod runs on is not part of the permission to act as that node.
_ASSOCIATED_KEYS = "authentication.kubernetes.io/associated-node-keys"


class Impersonated(msgspec.Struct, frozen=True):
    """Who the request acts as, and the verb that allowed it (empty in the legacy mode), for audit."""

    user: UserInfo
    constraint: str = ""


class Impersonator:
    """Decides about impersonation with the server's own authorizer."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    async def impersonate(self, attributes: Attributes, wanted: UserInfo) -> Impersonated:
        """Who a request may act as.

        Args:
            attributes: the request, with the user that sent it.
            wanted: the identity that its headers ask for.

        Raises:
            APIStatusError: 403.
        """
        first: APIStatusError | None = None
        for mode in _constrained_modes(attributes.user, wanted):
            try:
                return await self._constrained(mode, attributes, wanted)
            except APIStatusError as err:
                first = first or err
        try:
            for question in legacy_permissions(attributes.user, wanted):
                await self._require(question)
        except APIStatusError as err:
            raise (first or err) from None
        return Impersonated(resulting_user(wanted))

    async def _constrained(self, mode: str, attributes: Attributes, wanted: UserInfo) -> Impersonated:
        verb = f"impersonate:{mode}"
        requester = attributes.user
        if mode == _ASSOCIATED_NODE:
            requester = replace(requester, extra={_ASSOCIATED_KEYS: tuple(sorted(requester.extra))})
        on = f"impersonate-on:{mode}:{attributes.verb}"
        await self._require(structs.replace(attributes, user=requester, verb=on))
        identity = Attributes(requester, verb, _AUTHENTICATION, "v1")
        user = wanted
        account = service_account_of(wanted.name)
        node_name = _node_name(wanted.name)
        if node_name:
            # The permission is for one's own node, whichever that is.
            name = "*" if mode == _ASSOCIATED_NODE else node_name
            await self._require(structs.replace(identity, resource="nodes", name=name))
            user = replace(wanted, groups=(NODES_GROUP,))
        elif account is not None:
            await self._require(
                structs.replace(identity, resource="serviceaccounts", namespace=account[0], name=account[1])
            )
            user = replace(wanted, groups=service_account_groups(account[0]))
        else:
            await self._require(structs.replace(identity, resource="users", name=wanted.name))
        if wanted.uid:
            await self._require(structs.replace(identity, resource="uids", name=wanted.uid))
        await self._require_groups(structs.replace(identity, resource="groups"), wanted.groups)
        await self._require_extra(structs.replace(identity, resource="userextras"), wanted.extra)
        return Impersonated(replace(user, groups=with_standing(user.name, user.groups)), verb)

    async def _require_groups(self, question: Attributes, groups: tuple[str, ...]) -> None:
        if "" in groups:
            raise forbidden(question, "impersonating the empty string group is not allowed")
        if MASTERS_GROUP in groups:
            question = structs.replace(question, name=MASTERS_GROUP)
            raise forbidden(question, "impersonating the system:masters group is not allowed")
        if len(groups) >= _MANY and await self._allows(structs.replace(question, name="*")):
            return
        for group in groups:
            await self._require(structs.replace(question, name=group))

    async def _require_extra(self, question: Attributes, extra: Mapping[str, tuple[str, ...]]) -> None:
        for key, values in extra.items():
            fault = _extra_fault(key, values)
            if fault:
                raise forbidden(question, fault)
        many = max(len(extra), sum(map(len, extra.values()))) >= _MANY
        if many and await self._allows(structs.replace(question, subresource="*", name="*")):
            return
        for key, values in extra.items():
            for value in values:
                await self._require(structs.replace(question, subresource=key, name=value))

    async def _allows(self, question: Attributes) -> bool:
        return (await self._authorizer.authorize(question)).decision is Decision.ALLOW

    async def _require(self, question: Attributes) -> None:
        verdict = await self._authorizer.authorize(question)
        if verdict.decision is not Decision.ALLOW:
            raise forbidden(question, ": ".join(filter(None, (verdict.error, verdict.reason))))


def legacy_permissions(requester: UserInfo, wanted: UserInfo) -> Iterator[Attributes]:
    """What the legacy mode asks the authorizer for: user, UID, each group, each value of each extra key."""
    core = Attributes(requester, LEGACY_VERB, "", "v1")
    account = service_account_of(wanted.name)
    if account is None:
        yield structs.replace(core, resource="users", name=wanted.name)
    else:
        yield structs.replace(core, resource="serviceaccounts", namespace=account[0], name=account[1])
    other = structs.replace(core, group=_AUTHENTICATION)
    if wanted.uid:
        yield structs.replace(other, resource="uids", name=wanted.uid)
    for group in wanted.groups:
        yield structs.replace(core, resource="groups", name=group)
    for key, values in wanted.extra.items():
        for value in values:
            yield structs.replace(other, resource="userextras", subresource=key, name=value)


# ------------------------------------------------------------------ which modes apply

_ASSOCIATED_NODE = "associated-node"


def _constrained_modes(requester: UserInfo, wanted: UserInfo) -> Iterator[str]:
    """The constrained modes that apply, in the order in which they are tried.

    Nodes and service accounts have modes of their own, in which nothing but the name may be asked for; all other users
    share one.
    """
    only_name = not (wanted.uid or wanted.groups or wanted.extra)
    node_name = _node_name(wanted.name)
    if node_name:
        if only_name and _is_on_node(requester, node_name):
            yield _ASSOCIATED_NODE
        if only_name:
            yield "arbitrary-node"
    elif service_account_of(wanted.name) is not None:
        if only_name:
            yield "serviceaccount"
    else:
        yield "user-info"


def _node_name(user_name: str) -> str:
    """The node in a node's user name, or an empty text if it is none or no node could have that name."""
    return node_name_of(user_name)


def _is_on_node(requester: UserInfo, node_name: str) -> bool:
    """Whether the requester is a service account whose token is bound to the node."""
    return service_account_of(requester.name) is not None and requester.extra.get(NODE_NAME_EXTRA) == (node_name,)


def _extra_fault(key: str, values: tuple[str, ...]) -> str:
    if not key:
        return "impersonating the empty string key in extra is not allowed"
    if faults := _domain_prefixed_path_faults(key):
        return f"impersonating an invalid key in extra is not allowed: {field.aggregate(faults)}"
    if key != key.lower():
        return f"impersonating a non-lowercase key in extra is not allowed: {quote(key)}"
    if not values:
        return "impersonating empty values in extra is not allowed"
    if "" in values:
        return "impersonating the empty string value in extra is not allowed"
    return ""


_HTTP_PATH = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
_HTTP_PATH_RE = re.compile(_HTTP_PATH, re.ASCII)


def _domain_prefixed_path_faults(key: str) -> list[FieldError]:
    """``acme.io/foo``: a subdomain, a slash, and a path as RFC 3986 writes it."""
    place = "extra.key"
    host, slash, path = key.partition("/")
    if not slash or not host or not path:
        return [field.invalid(place, key, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    faults = [field.invalid(place, host, message) for message in names.subdomain(host)]
    if not _HTTP_PATH_RE.fullmatch(path):
        faults.append(field.invalid(place, path, f"Invalid path (regex used for validation is '{_HTTP_PATH}')"))
    return faults
