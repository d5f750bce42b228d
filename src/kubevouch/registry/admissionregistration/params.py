"""Who may write what refers to parameters, and how references print."""

from __future__ import annotations

from kubevouch.api import catalog
from kubevouch.api.admissionregistration_v1.policies import ParamKind, ParamRef
from kubevouch.authentication.interface import UserInfo
from kubevouch.authorization.param_access import ANY, ParamAccess
from kubevouch.machinery import errors, field
from kubevouch.machinery.scheme import GroupVersionKind
from kubevouch.machinery.text.selectors import label_selector_of
from kubevouch.registry.printing import UNSET


async def check_kind(
    access: ParamAccess, user: UserInfo, kind: ParamKind | None, policy: GroupVersionKind, name: str
) -> None:
    """Raises ``APIStatusError`` unless ``user`` may read every object of the kind."""
    if kind is None:
        return
    group, _, version = kind.api_version.rpartition("/")
    known = next(
        (each for each in catalog.STORED if (each.group, each.version, each.kind) == (group, version, kind.kind)), None
    )
    plural = ANY if known is None else known.plural
    if not await access.may_read_kind(user, group, version or ANY, plural):
        why = (
            f'user {user.name} must have "get" permission on all objects of the referenced paramKind '
            f"(kind={kind.kind}, apiVersion={kind.api_version})"
        )
        raise errors.invalid(policy, name, [field.forbidden("spec.paramKind", why)])


async def check_ref(
    access: ParamAccess, user: UserInfo, ref: ParamRef | None, binding: GroupVersionKind, name: str
) -> None:
    """Raises ``APIStatusError`` unless ``user`` may read the objects."""
    if ref is None or await access.may_read_objects(user, ref.namespace, ref.name):
        return
    verb = "get" if ref.name else "list"
    why = f'user {user.name} must have "{verb}" permission on the objects of the referenced paramRef'
    raise errors.invalid(binding, name, [field.forbidden("spec.paramRef", why)])


def kind_text(kind: ParamKind | None) -> str:
    return UNSET if kind is None else f"{kind.api_version}/{kind.kind}"


def ref_text(ref: ParamRef | None) -> str:
    if ref is None:
        return UNSET
    if ref.name:
        return f"{ref.namespace}/{ref.name}" if ref.namespace else ref.name
    return UNSET if ref.selector is None else str(label_selector_of(ref.selector))
