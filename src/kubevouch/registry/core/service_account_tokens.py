"""``serviceaccounts/token``: TokenRequest.

Source: pkg/registry/core/serviceaccount/storage/token.go, pkg/apis/authentication/validation (Kubernetes 1.36).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Awaitable, Callable

import msgspec

from kubevouch.api import catalog
from kubevouch.api.authentication_v1 import (
    BoundObjectReference,
    TokenRequest,
    TokenRequestStatus,
    default_token_request,
    validate_token_request,
)
from kubevouch.authentication.service_account import BoundObject, Issuer
from kubevouch.machinery import errors, field
from kubevouch.machinery.meta import Object, replace_metadata
from kubevouch.machinery.text.times import Time
from kubevouch.registry.interface import Context, Validate

# namespace, name → the stored object. Raises the API's 404.
Read = Callable[[str, str], Awaitable[Object]]


class TokenRequests:
    """Answers token requests.

    Args:
        accounts, secrets, nodes: read what a token is for and what it is bound to.
    """

    def __init__(self, issuer: Issuer, accounts: Read, secrets: Read, nodes: Read) -> None:
        self._issuer = issuer
        self._accounts = accounts
        self._bindable = {"Secret": secrets, "Node": nodes}

    async def perform(
        self, ctx: Context, namespace: str, name: str, asked: TokenRequest, validate: Validate
    ) -> TokenRequest:
        """The request again, with a token in its status."""
        _require_same(asked, namespace, name)
        account = await self._accounts(namespace, name)
        asked = default_token_request(asked)
        spec = asked.spec
        if not spec.audiences:
            spec = msgspec.structs.replace(spec, audiences=list(self._issuer.audiences))
        seconds = spec.expiration_seconds or 0
        if faults := validate_token_request(asked):
            raise errors.invalid(catalog.TOKEN_REQUEST, "", faults)
        named: TokenRequest = replace_metadata(
            asked, name=name, namespace=namespace, creation_timestamp=Time.of(ctx.now)
        )
        answered = msgspec.structs.replace(named, spec=spec, status=TokenRequestStatus())
        await validate(answered)
        bound = None if spec.bound_object_ref is None else await self._bound(spec.bound_object_ref, namespace)
        most = int(self._issuer.max_life.total_seconds())
        if 0 < most < seconds:
            ctx.warnings.append(f"requested expiration of {seconds} seconds shortened to {most} seconds")
            seconds = most
            answered = msgspec.structs.replace(answered, spec=msgspec.structs.replace(spec, expiration_seconds=seconds))
        until = ctx.now + dt.timedelta(seconds=seconds)
        assert spec.audiences is not None  # filled in above
        token = self._issuer.issue(account, spec.audiences, now=ctx.now, until=until, bound=bound)
        status = TokenRequestStatus(token="" if ctx.dry_run else token, expiration_timestamp=Time.of(until))
        return msgspec.structs.replace(answered, status=status)

    async def _bound(self, ref: BoundObjectReference, namespace: str) -> BoundObject:
        core = ref.api_version == "v1"
        if core and ref.kind == "Pod":
            # No pods are kept here, so none can be found.
            raise errors.not_found(catalog.PODS.group_resource, ref.name)
        read = self._bindable.get(ref.kind) if core else None
        if read is None:
            group, _, version = ref.api_version.rpartition("/")
            raise errors.bad_request(f"cannot bind token to object of type {group}/{version}, Kind={ref.kind}")
        found = await read("" if ref.kind == "Node" else namespace, ref.name)
        uid = found.metadata.uid
        if ref.uid and ref.uid != uid:
            raise errors.conflict(
                catalog.SERVICE_ACCOUNTS.group_resource._replace(resource=ref.kind),
                ref.name,
                f"the UID in the bound object reference ({ref.uid}) does not match the UID in record. "
                "The object might have been deleted and then recreated",
            )
        return BoundObject(ref.kind, ref.name, uid)


def _require_same(asked: TokenRequest, namespace: str, name: str) -> None:
    meta = asked.metadata
    faults = []
    if meta.name and meta.name != name:
        faults.append(field.invalid("metadata.name", meta.name, "must match the service account name if specified"))
    if meta.namespace and meta.namespace != namespace:
        faults.append(
            field.invalid("metadata.namespace", meta.namespace, "must match the service account namespace if specified")
        )
    if faults:
        raise errors.invalid(catalog.TOKEN_REQUEST, name, faults[:1])
