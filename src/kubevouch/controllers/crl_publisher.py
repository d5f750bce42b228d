"""crl-publisher-controller: signs the lists of what is revoked, for each authority whose key is at hand.

Of each authority there are a full CRL, a delta CRL that continues the full one of the day, and a full one of each
signer's certificates. They are signed anew when something is revoked or lifted, and before they are too old. The number
is written down before the list is seen: it is never given twice, nor one below it, after a restart, by another server,
or when the clock was set back. Source: kubevouch's own; RFC 5280 section 5.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence

import msgspec

from kubevouch import wellknown
from kubevouch.api.catalog import CONFIG_MAPS
from kubevouch.api.core_v1 import ConfigMap
from kubevouch.client import stored
from kubevouch.client.interface import Client
from kubevouch.controllers.controller import QueueController
from kubevouch.controllers.interface import Context, ReconcileError, Request, Result
from kubevouch.ledger.entries import ISSUED, Query
from kubevouch.ledger.interface import Ledger
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.pki.authority import CertificateAuthority
from kubevouch.pki.errors import PKIError
from kubevouch.pki.x509 import crl_builder
from kubevouch.pki.x509.certificate_builder import STRICT_SERIAL_BITS, CertificateTemplate, random_serial
from kubevouch.pki.x509.crl_builder import CRLTemplate, RevokedSerial
from kubevouch.pki.x509.usages import CERT_SIGN, CRL_SIGN, DIGITAL_SIGNATURE, resolve
from kubevouch.revocation.publication import CERTIFICATE_TYPE, CRL_TYPE, PREFIX, Document, Publication
from kubevouch.revocation.revocations import Revocations, authority_id
from kubevouch.signers.interface import SignerError
from kubevouch.signers.key_threads import KeyThreads, sign_beside
from kubevouch.signers.registry import Signers
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger
from kubevouch.util.turns import give_way

log = get_logger("controllers.crl_publisher")

NAME = wellknown.CRL_PUBLISHER_CONTROLLER
NUMBERS = wellknown.CRL_NUMBERS_CONFIGMAP
FULL_LIFE, DELTA_LIFE = dt.timedelta(hours=24), dt.timedelta(hours=2)
BASE_LIFE = dt.timedelta(hours=12)
"""How long delta CRLs continue the same full one."""
_AGAIN_SECONDS = 3600.0
_CRL_SIGN_BIT = 6
_TURN = 2_000
_ALL = Request("crls")


class _Base:
    """The full list that deltas continue."""

    def __init__(self, number: int, at: dt.datetime, revoked: Mapping[int, RevokedSerial]) -> None:
        self.number = number
        self.at = at
        self.revoked = revoked


class CRLPublisher:
    """There is one request: every list is signed anew."""

    def __init__(
        self, client: Client, signers: Signers, revocations: Revocations, publication: Publication, ledger: Ledger,
        clock: Clock,
    ) -> None:  # fmt: skip
        self._client = client
        self._signers = signers
        self._revocations = revocations
        self._publication = publication
        self._ledger = ledger
        self._clock = clock
        self._threads = KeyThreads(1, clock)
        self._bases: dict[bytes, _Base] = {}
        self._signers_of: dict[bytes, dict[int, str]] = {}

    async def reconcile(self, request: Request) -> Result:  # noqa: ARG002 - there is only one
        authorities: dict[bytes, CertificateAuthority] = {}
        signers: dict[bytes, list[str]] = {}
        for name in self._signers:
            authority = _authority_of(self._signers.get(name))
            if authority is not None:
                issuer = authority_id(authority.certificate)
                authorities[issuer] = authority
                signers.setdefault(issuer, []).append(name)
        revoked = {issuer: await self._revoked(issuer) for issuer in authorities}
        documents: dict[str, Document] = {}
        numbers: dict[bytes, int] = {}
        try:
            for issuer, authority in authorities.items():
                numbers[issuer] = await self._next_number(issuer.hex())
                documents |= await self._whole(issuer, authority, numbers[issuer], revoked[issuer])
            # To look up whose each number is takes a while, with many: the lists of the signers come later.
            self._publication.publish(authorities, {**self._publication.documents, **documents})
            for issuer, authority in authorities.items() if self._publication.url else ():
                documents |= await self._parts(issuer, authority, numbers[issuer], revoked[issuer], signers[issuer])
        except (PKIError, SignerError) as err:
            raise ReconcileError(f"the CRLs cannot be signed: {err}") from err
        self._publication.publish(authorities, documents)
        return Result(_AGAIN_SECONDS) if authorities else Result(None)

    async def _revoked(self, issuer: bytes) -> dict[int, RevokedSerial]:
        found = {}
        for count, serial in enumerate(self._revocations.serials(issuer), 1):
            each = self._revocations.serial(issuer, serial)
            if each is not None:
                found[serial] = RevokedSerial(serial, each.at, each.reason)
            if count % _TURN == 0:
                await give_way()
        return found

    async def _whole(
        self, issuer: bytes, authority: CertificateAuthority, number: int, revoked: dict[int, RevokedSerial]
    ) -> dict[str, Document]:
        now = self._clock.now()
        base = self._bases.get(issuer)
        if base is None or not base.at <= now < base.at + BASE_LIFE:
            base = self._bases[issuer] = _Base(number, now, revoked)
        folder, url = _folder(issuer), self._publication.url
        full = CRLTemplate(
            number=number, this_update=now, next_update=now + FULL_LIFE, revoked=tuple(revoked.values()),
            freshest=f"{url}{folder}/delta.crl" if url else "",
        )  # fmt: skip
        delta = CRLTemplate(
            number=number, this_update=now, next_update=now + DELTA_LIFE, base=base.number,
            revoked=changes(base.revoked, revoked, now),
        )  # fmt: skip
        certificate = await sign_beside(authority, self._threads, lambda: crl_certificate(authority))
        log.info("signed a CRL", issuer=issuer.hex(), number=number, revoked=len(revoked))
        return {
            f"{folder}/full.crl": await self._signed(authority, full),
            f"{folder}/delta.crl": await self._signed(authority, delta),
            f"{folder}/ca.crt": Document(certificate, CERTIFICATE_TYPE, now + FULL_LIFE),
        }

    async def _parts(
        self,
        issuer: bytes,
        authority: CertificateAuthority,
        number: int,
        revoked: dict[int, RevokedSerial],
        signers: Sequence[str],
    ) -> dict[str, Document]:
        """Of each signer's certificates; what nobody knows is in all: too much in a list harms nobody."""
        owners = self._signers_of.setdefault(issuer, {})
        for serial in owners.keys() - revoked.keys():
            del owners[serial]
        for serial in revoked:
            if serial not in owners:
                owners[serial] = await self._signer_of(issuer.hex(), serial)
        found, now = {}, self._clock.now()
        for signer in signers:
            path = f"{_folder(issuer)}/{file_of(signer)}.crl"
            part = tuple(each for serial, each in revoked.items() if owners[serial] in ("", signer))
            template = CRLTemplate(
                number=number, this_update=now, next_update=now + FULL_LIFE, revoked=part,
                point=f"{self._publication.url}{path}",
            )  # fmt: skip
            found[path] = await self._signed(authority, template)
        return found

    async def _signed(self, authority: CertificateAuthority, template: CRLTemplate) -> Document:
        own = authority.certificate

        def sign() -> bytes:
            return authority.signed(
                lambda identifier: crl_builder.to_be_signed(
                    template,
                    issuer_name=own.subject_name,
                    issuer_key_id=own.meaning.subject_key_id,
                    identifier=identifier,
                )
            )

        return Document(await sign_beside(authority, self._threads, sign), CRL_TYPE, template.next_update)

    async def _signer_of(self, issuer: str, serial: int) -> str:
        query = Query(kinds=frozenset({ISSUED}), serial=f"{serial:x}")
        known = [each.entry for each in await self._ledger.find(query) if each.entry.issuer_key == issuer]
        return known[-1].signer if known else ""

    async def _next_number(self, issuer: str) -> int:
        """Raises APIStatusError, TransportError."""
        given = 0

        def raised(found: ConfigMap | None) -> ConfigMap:
            nonlocal given
            found = found or ConfigMap(metadata=ObjectMeta(name=NUMBERS, namespace=wellknown.KUBE_SYSTEM_NAMESPACE))
            last = found.data.get(issuer, "")
            # Where the ConfigMap was lost, the time is still above all that was given.
            given = max(int(last) + 1 if last.isdecimal() else 1, int(self._clock.now().timestamp()))
            return msgspec.structs.replace(found, data={**found.data, issuer: str(given)})

        await stored.change(self._client, CONFIG_MAPS, NUMBERS, wellknown.KUBE_SYSTEM_NAMESPACE, raised)
        return given


def _folder(issuer: bytes) -> str:
    return f"{PREFIX}/crl/{issuer.hex()}"


def file_of(signer_name: str) -> str:
    """Names of signers have one slash, as ClusterTrustBundles write them."""
    return signer_name.replace("/", ":")


def changes(
    base: Mapping[int, RevokedSerial], now_revoked: Mapping[int, RevokedSerial], now: dt.datetime
) -> tuple[RevokedSerial, ...]:
    """What a delta CRL says: what came or has another reason, and which holds were lifted."""
    came = [each for serial, each in now_revoked.items() if base.get(serial) != each]
    gone = [RevokedSerial(serial, now, "removeFromCRL") for serial in base.keys() - now_revoked.keys()]
    return (*came, *gone)


def crl_certificate(authority: CertificateAuthority) -> bytes:
    """The certificate with which CRLs are verified, in DER.

    kubeadm's CAs do not say that they sign CRLs, so that openssl does not take theirs: of such a one a copy says so, by
    the same key and under the same name.
    """
    own = authority.certificate
    usage = own.meaning.key_usage
    if not usage or _CRL_SIGN_BIT in usage or own.subject_name != own.issuer_name:
        return own.contents
    return authority.sign(
        CertificateTemplate(
            serial=random_serial(STRICT_SERIAL_BITS),
            subject=own.subject,
            subject_name=own.subject_name,
            public_key=own.public_key,
            not_before=own.not_before,
            not_after=own.not_after,
            usages=resolve((DIGITAL_SIGNATURE, CERT_SIGN, CRL_SIGN)),
            is_ca=True,
            with_subject_key_id=True,
            subject_key_id=own.meaning.subject_key_id,
        )
    )


def _authority_of(signer: object) -> CertificateAuthority | None:
    """None for a signer whose key is elsewhere, or whose files are being written."""
    try:
        found = getattr(signer, "authority", None)
    except (PKIError, OSError):
        return None
    return found if isinstance(found, CertificateAuthority) else None


def build(context: Context) -> QueueController | None:
    publication = context.publication
    if publication is None:
        return None
    client = context.connect(NAME)
    publisher = CRLPublisher(client, context.signers, context.revocations, publication, context.ledger, context.clock)
    controller = QueueController(NAME, publisher, context.clock)
    context.revocations.on_change(lambda: controller.queue.add(_ALL))
    context.signers.on_change(lambda _name: controller.queue.add(_ALL))
    controller.queue.add(_ALL)
    return controller
