"""Brings about what a case has as given: objects with their status, roles, tokens, and a server that has seen them."""

from __future__ import annotations

import asyncio
import copy
import datetime as dt
import json
import random
import re
from email.utils import parsedate_to_datetime
from typing import Any

from contract.http_cases.case_text import Case, Fixtures, set_path, shift_time
from contract.http_cases.objects import KINDS, RBAC_GROUP, Tree, binding, place, rbac_objects
from contract.http_cases.run import APPLY_PATCH, Run, SetupError

_LETTERS = "abcdefghijkmnpqrstuvwxyz"
_HOLD = "example.com/hold"
_PROBE_SECRET = "0123456789abcdef"
_PROBE_GROUP = "probe.example.com"
_PROBE_ATTEMPTS = 200
_SERVED_ATTEMPTS = 750
_PROBE_SECONDS = 0.02
_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


def random_tag() -> str:
    return "".join(random.choices(_LETTERS, k=6))


async def bring_about(run: Run, case: Case, fixtures: Fixtures) -> None:
    """Raises :class:`SetupError`."""
    given = case["given"]
    delta = await _clock_difference(run, given["now"]) if given.get("now") else dt.timedelta()
    objects: list[Tree] = fixtures.expand(given.get("objects", []))
    for obj in objects:
        texts = obj.get("stringData", {})
        if "expiration" in texts:
            texts["expiration"] = shift_time(texts["expiration"], delta)
        await _create(run, obj, given.get("creator"))
    roles = rbac_objects(given.get("rbac", []), given.get("user"), run.tag)
    for obj in roles:
        await _create(run, obj)
    if roles:
        await _until_rbac_is_seen(run)
    has_token = any(obj["metadata"].get("name", "").startswith("bootstrap-token-") for obj in objects)
    if has_token and re.search("bearer|tokenreview", json.dumps(case["when"]).lower()):
        await _until_tokens_are_seen(run)


async def _clock_difference(run: Run, given: str) -> dt.timedelta:
    """How far the server's clock is ahead of the time a case was written against."""
    date = (await run.admin("GET", "/version")).headers["Date"]
    return parsedate_to_datetime(date).replace(tzinfo=None) - dt.datetime.fromisoformat(given.rstrip("Z"))


async def _create(run: Run, given: Tree, creator: str | None = None) -> None:
    obj = copy.deepcopy(given)
    if obj["kind"] in KINDS:
        obj.setdefault("apiVersion", KINDS[obj["kind"]][0])
    meta, status, manager = obj["metadata"], obj.get("status") or {}, obj.pop("$appliedBy", None)
    deleted = meta.pop("deletionTimestamp", None)
    dying = deleted or (obj["kind"] == "Namespace" and status.get("phase") == "Terminating")
    if dying and not meta.get("finalizers"):
        meta["finalizers"] = [_HOLD]
    collection, path = place(obj, run.kinds)
    await _ensure_namespace(run, collection)
    await _write(run, obj, collection, path, manager, creator)
    if obj["kind"] == "CustomResourceDefinition":
        await _until_served(run, path)
    elif obj["kind"] == "CertificateSigningRequest":
        # Conditions go in through /approval, which takes every type, the certificate through /status.
        for subresource, key in (("approval", "conditions"), ("status", "certificate")):
            if status.get(key):
                stored = copy.deepcopy((await run.admin("GET", path)).tree)
                set_path(stored, f"status.{key}", status[key])
                await run.admin("PUT", f"{path}/{subresource}", stored)
    elif status and not dying:
        stored = (await run.admin("GET", path)).tree
        await run.admin("PUT", f"{path}/status", {**stored, "status": status})
    if dying:
        await run.admin("DELETE", path)


async def _until_served(run: Run, path: str) -> None:
    """Until the names of a definition are judged and, where they are accepted, every served version answers."""
    for _ in range(_SERVED_ATTEMPTS):
        definition = (await run.admin("GET", path)).tree
        spec, names = definition["spec"], definition["spec"]["names"]
        version = f"{spec['group']}/{spec['versions'][0]['name']}"
        run.kinds[names["kind"]] = (version, names["plural"], spec["scope"] == "Namespaced")
        status = {each["type"]: each["status"] for each in definition["status"].get("conditions") or ()}
        if status.get("NamesAccepted") == "False":
            return
        if status.get("Established") == "True":
            paths = [
                f"/apis/{spec['group']}/{each['name']}/{names['plural']}" for each in spec["versions"] if each["served"]
            ]
            answers = [await run.admin("GET", path, query="limit=1", ok=None) for path in paths]
            if all(answer.status == 200 for answer in answers):
                return
        await asyncio.sleep(_PROBE_SECONDS)
    raise SetupError(f"{path} is not served")


async def _ensure_namespace(run: Run, collection: str) -> None:
    found = re.search(r"/namespaces/([^/]+)/", collection)
    if found is None:
        return
    reply = await run.admin("GET", f"/api/v1/namespaces/{found.group(1)}", ok=(200, 404))
    if reply.status == 404:
        await _create(run, {"kind": "Namespace", "metadata": {"name": found.group(1)}})


async def _write(run: Run, obj: Tree, collection: str, path: str, manager: str | None, creator: str | None) -> None:
    headers = {"Impersonate-User": creator, "Impersonate-Group": "system:masters"} if creator else {}
    for attempt in range(2):
        if manager:
            query = f"fieldManager={manager}"
            reply = await run.admin("PATCH", path, obj, {"Content-Type": APPLY_PATCH}, query=query, ok=None)
        else:
            reply = await run.admin("POST", collection, obj, headers, ok=None)
        if reply.status != 409 or attempt:
            break
        await run.delete(path)  # left over from a run that was interrupted
    if reply.status not in (200, 201):
        raise SetupError(f"cannot create {path}: {reply.status} {reply.body[:300]!r}")


# Authorizers and token checks read caches. These deliver in order: once the server acts on an object that was made
# after the case's own ones, it knows those too.


async def _until_rbac_is_seen(run: Run) -> None:
    name = f"probe-{run.tag}"
    for kind, resource in (("ClusterRole", "c"), ("Role", "r")):
        rules = [{"apiGroups": [_PROBE_GROUP], "resources": [resource], "verbs": ["probe"]}]
        await _create(run, {"kind": kind, "metadata": {"name": name}, "rules": rules})
        await _create(run, binding(kind, name, name, {"kind": "User", "apiGroup": RBAC_GROUP, "name": name}))
    for _ in range(_PROBE_ATTEMPTS):
        answers = [await _may_probe(run, name, "c", ""), await _may_probe(run, name, "r", "default")]
        if all(answers):
            return
        await asyncio.sleep(_PROBE_SECONDS)
    raise SetupError("the server did not notice the probe's roles")


async def _may_probe(run: Run, user: str, resource: str, namespace: str) -> bool:
    attributes = {"verb": "probe", "group": _PROBE_GROUP, "resource": resource, "namespace": namespace}
    review: dict[str, Any] = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": user, "resourceAttributes": attributes},
    }
    return bool((await run.admin("POST", _REVIEWS, review)).tree["status"]["allowed"])


async def _until_tokens_are_seen(run: Run) -> None:
    token_id = random_tag()
    secret: Tree = {
        "kind": "Secret",
        "metadata": {"name": f"bootstrap-token-{token_id}", "namespace": "kube-system"},
        "type": "bootstrap.kubernetes.io/token",
        "stringData": {
            "token-id": token_id,
            "token-secret": _PROBE_SECRET,
            "usage-bootstrap-authentication": "true",
        },
    }
    await _create(run, secret)
    headers = {"Authorization": f"Bearer {token_id}.{_PROBE_SECRET}"}
    for _ in range(_PROBE_ATTEMPTS):
        if (await run.send("GET", "/version", headers=headers, user=None)).status != 401:
            return
        await asyncio.sleep(_PROBE_SECONDS)
    raise SetupError("the server did not notice the probe's token")
