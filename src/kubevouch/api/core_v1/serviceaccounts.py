"""ServiceAccount. Its validation is that of the metadata alone.

Source: k8s.io/api/core/v1, pkg/apis/core/validation (Kubernetes 1.36).
"""

from __future__ import annotations

from typing import Annotated

from kubevouch.api.core_v1.references import LocalObjectReference, ObjectReference
from kubevouch.machinery.declaration import wire
from kubevouch.machinery.field import FieldError
from kubevouch.machinery.meta import Object


class ServiceAccount(Object):
    """An identity for programs, inside a namespace."""

    secrets: Annotated[
        list[ObjectReference],
        wire(
            2, "Secrets that pods of this account may use.", list_type="map", map_keys=("name",), patch_merge_key="name"
        ),
    ] = []
    image_pull_secrets: Annotated[
        list[LocalObjectReference], wire(3, "Secrets for pulling the images of its pods.", list_type="atomic")
    ] = []
    automount_service_account_token: Annotated[
        bool | None, wire(4, "False keeps the token out of pods that do not ask for it.")
    ] = None


def validate_service_account(_account: ServiceAccount) -> list[FieldError]:
    """What is wrong with a ServiceAccount, metadata apart: nothing can be."""
    return []


def validate_service_account_update(_new: ServiceAccount, _old: ServiceAccount) -> list[FieldError]:
    """What is wrong with a change of a ServiceAccount, metadata apart: nothing can be."""
    return []
