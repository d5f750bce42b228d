"""EC2's own word on instances: ``DescribeInstances``, asked for one instance at a time, and not too often.

Source: Amazon EC2 API Reference 2016-11-15. Its answers are XML, of which no entity and no document type is read.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from xml.etree import ElementTree

import msgspec

from kubevouch.attestation.api_answers import APIAnswers
from kubevouch.attestation.aws import sigv4
from kubevouch.attestation.aws.instances import Instance, read_reservations
from kubevouch.attestation.aws.sigv4 import Credentials
from kubevouch.attestation.http import Answer, Web
from kubevouch.attestation.interface import AttestationError, UnavailableError
from kubevouch.util.clock import Clock

_UNKNOWN = ("InvalidInstanceID.NotFound", "InvalidInstanceID.Malformed")
# In which the API has lists, and as what ``describe-instances`` prints them.
_LISTS = {
    "reservationSet": "Reservations",
    "instancesSet": "Instances",
    "blockDeviceMapping": "BlockDeviceMappings",
    "networkInterfaceSet": "NetworkInterfaces",
    "privateIpAddressesSet": "PrivateIpAddresses",
    "ipv6AddressesSet": "Ipv6Addresses",
    "tagSet": "Tags",
}
_RENAMED = {"instanceState": "State", **_LISTS}
_MAX_DEPTH = 16

GiveCredentials = Callable[[], Awaitable[Credentials]]


class EC2:
    """An :class:`~kubevouch.attestation.aws.instances.Instances`."""

    def __init__(self, web: Web, clock: Clock, credentials: GiveCredentials, domain: str) -> None:
        self._web = web
        self._clock = clock
        self._credentials = credentials
        self._domain = domain
        self._answers: APIAnswers[tuple[str, str], Instance] = APIAnswers(clock)

    async def describe(self, region: str, instance_id: str) -> Instance | None:
        return await self._answers.get((region, instance_id), lambda: self._ask(region, instance_id))

    async def _ask(self, region: str, instance_id: str) -> Instance | None:
        try:
            credentials = await self._credentials()
        except UnavailableError:
            raise
        except AttestationError as err:
            raise UnavailableError(f"no credentials for EC2: {err}") from err
        url = f"https://ec2.{region}.{self._domain}/"
        body = f"Action=DescribeInstances&InstanceId.1={instance_id}&Version=2016-11-15".encode()
        form = {"content-type": "application/x-www-form-urlencoded; charset=utf-8"}
        headers = sigv4.signed_headers(
            "POST", url, form, body, credentials, region=region, service="ec2", now=self._clock.now()
        )
        del headers["host"]
        return instance_in(await self._web.send("POST", url, headers, body), instance_id)


def instance_in(answer: Answer, instance_id: str) -> Instance | None:
    """The instance in an answer of ``DescribeInstances``.

    Raises:
        UnavailableError: it says nothing about instances.
    """
    tree = _parse(answer.body)
    if answer.status != 200:
        code = "" if tree is None else (tree.findtext("Errors/Error/Code") or "")
        if code in _UNKNOWN:
            return None
        raise UnavailableError(f"EC2 answered {answer.status} {code[:64]}".rstrip())
    if tree is None or tree.tag != "DescribeInstancesResponse":
        raise UnavailableError("EC2 answered with something else than instances")
    try:
        return read_reservations(_plain(tree, _MAX_DEPTH)).get(instance_id)
    except (msgspec.ValidationError, ValueError) as err:
        raise UnavailableError(f"EC2 answered with something else than instances: {str(err)[:200]}") from err


def _parse(body: bytes) -> ElementTree.Element | None:
    """The element without its name space; None for what is no XML, or declares a document type or entities."""
    try:
        # In another encoding a declaration could not be seen before it is read.
        text = body.decode()
        if "<!" in text:
            return None
        tree = ElementTree.fromstring(text)  # noqa: S314 - bounded, and without the declarations that grow
    except (UnicodeDecodeError, ElementTree.ParseError):
        return None
    for each in tree.iter():
        each.tag = each.tag.rpartition("}")[2]
    return tree


def _plain(element: ElementTree.Element, depth: int) -> Any:
    """As ``aws ec2 describe-instances`` prints it."""
    if not depth:
        raise ValueError("too deep")
    if element.tag in _LISTS or (len(element) and all(each.tag == "item" for each in element)):
        return [_plain(each, depth - 1) for each in element]
    if not len(element):
        return element.text or ""
    found: dict[str, Any] = {}
    for each in element:
        name = _RENAMED.get(each.tag) or each.tag[:1].upper() + each.tag[1:]
        if name in found:
            raise ValueError(f"{name[:64]} twice")
        found[name] = _plain(each, depth - 1)
    return found
