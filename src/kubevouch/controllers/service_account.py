"""serviceaccount-controller: a ServiceAccount ``default`` in every namespace.

Source: pkg/controller/serviceaccount/serviceaccounts_controller.go (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Iterable

from kubevouch import wellknown
from kubevouch.api.catalog import NAMESPACES, SERVICE_ACCOUNTS
from kubevouch.api.core_v1 import Namespace, ServiceAccount
from kubevouch.api.core_v1.namespaces import ACTIVE
from kubevouch.client.cache.lister import Lister
from kubevouch.client.interface import Client
from kubevouch.controllers.controller import QueueController
from kubevouch.controllers.interface import DONE, Context, Request, Result, is_namespace_terminating
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta

NAME = wellknown.SERVICE_ACCOUNT_CONTROLLER


class DefaultServiceAccounts:
    """A request's name is that of a namespace."""

    def __init__(self, client: Client, namespaces: Lister[Namespace], accounts: Lister[ServiceAccount]) -> None:
        self._client = client
        self._namespaces = namespaces
        self._accounts = accounts

    async def reconcile(self, request: Request) -> Result:
        namespace = self._namespaces.get(request.name)
        if namespace is None or namespace.status.phase != ACTIVE:
            return DONE
        if self._accounts.get(wellknown.DEFAULT_SERVICE_ACCOUNT, request.name) is not None:
            return DONE
        meta = ObjectMeta(name=wellknown.DEFAULT_SERVICE_ACCOUNT, namespace=request.name)
        try:
            await self._client.create(SERVICE_ACCOUNTS, ServiceAccount(metadata=meta))
        except APIStatusError as err:
            # Somebody else made it, or the namespace is gone or on its way.
            if err.code not in (404, 409) and not is_namespace_terminating(err):
                raise
        return DONE


def _of_namespace(namespace: Namespace) -> Iterable[Request]:
    return (Request(namespace.metadata.name),)


def _of_account(account: ServiceAccount) -> Iterable[Request]:
    return (Request(account.metadata.namespace),)


def build(context: Context) -> QueueController:
    client = context.connect(NAME)
    namespaces = context.informers.informer(NAMESPACES, client=client)
    accounts = context.informers.informer(
        SERVICE_ACCOUNTS, client=client, field_selector=f"metadata.name={wellknown.DEFAULT_SERVICE_ACCOUNT}"
    )
    controller = QueueController(
        NAME, DefaultServiceAccounts(client, namespaces.lister, accounts.lister), context.clock
    )
    controller.watch(namespaces, on_add=_of_namespace, on_update=_of_namespace)
    controller.watch(accounts, on_delete=_of_account)
    return controller
