"""Scenarios of configured admission: a cluster, a webhook, objects that put policies in force."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

import aio
from admission_webhook import AdmissionWebhook, Tree, rule
from kubevouch.client.interface import Client, RawResponse
from kubevouch.testing import Cluster

Scenario = Callable[[Client, AdmissionWebhook], Awaitable[None]]
GROUP = "/apis/admissionregistration.k8s.io/v1"
POLICIES = f"{GROUP}/validatingadmissionpolicies"
BINDINGS = f"{GROUP}/validatingadmissionpolicybindings"


def with_webhook(folder: Path, scenario: Scenario, *, runtime_config: str = "") -> None:
    async def run() -> None:
        async with AdmissionWebhook(folder) as webhook, Cluster(runtime_config=runtime_config) as cluster:
            await scenario(cluster.client(), webhook)

    aio.run(run())


async def post(client: Client, path: str, tree: Tree, method: str = "POST", content: str = "json") -> RawResponse:
    headers = {"Content-Type": f"application/{content}"}
    return await client.raw(method, path, msgspec.json.encode(tree), headers)


async def configure(client: Client, tree: Tree) -> RawResponse:
    path = f"{GROUP}/{tree['kind'].lower()}s"
    answer = await post(client, path, tree)
    assert answer.status == 201, answer.body
    return answer


def with_cluster(scenario: Callable[[Client], Awaitable[None]]) -> None:
    async def run() -> None:
        async with Cluster() as cluster:
            await scenario(cluster.client())

    aio.run(run())


def policy(*validations: Tree, name: str = "p", rules: list[Tree] | None = None, **spec: Any) -> Tree:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {"resourceRules": rules or [rule("configmaps", "CREATE", "UPDATE")]},
            "validations": list(validations),
            **spec,
        },
    }


def binding(*actions: str, name: str = "b", policy_name: str = "p", **spec: Any) -> Tree:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": policy_name, "validationActions": list(actions or ("Deny",)), **spec},
    }


def mutating(*mutations: Tree | str, name: str = "p", rules: list[Tree] | None = None, **spec: Any) -> Tree:
    """A policy that changes ConfigMaps; a text is the expression of an apply configuration."""
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {"resourceRules": rules or [rule("configmaps", "CREATE", "UPDATE")]},
            "reinvocationPolicy": "Never",
            "mutations": [applied(each) if isinstance(each, str) else each for each in mutations],
            **spec,
        },
    }


def applied(expression: str) -> Tree:
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}


def patched(expression: str) -> Tree:
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}


def mutating_binding(name: str = "b", policy_name: str = "p", **spec: Any) -> Tree:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": policy_name, **spec},
    }


async def install(client: Client, *trees: Tree) -> None:
    for tree in trees:
        prefix, _, kind = tree["kind"].rpartition("Admission")
        plural = "policies" if kind == "Policy" else "policybindings"
        answer = await post(client, f"{GROUP}/{prefix.lower()}admission{plural}", tree)
        assert answer.status == 201, answer.body


def tree_of(answer: RawResponse) -> Tree:
    tree: Tree = msgspec.json.decode(answer.body)
    return tree
