"""A requester may have so many undecided requests, and hears of one that it already has for the same key.

A machine that joins hears of another one that has joined under its name. Of the requests that come with bootstrap
tokens, those of one address, and those of one address for one name, are bounded too, whatever the token: whoever has
stolen one cannot use up what its honest machines need. Nor do such requests keep themselves for ever, by finalizers.

Not a plug-in of Kubernetes. A node that crashes in a loop, or a stolen token, made half a million requests in a cluster
before anybody looked (kubernetes/kubernetes#132947).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import TypeVar

from kubevouch import wellknown
from kubevouch.admission.certificate_requests import creates_one
from kubevouch.admission.interface import Operation, Request
from kubevouch.admission.joined_names import JoinedNames
from kubevouch.admission.open_objects import OpenObject, OpenObjects
from kubevouch.admission.refusal import refused
from kubevouch.api.certificates_v1 import CertificateSigningRequest, is_undecided
from kubevouch.machinery import errors
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.scheme import GroupResource
from kubevouch.pki.errors import PKIError
from kubevouch.pki.x509 import x509_request
from kubevouch.records.token_bounds import SOURCE_ADDRESS_ANNOTATION
from kubevouch.util.addresses import source_prefix
from kubevouch.util.network_shares import NetworkShares

# A node has one client and one serving request under way, and those of a few restarts.
NODE_BUDGET = 20
# A fleet joins with one token, and may have to wait for a person's decision.
DEFAULT_BUDGET = 5000
# Behind one address a rack or a site joins at once; ten addresses fill a token.
SOURCE_BUDGET = 500
# A machine that is installed anew again and again while nobody decides.
NAME_BUDGET = 20
# What was denied or has failed is kept for an hour, so that somebody can look at it.
REFUSED_BUDGET = 5000
REFUSED_SOURCE_BUDGET = 1000
RETRY_AFTER_SECONDS = 30

K = TypeVar("K")
_Key = tuple[str, str, bytes]
_Origin = tuple[str, bytes]
_REFUSALS = (wellknown.CSR_DENIED, wellknown.CSR_FAILED)


class OpenRequests:
    """The undecided requests by requester and by key. Fed from a watch cache: by its events, and by what it loads."""

    def __init__(self) -> None:
        self._open = OpenObjects()
        self._by_key: dict[_Key, dict[str, None]] = {}
        self._keys: dict[str, _Key] = {}
        # Decided, and never to get a certificate: by requester, and by his source address before it.
        self._refused: dict[str, tuple[str, str]] = {}
        self._refused_of: dict[str, dict[str, None]] = {}
        self._refused_from: dict[tuple[str, str], dict[str, None]] = {}
        # Those of each requester, by the networks that they came from.
        self.refused_networks = NetworkShares()
        self.joined = JoinedNames()

    def load(self, objects: Iterable[CertificateSigningRequest]) -> None:
        """Start from all requests there are."""
        self._open.clear()
        self._by_key.clear()
        self._keys.clear()
        self._refused.clear()
        self._refused_of.clear()
        self._refused_from.clear()
        self.refused_networks.clear()
        self.joined.clear()
        for obj in objects:
            self.changed(obj.metadata.name, obj)

    def changed(self, name: str, obj: CertificateSigningRequest | None) -> None:
        """The request ``name`` is now ``obj``, or gone."""
        self.joined.changed(name, obj)
        self._changed_refusal(name, obj)
        if obj is not None and is_undecided(obj):
            if name not in self._keys:
                requester = obj.spec.username
                key = self._keys[name] = _key_of(obj, requester)
                self._by_key.setdefault(key, {})[name] = None
                self._open.add(name, OpenObject(requester, *(origin_of(obj, requester) or ())))
            return
        gone = self._keys.pop(name, None)
        if gone is not None:
            _drop(self._by_key, gone, name)
            self._open.discard(name)

    def _changed_refusal(self, name: str, obj: CertificateSigningRequest | None) -> None:
        if obj is not None and _is_refused(obj) and (source := obj.metadata.annotations.get(SOURCE_ADDRESS_ANNOTATION)):
            if name not in self._refused:
                came = self._refused[name] = source_prefix(source), obj.spec.username
                self._refused_of.setdefault(came[1], {})[name] = None
                self._refused_from.setdefault(came, {})[name] = None
                self.refused_networks.take(*came)
            return
        gone = self._refused.pop(name, None)
        if gone is not None:
            _drop(self._refused_of, gone[1], name)
            _drop(self._refused_from, gone, name)
            self.refused_networks.give_back(*gone)

    def refused(self, requester: str, source: str) -> tuple[int, int]:
        """How many of the requester's, and how many of them from ``source``, are refused and still there."""
        return len(self._refused_of.get(requester, ())), len(self._refused_from.get((source, requester), ()))

    @property
    def networks(self) -> NetworkShares:
        """The undecided ones of each requester, by the networks that they came from."""
        return self._open.networks

    def count_from(self, origin: _Origin) -> tuple[int, int]:
        """How many came from the source of ``origin`` with any bootstrap token, and how many of them for its name."""
        return self._open.count_from(*origin)

    def count(self, requester: str) -> int:
        return self._open.count(requester)

    def same_key(self, obj: CertificateSigningRequest, requester: str) -> str:
        """The name of the requester's oldest open request for the same signer and public key; else empty."""
        return next(iter(self._by_key.get(_key_of(obj, requester), ())), "")


def _is_refused(obj: CertificateSigningRequest) -> bool:
    """Of those that came with a bootstrap token: what others ask for is theirs to answer for."""
    if not obj.spec.username.startswith(wellknown.BOOTSTRAP_USER_PREFIX):
        return False
    return any(condition.type in _REFUSALS for condition in obj.status.conditions)


def origin_of(obj: CertificateSigningRequest, requester: str) -> _Origin | None:
    """From where a request with a bootstrap token comes, and for which name; None where nobody says from where."""
    source = obj.metadata.annotations.get(SOURCE_ADDRESS_ANNOTATION, "")
    if not source or not requester.startswith(wellknown.BOOTSTRAP_USER_PREFIX):
        return None
    try:
        common_name = x509_request.parse_pem(obj.spec.request or b"").subject.common_name
    except PKIError:
        common_name = ""
    # By digest: whoever asks does not choose how much memory it takes.
    return source_prefix(source), hashlib.sha256(common_name.encode(errors="surrogatepass")).digest()


def _drop(index: dict[K, dict[str, None]], key: K, name: str) -> None:
    del index[key][name]
    if not index[key]:
        del index[key]


def _key_of(obj: CertificateSigningRequest, requester: str) -> _Key:
    try:
        public_key = x509_request.parse_pem(obj.spec.request or b"").public_key.canonical_info
    except PKIError:
        public_key = obj.spec.request or b""
    return requester, obj.spec.signer_name, hashlib.sha256(public_key).digest()


class CertificateRequestBudget:
    """Refuses a creation over the budget with 429. Members of ``system:masters`` have none."""

    name = "CertificateRequestBudget"

    def __init__(
        self,
        open_requests: OpenRequests,
        *,
        node: int = NODE_BUDGET,
        default: int = DEFAULT_BUDGET,
        source: int = SOURCE_BUDGET,
        name: int = NAME_BUDGET,
        refused: int = REFUSED_BUDGET,
        refused_source: int = REFUSED_SOURCE_BUDGET,
    ) -> None:
        self._open = open_requests
        self._node = node
        self._default = default
        self._source = source
        self._name = name
        self._refused = refused
        self._refused_source = refused_source

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:
        return creates_one(operation, resource, subresource)

    async def validate(self, request: Request) -> None:
        """Raises ``APIStatusError`` (429, 403)."""
        requester = request.user.name
        if requester.startswith(wellknown.BOOTSTRAP_USER_PREFIX):
            _refuse_lifetime(request)
        other = self._open.joined.other_machine(request.obj, requester)
        if other:
            request.warnings.append(
                f"another machine, with another key, has joined under this node name (certificate signing request"
                f" {other!r}); unless this one was installed anew, give it a name of its own"
            )
        self._refuse_over_origin(request, requester)
        count = self._open.count(requester)
        if not count:
            return
        pending = self._open.same_key(request.obj, requester)
        if pending:
            request.warnings.append(
                f"{requester} already has the pending certificate signing request {pending!r} for the same key and"
                " signer"
            )
        if wellknown.MASTERS_GROUP in request.user.groups:
            return
        budget = self._node if wellknown.NODES_GROUP in request.user.groups else self._default
        if count >= budget:
            raise errors.too_many_requests(
                f"{requester} has {count} certificate signing requests that nobody has decided, at most {budget} are"
                " allowed: have them approved, denied or deleted",
                RETRY_AFTER_SECONDS,
            )
        origin = origin_of(request.obj, requester)
        if origin is not None and not self._open.networks.has_room(origin[0], count, budget, requester):
            raise _network_too_many(f"{requester} has {count}", "that nobody has decided", origin[0])

    def _refuse_over_origin(self, request: Request, requester: str) -> None:
        origin = origin_of(request.obj, requester)
        if origin is None:
            return
        self._refuse_over_refusals(requester, origin[0])
        from_source, for_name = self._open.count_from(origin)
        if from_source >= self._source or for_name >= self._name:
            what, budget = ("", self._source) if from_source >= self._source else (" for this name", self._name)
            raise errors.too_many_requests(
                f"{origin[0]} has {budget} certificate signing requests{what} that nobody has decided, and no address "
                "may have more: have them approved, denied or deleted",
                RETRY_AFTER_SECONDS,
            )

    def _refuse_over_refusals(self, requester: str, source: str) -> None:
        """A token that gives no certificate, because it is bound or its machines prove nothing, fills no store."""
        of_token, from_source = self._open.refused(requester, source)
        for count, budget, where in ((of_token, self._refused, ""), (from_source, self._refused_source, source)):
            if count >= budget:
                raise errors.too_many_requests(
                    f"{requester} has {budget} certificate signing requests{where and f' from {where}'} that were"
                    " denied or have failed, and may have no more: they are deleted within an hour, or delete them",
                    RETRY_AFTER_SECONDS,
                )
        if not self._open.refused_networks.has_room(source, of_token, self._refused, requester):
            raise _network_too_many(f"{requester} has {of_token}", "that were denied or have failed", source)


def _network_too_many(who: str, which: str, source: str) -> APIStatusError:
    return errors.too_many_requests(
        f"{who} certificate signing requests {which}, more than half of them from networks around {source}: the last "
        "tenth of its budget is for other networks; have them approved, denied or deleted",
        RETRY_AFTER_SECONDS,
    )


def _refuse_lifetime(request: Request) -> None:
    """Requests are cleaned away. One with a finalizer stays, and one that blocks its owner keeps that from going."""
    metadata = request.obj.metadata
    if metadata.finalizers or metadata.owner_references:
        raise refused(request, "a bootstrap token makes no requests with finalizers or ownerReferences")
