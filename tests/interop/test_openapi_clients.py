"""The OpenAPI documents and the clients that live on them: kubectl, and what was generated from Kubernetes' own."""

from __future__ import annotations

import asyncio
import inspect
import re
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import kubernetes.client
import pytest

import aio
import peers
from kubevouch.machinery import errors
from kubevouch.server import request_info
from kubevouch.server.discovery import Discovery
from kubevouch.server.edge.https import HTTPSServer
from kubevouch.server.openapi import OpenAPI, v3
from kubevouch.server.openapi.schemas import Tree
from kubevouch.server.request import BytesResult, Request, Result
from kubevouch.util.clock import SystemClock
from unit.server.openapi.everything import VERSION, everything_served

# ------------------------------------------------------------------ kubectl


# kubectl asks for these before it validates anything itself, and gives up when it gets no list.
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NO_CRDS = b'{"kind":"CustomResourceDefinitionList","apiVersion":"apiextensions.k8s.io/v1","metadata":{},"items":[]}'


@asynccontextmanager
async def documents_served(seen: list[str]) -> AsyncIterator[str]:
    """A server with discovery and OpenAPI alone; ``seen`` gets each request's path and what it accepts."""
    served = everything_served()
    discovery, openapi = Discovery(served, "127.0.0.1:0"), OpenAPI(served, VERSION)

    async def handler(request: Request) -> Result:
        request.info = request_info.parse(request.method, request.path, request.query)
        seen.append(f"{request.path} {request.headers.get('Accept', '')}")
        if request.path == "/openapi/v2":
            return await openapi.serve_v2(request)
        if request.path.startswith("/openapi/v3"):
            return await openapi.serve_v3(request)
        if request.path == CRDS:
            return BytesResult(NO_CRDS, "application/json")
        found = await discovery.serve(request)
        if found is None:
            raise errors.unknown_resource()
        return found

    bound = socket.create_server(("127.0.0.1", 0))
    port = bound.getsockname()[1]
    server = HTTPSServer(handler, SystemClock())
    await server.start([bound], None)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        await server.close(0.0)


async def run_kubectl(version: str, url: str, home: Path, *arguments: str, stdin: str = "") -> tuple[int, str]:
    """Exit code and everything that it printed."""
    process = await asyncio.create_subprocess_exec(
        str(peers.kubectl(version)), "--server", url, "--cache-dir", str(home / "cache"), *arguments,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        env={"HOME": str(home)},
    )  # fmt: skip
    output, _ = await process.communicate(stdin.encode())
    assert process.returncode is not None
    return process.returncode, output.decode()


@pytest.mark.parametrize("version", peers.DOCUMENTED_VERSIONS)
def test_kubectl_explains_kinds_and_fields(version: str, tmp_path: Path) -> None:
    expected = {
        "csr": ["GROUP:      certificates.k8s.io", "KIND:       CertificateSigningRequest", "-required-"],
        "csr.spec": ["expirationSeconds\t<integer>", "usages\t<[]string>", "extra\t<map[string][]string>"],
        "csr.spec.signerName": ["FIELD: signerName <string>", "Whose signature is wanted, as domain/path."],
        "node.status.conditions": ["<[]NodeCondition>", "lastHeartbeatTime\t<string>"],
        "node.status.capacity": ["FIELD: capacity <map[string]string>"],
        "event.involvedObject": ["<ObjectReference>"],
        "tokenreviews": ["GROUP:      authentication.k8s.io"],
        "csr.metadata.ownerReferences": ["blockOwnerDeletion\t<boolean>"],
    }

    async def scenario() -> None:
        seen: list[str] = []
        async with documents_served(seen) as url:
            for what, phrases in expected.items():
                code, output = await run_kubectl(version, url, tmp_path, "explain", what)
                assert code == 0, output
                for phrase in phrases:
                    assert phrase in output
        assert any(line.startswith("/openapi/v3/apis/certificates.k8s.io/v1 ") for line in seen)

    aio.run(scenario())


REVIEW = """
apiVersion: authentication.k8s.io/v1
kind: TokenReview
metadata: {{name: x}}
spec: {{token: abc, {field}: [a]}}
"""


@pytest.mark.parametrize("version", peers.DOCUMENTED_VERSIONS)
def test_kubectl_checks_what_no_patch_can_change_by_version_2(version: str, tmp_path: Path) -> None:
    """Where no PATCH announces fieldValidation, kubectl validates by itself, from the protobuf form."""

    async def scenario() -> None:
        seen: list[str] = []
        arguments = ("create", "--dry-run=client", "--validate=strict", "-f", "-", "-o", "name")
        async with documents_served(seen) as url:
            good = await run_kubectl(version, url, tmp_path, *arguments, stdin=REVIEW.format(field="audiences"))
            bad = await run_kubectl(version, url, tmp_path, *arguments, stdin=REVIEW.format(field="audience"))
        assert good == (0, "tokenreview.authentication.k8s.io/x\n")
        assert bad[0] == 1
        assert 'unknown field "audience" in io.k8s.api.authentication.v1.TokenReviewSpec' in bad[1]
        assert any(line.startswith("/openapi/v2 application/com.github.proto-openapi.spec.v2") for line in seen)

    aio.run(scenario())


# ------------------------------------------------------------------ the generated Python client


@pytest.fixture(scope="module")
def documents() -> v3.Documents:
    return v3.build(everything_served(), VERSION)


# The form of requests before Kubernetes 1.22; the client of today no longer knows it.
UNKNOWN_PATHS = "/apis/certificates.k8s.io/v1beta1/certificatesigningrequests"
UNKNOWN_SCHEMAS = "io.k8s.api.certificates.v1beta1.CertificateSigningRequest"


def operations(documents: v3.Documents) -> Iterator[tuple[str, Tree]]:
    for path, item in documents.paths.items():
        for method, operation in item.items():
            if method != "parameters" and "/watch/" not in path and not path.startswith(UNKNOWN_PATHS):
                yield path, operation


def snake(name: str) -> str:
    """As openapi-generator does it: ``getAPIVersions`` is ``get_api_versions``."""
    name = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", name)
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower()


def method_name(operation_id: str, tag: str) -> str:
    """Kubernetes' generators take the tag out of the name."""
    words = "".join(part[:1].upper() + part[1:] for part in tag.split("_"))
    return snake(operation_id.replace(words, "", 1))


def test_generated_clients_have_our_operations(documents: v3.Documents) -> None:
    """Class and method names come from tags and operation names: whoever generates from us gets the same client."""
    count = 0
    for path, operation in operations(documents):
        (tag,) = operation["tags"]
        title = "".join(part[:1].upper() + part[1:] for part in tag.split("_"))
        api = getattr(kubernetes.client, f"{title}Api")
        name = method_name(operation["operationId"], tag)
        method = getattr(api, name, None)
        assert method is not None, f"{path}: {api.__name__}.{name}"
        known = set(inspect.signature(method).parameters)
        ours = {p["name"] for p in [*documents.paths[path].get("parameters", ()), *operation.get("parameters", ())]}
        assert {snake(name) for name in ours} - known <= {"resource_version", "continue", "watch"}, operation
        count += 1
    assert count > 150


def model_of(name: str) -> Any:
    """The client's class for a schema: version and kind of its name, with the group where that is not enough."""
    *_, group, version, kind = name.split(".")
    title = version[:1].upper() + version[1:]
    for candidate in (f"{group.title()}{title}{kind}", f"{title}{kind}"):
        found = getattr(kubernetes.client, candidate, None)
        if found is not None:
            return found
    return None


# Types that the client has no class for.
NO_CLASS = {
    "Patch", "Quantity", "Time", "MicroTime", "FieldsV1", "RawExtension", "Info", "IntOrString", "JSON",
    "JSONSchemaPropsOrArray", "JSONSchemaPropsOrBool", "JSONSchemaPropsOrStringArray",
    "CustomResourceSubresourceStatus",
}  # fmt: skip


# The client's classes are those of 1.37, whose declarative validation changed what these require; we serve 1.36.
OTHERWISE_IN_1_37 = {
    "io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicyBinding",
    "io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicyBindingSpec",
    "io.k8s.api.authentication.v1.TokenRequest",
    "io.k8s.api.authentication.v1.TokenRequestSpec",
    "io.k8s.api.authentication.v1.TokenRequestStatus",
    "io.k8s.api.authentication.v1.TokenReviewSpec",
    "io.k8s.api.discovery.v1.EndpointSlice",
    "io.k8s.api.resource.v1.ResourceClaim",
    "io.k8s.api.resource.v1.ResourceClaimTemplateSpec",
    "io.k8s.api.rbac.v1.RoleRef",
    "io.k8s.api.resource.v1.ResourceClaimTemplate",
}


def test_generated_classes_have_our_fields(documents: v3.Documents) -> None:
    """Every field that we declare is one of Kubernetes', and as required as there."""
    count = 0
    for name, tree in documents.schemas.items():
        if name.rpartition(".")[2] in NO_CLASS or name.startswith(UNKNOWN_SCHEMAS):
            continue
        model = model_of(name)
        assert model is not None, name
        theirs: dict[str, str] = model.attribute_map
        ours = tree.get("properties", {})
        assert set(ours) <= set(theirs.values()), name
        required = {theirs[key] for key, field in model.model_fields.items() if field.is_required()}
        # Equal again: the entry has to go.
        assert (set(tree.get("required", ())) != required & set(ours)) is (name in OTHERWISE_IN_1_37), name
        count += 1
    assert count > 90
