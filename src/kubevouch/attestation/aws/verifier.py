"""The server's side of aws: which instance it is, that its role has signed for this key now, and that it still runs."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from kubevouch.attestation import serving_names, settings
from kubevouch.attestation.answering import Answering, require
from kubevouch.attestation.aws import sts
from kubevouch.attestation.aws.ec2 import EC2
from kubevouch.attestation.aws.evidence import (
    BINDING_HEADER,
    NAME,
    TOKEN_HEADER,
    VERSIONS,
    Form,
    Freshness,
    Proof,
    binding_digest,
    binding_text,
)
from kubevouch.attestation.aws.identity_document import ACCOUNT, REGION, Document, verify_document
from kubevouch.attestation.aws.instances import Instance, Instances, InstancesFile, verify_instance
from kubevouch.attestation.aws.metadata import ENDPOINT, MetadataService
from kubevouch.attestation.aws.region_certificates import RegionCertificates
from kubevouch.attestation.aws.sigv4 import Credentials
from kubevouch.attestation.http import Web, counter
from kubevouch.attestation.interface import (
    Attested,
    Binding,
    Challenge,
    Claim,
    Evidence,
    RefusedEvidenceError,
    SettingsError,
    Sources,
    Strength,
    UnavailableError,
)
from kubevouch.util.clock import Clock

DOMAINS = {
    "aws": "amazonaws.com",
    "aws-cn": "amazonaws.com.cn",
    "aws-us-gov": "amazonaws.com",
    "aws-iso": "c2s.ic.gov",
    "aws-iso-b": "sc2s.sgov.gov",
    "aws-iso-e": "cloud.adc-e.uk",
    "aws-iso-f": "csp.hci.ic.gov",
    "aws-eusc": "amazonaws.eu",
}
_DOCUMENT, _STS, _EC2 = "aws-instance-identity", "aws-sts", "aws-ec2"
_MAX_TAGS = 50
"""EC2 lets an instance have so many."""


class Settings(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Args:
    accounts: of which instances count.
    roles: that only EC2 may assume, whose sessions are therefore called like their instance.
    freshness: with ``firstUse`` the document alone counts, once for each instance.
    certificates, certificates_folder: those of AWS, by region and form, or as files REGION/FORM.pem.
    forms: of the document's signature.
    sts_hosts: of STS, that may be asked; of none given, those of the document's region.
    instances: ``api``, or the path of a file that ``aws ec2 describe-instances`` has printed; empty asks nobody, so
        that there are no names for serving certificates but the address in the document.
    credentials: the path of a file for the API, as ``credential_process`` prints them; empty is the role of the machine
        that this runs on.
    check_root_volume: refuse instances whose root volume was attached at another time than the instance was started.
    reattest: a machine may come with another key than its first, as after its disk was made anew, without an
        operator's word. Whatever runs on it and reaches the metadata service can then have a key of its own certified.
    metadata_endpoint: for those credentials.
    ca_file, connect_to: see :class:`~kubevouch.attestation.http.Web`.
    """

    accounts: frozenset[str]
    roles: frozenset[str] = frozenset()
    partition: str = "aws"
    freshness: Freshness = Freshness.STS
    certificates: dict[str, dict[Form, str]] = {}
    certificates_folder: str = ""
    forms: frozenset[Form] = frozenset({Form.RSA2048})
    sts_hosts: frozenset[str] = frozenset()
    instances: str = ""
    credentials: str = ""
    check_root_volume: bool = True
    reattest: bool = False
    metadata_endpoint: str = ENDPOINT
    ca_file: str = ""
    connect_to: dict[str, str] = {}


def make_verifier(settings_: Mapping[str, Any], sources: Sources) -> AWSVerifier:
    """Raises :class:`SettingsError`."""
    read = settings.read(settings_, Settings, NAME)
    strange = [each for each in read.accounts if not ACCOUNT.fullmatch(each)]
    if strange or not read.accounts:
        raise SettingsError(f"settings of {NAME}: got accounts {strange}, expected numbers of twelve digits, quoted")
    if read.partition not in DOMAINS:
        raise SettingsError(
            f"settings of {NAME}: got partition {read.partition!r}, expected one of {', '.join(DOMAINS)}"
        )
    if not read.certificates and not read.certificates_folder:
        raise SettingsError(
            f"settings of {NAME}: expected certificates or certificatesFolder",
            hint="kubevouch attestation roots update aws REGION/rsa2048 FILE puts AWS's certificates into a folder",
        )
    if any(not REGION.fullmatch(each) for each in read.certificates):
        raise SettingsError(f"settings of {NAME}: certificates: got {sorted(read.certificates)}, expected regions")
    if read.freshness is Freshness.STS and not read.roles:
        raise SettingsError(
            f"settings of {NAME}: expected roles", hint="name the roles of instances, which only EC2 may assume"
        )
    for path in (read.instances.removeprefix("api"), read.credentials):
        if path and not path.startswith("/"):
            raise SettingsError(f"settings of {NAME}: got {path!r}, expected an absolute path")
    web = Web(ca_file=read.ca_file, connect_to=read.connect_to, asked=counter(sources))
    return AWSVerifier(
        read,
        RegionCertificates(read.certificates, read.certificates_folder),
        web,
        _instances(read, web, sources.clock),
    )


def _instances(read: Settings, web: Web, clock: Clock) -> Instances | None:
    if not read.instances:
        return None
    if read.instances != "api":
        return InstancesFile(read.instances)
    give = MetadataService(web, clock, read.metadata_endpoint).credentials
    if read.credentials:

        async def give() -> Credentials:
            return _credentials(read.credentials)

    return EC2(web, clock, give, DOMAINS[read.partition])


def _credentials(path: str) -> Credentials:
    """As ``credential_process`` prints them, of a file that somebody keeps up to date."""
    try:
        found = msgspec.json.decode(Path(path).read_bytes(), type=Credentials)
    except (OSError, msgspec.DecodeError) as err:
        raise UnavailableError(f"{path}: no credentials can be read") from err
    return found


class AWSVerifier(Answering):
    """A :class:`~kubevouch.attestation.interface.Verifier`."""

    name = NAME
    versions: Sequence[str] = VERSIONS

    def __init__(self, read: Settings, certificates: RegionCertificates, web: Web, instances: Instances | None) -> None:
        self._settings = read
        self._certificates = certificates
        self._web = web
        self._instances = instances

    @property
    def needs_challenge(self) -> bool:
        return self._settings.freshness is Freshness.STS

    def destination(self, evidence: Evidence) -> str:
        return NAME

    async def verify_client(
        self, evidence: Evidence, binding: Binding, challenge: Challenge | None, now: dt.datetime
    ) -> Attested:
        """Steps: ``nonce``, those of the document, of the call, of the caller, and of the instance."""
        proof = self.shown(evidence, Proof, "the proof of aws")
        if self.needs_challenge:
            require(challenge)
        told = verify_document(
            proof.document.encode(),
            proof.form,
            proof.signature,
            self._certificates,
            accounts=self._settings.accounts,
            forms=self._settings.forms,
            now=now,
        )
        caller = await self._caller(proof, binding, told, now) if self.needs_challenge else None
        found = await self._instance(told, now)
        return self._attested(evidence, told, caller, found)

    async def _caller(self, proof: Proof, binding: Binding, told: Document, now: dt.datetime) -> sts.Caller:
        digest = binding_digest(binding.spki, binding.cluster_id, binding.nonce)
        if (proof.request is None) == (not proof.token):
            raise RefusedEvidenceError("call", "expected one signed call to STS")
        if proof.request is None:
            header, expected = TOKEN_HEADER, digest.hex()
            request = sts.presigned(sts.url_of_token(proof.token), header, expected)
        else:
            header, expected = BINDING_HEADER, binding_text(digest)
            request = proof.request
        hosts = self._settings.sts_hosts or _sts_hosts(told.region, self._settings.partition)
        outgoing = sts.verify_request(request, hosts=hosts, expected=expected, now=now, header=header)
        answer = await self._web.send(outgoing.method, outgoing.url, outgoing.headers, outgoing.body)
        caller = sts.caller_in(answer.status, answer.body)
        sts.verify_caller(
            caller,
            partition=self._settings.partition,
            accounts=[told.account_id],
            roles=self._settings.roles,
            session=told.instance_id,
        )
        return caller

    async def _instance(self, told: Document, now: dt.datetime) -> Instance | None:
        if self._instances is None:
            return None
        found = await self._instances.describe(told.region, told.instance_id)
        return verify_instance(told, found, now=now, check_root_volume=self._settings.check_root_volume)

    def _attested(
        self, evidence: Evidence, told: Document, caller: sts.Caller | None, found: Instance | None
    ) -> Attested:
        addresses = found.addresses if found is not None else (told.private_ip,) if told.private_ip else ()
        return Attested(
            provider=NAME,
            version=evidence.version,
            identity=told.identity,
            # Whoever has read the document once can show it: it is worth its first use.
            strength=Strength.FIRST_USE if caller is None else Strength.CLOUD,
            provider_id=told.provider_id,
            renewable=self._settings.reattest and caller is not None,
            addresses=addresses,
            dns_names=(found.private_dns_name,) if found is not None and found.private_dns_name else (),
            claims=tuple(_claims(told, caller, found)),
            evidence_digest=hashlib.sha256(evidence.data).hexdigest(),
        )

    async def verify_serving(self, attested: Attested, names: Iterable[str], now: dt.datetime) -> Mapping[str, str]:
        """Those that the instance had when it last proved itself."""
        return serving_names.among(attested, names)

    def machine_name(self, attested: Attested) -> str:
        """None: which of its names its Node has is a setting of the cluster."""
        return ""


def _sts_hosts(region: str, partition: str) -> tuple[str, ...]:
    domain = DOMAINS[partition]
    return (f"sts.{region}.{domain}", f"sts-fips.{region}.{domain}")


def _claims(told: Document, caller: sts.Caller | None, found: Instance | None) -> Iterator[Claim]:
    strength = Strength.FIRST_USE if caller is None else Strength.CLOUD
    for name, value in (
        ("aws.account", told.account_id),
        ("aws.region", told.region),
        ("aws.instanceId", told.instance_id),
        ("aws.availabilityZone", told.availability_zone),
        ("aws.imageId", told.image_id),
        ("aws.instanceType", told.instance_type),
    ):
        if value:
            yield Claim(name, value, _DOCUMENT, strength)
    if caller is not None:
        yield Claim("aws.role", caller.role, _STS, strength)
    if found is None:
        return
    if found.private_dns_name:
        yield Claim("aws.privateDnsName", found.private_dns_name, _EC2, strength)
    for name, value in sorted(found.tags.items())[:_MAX_TAGS]:
        # AWS lets nobody else write a tag with its own prefix.
        yield Claim(f"aws.tag/{name}", value, _EC2, strength, tenant_controlled=not name.startswith("aws:"))
