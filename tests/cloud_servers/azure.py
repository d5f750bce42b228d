"""Azure's metadata service, its directory's keys and its Resource Manager, for one machine.

Documents are signed as Azure signs them: CMS with the document inside and the signer's certificate alone, whose issuer
has to be fetched from where that certificate says.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, pkcs7
from cryptography.x509.oid import AuthorityInformationAccessOID, ExtendedKeyUsageOID, NameOID

from cloud_servers import faults
from scripted_server import ScriptedServer
from throwaway_ca import ThrowawayCA, server_context
from token_keys import jwk, key_set, private_key, signed

SUBSCRIPTION = "00000000-1111-2222-3333-444444444444"
TENANT = "11111111-2222-3333-4444-555555555555"
VM_ID = "aaaaaaaa-bbbb-cccc-dddd-000000000001"
NAME = "node-z"
RESOURCE_ID = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/Demo-RG/providers/Microsoft.Compute/virtualMachines/{NAME}"
NIC_ID = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/Demo-RG/providers/Microsoft.Network/networkInterfaces/nic-z"
HOSTS = ("login.microsoftonline.com", "management.azure.com")
CERTIFICATE_HOST = "www.microsoft.com"
ISSUER_URL = f"http://{CERTIFICATE_HOST}/pkiops/certs/Test%20TLS%20Issuing%20CA%2001.crt"
_AUDIENCE = "https://management.azure.com/"
_ROOT, _ISSUING, _SIGNER = 0, 1, 2
_BEGINS, _ENDS = dt.datetime(2020, 1, 1, tzinfo=dt.UTC), dt.datetime(2060, 1, 1, tzinfo=dt.UTC)


def certificate(
    name: str,
    key: int,
    issuer: tuple[str, int],
    *,
    ca: bool,
    san: str = "",
    aia: str = "",
) -> x509.Certificate:
    """One of the chain; ``key`` and the issuer's are numbers of ``token_keys``."""
    builder = (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(_name(issuer[0]))
        .public_key(private_key(key).public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_BEGINS)
        .not_valid_after(_ENDS)
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
    )
    if san:
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(san)]), critical=False)
    if aia:
        place = x509.AccessDescription(AuthorityInformationAccessOID.CA_ISSUERS, x509.UniformResourceIdentifier(aia))
        builder = builder.add_extension(x509.AuthorityInformationAccess([place]), critical=False)
    return builder.sign(private_key(issuer[1]), hashes.SHA256())


class AzureCloud(faults.Faults):
    """Args:
    now: what its clocks say.
    """

    def __init__(self, folder: Path, now: dt.datetime) -> None:
        super().__init__()
        ca = ThrowawayCA("azure")
        self._ca_file = folder / "azure-ca.pem"
        self._ca_file.write_bytes(ca.bundle)
        self.now = now
        self.identity = True
        self.root = certificate("root", _ROOT, ("root", _ROOT), ca=True)
        self.issuing = certificate("issuing", _ISSUING, ("root", _ROOT), ca=True)
        self.signer = certificate(
            "metadata.azure.com", _SIGNER, ("issuing", _ISSUING), ca=False, san="zz.metadata.azure.com", aia=ISSUER_URL
        )
        self.machines: dict[str, dict[str, Any]] = {RESOURCE_ID.lower(): resource()}
        self.certificates: dict[str, bytes] = {
            ISSUER_URL.partition(CERTIFICATE_HOST)[2]: self.issuing.public_bytes(Encoding.DER)
        }
        self._metadata = ScriptedServer(None, [self._answer_metadata])
        self._places = ScriptedServer(None, [self._answer_certificates])
        self._apis = ScriptedServer(server_context(ca.issue(names=HOSTS), folder), [self._answer_api])

    async def __aenter__(self) -> AzureCloud:
        for each in (self._metadata, self._places, self._apis):
            await each.__aenter__()
        return self

    async def __aexit__(self, *reason: Any) -> None:
        for each in (self._metadata, self._places, self._apis):
            await each.__aexit__(*reason)

    @property
    def node_settings(self) -> dict[str, Any]:
        return {"metadata": self._metadata.url}

    def verifier_settings(self, folder: Path) -> dict[str, Any]:
        """As an operator writes them, with the API behind another address and an access token in a file."""
        (folder / "access-token").write_text("arm-token\n")
        elsewhere = dict.fromkeys(HOSTS, f"127.0.0.1:{self._apis.port}")
        return {
            "subscriptions": [SUBSCRIPTION],
            "roots": self.root.public_bytes(Encoding.PEM).decode(),
            "machines": "api",
            "credentials": str(folder / "access-token"),
            "caFile": str(self._ca_file),
            "connectTo": {**elsewhere, CERTIFICATE_HOST: f"127.0.0.1:{self._places.port}"},
        }

    @property
    def fetched(self) -> list[str]:
        """Paths that certificates were fetched from, in order."""
        return [seen.raw_path for seen in self._places.seen]

    def document(self, nonce: str, *, along: bool = False, key: rsa.RSAPrivateKey | None = None) -> dict[str, str]:
        """``along``: with the issuer's certificate in it."""
        moment = "%m/%d/%y %H:%M:%S -0000"
        content = {
            "licenseType": "",
            "nonce": nonce,
            "plan": {"name": "", "product": "", "publisher": ""},
            "sku": "22_04-lts-gen2",
            "subscriptionId": SUBSCRIPTION,
            "timeStamp": {
                "createdOn": self.now.strftime(moment),
                "expiresOn": (self.now + dt.timedelta(hours=6)).strftime(moment),
            },
            "vmId": self._machine["properties"]["vmId"],
        }
        builder = (
            pkcs7.PKCS7SignatureBuilder()
            .set_data(json.dumps(content).encode())
            .add_signer(self.signer, key or private_key(_SIGNER), hashes.SHA256())
        )
        if along:
            builder = builder.add_certificate(self.issuing)
        signature = builder.sign(Encoding.DER, [pkcs7.PKCS7Options.Binary])
        return {"encoding": "pkcs7", "signature": base64.b64encode(signature).decode()}

    def token(self, audience: str = _AUDIENCE, **claims: Any) -> str:
        issued = int(self.now.timestamp()) - 3600
        body = {
            "aud": audience,
            "iss": f"https://sts.windows.net/{TENANT}/",
            "iat": issued,
            "nbf": issued,
            "exp": issued + 86400,
            "oid": "bbbb0000-0000-0000-0000-000000000001",
            "tid": TENANT,
            "ver": "1.0",
            "xms_mirid": RESOURCE_ID.replace("resourceGroups", "resourcegroups"),
            **claims,
        }
        header = {"alg": "RS256", "kid": "mkey-1", "typ": "JWT", "x5t": "mkey-1"}
        return signed(json.dumps(body).encode(), header=header)

    @property
    def _machine(self) -> dict[str, Any]:
        return self.machines.get(RESOURCE_ID.lower()) or resource()

    async def _answer_metadata(self, request: web.Request) -> web.StreamResponse:
        if request.headers.get("Metadata") != "true" or "X-Forwarded-For" in request.headers:
            return _refusal(400, "Bad request. 'Metadata: true' header is required")
        path, version = request.path.removeprefix("/metadata"), request.query.get("api-version", "")
        if not version:
            return _refusal(400, "Bad request. api-version was not specified in the request")
        if path == "/attested/document":
            nonce = request.query.get("nonce", "")
            if len(nonce) > 32 or not nonce.isalnum():
                return _refusal(400, "Bad request. Nonce is invalid")
            return web.json_response(self.document(nonce))
        if path == "/instance/compute":
            return web.json_response({"name": NAME, "vmId": VM_ID, "resourceId": RESOURCE_ID})
        if path == "/identity/oauth2/token":
            if not self.identity:
                return web.json_response(
                    {"error": "invalid_request", "error_description": "Identity not found"}, status=400
                )
            token = self.token(request.query["resource"])
            return web.json_response({"access_token": token, "expires_in": "86399", "token_type": "Bearer"})
        return _refusal(404, "Not found")

    async def _answer_certificates(self, request: web.Request) -> web.StreamResponse:
        found = self.certificates.get(request.raw_path)
        if found is None:
            return web.Response(status=404, text="<html>not found</html>")
        return web.Response(body=found, content_type="application/octet-stream")

    async def _answer_api(self, request: web.Request) -> web.StreamResponse:
        if request.host.partition(":")[0] == HOSTS[0]:
            return web.Response(body=key_set(jwk("mkey-1")), content_type="application/json")
        fault = self.next_fault()
        if fault is not None:
            return fault
        presented = request.headers.get("Authorization", "")
        if presented != "Bearer arm-token" and presented.count(".") != 2:
            return _error(401, "InvalidAuthenticationToken", "The access token is invalid.")
        if not request.query.get("api-version"):
            return _error(400, "MissingApiVersionParameter", "The api-version query parameter is required.")
        if request.path.lower() == NIC_ID.lower():
            return web.json_response(interface())
        machine = self.machines.get(request.path.lower())
        if machine is None:
            return _error(404, "ResourceNotFound", f"The Resource '{request.path}' was not found.")
        return web.json_response(machine)


def resource(vm_id: str = VM_ID, **changes: Any) -> dict[str, Any]:
    """Microsoft.Compute/virtualMachines, as the Resource Manager writes it."""
    return {
        "name": NAME,
        "id": RESOURCE_ID,
        "type": "Microsoft.Compute/virtualMachines",
        "location": "westeurope",
        "tags": {"pool": "blue"},
        "properties": {
            "vmId": vm_id,
            "osProfile": {"computerName": "Node-Z", "adminUsername": "someone"},
            "networkProfile": {"networkInterfaces": [{"id": NIC_ID}, {"id": "/subscriptions/../../secrets"}]},
            "provisioningState": "Succeeded",
        },
        **changes,
    }


def interface() -> dict[str, Any]:
    public = {"id": f"{NIC_ID}-ip", "properties": {"ipAddress": "203.0.113.9"}}
    configuration = {"properties": {"privateIPAddress": "10.1.0.4", "publicIPAddress": public}}
    return {"id": NIC_ID, "properties": {"ipConfigurations": [configuration]}}


def listed() -> list[dict[str, Any]]:
    """As ``az vm list --show-details --output json`` writes it."""
    properties = resource()["properties"]
    flat = {key: value for key, value in resource().items() if key != "properties"}
    return [{**flat, **properties, "privateIps": "10.1.0.4,10.1.0.5", "publicIps": "", "fqdns": ""}]


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _refusal(status: int, message: str) -> web.Response:
    return web.Response(status=status, body=msgspec.json.encode({"error": message}), content_type="application/json")


def _error(status: int, code: str, message: str) -> web.Response:
    body = {"error": {"code": code, "message": message}}
    return web.Response(status=status, body=msgspec.json.encode(body), content_type="application/json")
