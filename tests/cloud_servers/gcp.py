"""Google's metadata service, its published keys and the API of Compute Engine, for one machine and its project.

Answers, headers and refusals are those of the real ones: the metadata service wants ``Metadata-Flavor: Google`` and no
``X-Forwarded-For``, the API a bearer token, and its errors are Google's JSON.
"""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web
from cryptography.hazmat.primitives import serialization

from cloud_servers import faults
from scripted_server import ScriptedServer
from throwaway_ca import ThrowawayCA, server_context
from token_keys import jwk, key_set, private_key, signed

PROJECT, ZONE, NAME, INSTANCE_ID = "demo-proj", "us-east9-z", "vm-blue-3", "7700112233445566"
HOSTS = ("www.googleapis.com", "compute.googleapis.com")
_TPM_KEY = 2


class GoogleCloud(faults.Faults):
    """Args:
    now: what its clocks say.
    """

    def __init__(self, folder: Path, now: dt.datetime) -> None:
        super().__init__()
        ca = ThrowawayCA("google")
        self._ca_file = folder / "google-ca.pem"
        self._ca_file.write_bytes(ca.bundle)
        self.now = now
        self.kid = "first"
        self.keys_status = 200
        self.service_account = True
        self.granted = 0
        # Something between adds X-Forwarded-For.
        self.forwarded = False
        self.instances: dict[str, dict[str, Any]] = {NAME: resource()}
        self._metadata = ScriptedServer(None, [self._answer_metadata])
        self._apis = ScriptedServer(server_context(ca.issue(names=HOSTS), folder), [self._answer_api])

    async def __aenter__(self) -> GoogleCloud:
        await self._metadata.__aenter__()
        await self._apis.__aenter__()
        return self

    async def __aexit__(self, *reason: Any) -> None:
        await self._metadata.__aexit__(*reason)
        await self._apis.__aexit__(*reason)

    @property
    def elsewhere(self) -> str:
        """A server that is no metadata service."""
        return f"{self._metadata.url}/proxied"

    @property
    def node_settings(self) -> dict[str, Any]:
        return {"metadata": self._metadata.url}

    def verifier_settings(self, folder: Path) -> dict[str, Any]:
        """As an operator writes them, with the API behind another address and an access token in a file."""
        (folder / "access-token").write_text("ya29.test\n")
        return {
            "projects": [PROJECT],
            "instances": "api",
            "credentials": str(folder / "access-token"),
            "caFile": str(self._ca_file),
            "connectTo": dict.fromkeys(HOSTS, f"127.0.0.1:{self._apis.port}"),
        }

    @property
    def calls(self) -> list[str]:
        """Paths that the APIs were asked for, in order."""
        return [seen.path for seen in self._apis.seen]

    def token(self, audience: str, form: str = "full") -> str:
        issued = int(self.now.timestamp())
        claims: dict[str, Any] = {
            "aud": audience,
            "azp": "112233445566778899001",
            "email": "nodes@demo-proj.iam.gserviceaccount.test",
            "email_verified": True,
            "exp": issued + 3600,
            "iat": issued,
            "iss": "https://accounts.google.com",
            "sub": "112233445566778899001",
        }
        if form == "full":
            instance = self.instances[NAME]
            claims["google"] = {
                "compute_engine": {
                    "instance_creation_timestamp": issued - 900,
                    "instance_id": instance["id"],
                    "instance_name": instance["name"],
                    "project_id": PROJECT,
                    "project_number": 424242424242,
                    "zone": ZONE,
                }
            }
        return signed(json.dumps(claims).encode(), header={"alg": "RS256", "kid": self.kid, "typ": "JWT"})

    async def _answer_metadata(self, request: web.Request) -> web.Response:
        if request.path.startswith("/proxied"):
            return web.Response(text="welcome")
        headers = {"Metadata-Flavor": "Google", "Server": "Metadata Server for VM"}
        forwarded = self.forwarded or "X-Forwarded-For" in request.headers
        if request.headers.get("Metadata-Flavor") != "Google" or forwarded:
            return web.Response(status=403, text="<html>Forbidden</html>", headers=headers)
        status, text = self._metadata_value(request.path.removeprefix("/computeMetadata/v1"), request)
        return web.Response(status=status, text=text, headers=headers)

    def _metadata_value(self, path: str, request: web.Request) -> tuple[int, str]:
        values = {
            "/project/project-id": PROJECT,
            "/instance/zone": f"projects/424242424242/zones/{ZONE}",
            "/instance/name": NAME,
        }
        account = "/instance/service-accounts/default"
        if path == f"{account}/identity" and self.service_account:
            audience = request.query.get("audience", "")
            if not audience:
                return 400, "non-empty audience parameter required"
            return 200, self.token(audience, request.query.get("format", "standard"))
        if path == f"{account}/token" and self.service_account:
            self.granted += 1
            return 200, '{"access_token":"ya29.test","expires_in":3599,"token_type":"Bearer"}'
        return (200, values[path]) if path in values else (404, "<html>Not Found</html>")

    async def _answer_api(self, request: web.Request) -> web.StreamResponse:
        if request.host.partition(":")[0] == HOSTS[0]:
            return web.Response(body=key_set(jwk(self.kid)), status=self.keys_status)
        fault = self.next_fault()
        if fault is not None:
            return fault
        if request.headers.get("Authorization") != "Bearer ya29.test":
            return _refusal(401, "Request had invalid authentication credentials.", "UNAUTHENTICATED")
        prefix = f"/compute/v1/projects/{PROJECT}/zones/{ZONE}/instances/"
        if not request.path.startswith(prefix):
            return _refusal(403, "Required 'compute.instances.get' permission", "PERMISSION_DENIED")
        name, _, verb = request.path.removeprefix(prefix).partition("/")
        instance = self.instances.get(name)
        if instance is None or verb not in ("", "getShieldedInstanceIdentity"):
            return _refusal(404, f"The resource '{request.path}' was not found", "NOT_FOUND")
        if verb and not instance.get("shieldedInstanceConfig", {}).get("enableVtpm", True):
            return web.json_response({"kind": "compute#shieldedInstanceIdentity"})
        return web.json_response(shielded_identity() if verb else instance)


def resource(**changes: Any) -> dict[str, Any]:
    """compute#instance, as instances.get and ``gcloud compute instances list --format=json`` write it."""
    return {
        "kind": "compute#instance",
        "id": INSTANCE_ID,
        "creationTimestamp": "2031-03-01T03:40:00.000-08:00",
        "name": NAME,
        "tags": {"items": ["nodes"], "fingerprint": "x"},
        "machineType": f"https://www.googleapis.com/compute/v1/projects/{PROJECT}/zones/{ZONE}/machineTypes/e2-small",
        "status": "RUNNING",
        "zone": f"https://www.googleapis.com/compute/v1/projects/{PROJECT}/zones/{ZONE}",
        "networkInterfaces": [
            {
                "networkIP": "10.0.0.5",
                "accessConfigs": [{"type": "ONE_TO_ONE_NAT", "natIP": "203.0.113.5"}],
                "ipv6AccessConfigs": [{"externalIpv6": "2001:db8:0:0:0:0:0:5"}],
            }
        ],
        "metadata": {"items": [{"key": "created-by", "value": "projects/1/zones/z/instanceGroupManagers/g"}]},
        "labels": {"pool": "blue"},
        **changes,
    }


def tpm_key() -> Any:
    """The signing key of the machine's virtual TPM."""
    return private_key(_TPM_KEY)


def shielded_identity() -> dict[str, Any]:
    public = tpm_key().public_key()
    text = public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return {"kind": "compute#shieldedInstanceIdentity", "signingKey": {"ekPub": text.decode()}}


def _refusal(status: int, message: str, reason: str) -> web.Response:
    body = {"error": {"code": status, "message": message, "status": reason}}
    return web.Response(status=status, body=msgspec.json.encode(body), content_type="application/json")
