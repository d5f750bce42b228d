from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from asynctest import async_test
from kubevouch.api.catalog import CONFIG_MAPS
from kubevouch.api.core_v1 import ConfigMap
from kubevouch.client.discovery import discover
from kubevouch.machinery.custom_object import CustomObject
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.records import certificate_ledger
from kubevouch.records.certificate_ledger import IssuedCertificate
from kubevouch.standalone.attached.installation import KINDS, Action, carry_out, plan_of
from kubevouch.standalone.attached.manifest_parts import Settings, trees
from kubevouch.standalone.attached.uninstallation import Seen, default_settings, judge, look
from kubevouch.testing.cluster import Cluster
from kubevouch.util.clock import SystemClock
from kubevouch.wellknown import REMOVED_BINDINGS_CONFIGMAP

NOW = dt.datetime(2026, 6, 1, tzinfo=dt.UTC)
DEFINITION = "certificatesigners.kubevouch.io"


def seen(**given: Any) -> Seen:
    objects = tuple(
        (next(each for each in KINDS if each.kind == kind), CustomObject(metadata=ObjectMeta(name=name)))
        for kind, name in (
            ("Namespace", "kubevouch-system"), ("CustomResourceDefinition", DEFINITION), ("Deployment", "kubevouch-a"),
        )
    )  # fmt: skip
    whole: dict[str, Any] = {
        "objects": objects, "people": {}, "contents": {}, "records": (), "bindings": (), "issued": (), **given,
    }  # fmt: skip
    return Seen(**whole)


def told(found: Seen, *, keep_crds: bool = False, delete_data: bool = False) -> dict[str, tuple[Action, str]]:
    plan = judge(found, keep_crds=keep_crds, delete_data=delete_data)
    return {each.name: (each.action, each.note) for each in plan}


def test_what_runs_goes_first_and_what_holds_the_rest_last() -> None:
    assert list(told(seen())) == ["kubevouch-a", DEFINITION, "kubevouch-system"]
    assert {action for action, _note in told(seen()).values()} == {Action.REMOVE}


def test_definitions_with_objects_stay_unless_the_data_is_to_go() -> None:
    found = seen(people={DEFINITION: 2})
    assert told(found)[DEFINITION][0] is Action.KEEP
    assert told(found)[DEFINITION][1].startswith("2 objects of this kind would go")
    assert told(found, delete_data=True)[DEFINITION][0] is Action.REMOVE
    assert told(seen(), keep_crds=True)[DEFINITION] == (Action.KEEP, "--keep-crds")


def test_a_namespace_with_what_people_have_stays() -> None:
    found = seen(contents={"kubevouch-system": tuple(f"Secret s{number}" for number in range(5))})
    action, note = told(found)["kubevouch-system"]
    assert action is Action.KEEP
    assert note.startswith("it has Secret s0, Secret s1, Secret s2 and 2 more, which would go")
    assert told(found, delete_data=True)["kubevouch-system"][0] is Action.REMOVE


@pytest.mark.parametrize(
    ("count", "deletes", "action"), [(1, False, Action.KEEP), (0, False, Action.REMOVE), (1, True, Action.REMOVE)]
)
def test_records_stay_while_there_is_something_in_them(count: int, deletes: bool, action: Action) -> None:
    record = ConfigMap(metadata=ObjectMeta(name="kubevouch-nodes-0", namespace="kube-system"))
    removed = ConfigMap(metadata=ObjectMeta(name=REMOVED_BINDINGS_CONFIGMAP, namespace="kube-system"))
    found = told(seen(records=((record, count), (removed, 1))), delete_data=deletes)
    assert found["kubevouch-nodes-0"][0] is action
    # What it remembers is put back.
    assert found[REMOVED_BINDINGS_CONFIGMAP][0] is Action.REMOVE


def entry(name: str, *, ends: dt.datetime) -> dict[str, str]:
    made = IssuedCertificate(
        common_name=name,
        signer_name="example.com/plain",
        serial="1",
        not_before=ends - dt.timedelta(days=1),
        not_after=ends,
    )
    return certificate_ledger.encode({made.key: made})


@async_test
async def test_it_finds_what_was_installed_also_without_labels_and_what_is_valid_still() -> None:
    async with Cluster(real_time=True) as cluster:
        client = cluster.client()
        found = await discover(client)
        wanted = [each for each in trees(("controllers",), Settings()) if each["kind"] != "CustomResourceDefinition"]
        for each in wanted:
            if each["kind"] == "ClusterRole":
                each["metadata"].pop("labels")
        await carry_out(client, await plan_of(client, found, wanted, ()), SystemClock(), lambda _each: None)
        data = entry("system:node:a", ends=NOW + dt.timedelta(days=9)) | entry("b", ends=NOW - dt.timedelta(seconds=1))
        name = certificate_ledger.LAYOUT.names[0]
        meta = ObjectMeta(name=name, namespace="kube-system")
        await client.create(CONFIG_MAPS, ConfigMap(metadata=meta, data={**data, "broken": "{"}))
        own = ObjectMeta(name="people", namespace="kubevouch-system")
        await client.create(CONFIG_MAPS, ConfigMap(metadata=own))
        shown = await look(client, found, default_settings("kubevouch-system"), NOW)
        kinds = {resource.kind for resource, _obj in shown.objects}
        assert {"Namespace", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ServiceAccount"} <= kinds
        names = {obj.metadata.name for resource, obj in shown.objects if resource.kind == "ClusterRole"}
        # A server of our own makes this one itself.
        names.remove("kubevouch:attestation")
        assert names == {each["metadata"]["name"] for each in wanted if each["kind"] == "ClusterRole"}
        assert shown.contents["kubevouch-system"] == ("ConfigMap people",)
        assert [(each.common_name, each.signer_name) for each in shown.issued] == [
            ("system:node:a", "example.com/plain")
        ]
        assert [(record.metadata.name, count) for record, count in shown.records] == [(name, 3)]
