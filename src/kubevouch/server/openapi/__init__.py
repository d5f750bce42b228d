"""The OpenAPI documents, made from the declarations of the types and from what is served."""

from kubevouch.server.openapi.service import OpenAPI

__all__ = ["OpenAPI"]
