"""What EC2, or a file, says of an instance, and which instances are not what their document says."""

from __future__ import annotations

import datetime as dt
import json
import os
from pathlib import Path
from typing import Any

import pytest

from asynctest import async_test
from cloud_servers import aws
from kubevouch.attestation.aws.ec2 import instance_in
from kubevouch.attestation.aws.identity_document import Document
from kubevouch.attestation.aws.instances import (
    MAX_FILE,
    SETTLING,
    Instance,
    InstancesFile,
    read_reservations,
    verify_instance,
)
from kubevouch.attestation.http import Answer
from kubevouch.attestation.interface import RefusedEvidenceError, UnavailableError
from unit.attestation.aws.test_identity_document import DOCUMENTS

STARTED = dt.datetime(2026, 11, 22, 5, 40, tzinfo=dt.UTC)
NOW = STARTED + dt.timedelta(minutes=20)
ID = "i-0abc000000000000a"
TOLD = Document(
    account_id="111122223333", region="eu-west-1", instance_id=ID, private_ip="10.0.0.17", pending_time=STARTED
)
RUNNING = Instance(
    id=ID,
    account="111122223333",
    state="running",
    zone="eu-west-1a",
    addresses=("10.0.0.17", "2001:db8::7"),
    root_attached=STARTED,
    interface_attached=STARTED,
)


def judge(found: Instance | None, *, now: dt.datetime = NOW, check_root_volume: bool = True) -> Instance:
    return verify_instance(TOLD, found, now=now, check_root_volume=check_root_volume)


def changed(**fields: Any) -> Instance:
    return Instance(**{**{name: getattr(RUNNING, name) for name in RUNNING.__struct_fields__}, **fields})


DECLARED = '<!DOCTYPE x [<!ENTITY a "b">]><DescribeInstancesResponse>'
LATER = STARTED + dt.timedelta(seconds=61)
REFUSED = {
    "unknown": (None, "instance"),
    "of another account": (changed(account="999900001111"), "instance-account"),
    "terminated": (changed(state="terminated"), "instance-state"),
    "shutting down": (changed(state="shutting-down"), "instance-state"),
    "stopping": (changed(state="stopping"), "instance-state"),
    "stopped": (changed(state="stopped"), "instance-state"),
    "without a state": (changed(state=""), "instance-state"),
    "another address": (changed(addresses=("10.0.0.18",)), "address"),
    "no address": (changed(addresses=()), "address"),
    "another root volume": (changed(root_attached=LATER), "root-volume"),
    "an older root volume": (changed(interface_attached=LATER), "root-volume"),
    "no root volume": (changed(root_attached=None), "root-volume"),
    "no interface": (changed(interface_attached=None), "root-volume"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_instance_that_is_not_the_one_of_the_document(case: str) -> None:
    found, step = REFUSED[case]
    with pytest.raises(RefusedEvidenceError) as refused:
        judge(found)
    assert refused.value.step == step


def test_an_instance_that_is() -> None:
    for good in (
        RUNNING,
        changed(state="pending"),
        changed(root_attached=STARTED + dt.timedelta(seconds=60)),
        changed(root_device_type="instance-store", root_attached=None),
    ):
        assert judge(good) is good
    assert judge(changed(root_attached=LATER), check_root_volume=False)


def test_an_instance_that_was_just_started_need_not_be_known_yet() -> None:
    with pytest.raises(UnavailableError, match="not known yet"):
        judge(None, now=STARTED + SETTLING - dt.timedelta(seconds=1))
    with pytest.raises(RefusedEvidenceError, match=r"^instance: "):
        judge(None, now=STARTED + SETTLING)


def test_a_document_that_tells_less() -> None:
    older = Document(account_id="111122223333", region="eu-west-1", instance_id=ID)
    assert verify_instance(older, changed(addresses=()), now=NOW, check_root_volume=True)
    with pytest.raises(RefusedEvidenceError, match=r"^instance: "):
        verify_instance(older, None, now=NOW, check_root_volume=True)


ANSWERS = [each for each in DOCUMENTS if {"describe_instances", "root_attach"} & each["given"].keys()]


@pytest.mark.parametrize("case", ANSWERS, ids=lambda each: each["id"])
def test_answers_of_the_cases(case: dict[str, Any]) -> None:
    given, then = case["given"], case["then"]
    told = json.loads(given["document"])
    pending = dt.datetime.fromisoformat(told["pendingTime"])
    document = Document(
        account_id=told["accountId"],
        region=told["region"],
        instance_id=told["instanceId"],
        private_ip=told["privateIp"],
        pending_time=pending,
    )

    def judged() -> Instance:
        found: Instance | None = Instance(
            id=told["instanceId"],
            account=told["accountId"],
            state=given.get("state", "running"),
            addresses=(told["privateIp"],),
            root_attached=dt.datetime.fromisoformat(given.get("root_attach", told["pendingTime"])),
            interface_attached=dt.datetime.fromisoformat(given.get("nic0_attach", told["pendingTime"])),
        )
        said = given.get("describe_instances", "")
        if said.isdecimal():
            found = instance_in(Answer(int(said), b""), told["instanceId"])
        elif said == "no such instance":
            error = b"<Response><Errors><Error><Code>InvalidInstanceID.NotFound</Code></Error></Errors></Response>"
            found = instance_in(Answer(400, error), told["instanceId"])
        now = dt.datetime(2031, 3, 1, 12, tzinfo=dt.UTC)
        return verify_instance(document, found, now=now, check_root_volume=True)

    if then["ok"]:
        judged()
        return
    with pytest.raises(UnavailableError if then.get("retry") else RefusedEvidenceError):
        judged()


# ------------------------------------------------------------------ answers of EC2


def test_an_answer_of_ec2_is_read() -> None:
    machine = aws.Instance(tags={"aws:autoscaling:groupName": "workers", "Name": "a"})
    found = instance_in(Answer(200, aws.reservations([machine]).encode()), ID)
    assert found == changed(
        addresses=("10.0.0.17",),
        private_dns_name="ip-10-0-0-17.eu-west-1.compute.internal",
        tags={"aws:autoscaling:groupName": "workers", "Name": "a"},
    )
    assert instance_in(Answer(200, aws.reservations([]).encode()), ID) is None


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, b""),
        (200, b"<html/>"),
        (200, b"<other><reservationSet/></other>"),
        (200, b"<DescribeInstancesResponse/>"),
        (200, b"<DescribeInstancesResponse><reservationSet><item/></reservationSet></DescribeInstancesResponse>"),
        (200, b"<DescribeInstancesResponse>" + b"<a>" * 5000 + b"</a>" * 5000 + b"</DescribeInstancesResponse>"),
        (200, b"<DescribeInstancesResponse><reservationSet/><reservationSet/></DescribeInstancesResponse>"),
        (200, f"{DECLARED}&a;</DescribeInstancesResponse>".encode()),
        (400, b"<Response><Errors><Error><Code>RequestLimitExceeded</Code></Error></Errors></Response>"),
        (403, b"<Response><Errors><Error><Code>UnauthorizedOperation</Code></Error></Errors></Response>"),
        (401, b"<Response><Errors><Error><Code>AuthFailure</Code></Error></Errors></Response>"),
        (404, b"InvalidInstanceID.NotFound"),
        (400, b"{"),
        (
            200,
            '<!DOCTYPE x [<!ENTITY a "b">]><DescribeInstancesResponse>&a;</DescribeInstancesResponse>'.encode("utf-16"),
        ),
        (200, b"<DescribeInstancesResponse>\xff</DescribeInstancesResponse>"),
    ],
)
def test_an_answer_that_says_nothing_of_instances_refuses_nobody(status: int, body: bytes) -> None:
    with pytest.raises(UnavailableError):
        instance_in(Answer(status, body), ID)


# ------------------------------------------------------------------ files


def printed(state: str = "running") -> dict[str, Any]:
    """As ``aws ec2 describe-instances`` prints it, with things that do not count."""
    attached = {"AttachTime": "2026-11-22T05:40:00+00:00", "Status": "attached"}
    interface = {
        "Attachment": {**attached, "DeviceIndex": 0},
        "PrivateIpAddresses": [{"Primary": True, "PrivateIpAddress": "10.0.0.17"}],
        "Ipv6Addresses": [{"Ipv6Address": "2001:db8::7"}],
    }
    instance = {
        "InstanceId": ID,
        "State": {"Code": 16, "Name": state},
        "Placement": {"AvailabilityZone": "eu-west-1a"},
        "PrivateIpAddress": "10.0.0.17",
        "RootDeviceType": "ebs",
        "RootDeviceName": "/dev/xvda",
        "BlockDeviceMappings": [{"DeviceName": "/dev/xvda", "Ebs": attached}],
        "NetworkInterfaces": [{"Attachment": {**attached, "DeviceIndex": 1}}, interface],
        "Architecture": "arm64",
    }
    return {"Reservations": [{"OwnerId": "111122223333", "Instances": [instance], "Groups": []}]}


def test_what_the_command_prints_is_read() -> None:
    assert read_reservations(printed()) == {ID: RUNNING}


@async_test
async def test_a_file_is_read_anew_and_knows_nothing_once_it_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "instances.json"
    source = InstancesFile(str(path))
    with pytest.raises(UnavailableError, match="no instances can be read"):
        await source.describe("eu-west-1", ID)
    path.write_text(json.dumps(printed()))
    assert await source.describe("eu-west-1", ID) == RUNNING
    assert await source.describe("eu-west-2", ID) is None
    path.write_text(json.dumps(printed("terminated")))
    os.utime(path, ns=(1, 1))
    assert (await source.describe("eu-west-1", ID)) == changed(state="terminated")
    for text in ("{", '{"Reservations": [{}]}'):
        path.write_text(text)
        with pytest.raises(UnavailableError):
            await source.describe("eu-west-1", ID)
    os.truncate(path, MAX_FILE + 1)
    with pytest.raises(UnavailableError, match="expected at most 16777216 bytes"):
        await source.describe("eu-west-1", ID)
    path.unlink()
    with pytest.raises(UnavailableError):
        await source.describe("eu-west-1", ID)
