"""``make demo-attest``: machines prove what they are, and three thieves are refused, each with the reason.

A cluster comes up, as anybody would start it. One machine has a TPM (swtpm), one a certificate from its factory, one is
in a cloud, whose metadata service, STS and EC2 are played on this machine. Then somebody has stolen the bootstrap
token, somebody has copied a machine's disk, and somebody has recorded a machine's request. What is printed is what the
program prints.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from cloud_servers import aws
from device_certificates import issue
from kubevouch.cli import ui
from processes import Ended, Up, kubevouch
from software_tpm import Manufacturer, SoftwareTPM
from wire import Wire

_YEARS = dt.timedelta(days=3650)


class Site:
    """A cluster, machines, and whoever makes their hardware."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self._stack = stack
        now = dt.datetime.now(dt.UTC)
        self.maker = Manufacturer("Demo TPMs")
        self.factory = issue("Demo Factory", ca=True, begins=now - _YEARS, ends=now + _YEARS)
        self.device = issue("edge-1", self.factory, begins=now - _YEARS, ends=now + _YEARS)
        self.cloud = stack.enter_context(served(aws.Cloud(folder, lambda: dt.datetime.now(dt.UTC))))
        (folder / "attestation.yaml").write_text(json.dumps(self.configuration()))
        self.up = Up(folder, ("--attestation-config", "attestation.yaml")).start()
        stack.callback(self.up.end)

    def configuration(self) -> dict[str, object]:
        """Who counts, and by which roots. What is JSON is YAML."""
        region = "eu-west-1"
        tpm = {"roots": self.maker.root_pem}
        x509pop = {"roots": self.factory.pem, "nodeName": "commonName"}
        cloud = {
            "accounts": ["111122223333"], "roles": ["node-role"],
            "certificates": {region: {"rsa2048": aws.region_certificate(region)}},
            "caFile": str(self.cloud.ca_file), "connectTo": self.cloud.connect_to,
        }  # fmt: skip
        attestors = {"tpm": tpm, "x509pop": x509pop, "aws": cloud}
        return {
            "apiVersion": "kubevouch.io/v1alpha1",
            "kind": "AttestationConfiguration",
            "attestors": [{"provider": name, "settings": each} for name, each in attestors.items()],
            "nodeLabels": {"topology.kubernetes.io/region": "aws.region"},
        }

    def tpm(self, name: str) -> SoftwareTPM:
        """A machine's TPM, switched on, with a certificate of its maker."""
        made = SoftwareTPM(self.folder / f"{name}-tpm")
        self._stack.callback(made.remove)
        made.start()
        made.certify(self.maker)
        return made

    def instance(self, number: str) -> aws.MetadataService:
        """A machine in the cloud."""
        instance = aws.Instance(id=f"i-0abc00000000000{number}", private_ip=f"10.0.0.1{int(number, 16)}")
        self.cloud.instances.append(instance)
        return self._stack.enter_context(served(aws.MetadataService(instance, lambda: dt.datetime.now(dt.UTC))))

    def join(self, name: str, *settings: str) -> Ended:
        """As somebody types it at the machine; ``settings`` begin with the method."""
        how = [] if not settings else ["--attest", settings[0]]
        for each in settings[1:]:
            how += ["--attest-setting", each]
        # A thief without a proof waits for somebody to approve him.
        return self.up.join("--timeout", "60s" if settings else "8s", *how, name=name)

    def look(self, *arguments: str) -> None:
        """What the operator sees."""
        ui.say(f"$ kubevouch {' '.join(arguments)}")
        tell(kubevouch(*arguments, cwd=self.folder, KUBECONFIG="cluster/admin.conf"), wanted=True)

    def requests(self) -> list[dict[str, Any]]:
        """For certificates, all there are."""
        found: list[dict[str, Any]] = json.loads(self.wire().json("GET", CSRS).body)["items"]
        return found

    def wire(self, *, anonymous: bool = False) -> Wire:
        """The API, as the operator sees it."""
        return Wire.of_kubeconfig(self.folder / "cluster/admin.conf", self.folder, anonymous=anonymous)


S = TypeVar("S", aws.Cloud, aws.MetadataService)


@contextmanager
def served(server: S) -> Iterator[S]:
    """``server`` on a loop of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(server.__aenter__(), loop).result()
        yield server
        asyncio.run_coroutine_threadsafe(server.__aexit__(None, None, None), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


CSRS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"


def machines_join(site: Site, tpm: SoftwareTPM, device: tuple[Path, Path], instance: aws.MetadataService) -> None:
    certificate, key = device
    for name, what, settings in (
        ("rack-1", "a TPM; its key is made in it and never leaves it", ("tpm", f"device={tpm.where}")),
        ("edge-1", "a certificate from its factory", ("x509pop", f"certificate={certificate}", f"key={key}")),
        ("cloud-1", "a cloud that says which instance it is", ("aws", f"metadataEndpoint={instance.url}")),
    ):
        ui.say(ui.styled(f"{name} joins: {what}", bold=True))
        tell(site.join(name, *settings), wanted=True)
    site.look("node", "identities")


def thieves_come(site: Site) -> None:
    ui.say(ui.styled("a stolen token, and nothing else", bold=True))
    tell(site.join("mallory"), wanted=False)
    (waits,) = [each["metadata"]["name"] for each in site.requests() if not each["status"].get("certificate")]
    site.look("csr", "explain", waits)

    ui.say(ui.styled("the disk of rack-1 in another machine, with a TPM of the same maker", bold=True))
    shutil.copytree(site.folder / "rack-1", site.folder / "clone" / "rack-1", symlinks=True)
    other = site.tpm("other")
    (site.folder / "rack-1").rename(site.folder / "rack-1.true")
    (site.folder / "clone" / "rack-1").rename(site.folder / "rack-1")
    for each in (site.folder / "rack-1" / "etc/kubernetes").glob("*.conf"):
        each.unlink()
    tell(site.join("rack-1", "tpm", f"device={other.where}"), wanted=False)

    ui.say(ui.styled("another instance that asks for the name of cloud-1", bold=True))
    (site.folder / "cloud-1").rename(site.folder / "cloud-1.true")
    tell(site.join("cloud-1", "aws", f"metadataEndpoint={site.instance('b').url}"), wanted=False)

    ui.say(ui.styled("edge-1's request, recorded and posted again with the stolen token", bold=True))
    recorded = next(each for each in site.requests() if each["spec"]["signerName"].endswith("-x509pop"))
    spec = {name: recorded["spec"][name] for name in ("request", "signerName", "usages")}
    again = {
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        "metadata": {"name": "recorded"}, "spec": spec,
    }  # fmt: skip
    token = site.up.printed_join[2]
    site.wire(anonymous=True).json("POST", CSRS, again, Authorization=f"Bearer {token}")
    for _ in range(100):
        conditions = json.loads(site.wire().json("GET", f"{CSRS}/recorded").body)["status"].get("conditions", [])
        if conditions:
            break
        threading.Event().wait(0.1)
    for each in conditions:
        ui.say(f"  {each['type']}: {each['reason']}: {each['message']}")
    assert [each["type"] for each in conditions] == ["Denied"]
    site.look("node", "identities")


def tell(ended: Ended, *, wanted: bool) -> None:
    for line in (ended.stdout + ended.stderr).splitlines():
        ui.say(f"  {line}")
    ui.say()
    if (ended.code == 0) != wanted:
        raise SystemExit("error: that is not what was expected of it")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="kubevouch-demo-") as name, ExitStack() as stack:
        folder = Path(name)
        site = Site(folder, stack)
        (folder / "edge-1-hardware").mkdir()
        device = site.device.write(folder / "edge-1-hardware", site.factory)
        machines_join(site, site.tpm("rack-1"), device, site.instance("a"))
        thieves_come(site)


if __name__ == "__main__":
    main()
