"""From a request's path and method to a handler (go-restful's routing as kube-apiserver 1.36 sets it up)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kubevouch.machinery import errors
from kubevouch.machinery.scheme import GroupVersion
from kubevouch.server import negotiation
from kubevouch.server.discovery import Discovery
from kubevouch.server.endpoints import Action, Served, ServedVersion
from kubevouch.server.handlers import create, delete, patch, read, update, watch
from kubevouch.server.handlers.shared import Environment
from kubevouch.server.request import NOT_FOUND, Request, Result
from kubevouch.server.request_info import RequestInfo

PathHandler = Callable[[Request], Awaitable[Result]]
_EndpointHandler = Callable[[Environment, ServedVersion, Request], Awaitable[Result]]

_COLLECTION: dict[str, _EndpointHandler] = {
    "create": create.create,
    "list": read.list_,
    "watch": watch.watch,
    "deletecollection": delete.delete_collection,
}
_ITEM: dict[str, _EndpointHandler] = {
    "get": read.get,
    "update": update.update,
    "patch": patch.patch,
    "delete": delete.delete,
}
_WRITES = frozenset({"create", "update", "patch"})
_WHOLE: dict[str, _EndpointHandler] = {"get": read.get, "update": update.update, "patch": patch.patch}


class Router:
    """Finds the handler of a request that has been authorized."""

    def __init__(self, env: Environment, served: Served, discovery: Discovery) -> None:
        self._env = env
        self._served = served
        self._discovery = discovery
        self._exact: dict[str, PathHandler] = {}
        self._prefixes: list[tuple[str, PathHandler]] = []

    def add_path(self, path: str, handler: PathHandler) -> None:
        """Serve one path that is no resource."""
        self._exact[path] = handler

    def add_prefix(self, prefix: str, handler: PathHandler) -> None:
        """Serve a path and everything below it."""
        self._prefixes.append((prefix, handler))

    def paths(self) -> list[str]:
        """What ``/`` lists."""
        return sorted([*self._exact, *(prefix for prefix, _ in self._prefixes), *self._discovery.paths()])

    async def route(self, request: Request) -> Result:
        """The handler's result.

        Raises:
            APIStatusError: also 404, 405, 406 and 415 of the routing itself.
        """
        info = request.target
        if info.is_resource:
            return await self._resource(request)
        path = info.path
        found = await self._discovery.serve(request)
        if found is not None:
            return found
        handler = self._exact.get(path.rstrip("/") or "/")
        if handler is None:
            handler = next((h for prefix, h in self._prefixes if path == prefix or path.startswith(f"{prefix}/")), None)
        if handler is None:
            if _under_served_group(path, self._served):
                raise errors.unknown_resource()
            return NOT_FOUND
        return await handler(request)

    # -------------------------------------------------------------- resources

    async def _resource(self, request: Request) -> Result:
        info = request.target
        if not self._served.serves(GroupVersion(info.group, info.version)):
            if info.group in self._served.built_in_groups:
                raise errors.unknown_resource()
            return NOT_FOUND
        connect = self._served.connect(info.group, info.version, info.resource, info.subresource)
        if connect is not None and not request.typed:
            return await connect.serve(request)
        endpoint = self._served.endpoint(info.group, info.version, info.resource)
        if endpoint is not None and endpoint.ready is not None:
            return await self._custom(endpoint, request)
        if info.extra_parts:
            raise errors.unknown_resource()
        action = self._served.action(info.group, info.version, info.resource, info.subresource)
        if action is not None and (not info.subresource or info.name):
            return await self._action(action, request)
        if endpoint is None:
            if self._served.is_custom(GroupVersion(info.group, info.version)):
                return NOT_FOUND
            raise errors.unknown_resource()
        handler = self._handler(endpoint, request)
        if not request.typed:
            self._check_media_types(request)
        if endpoint.deprecation:
            request.warnings.append(endpoint.deprecation)
        return await handler(self._env, endpoint, request)

    async def _custom(self, endpoint: ServedVersion, request: Request) -> Result:
        """A request about a custom resource, as apiextensions-apiserver answers it (customresource_handler.go, 1.36).

        It finds handlers by the request's verb, not by path and method as go-restful does.
        """
        info, namespaced = request.target, endpoint.resource.namespaced
        everywhere = namespaced and info.verb in ("list", "watch")
        if endpoint.ready is None or (bool(info.namespace) != namespaced and not everywhere):
            return NOT_FOUND
        await endpoint.ready(info.verb in _WRITES)
        if endpoint is not self._served.endpoint(info.group, info.version, info.resource):
            return await self._resource(request)  # its definition has changed meanwhile
        if endpoint.deprecation:
            request.warnings.append(endpoint.deprecation)
        return await self._custom_handler(endpoint, info)(self._env, endpoint, request)

    @staticmethod
    def _custom_handler(endpoint: ServedVersion, info: RequestInfo) -> _EndpointHandler:
        name, resource = info.name, endpoint.resource.group_resource
        if info.subresource:
            found = endpoint.store.definition.subresource(info.subresource)
            if found is None:
                raise errors.not_found(resource, name)
            handler = _WHOLE.get(info.verb)
            if handler is None or info.verb not in found.verbs:
                raise errors.method_not_supported(resource, info.verb)
            return handler
        handler = {**_COLLECTION, **_ITEM}.get(info.verb)
        if handler is None:
            raise errors.method_not_supported(resource, info.verb)
        if info.verb in ("update", "patch") and not name:
            raise errors.bad_request("name must be provided")
        return handler

    def _handler(self, endpoint: ServedVersion, request: Request) -> _EndpointHandler:
        info = request.target
        definition = endpoint.store.definition
        namespaced = endpoint.resource.namespaced
        if request.method == "HEAD" or (info.namespace and not namespaced and info.resource != "namespaces"):
            raise errors.method_not_allowed() if request.method == "HEAD" else errors.unknown_resource()
        if info.subresource:
            return self._subresource_handler(endpoint, request)
        on_item = self._names_item(request)
        if on_item and namespaced and not info.namespace:
            raise errors.unknown_resource()
        handlers = _ITEM if on_item else _COLLECTION
        if info.deprecated_watch:
            return watch.watch if "watch" in definition.verbs and request.method == "GET" else self._refuse()
        verb = info.verb
        handler = handlers.get(verb)
        if handler is None or (verb in ("create", "deletecollection") and namespaced and not info.namespace):
            raise errors.method_not_allowed()
        if definition.refuses_creation and (verb == "create" or self._applies(request)):
            # Before the body is read: what it holds may be unknown here.
            raise errors.method_not_supported(definition.resource.group_resource, "create", definition.refuses_creation)
        if verb not in definition.verbs:
            raise errors.method_not_allowed()
        return handler

    @staticmethod
    def _applies(request: Request) -> bool:
        return request.target.verb == "patch" and patch.content_type(request) == patch.APPLY_PATCH

    @staticmethod
    def _names_item(request: Request) -> bool:
        """Whether the path ends in an object's name; ``info.name`` may also come from a field selector."""
        info = request.target
        return bool(info.name) and info.verb not in ("list", "watch", "deletecollection")

    @staticmethod
    def _refuse() -> _EndpointHandler:
        raise errors.method_not_allowed()

    @staticmethod
    def _subresource_handler(endpoint: ServedVersion, request: Request) -> _EndpointHandler:
        info = request.target
        found = endpoint.store.definition.subresource(info.subresource)
        if found is None:
            raise errors.unknown_resource()
        handler = _WHOLE.get(info.verb)
        if handler is None or info.verb not in found.verbs:
            raise errors.method_not_allowed()
        return handler

    @staticmethod
    def _check_media_types(request: Request) -> None:
        info = request.target
        if info.verb == "patch":
            patch.check_content_type(request)
        negotiation.check_routed(request.headers.get("Accept", ""), streams=info.verb in ("list", "watch"))

    async def _action(self, action: Action, request: Request) -> Result:
        info = request.target
        if request.method != "POST" or (info.name and not action.subresource):
            raise errors.method_not_allowed()
        if action.resource.namespaced != bool(info.namespace):
            raise errors.unknown_resource()
        if not request.typed:
            negotiation.check_routed(request.headers.get("Accept", ""), streams=False)
        return await create.perform(self._env, action, request)


def _under_served_group(path: str, served: Served) -> bool:
    """What nobody serves there, a version or ``//`` and the like, is a Status, elsewhere plain text.

    Requests for a group go to go-restful, which knows its routes (apiserver pkg/server/handler.go, Kubernetes 1.36).
    """
    parts = [part for part in path.split("/") if part]
    if len(parts) > 1 and parts[0] == "api":
        return True
    return len(parts) > 2 and parts[0] == "apis" and parts[1] in served.built_in_groups
