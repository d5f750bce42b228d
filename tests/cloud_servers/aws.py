"""AWS on this machine: metadata services of instances, STS and EC2, with signatures by keys that a test makes.

They behave as the real ones where clients can tell: tokens of the metadata service, SigV4 down to the header that is
sent but not signed, the errors' forms and codes, throttling. Sources: Amazon EC2 User Guide ("Use IMDS"), AWS IAM User
Guide ("Signature Version 4"), STS and EC2 API references.
"""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding, pkcs7

from kubevouch.attestation.aws import sigv4
from throwaway_ca import ThrowawayCA, server_context

Now = Callable[[], dt.datetime]
_AUTHORIZATION = re.compile(r"AWS4-HMAC-SHA256 Credential=([^,]+), ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]+)")
_MINUTES = dt.timedelta(minutes=15)


@dataclass
class Role:
    """Credentials of a role in use, as STS knows them."""

    arn: str
    access_key: str = field(default_factory=lambda: "ASIA" + secrets.token_hex(8).upper())
    secret_key: str = field(default_factory=lambda: secrets.token_urlsafe(30))
    session_token: str = field(default_factory=lambda: secrets.token_urlsafe(90) + "==")


@dataclass
class Instance:
    """An instance of EC2. Times are when its root volume and its first network interface were attached."""

    id: str = "i-0abc000000000000a"
    account: str = "111122223333"
    region: str = "eu-west-1"
    zone: str = "eu-west-1a"
    private_ip: str = "10.0.0.17"
    role_name: str = "node-role"
    state: str = "running"
    started: dt.datetime = dt.datetime(2026, 11, 22, 5, 40, tzinfo=dt.UTC)
    root_attached: dt.datetime | None = None
    root_device_type: str = "ebs"
    tags: Mapping[str, str] = field(default_factory=dict)
    role: Role = field(init=False)

    def __post_init__(self) -> None:
        self.role = Role(f"arn:aws:sts::{self.account}:assumed-role/{self.role_name}/{self.id}")

    @property
    def private_dns_name(self) -> str:
        return f"ip-{self.private_ip.replace('.', '-')}.{self.region}.compute.internal"

    def document(self) -> str:
        told = {
            "accountId": self.account,
            "architecture": "x86_64",
            "availabilityZone": self.zone,
            "billingProducts": None,
            "devpayProductCodes": None,
            "marketplaceProductCodes": None,
            "imageId": "ami-0123456789abcdef0",
            "instanceId": self.id,
            "instanceType": "m7g.large",
            "kernelId": None,
            "pendingTime": _stamp(self.started),
            "privateIp": self.private_ip,
            "ramdiskId": None,
            "region": self.region,
            "version": "2017-09-30",
        }
        return json.dumps(told, indent=2, separators=(",", " : "))


@lru_cache(maxsize=4)
def region_signer(region: str) -> tuple[rsa.RSAPrivateKey, x509.Certificate]:
    """The key with which "AWS" signs documents of a region."""
    key = rsa.generate_private_key(65537, 2048)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, f"test imds {region}")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(dt.datetime(2020, 1, 1, tzinfo=dt.UTC))
        .not_valid_after(dt.datetime(2120, 1, 1, tzinfo=dt.UTC))
        .sign(key, hashes.SHA256())
    )
    return key, certificate


def region_certificate(region: str) -> str:
    """That of the key, in PEM."""
    return region_signer(region)[1].public_bytes(Encoding.PEM).decode()


def signed_document(document: str, region: str) -> str:
    """The form rsa2048, as the metadata service gives it."""
    key, certificate = region_signer(region)
    builder = pkcs7.PKCS7SignatureBuilder().set_data(document.encode()).add_signer(certificate, key, hashes.SHA256())
    made = builder.sign(Encoding.DER, [pkcs7.PKCS7Options.Binary, pkcs7.PKCS7Options.NoCerts])
    return base64.encodebytes(made).decode().rstrip("\n")


def bare_signature(document: str, region: str) -> str:
    key, _ = region_signer(region)
    made = key.sign(document.encode(), padding.PKCS1v15(), hashes.SHA256())
    return base64.encodebytes(made).decode().rstrip("\n")


class MetadataService:
    """The metadata service of one instance, on a port of its own: IMDSv2 only.

    Args:
        failures: statuses to answer with before anything else, one for each request.
    """

    def __init__(self, instance: Instance, now: Now) -> None:
        self.instance = instance
        self.failures: list[int] = []
        self.asked: list[str] = []
        self._now = now
        self._tokens: dict[str, dt.datetime] = {}
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> MetadataService:
        self._runner = await _served(self._answer, None)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    @property
    def url(self) -> str:
        assert self._runner is not None
        return f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def _answer(self, request: web.Request) -> web.Response:
        self.asked.append(f"{request.method} {request.path}")
        if self.failures:
            return web.Response(status=self.failures.pop(0))
        if request.path == "/latest/api/token":
            return self._token(request)
        ends = self._tokens.get(request.headers.get("X-aws-ec2-metadata-token", ""))
        if ends is None or ends <= self._now():
            return web.Response(status=401)
        if request.method != "GET":
            return web.Response(status=405)
        found = self._documents().get(request.path)
        return web.Response(status=404) if found is None else web.Response(text=found)

    def _token(self, request: web.Request) -> web.Response:
        if request.method != "PUT":
            return web.Response(status=405)
        if "X-Forwarded-For" in request.headers:
            return web.Response(status=403)
        seconds = request.headers.get("X-aws-ec2-metadata-token-ttl-seconds", "")
        if not seconds.isdecimal() or not 1 <= int(seconds) <= 21600:
            return web.Response(status=400)
        token = secrets.token_urlsafe(40)
        self._tokens[token] = self._now() + dt.timedelta(seconds=int(seconds))
        return web.Response(text=token, headers={"X-aws-ec2-metadata-token-ttl-seconds": seconds})

    def _documents(self) -> dict[str, str]:
        instance = self.instance
        document = instance.document()
        credentials = {
            "Code": "Success",
            "LastUpdated": _stamp(self._now()),
            "Type": "AWS-HMAC",
            "AccessKeyId": instance.role.access_key,
            "SecretAccessKey": instance.role.secret_key,
            "Token": instance.role.session_token,
            "Expiration": _stamp(self._now() + dt.timedelta(hours=6)),
        }
        identity = "/latest/dynamic/instance-identity"
        found = {
            f"{identity}/document": document,
            f"{identity}/rsa2048": signed_document(document, instance.region),
            f"{identity}/signature": bare_signature(document, instance.region),
        }
        if instance.role_name:
            folder = "/latest/meta-data/iam/security-credentials/"
            found |= {folder: instance.role_name, f"{folder}{instance.role_name}": json.dumps(credentials)}
        return found


class Cloud:
    """STS and EC2 of some regions on one port with TLS.

    Args:
        failures: ``(status, code)`` to answer with before anything else, one for each request.
    """

    def __init__(self, folder: Path, now: Now, regions: tuple[str, ...] = ("eu-west-1",)) -> None:
        self.instances: list[Instance] = []
        self.roles: list[Role] = []
        self.failures: list[tuple[int, str]] = []
        self.asked: list[str] = []
        self.ca_file = folder / "cloud-ca.crt"
        self.hosts = tuple(f"{service}.{region}.amazonaws.com" for region in regions for service in ("sts", "ec2"))
        ca = ThrowawayCA("cloud")
        self.ca_file.write_bytes(ca.bundle)
        self._tls = server_context(ca.issue(names=self.hosts), folder)
        self._now = now
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Cloud:
        self._runner = await _served(self._answer, self._tls)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    @property
    def connect_to(self) -> dict[str, str]:
        """The setting that leads here."""
        assert self._runner is not None
        return dict.fromkeys(self.hosts, f"127.0.0.1:{self._runner.addresses[0][1]}")

    async def _answer(self, request: web.Request) -> web.Response:
        body = await request.read()
        headers = {name.lower(): value for name, value in request.headers.items()}
        service = headers["host"].split(".")[0]
        self.asked.append(service)
        as_json = headers.get("accept") == "application/json"
        if self.failures:
            status, code = self.failures.pop(0)
            return _failure(service, status, code, as_json)
        roles = [*self.roles, *(each.role for each in self.instances)]
        given = call_identity(request.method, str(request.rel_url), headers, body, roles, self._now(), service)
        if isinstance(given, str):
            return _failure(service, 403, given, as_json)
        pairs = dict(parse_qsl(request.rel_url.raw_query_string or body.decode()))
        if service == "sts" and pairs.get("Action") == "GetCallerIdentity":
            return _identity(given, as_json)
        if service == "ec2" and pairs.get("Action") == "DescribeInstances":
            return self._describe(pairs)
        return _failure(service, 400, "InvalidAction", as_json)

    def _describe(self, pairs: Mapping[str, str]) -> web.Response:
        wanted = pairs.get("InstanceId.1", "")
        found = [each for each in self.instances if each.id == wanted]
        if not found:
            return _failure("ec2", 400, "InvalidInstanceID.NotFound", False)
        return web.Response(text=reservations(found), content_type="text/xml")


def call_identity(
    method: str, url: str, headers: Mapping[str, str], body: bytes, roles: list[Role], now: dt.datetime, service: str
) -> Role | str:
    """The role that has signed the request, or the code of the error. ``headers`` have lower-case names."""
    query = parse_qsl(urlsplit(url).query, keep_blank_values=True, strict_parsing="?" in url)
    pairs = dict(query)
    if "X-Amz-Signature" in pairs:
        credential, names, signature = (pairs[f"X-Amz-{each}"] for each in ("Credential", "SignedHeaders", "Signature"))
        moment, token = pairs["X-Amz-Date"], pairs.get("X-Amz-Security-Token", "")
    else:
        parts = _AUTHORIZATION.fullmatch(headers.get("authorization", ""))
        if parts is None:
            return "MissingAuthenticationToken"
        credential, names, signature = parts.groups()
        moment, token = headers.get("x-amz-date", ""), headers.get("x-amz-security-token", "")
    role = next((each for each in roles if each.access_key == credential.split("/")[0]), None)
    if role is None or not hmac.compare_digest(role.session_token, token):
        return "InvalidClientTokenId"
    made = dt.datetime.strptime(moment, "%Y%m%dT%H%M%SZ").replace(tzinfo=dt.UTC)
    if abs(now - made) > _MINUTES:
        return "SignatureDoesNotMatch"
    scope = credential.partition("/")[2]
    rest = [(name, value) for name, value in query if name != "X-Amz-Signature"]
    encoded = sorted((quote(name, safe="-_.~"), quote(value, safe="-_.~")) for name, value in rest)
    canonical_query = "&".join(f"{name}={value}" for name, value in encoded)
    if set(names.split(";")) - headers.keys() or scope.split("/")[2:] != [service, "aws4_request"]:
        return "SignatureDoesNotMatch"
    canonical = sigv4.canonical_request(method, canonical_query, headers, names, hashlib.sha256(body).hexdigest())
    expected = sigv4.sign(role.secret_key, scope, moment, canonical)
    return role if hmac.compare_digest(expected, signature) else "SignatureDoesNotMatch"


def eks_token(role: Role, cluster: str, now: dt.datetime, host: str = "sts.eu-west-1.amazonaws.com") -> str:
    """As ``aws eks get-token --cluster-name`` makes it."""
    moment = sigv4.timestamp(now)
    scope = f"{moment[:8]}/{host.split('.')[1]}/sts/aws4_request"
    pairs = {
        "Action": "GetCallerIdentity",
        "Version": "2011-06-15",
        "X-Amz-Algorithm": sigv4.ALGORITHM,
        "X-Amz-Credential": f"{role.access_key}/{scope}",
        "X-Amz-Date": moment,
        "X-Amz-Expires": "60",
        "X-Amz-Security-Token": role.session_token,
        "X-Amz-SignedHeaders": "host;x-k8s-aws-id",
    }
    query = "&".join(f"{name}={quote(value, safe='-_.~')}" for name, value in sorted(pairs.items()))
    headers = {"host": host, "x-k8s-aws-id": cluster}
    digest = hashlib.sha256(b"").hexdigest()
    canonical = sigv4.canonical_request("GET", query, headers, "host;x-k8s-aws-id", digest)
    signed = sigv4.sign(role.secret_key, scope, moment, canonical)
    url = f"https://{host}/?{query}&X-Amz-Signature={signed}"
    return "k8s-aws-v1." + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")


def _identity(role: Role, as_json: bool) -> web.Response:
    _, _, _, _, account, resource = role.arn.split(":")
    user = f"AROAEXAMPLE:{resource.rpartition('/')[2]}"
    if as_json:
        result = {"Account": account, "Arn": role.arn, "UserId": user}
        whole = {"GetCallerIdentityResult": result, "ResponseMetadata": {"RequestId": "r"}}
        return web.json_response({"GetCallerIdentityResponse": whole})
    return web.Response(
        text='<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><GetCallerIdentityResult>'
        f"<Arn>{role.arn}</Arn><UserId>{user}</UserId><Account>{account}</Account></GetCallerIdentityResult>"
        "</GetCallerIdentityResponse>",
        content_type="text/xml",
    )


def _failure(service: str, status: int, code: str, as_json: bool) -> web.Response:
    if as_json:
        error = {"Code": code, "Message": f"about {code}", "Type": "Sender"}
        return web.json_response({"Error": error, "RequestId": "r"}, status=status)
    if service == "sts":
        text = f"<ErrorResponse><Error><Type>Sender</Type><Code>{code}</Code></Error></ErrorResponse>"
    else:
        text = f"<Response><Errors><Error><Code>{code}</Code><Message>about it</Message></Error></Errors></Response>"
    return web.Response(text=text, status=status, content_type="text/xml")


def reservations(instances: list[Instance]) -> str:
    """An answer of ``DescribeInstances``."""
    items = "".join(
        f"<item><reservationId>r-1</reservationId><ownerId>{each.account}</ownerId><instancesSet><item>"
        f"<instanceId>{each.id}</instanceId><imageId>ami-0123456789abcdef0</imageId>"
        f"<instanceState><code>16</code><name>{each.state}</name></instanceState>"
        f"<privateDnsName>{each.private_dns_name}</privateDnsName>"
        "<groupSet><item><groupId>sg-1</groupId></item><item><groupId>sg-2</groupId></item></groupSet><productCodes/>"
        f"<placement><availabilityZone>{each.zone}</availabilityZone></placement>"
        f"<privateIpAddress>{each.private_ip}</privateIpAddress>"
        f"<rootDeviceType>{each.root_device_type}</rootDeviceType><rootDeviceName>/dev/xvda</rootDeviceName>"
        "<blockDeviceMapping><item><deviceName>/dev/xvda</deviceName><ebs><volumeId>vol-1</volumeId>"
        f"<attachTime>{_stamp(each.root_attached or each.started)}</attachTime></ebs></item></blockDeviceMapping>"
        f"<networkInterfaceSet><item><attachment><deviceIndex>0</deviceIndex><attachTime>{_stamp(each.started)}"
        f"</attachTime></attachment><privateIpAddressesSet><item><privateIpAddress>{each.private_ip}</privateIpAddress>"
        "</item></privateIpAddressesSet></item></networkInterfaceSet>"
        f"<tagSet>{''.join(f'<item><key>{key}</key><value>{value}</value></item>' for key, value in each.tags.items())}"
        "</tagSet></item></instancesSet></item>"
        for each in instances
    )
    return (
        '<DescribeInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><requestId>r</requestId>'
        f"<reservationSet>{items}</reservationSet></DescribeInstancesResponse>"
    )


def _stamp(moment: dt.datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


async def _served(answer: Callable[[web.Request], Any], tls: Any) -> web.AppRunner:
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.01)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    return runner
