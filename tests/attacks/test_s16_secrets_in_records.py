"""S16: what Secrets hold reaches no audit event below level Request, no span, no log line and no metric.

Every value that is stored or sent is a canary, and every way is tried to have an error quote it: wrong types, unknown
fields, what a patch makes of the object, failed tests, conflicts, undecodable bodies, policies that print the object.
"""

from __future__ import annotations

import asyncio
import base64
import copy
import io
import itertools
import json
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from asynctest import async_test
from collector import collecting
from kubevouch.machinery.errors import APIStatusError, Reason, loggable
from kubevouch.machinery.meta import Status, StatusCause, StatusDetails
from kubevouch.phases.tracing import tracer_from
from kubevouch.pki.control_plane import SUPER_ADMIN
from kubevouch.server import secrecy
from kubevouch.server.audit.options import AuditOptions, LogFileOptions
from kubevouch.server.filters.tracing import Tracing
from kubevouch.server.options import ServerOptions
from kubevouch.server.request_info import RequestInfo
from kubevouch.util import logs, tracing
from kubevouch.util.clock import SystemClock
from served_world import served
from wire import Wire

STORED, SENT = "canarystoredqx7", "canarysentzk3"
SECRETS, CONFIG_MAPS = "/api/v1/namespaces/default/secrets", "/api/v1/namespaces/default/configmaps"
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
TOKENS = "/api/v1/namespaces/default/serviceaccounts/default/token"
PATCHES = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
MODES = ("Strict", "Warn", "Ignore")
# What is part of a path, or no value of its own.
_NAMES = ("apiVersion", "kind", "name", "namespace")
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def secret(value: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque", "immutable": False,
        "metadata": {
            "name": "planted", "namespace": "default", "labels": {"a": "b"},
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": value},
        },
        "data": {"key": encoded(value), "other": encoded(f"{value} more")}, "stringData": {"plain": value},
    }  # fmt: skip


def config_map(value: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "planted", "namespace": "default"},
        "data": {"kubeconfig": value}, "binaryData": {"bytes": encoded(value)},
    }  # fmt: skip


def review(value: str) -> dict[str, Any]:
    return {
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "metadata": {},
        "spec": {"token": value, "audiences": [value]},
    }  # fmt: skip


def token_request(value: str) -> dict[str, Any]:
    bound = {"kind": "Secret", "apiVersion": "v1", "name": "planted", "uid": value}
    return {
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": {},
        "spec": {"audiences": [value], "expirationSeconds": 3600, "boundObjectRef": bound},
    }  # fmt: skip


class Sent(NamedTuple):
    method: str
    path: str
    body: bytes
    content_type: str = "application/json"


def leaves(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of everything in ``tree``, containers included."""
    if path:
        yield path
    items: Any = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        yield from leaves(value, (*path, key))


def put(tree: Any, path: Sequence[Any], value: Any) -> Any:
    found = copy.deepcopy(tree)
    inner = found
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return found


def spoilt(tree: Any) -> Iterator[Any]:
    """``tree`` with each of its parts of a wrong type, and with unknown and repeated fields."""
    for path in leaves(tree):
        wrong: tuple[Any, ...] = (SENT, {"x": SENT}, [SENT], [{"x": SENT}], 12345.5)
        if path[-1] in _NAMES:
            wrong = wrong[1:]  # a name is part of the path
        yield from (put(tree, path, each) for each in wrong)
    for path in ((), ("metadata",), ("spec",), ("data",)):
        if not path or path[0] in tree:
            yield put(tree, (*path, "unknown"), {"x": SENT})


def requests() -> Iterator[Sent]:
    modes = itertools.cycle(MODES)
    for collection, kind in ((SECRETS, secret), (CONFIG_MAPS, config_map)):
        place = f"{collection}/planted"
        for tree in spoilt(kind(SENT)):
            body = json.dumps(tree).encode()
            yield Sent("POST", f"{collection}?fieldValidation={next(modes)}", body)
            yield Sent("PUT", f"{place}?fieldValidation={next(modes)}", body)
            for content_type in PATCHES.values():
                query = f"fieldValidation={next(modes)}&fieldManager=attacker"
                yield Sent("PATCH", f"{place}?{query}", body, content_type)
        for path in leaves(kind(SENT)):
            pointer = "/" + "/".join(str(part).replace("~", "~0").replace("/", "~1") for part in path)
            for operation in (
                {"op": "test", "path": pointer, "value": SENT}, {"op": "replace", "path": pointer, "value": [SENT]},
                {"op": "add", "path": f"{pointer}/missing/deeper", "value": SENT}, {"op": SENT, "path": pointer},
                {"op": "copy", "from": pointer, "path": "/metadata/labels/x"},
                {"op": "move", "from": pointer, "path": "/immutable"},
            ):  # fmt: skip
                body = json.dumps([operation]).encode()
                yield Sent("PATCH", f"{place}?fieldValidation={next(modes)}", body, "application/json-patch+json")
        # Somebody else's field, a version that is old, a UID of another object, options that are none.
        conflict = {**kind(SENT), "metadata": {"name": "planted", "resourceVersion": "1"}}
        yield Sent("PATCH", f"{place}?fieldManager=other", json.dumps(kind(SENT)).encode(), PATCHES["apply"])
        yield Sent("PUT", place, json.dumps(conflict).encode())
        for options in ({"preconditions": {"uid": SENT}}, {"preconditions": SENT}, {"gracePeriodSeconds": SENT}):
            yield Sent("DELETE", place, json.dumps({"kind": "DeleteOptions", "apiVersion": "v1", **options}).encode())
        for broken, content_type in undecodable(kind(SENT)):
            yield Sent("POST", collection, broken, content_type)
            yield Sent("PUT", place, broken, content_type)
            yield Sent("PATCH", place, broken, PATCHES["merge"])
            yield Sent("PATCH", f"{place}?fieldManager=x", broken, PATCHES["apply"])
    for place, kind in ((REVIEWS, review), (TOKENS, token_request)):
        yield Sent("POST", place, json.dumps(kind(SENT)).encode())
        for tree in spoilt(kind(SENT)):
            yield Sent("POST", f"{place}?fieldValidation={next(modes)}", json.dumps(tree).encode())
        for broken, content_type in undecodable(kind(SENT)):
            yield Sent("POST", place, broken, content_type)


def undecodable(tree: Any) -> list[tuple[bytes, str]]:
    text = json.dumps(tree)
    return [
        (text[:-5].encode(), "application/json"), (f"{SENT}{text}".encode(), "application/json"),
        (f"a: &x {SENT}\nb: *y\n\t{SENT}".encode(), "application/yaml"), (SENT.encode(), "application/json"),
        (b"k8s\x00\n\x10" + SENT.encode(), "application/vnd.kubernetes.protobuf"),
        (SENT.encode(), f"text/{SENT[:6]}"),
    ]  # fmt: skip


def policy() -> tuple[dict[str, Any], dict[str, Any]]:
    """One that denies, and prints what it denies."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["secrets", "configmaps"]}
    printed = "'it holds ' + object.data.map(k, object.data[k])[0]"
    check = {"expression": "object.metadata.name != 'planted'", "messageExpression": printed}
    name = {"name": "prints.example.com"}
    head = {"apiVersion": "admissionregistration.k8s.io/v1"}
    return (
        {
            **head, "kind": "ValidatingAdmissionPolicy", "metadata": name,
            "spec": {
                "matchConstraints": {"resourceRules": [rule]},
                "validations": [check],
            },
        },
        {
            **head, "kind": "ValidatingAdmissionPolicyBinding", "metadata": name,
            "spec": {"policyName": name["name"], "validationActions": ["Deny", "Audit"]},
        },
    )  # fmt: skip


def told(text: str) -> set[str]:
    """Which canaries stand in ``text``, as they are or as base64 at any alignment."""
    found = set()
    for canary in (STORED, SENT):
        forms = [canary, *(base64.b64encode(b"x" * shift + canary.encode())[4:-4].decode() for shift in range(3))]
        found |= {form for form in forms if form in text}
    return found


@async_test
async def test_s16_no_value_of_a_secret_is_recorded(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n")
    stderr, answers = io.StringIO(), []
    audit = AuditOptions(tmp_path / "policy.yaml", LogFileOptions(str(tmp_path / "audit.log")))
    with collecting() as collector, redirect_stderr(stderr):
        logs.configure(SystemClock(), level="debug")
        config = tmp_path / "tracing.yaml"
        config.write_text(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\n"
            f"endpoint: {collector.url}\nsamplingRatePerMillion: 1000000\n"
        )
        found = Tracing(tracer_from(config, "kube-apiserver"))
        (tmp_path / "server").mkdir()
        async with served(tmp_path / "server", audit, ServerOptions(), tracing=found) as at:
            kubeconfig = tmp_path / "admin.conf"
            kubeconfig.write_text(at.kubeconfig(SUPER_ADMIN))
            wire = Wire.of_kubeconfig(kubeconfig, tmp_path)

            def attack() -> str:
                with wire.kept_open() as kept:
                    for collection, kind in ((SECRETS, secret), (CONFIG_MAPS, config_map)):
                        assert kept.json("POST", collection, kind(STORED)).code == 201
                    for each in requests():
                        answer = kept.request(each.method, each.path, each.body, each.content_type)
                        answers.append(answer)
                        if each.method in ("PUT", "PATCH", "DELETE") and answer.code < 300:
                            # What came through has changed it: the next one meets the canary again.
                            kind = secret if each.path.startswith(SECRETS) else config_map
                            place = each.path.partition("?")[0]
                            kept.request("DELETE", place)
                            kept.json("POST", place.rpartition("/")[0], kind(STORED))
                    for document, path in zip(policy(), (POLICIES, f"{POLICIES[:-3]}ybindings"), strict=True):
                        assert kept.json("POST", path, document).code == 201
                    return kept.request("GET", "/metrics").body.decode()

            metrics = await asyncio.to_thread(attack)
            denied = await asyncio.to_thread(_denied, wire)
        await asyncio.to_thread(found.tracer.close)
    # The attack is one: clients are told what they sent, as Kubernetes tells them.
    quoted = [answer for answer in answers if answer.code >= 400 and told(answer.body.decode("utf-8", "replace"))]
    assert len(quoted) > 100
    assert denied, "the policy has not printed anything"
    text = (tmp_path / "audit.log").read_text()
    events = [json.loads(line) for line in text.splitlines()]
    assert {event["level"] for event in events} == {"Metadata"}
    assert told(text) == set(), next(line for line in text.splitlines() if told(line))
    spans = [str(span) for _, span in collector.received]
    assert len(spans) > len(answers)
    assert told("".join(spans)) == set(), next(span for span in spans if told(span))
    assert told(stderr.getvalue()) == set(), [line for line in stderr.getvalue().splitlines() if told(line)][:3]
    assert told(metrics) == set()
    # What is recorded still says what was refused, and why in one word.
    refused = [event for event in events if event.get("responseStatus", {}).get("code") == 422]
    assert any(
        event["responseStatus"]["message"].startswith('secrets "planted": Invalid; the text may hold values')
        and event["responseStatus"]["details"] == {"name": "planted", "kind": "secrets"}
        for event in refused
    )


def _denied(wire: Wire) -> bool:
    """Policies take effect a little later."""
    while True:
        answer = wire.json("PUT", f"{SECRETS}/planted", secret(SENT))
        if answer.code == 422 and "prints.example.com" in answer.status["message"]:
            return bool(told(answer.status["message"]))


def test_s16_nothing_of_a_webhooks_own_status_is_taken_over() -> None:
    """It writes message, reason and details as it likes."""
    given = Status(
        status="Failure", code=418, message=f"no: {STORED}", reason=STORED,
        details=StatusDetails(name=STORED, kind=STORED, group=STORED, uid=STORED, causes=[StatusCause(message=STORED)]),
    )  # fmt: skip
    info = RequestInfo("/x", "create", is_resource=True, resource="secrets", namespace="default")
    found = secrecy.recorded(given, info)
    assert not told(str(found))
    assert (found.code, found.reason, found.status) == (418, "", "Failure")


@pytest.mark.parametrize(
    ("resource", "subresource", "discreet"),
    [
        ("secrets", "", True),
        ("configmaps", "", True),
        ("serviceaccounts", "token", True),
        ("serviceaccounts", "", False),
    ],
)
def test_s16_which_requests_are_about_credentials(resource: str, subresource: str, discreet: bool) -> None:
    info = RequestInfo("/x", "create", is_resource=True, resource=resource, subresource=subresource)
    assert secrecy.is_discreet(info) is discreet


def test_s16_a_controller_does_not_log_what_it_could_not_write() -> None:
    for kind in ("Secret", "secrets", "ConfigMap"):
        refused = APIStatusError(
            Status(message=f"no: {STORED}", code=422, reason=str(Reason.INVALID), details=StatusDetails(kind=kind))
        )
        assert loggable(refused) == "APIStatusError: 422 Invalid"
        wrapped = RuntimeError(f"error updating: {refused}")
        wrapped.__cause__ = refused
        assert loggable(wrapped) == "RuntimeError: 422 Invalid"
    other = APIStatusError(Status(message="no node", code=422, details=StatusDetails(kind="Node")))
    assert loggable(other) == "no node"


def test_s16_a_trace_and_a_span_show_the_way_and_not_the_text() -> None:
    stderr, failed = io.StringIO(), []

    class Noted:
        traceparent = ""

        def set(self, name: str, value: object) -> None: ...
        def fail(self, why: str) -> None:
            failed.append(why)

        def child(self, name: str, kind: object, attributes: object) -> Noted:
            return self

        def end(self) -> None: ...

    with redirect_stderr(stderr):
        logs.configure(SystemClock())
        from kubevouch.util.logger import get_logger

        try:
            with tracing.active(Noted()):
                try:
                    empty: dict[str, str] = {}
                    empty[STORED]
                except KeyError as err:
                    raise ExceptionGroup(STORED, [OSError(28, STORED), ValueError(STORED)]) from err
        except ExceptionGroup:
            get_logger("server").exception("request failed")
    said = stderr.getvalue()
    assert not told(said)
    assert failed == ["ExceptionGroup"]
    assert "builtins.KeyError\nwhich led to\nTraceback" in said
    assert "builtins.OSError: No space left on device" in said
    assert Path(__file__).name in said
