"""Values that other hands wrote into the store: what can be read is served, what cannot takes nothing else down."""

from __future__ import annotations

import base64
import json
from typing import Any

from asynctest import async_test
from kubevouch.api import catalog
from kubevouch.api.core_v1 import ConfigMap
from kubevouch.client.interface import Client, WatchOptions
from kubevouch.machinery.codec import json_codec, protobuf
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.storage.interface import Revision
from kubevouch.testing import Cluster

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
ROOT = "/registry/configmaps/default/"
JSON = {"Content-Type": "application/json"}
MERGE_PATCH = {"Content-Type": "application/merge-patch+json"}


async def ask(client: Client, method: str, path: str, body: Any = None, headers: Any = None) -> tuple[int, Any]:
    data = b"" if body is None else json.dumps(body).encode()
    answer = await client.raw(method, path, data, headers or (JSON if data else {}))
    return answer.status, json.loads(answer.body)


async def put(cluster: Cluster, key: str, value: bytes) -> Revision:
    """Past the API."""
    store = cluster.server.api.store
    known = await store.get(key)
    revision = await (store.create(key, value) if known is None else store.update(key, value, known.revision))
    await cluster.server.api.cacher.reach(revision)
    return revision


def minimal(number: int, payload: bytes) -> bytes:
    return protobuf.length_delimited(number, payload)


def sealed(api_version: str, kind: str, *fields: bytes) -> bytes:
    """An envelope around a message that has only these fields, as others' encoders write it."""
    type_meta = minimal(1, api_version.encode()) + minimal(2, kind.encode())
    return protobuf.MAGIC + minimal(1, type_meta) + minimal(2, b"".join(fields))


def meta(name: str, namespace: str = "", uid: str = "u") -> bytes:
    spaced = minimal(3, namespace.encode()) if namespace else b""
    identity = minimal(5, uid.encode()) if uid else b""
    return minimal(1, minimal(1, name.encode()) + spaced + identity)


# ------------------------------------------------------------------ what can be read


@async_test
async def test_every_form_that_kubernetes_reads_is_served_and_takes_its_own_form_with_the_next_write() -> None:
    async with Cluster() as cluster:
        client = cluster.client()
        tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default", "uid": "u"}}
        text = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: default, uid: u}\ndata: {k: v}\n"
        forms = {
            "json": json.dumps({**tree, "data": {"k": "v"}, "gone": 1}, indent=2).encode(),
            "yaml": text,
            "protobuf": sealed(
                "v1", "ConfigMap", meta("a", "default"), minimal(2, minimal(1, b"k") + minimal(2, b"v"))
            ),
        }
        for form, value in forms.items():
            await put(cluster, f"{ROOT}a", value)
            status, shown = await ask(client, "GET", f"{CONFIG_MAPS}/a")
            assert (status, shown["data"], shown["metadata"]["uid"]) == (200, {"k": "v"}, "u"), form
            before = int(shown["metadata"]["resourceVersion"])
            _, written = await ask(client, "PUT", f"{CONFIG_MAPS}/a", shown)
            kept = await cluster.server.api.store.get(f"{ROOT}a")
            assert kept is not None
            assert kept.value.startswith(protobuf.MAGIC)
            assert kept.value.endswith(b"\x1a\x00\x22\x00")
            assert int(written["metadata"]["resourceVersion"]) > before
            assert (await ask(client, "PUT", f"{CONFIG_MAPS}/a", written))[1] == written, "no write is needed now"


OLD_VERSIONS: list[tuple[str, bytes, str, Any]] = [
    ("/registry/clusterroles/old", sealed("rbac.authorization.k8s.io/v1beta1", "ClusterRole", meta("old")),
     "/apis/rbac.authorization.k8s.io/v1/clusterroles/old", {"rules": None}),
    ("/registry/clusterrolebindings/old",
     json_codec.encode({"apiVersion": "rbac.authorization.k8s.io/v1beta1", "kind": "ClusterRoleBinding",
                        "metadata": {"name": "old"}, "subjects": [{"kind": "User", "name": "a"}],
                        "roleRef": {"kind": "ClusterRole", "name": "r"}}),
     "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/old",
     {"subjects": [{"kind": "User", "name": "a", "apiGroup": "rbac.authorization.k8s.io"}]}),
    ("/registry/certificatesigningrequests/old",
     sealed("certificates.k8s.io/v1beta1", "CertificateSigningRequest", meta("old"), minimal(2, minimal(1, b"x"))),
     "/apis/certificates.k8s.io/v1/certificatesigningrequests/old",
     {"spec": {"request": base64.b64encode(b"x").decode(), "signerName": "kubernetes.io/legacy-unknown",
               "usages": ["digital signature", "key encipherment"]}, "status": {}}),
    ("/registry/mutatingadmissionpolicybindings/old",
     sealed("admissionregistration.k8s.io/v1", "MutatingAdmissionPolicyBinding", meta("old")),
     "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings/old", {"spec": {}}),
    ("/registry/minions/n",
     sealed("v1", "Node", meta("n"), minimal(3, minimal(1, minimal(1, b"cpu") + minimal(2, minimal(1, b"2"))))),
     "/api/v1/nodes/n", {}),
]  # fmt: skip


@async_test
async def test_old_versions_are_converted_and_defaulted() -> None:
    async with Cluster() as cluster:
        for key, value, path, shown in OLD_VERSIONS:
            await put(cluster, key, value)
            status, tree = await ask(cluster.client(), "GET", path)
            assert status == 200, path
            assert {name: tree.get(name) for name in shown} == shown
        node = (await ask(cluster.client(), "GET", "/api/v1/nodes/n"))[1]
        assert node["status"]["allocatable"] == node["status"]["capacity"] == {"cpu": "2"}


@async_test
async def test_definitions_are_read_in_all_forms_and_their_kinds_served() -> None:
    kind = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
    status = {
        "acceptedNames": kind, "storedVersions": ["v1"],
        "conditions": [{"type": each, "status": "True", "lastTransitionTime": None, "reason": "r", "message": "m"}
                       for each in ("NamesAccepted", "Established")],
    }  # fmt: skip
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object"}}}}
    v1 = {"group": "g.example.com", "names": kind, "scope": "Cluster",
          "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}]}  # fmt: skip
    old = {"group": "g.example.com", "version": "v1", "names": kind, "scope": "Cluster", "validation": schema,
           "preserveUnknownFields": False}  # fmt: skip
    resource = catalog.CUSTOM_RESOURCE_DEFINITIONS
    whole = {"kind": "CustomResourceDefinition", "metadata": {"name": "things.g.example.com", "uid": "u"},
             "status": status}  # fmt: skip
    as_protobuf = resource.codec.bare(resource.codec.from_tree({**whole, "spec": v1}).value)
    forms = {
        "v1beta1": json.dumps({**whole, "apiVersion": "apiextensions.k8s.io/v1beta1", "spec": old}).encode(),
        "v1": json.dumps({**whole, "apiVersion": "apiextensions.k8s.io/v1", "spec": v1}).encode(),
        # What kubevouch itself stored before it knew better.
        "protobuf": protobuf.seal("apiextensions.k8s.io/v1", resource.kind, resource.codec.to_message(as_protobuf)),
    }
    shown = []
    async with Cluster() as cluster:
        client = cluster.client()
        for value in forms.values():
            await put(cluster, "/registry/apiextensions.k8s.io/customresourcedefinitions/things.g.example.com", value)
            made, _ = await ask(
                client, "POST", "/apis/g.example.com/v1/things",
                {"apiVersion": "g.example.com/v1", "kind": "Thing", "metadata": {"generateName": "t"}, "spec": {}},
            )  # fmt: skip
            assert made == 201
            _, tree = await ask(client, "GET", f"{resource.path()}/things.g.example.com")
            shown.append(tree["spec"])
    assert shown[0] == shown[1] == shown[2]
    assert shown[0]["versions"][0]["schema"] == schema


@async_test
async def test_an_object_without_a_uid_can_be_read_and_deleted_and_not_changed() -> None:
    async with Cluster() as cluster:
        client = cluster.client()
        await put(cluster, f"{ROOT}bare", sealed("v1", "ConfigMap", meta("bare", "default", uid="")))
        status, shown = await ask(client, "GET", f"{CONFIG_MAPS}/bare")
        assert (status, "uid" in shown["metadata"], shown["metadata"].get("creationTimestamp")) == (200, False, None)
        missing = 'configmaps "bare" not found'
        for method, body, headers in (("PUT", shown, None), ("PATCH", {"data": {"a": "b"}}, MERGE_PATCH)):
            status, said = await ask(client, method, f"{CONFIG_MAPS}/bare", body, headers)
            assert (status, said["message"]) == (404, missing)
        assert (await ask(client, "DELETE", f"{CONFIG_MAPS}/bare"))[0] == 200


@async_test
async def test_a_name_that_is_not_that_of_the_key_and_an_empty_value_are_shown_as_they_are() -> None:
    async with Cluster() as cluster:
        client = cluster.client()
        await put(cluster, f"{ROOT}place", sealed("v1", "ConfigMap", meta("other", "default")))
        await put(cluster, f"{ROOT}empty", b"")
        assert (await ask(client, "GET", f"{CONFIG_MAPS}/place"))[1]["metadata"]["name"] == "other"
        status, shown = await ask(client, "GET", f"{CONFIG_MAPS}/empty")
        assert (status, "name" in shown["metadata"]) == (200, False)
        assert (await ask(client, "GET", f"{CONFIG_MAPS}/other"))[0] == 404
        assert (await ask(client, "GET", CONFIG_MAPS))[0] == 200
        for name in ("place", "empty"):
            assert (await ask(client, "DELETE", f"{CONFIG_MAPS}/{name}"))[0] == 200


# ------------------------------------------------------------------ what cannot be read

BROKEN = {
    "cut off": catalog.CONFIG_MAPS.codec.to_value(ConfigMap(metadata=ObjectMeta(name="bad")), "v1", "ConfigMap")[:-9],
    "text": b"plain text with a s3cret",
    "other kind": catalog.SECRETS.codec.to_value(catalog.SECRETS.type(metadata=ObjectMeta(name="bad")), "v1", "Secret"),
    "no such kind": b'{"apiVersion":"foo.example.com/v1","kind":"Foo","metadata":{"name":"bad"}}',
    "encrypted": b"k8s:enc:aescbc:v1:key1:....",
}
WHY = {
    "cut off": "the value cannot be decoded (ProtobufError)",
    "text": "the value cannot be decoded (UnmarshalError)",
    "other kind": "got v1, Kind=Secret, expected v1, Kind=ConfigMap",
    "no such kind": "got foo.example.com/v1, Kind=Foo, expected v1, Kind=ConfigMap",
    "encrypted": "identity transformer tried to read encrypted data",
}


@async_test
async def test_an_unreadable_value_is_named_and_leaves_the_others_alone() -> None:
    async with Cluster() as cluster:
        client = cluster.client()
        made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "good"}}
        assert (await ask(client, "POST", CONFIG_MAPS, made))[0] == 201
        key = f"{ROOT}bad"
        for what, value in BROKEN.items():
            await put(cluster, key, value)
            why = WHY[what]
            corrupt = (
                f"StorageError: corrupt object, Code: 7, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: {why}"
            )
            named = {**made, "metadata": {"name": "bad"}}
            for method, body, headers in (
                ("GET", None, None), ("PUT", named, None), ("PATCH", {}, MERGE_PATCH), ("DELETE", None, None),
            ):  # fmt: skip
                status, said = await ask(client, method, f"{CONFIG_MAPS}/bad", body, headers)
                assert (status, said["message"], said.get("reason")) == (500, corrupt, None), (what, method)
            assert (await ask(client, "POST", CONFIG_MAPS, named))[1]["reason"] == "AlreadyExists"
            # A list that left it out would say that it is gone.
            one = f"{CONFIG_MAPS}?fieldSelector=metadata.name%3D"
            for path in (CONFIG_MAPS, "/api/v1/configmaps", f"{CONFIG_MAPS}?limit=1", f"{one}bad"):
                status, said = await ask(client, "GET", path)
                assert (status, said["reason"]) == (500, "StorageReadError"), path
                assert said["message"] == f"failed to read one or more configmaps from the storage: {key}"
                causes = [{"reason": "UnexpectedServerResponse", "field": key, "message": why}]
                assert said["details"]["causes"] == causes
            for path in (
                f"{CONFIG_MAPS}/good", "/api/v1/namespaces/kube-system/configmaps",
                f"{CONFIG_MAPS}?resourceVersion=0", f"{one}good", "/api/v1/secrets",
            ):  # fmt: skip
                assert (await ask(client, "GET", path))[0] == 200, path
        metrics = (await client.raw("GET", "/metrics", b"", {})).body.decode()
        assert 'kubevouch_store_unreadable_values{kind="configmaps"} 1.0' in metrics


@async_test
async def test_watches_go_on_beside_an_unreadable_value_and_hear_when_it_is_gone() -> None:
    async with Cluster() as cluster:
        client = cluster.client()
        made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "1"}}
        assert (await ask(client, "POST", CONFIG_MAPS, made))[0] == 201
        revision = await cluster.server.api.store.revision()
        heard: list[tuple[str, str]] = []
        events = client.watch(catalog.CONFIG_MAPS, "default", WatchOptions(resource_version=str(revision)))
        await put(cluster, f"{ROOT}a", b"broken")
        await ask(client, "POST", CONFIG_MAPS, {**made, "metadata": {"name": "b"}})
        await put(cluster, f"{ROOT}a", json_codec.encode({**made, "data": {"k": "2"}}))
        await put(cluster, f"{ROOT}a", b"broken")
        kept = await cluster.server.api.store.get(f"{ROOT}a")
        assert kept is not None
        await cluster.server.api.store.delete(kept.key, kept.revision)
        async for event in events:
            assert event.object is not None
            heard.append((str(event.type), event.object.data.get("k", "")))
            if len(heard) == 3:
                break
        await events.aclose()
        assert heard == [("ADDED", "1"), ("MODIFIED", "2"), ("DELETED", "2")]
        assert (await ask(client, "GET", CONFIG_MAPS))[0] == 200


@async_test
async def test_a_server_that_cannot_read_what_it_would_refuse_by_is_not_ready() -> None:
    """One of several that lacks a key of the encryption would let a revoked certificate in."""
    async with Cluster() as cluster:
        client, store = cluster.client(), cluster.server.api.store
        for key in (
            "/registry/validatingadmissionpolicies/p", "/registry/mutatingwebhookconfigurations/w",
            "/registry/kubevouch.io/certificaterevocations/r",
        ):  # fmt: skip
            assert (await client.raw("GET", "/readyz", b"", {})).status == 200
            revision = await put(cluster, key, b"k8s:enc:aescbc:v1:key1:....")
            answer = await client.raw("GET", "/readyz", b"", {})
            assert (answer.status, b"[-]informer-sync failed" in answer.body) == (500, True), key
            await cluster.server.api.cacher.reach(await store.delete(key, revision))
        # What it has known before still refuses.
        body = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
                "metadata": {"name": "w"}}  # fmt: skip
        path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
        assert (await ask(client, "POST", path, body))[0] == 201
        await put(cluster, "/registry/validatingwebhookconfigurations/w", b"broken")
        assert (await client.raw("GET", "/readyz", b"", {})).status == 200


IGNORE = {"ignoreStoreReadErrorWithClusterBreakingPotential": True}


@async_test
async def test_an_unreadable_object_is_deleted_by_who_says_so_and_may() -> None:
    async with Cluster() as cluster:
        client = cluster.client()
        path, key = f"{CONFIG_MAPS}/bad", f"{ROOT}bad"
        await put(cluster, key, b"broken")
        status, said = await ask(client, "DELETE", path, {**IGNORE, "dryRun": ["All"]})
        assert (status, said["reason"]) == (422, "Invalid")
        assert "cannot be set together with .dryRun" in said["message"]
        # Without a body the query counts.
        query = f"{path}?ignoreStoreReadErrorWithClusterBreakingPotential=true"
        assert (await ask(client, "DELETE", query))[0] == 200
        assert await cluster.server.api.store.get(key) is None
        assert (await ask(client, "DELETE", path, IGNORE))[0] == 404

        made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "bad"}}
        assert (await ask(client, "POST", CONFIG_MAPS, made))[0] == 201
        status, said = await ask(client, "DELETE", path, IGNORE)
        assert (status, said["reason"]) == (422, "Invalid")
        assert "is exclusively used to delete corrupt object(s), try again by removing this option" in said["message"]


@async_test
async def test_the_right_to_delete_is_not_the_right_to_delete_what_cannot_be_read() -> None:
    async with Cluster() as cluster:
        admin = cluster.client()
        group = "rbac.authorization.k8s.io"
        rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["delete"]}]
        role = {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": {"name": "r"}, "rules": rules}
        binding = {
            "apiVersion": f"{group}/v1", "kind": "RoleBinding", "metadata": {"name": "r"},
            "roleRef": {"apiGroup": group, "kind": "Role", "name": "r"},
            "subjects": [{"kind": "User", "apiGroup": group, "name": "jane"}],
        }  # fmt: skip
        for plural, body in (("roles", role), ("rolebindings", binding)):
            assert (await ask(admin, "POST", f"/apis/{group}/v1/namespaces/default/{plural}", body))[0] == 201
        await put(cluster, f"{ROOT}bad", b"broken")
        status, said = await ask(cluster.client("jane"), "DELETE", f"{CONFIG_MAPS}/bad", IGNORE)
        assert (status, said["reason"]) == (403, "Forbidden")
        assert 'not permitted to do "unsafe-delete-ignore-read-errors"' in said["message"]
        assert await cluster.server.api.store.get(f"{ROOT}bad") is not None


# ------------------------------------------------------------------ what nobody serves here

UNSERVED = {
    "/registry/deployments/default/web": "deployments",
    "/registry/ipaddresses/10.96.0.1": "ipaddresses",
    "/registry/priorityclasses/high": "priorityclasses",
    "/registry/ranges/servicenodeports": "ranges",
    "/registry/apiregistration.k8s.io/apiservices/v1.": "apiregistration.k8s.io/apiservices",
    "/registry/other.example.com/things/a": "other.example.com/things",
    "/registry/nodes/misplaced": "nodes",
}


@async_test
async def test_values_of_kinds_that_are_not_served_are_counted_and_left_alone() -> None:
    async with Cluster() as cluster:
        client, store = cluster.client(), cluster.server.api.store
        for number, key in enumerate(UNSERVED):
            await put(cluster, key, b"k8s\x00 of another program" + bytes([number]))
        await put(cluster, "/registry/masterleases/10.0.0.1", b"of a server")
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "going"}}
        assert (await ask(client, "POST", "/api/v1/namespaces", space))[0] == 201
        await put(cluster, "/registry/deployments/going/web", b"of another program")

        assert cluster.server.api.cacher.unserved() == {
            **dict.fromkeys(sorted(UNSERVED.values()), 1), "deployments": 2,
        }  # fmt: skip
        metrics = (await client.raw("GET", "/metrics", b"", {})).body.decode()
        assert 'kubevouch_store_unserved_values{kind="deployments"} 2.0' in metrics
        # Kinds of which there is never anything here stay empty, and can be listed and watched.
        for path in ("/apis/networking.k8s.io/v1/ipaddresses", "/apis/apps/v1/deployments"):
            status, listed = await ask(client, "GET", path)
            assert (status, listed["items"]) == (200, [])
        assert (await ask(client, "GET", "/api/v1/nodes/misplaced"))[0] == 404

        assert (await ask(client, "DELETE", "/api/v1/namespaces/going"))[0] == 200
        for number, key in enumerate(UNSERVED):
            kept = await store.get(key)
            assert kept is not None
            assert kept.value == b"k8s\x00 of another program" + bytes([number])
        assert await store.get("/registry/deployments/going/web") is not None
