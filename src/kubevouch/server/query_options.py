"""Query parameters of the verbs, checked in Kubernetes' words (meta/v1 and internalversion validation; 1.36)."""

from __future__ import annotations

import re

import msgspec

from kubevouch.api import meta_v1
from kubevouch.api.meta_v1 import CreateOptions, ListOptions, PatchOptions, UpdateOptions
from kubevouch.machinery import errors, field
from kubevouch.machinery.meta import DeleteOptions, Preconditions
from kubevouch.machinery.scheme import GroupVersionKind
from kubevouch.server.query import Query

MAX_LIMIT = 100_000
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)


def _kind(name: str) -> GroupVersionKind:
    return GroupVersionKind("meta.k8s.io", "v1", name)


def _refuse(kind: str, problems: list[field.FieldError]) -> None:
    if problems:
        raise errors.invalid(_kind(kind), "", problems)


def integer(query: Query, name: str) -> int | None:
    """An int64 parameter. Raises ``APIStatusError`` (400) with Go's ``strconv`` sentence."""
    text = query.get(name)
    if not text:
        return None
    if not _INTEGER.fullmatch(text):
        raise errors.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    value = int(text) if len(text) < 25 else 1 << 63
    if not -(1 << 63) <= value < 1 << 63:
        raise errors.bad_request(f'strconv.ParseInt: parsing "{text}": value out of range')
    return value


def create_options(query: Query) -> CreateOptions:
    options = CreateOptions(
        dry_run=query.all("dryRun"),
        field_manager=query.get("fieldManager"),
        field_validation=query.get("fieldValidation"),
    )
    _refuse("CreateOptions", meta_v1.validate_create_options(options))
    return options


def update_options(query: Query) -> UpdateOptions:
    options = UpdateOptions(
        dry_run=query.all("dryRun"),
        field_manager=query.get("fieldManager"),
        field_validation=query.get("fieldValidation"),
    )
    _refuse("UpdateOptions", meta_v1.validate_update_options(options))
    return options


def patch_options(query: Query, *, apply: bool) -> PatchOptions:
    options = PatchOptions(
        dry_run=query.all("dryRun"),
        force=query.flag("force") if "force" in query else None,
        field_manager=query.get("fieldManager"),
        field_validation=query.get("fieldValidation"),
    )
    _refuse("PatchOptions", meta_v1.validate_patch_options(options, apply=apply))
    return options


_IGNORE_READ_ERROR = "ignoreStoreReadErrorWithClusterBreakingPotential"


def delete_options(query: Query, body: DeleteOptions | None) -> DeleteOptions:
    """The body's options, or those of the query when there is no body."""
    options = body or DeleteOptions(
        grace_period_seconds=integer(query, "gracePeriodSeconds"),
        orphan_dependents=query.flag("orphanDependents") if "orphanDependents" in query else None,
        propagation_policy=query.get("propagationPolicy") or None,
        dry_run=query.all("dryRun"),
        preconditions=_query_preconditions(query),
        ignore_store_read_error_with_cluster_breaking_potential=(
            query.flag(_IGNORE_READ_ERROR) if _IGNORE_READ_ERROR in query else None
        ),
    )
    _refuse("DeleteOptions", meta_v1.validate_delete_options(options))
    return options


def _query_preconditions(query: Query) -> Preconditions | None:
    uid, version = query.get("preconditions.uid") or None, query.get("preconditions.resourceVersion") or None
    return Preconditions(uid=uid, resource_version=version) if uid or version else None


class Reading(msgspec.Struct, frozen=True):
    """The options of list and watch."""

    options: ListOptions
    limit: int


def list_options(query: Query, *, watch: bool) -> Reading:
    """Options of a list or watch.

    Raises:
        APIStatusError: 400 for numbers that are none, 422 for combinations that mean nothing.
    """
    limit = integer(query, "limit") or 0
    send_initial = query.flag("sendInitialEvents") if "sendInitialEvents" in query else None
    options = ListOptions(
        label_selector=query.get("labelSelector"),
        field_selector=query.get("fieldSelector"),
        watch=watch,
        allow_watch_bookmarks=query.flag("allowWatchBookmarks"),
        resource_version=query.get("resourceVersion"),
        resource_version_match=query.get("resourceVersionMatch"),
        timeout_seconds=integer(query, "timeoutSeconds"),
        limit=limit,
        continue_=query.get("continue"),
        send_initial_events=send_initial,
    )
    _refuse("ListOptions", meta_v1.validate_list_options(options))
    return Reading(options, min(max(limit, 0), MAX_LIMIT))
