"""certificate-signers-controller: makes CertificateSigner objects sign, one CA after the other, and publishes the CAs.

Not a controller of Kubernetes. For each object: read the CA, publish it, write down since when it is published, and
only then have it sign. A signer that cannot be set up says why in its Ready condition, and is no other's business.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence

import msgspec

from kubevouch import wellknown
from kubevouch.api.catalog import CLUSTER_TRUST_BUNDLES, CONFIG_MAPS, SECRETS
from kubevouch.api.certificates_v1beta1 import ClusterTrustBundle, ClusterTrustBundleSpec
from kubevouch.api.core_v1 import ConfigMap, Secret
from kubevouch.api.core_v1.events import NORMAL, WARNING
from kubevouch.api.core_v1.references import ObjectReference
from kubevouch.api.kubevouch_v1alpha1.catalog import CERTIFICATE_SIGNERS
from kubevouch.api.kubevouch_v1alpha1.certificate_signers import (
    READY,
    STOPPED,
    CertificateSigner,
    CertificateSignerStatus,
    SignerAuthority,
    SignerTrust,
)
from kubevouch.api.kubevouch_v1alpha1.writer_guards import SIGNER_WRITERS
from kubevouch.api.meta_v1 import Condition
from kubevouch.client import stored
from kubevouch.client.cache.lister import Lister
from kubevouch.client.interface import Client, ListOptions, TransportError
from kubevouch.controllers import csr_signing
from kubevouch.controllers.cluster_trust_bundle_publisher import bundle_name
from kubevouch.controllers.controller import QueueController
from kubevouch.controllers.event_recorder import EventRecorder
from kubevouch.controllers.guards import Guards
from kubevouch.controllers.interface import DONE, RESYNC_SECONDS, Context, Request, Result, request_of
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta, OwnerReference
from kubevouch.machinery.text.times import Time
from kubevouch.pki.authority_faults import faults
from kubevouch.pki.errors import PKIError
from kubevouch.pki.issuance import SigningRules
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.signers import authorities, rollover
from kubevouch.signers.authorities import AuthorityMissingError, NamedAuthorities, Source
from kubevouch.signers.definition import DefinitionError, rules_of
from kubevouch.signers.held import HeldSigner
from kubevouch.signers.interface import SignerError
from kubevouch.signers.key_threads import KeyThreads
from kubevouch.signers.pkcs11 import MAX_SESSIONS
from kubevouch.signers.registry import Signers
from kubevouch.signers.remote import RemoteSigner
from kubevouch.signers.rollover import Plan, RolloverError, fingerprint_of
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger
from kubevouch.util.worker import elsewhere

NAME = wellknown.CERTIFICATE_SIGNERS_CONTROLLER
NAMESPACE = wellknown.SIGNERS_NAMESPACE

_MAX_MESSAGE = 4096
# A secret that was made just before the object may be seen after it.
_LAG_SECONDS = 10.0
log = get_logger("controllers.certificate_signers")


class NotReady(Exception):
    """Why a signer is not ready. ``reason`` is that of the condition; ``keeps``: what has signed before goes on."""

    def __init__(self, reason: str, message: str, *, keeps: bool = False) -> None:
        super().__init__(message)
        self.reason = reason
        self.keeps = keeps


class CertificateSigners:
    """A request's name is that of a CertificateSigner."""

    def __init__(
        self,
        client: Client,
        objects: Lister[CertificateSigner],
        secrets: Lister[Secret],
        named: NamedAuthorities,
        signers: Signers,
        clock: Clock,
        guards: Guards | None = None,
    ) -> None:
        self._guards = guards
        self._client = client
        self._objects = objects
        self._secrets = secrets
        self._named = named
        self._signers = signers
        self._clock = clock
        self._events = EventRecorder(client, clock, NAME)
        # By object: its signer name, what it has put there, and by fingerprint what signs there or has signed.
        self._names: dict[str, str] = {}
        self._put: dict[str, HeldSigner | RemoteSigner] = {}
        self._held: dict[str, dict[str, HeldSigner | RemoteSigner]] = {}
        self._shapes: dict[str, tuple[int, tuple[bytes, ...]]] = {}
        # Objects whose CA was missing so early that it was no error yet.
        self._early: set[str] = set()

    async def reconcile(self, request: Request) -> Result:
        obj = self._objects.get(request.name)
        if obj is None or obj.metadata.deletion_timestamp is not None:
            self._signers.stands(self._names.get(request.name, ""), None)
            self._forget(request.name)
            self._early.discard(request.name)
            return DONE
        try:
            plan = await self._set_up(obj)
        except NotReady as why:
            if not why.keeps:
                self._forget(obj.metadata.name)
            await self._tell(obj, tuple(obj.status.authorities), wellknown.CONDITION_FALSE, why.reason, str(why))
            return Result(requeue_after=RESYNC_SECONDS)
        await self._tell(obj, plan.authorities, *_standing(plan))
        self._sign(obj, plan)
        return Result(requeue_after=min(plan.wake_after or RESYNC_SECONDS, RESYNC_SECONDS))

    # -------------------------------------------------------------- steps

    async def _set_up(self, obj: CertificateSigner) -> Plan:
        """Everything in front of the signature. Raises :class:`NotReady`, and what the client raises."""
        spec, now = obj.spec, self._clock.now()
        self._verify_name(obj)
        fault = "" if self._guards is None else await self._guards.fault(SIGNER_WRITERS)
        if fault:
            raise NotReady(
                "Unguarded", f"anybody who may write such objects could have it sign here: {fault}; apply them"
            )
        written, stopped = _stop_of(obj), self._signers.stop_of(spec.signer_name)
        if written:
            # Once it can be seen in the object, it ends when somebody takes it away there.
            self._signers.clear_stop(spec.signer_name)
        if written or stopped:
            raise NotReady(STOPPED, written or stopped)
        if aside := self._signers.aside.get(spec.signer_name):
            raise NotReady(wellknown.SIGNED_ELSEWHERE, aside, keeps=True)
        try:
            rules = rules_of(spec)
        except DefinitionError as err:
            raise NotReady("Invalid", str(err)) from err
        try:
            source = await self._source(obj)
        except AuthorityMissingError as err:
            raise NotReady("CAMissing", str(err)) from err
        except (PKIError, SignerError) as err:
            # It may be in the middle of being replaced.
            raise NotReady("CAUnusable", str(err), keeps=True) from err
        longest = rules.signing_duration
        current = _described(source, source.authority.certificate)
        wrong = "; ".join(faults(source.authority.certificate, now))
        if wrong:
            # The one that has signed until now is another one, or has ended.
            keeps = current.fingerprint not in self._held.get(obj.metadata.name, {})
            raise NotReady("CAUnusable", f"the CA {wrong}", keeps=keeps)
        former = None if source.former is None else _described(source, source.former.certificate)
        try:
            listed = rollover.published(rollover.known(obj.status.authorities, now, longest), current, former)
        except RolloverError as err:
            raise NotReady("TooManyCAs", str(err), keeps=True) from err
        trust = spec.trust or SignerTrust()
        await self._publish(obj, trust, "".join(dict.fromkeys(each.certificate for each in listed)))
        try:
            self._hold(obj, source, rules)
        except SignerError as err:
            raise NotReady("CAUnusable", str(err), keeps=True) from err
        return rollover.plan(
            listed,
            current.fingerprint,
            frozenset(self._held[obj.metadata.name]),
            now=now,
            overlap=dt.timedelta(seconds=trust.overlap_seconds),
            longest=longest,
        )

    def _verify_name(self, obj: CertificateSigner) -> None:
        """Of several objects with one signer name the oldest has it. Raises :class:`NotReady`."""
        name = obj.spec.signer_name
        domain = name.partition("/")[0]
        # The schema says so, too; an API server before 1.25 does not read those rules.
        if domain == "kubernetes.io" or domain.endswith(".kubernetes.io") or self._signers.is_fixed(name):
            raise NotReady("NameTaken", f"{name} is not a name that an object can have")
        same = [each for each in self._objects.list() if each.spec.signer_name == name]
        first = min(same, key=age, default=obj)
        if first.metadata.name != obj.metadata.name:
            raise NotReady("NameTaken", f"{name} is the signer name of CertificateSigner {first.metadata.name}, too")

    async def _source(self, obj: CertificateSigner) -> Source:
        ca = obj.spec.ca
        if not ca.secret_name:
            return await elsewhere(lambda: self._named.find(ca.name))
        secret = self._secrets.get(ca.secret_name, NAMESPACE)
        if secret is None:
            # Secrets and signers are watched apart: it may be there, and not have been heard of yet.
            secret = await stored.find(self._client, SECRETS, ca.secret_name, NAMESPACE)
        if secret is None:
            raise AuthorityMissingError(f"there is no secret {ca.secret_name} in the namespace {NAMESPACE}")
        return authorities.of_secret(secret)

    async def _publish(self, obj: CertificateSigner, trust: SignerTrust, text: str) -> None:
        owner = OwnerReference(
            api_version=CERTIFICATE_SIGNERS.api_version,
            kind=CERTIFICATE_SIGNERS.kind,
            name=obj.metadata.name,
            uid=obj.metadata.uid,
            controller=True,
        )
        try:
            if trust.config_map:
                meta = ObjectMeta(name=f"trust-{obj.metadata.name}", namespace=NAMESPACE, owner_references=[owner])
                wanted = ConfigMap(metadata=meta, data={wellknown.CA_CERTIFICATE_KEY: text})

                def decide(found: ConfigMap | None) -> ConfigMap | None:
                    return wanted if found is None else msgspec.structs.replace(found, data=wanted.data)

                await stored.change(self._client, CONFIG_MAPS, meta.name, NAMESPACE, decide)
            if trust.cluster_trust_bundle:
                await self._publish_bundle(obj.spec.signer_name, owner, text)
        except (APIStatusError, TransportError) as err:
            raise NotReady("TrustNotPublished", f"the CA could not be published: {err}", keeps=True) from err

    async def _publish_bundle(self, signer_name: str, owner: OwnerReference, text: str) -> None:
        """What is right is put in place before what is not goes."""
        name = bundle_name(signer_name, text)
        if await stored.find(self._client, CLUSTER_TRUST_BUNDLES, name) is None:
            spec = ClusterTrustBundleSpec(signer_name=signer_name, trust_bundle=text)
            meta = ObjectMeta(name=name, owner_references=[owner])
            await self._client.create(CLUSTER_TRUST_BUNDLES, ClusterTrustBundle(metadata=meta, spec=spec))
        options = ListOptions(field_selector=f"spec.signerName={signer_name}")
        for other in (await self._client.list(CLUSTER_TRUST_BUNDLES, "", options)).items:
            if other.metadata.name != name and any(each.uid == owner.uid for each in other.metadata.owner_references):
                try:
                    await self._client.delete(CLUSTER_TRUST_BUNDLES, other.metadata.name)
                except APIStatusError as err:
                    if err.code != 404:
                        raise

    def _hold(self, obj: CertificateSigner, source: Source, rules: SigningRules) -> None:
        """Keys that are not to be had any more sign on from memory until the next one may."""
        name, pool = obj.metadata.name, tuple(source.pool) if obj.spec.chain else ()
        shape = (obj.metadata.generation, tuple(each.contents for each in pool))
        held = self._held.setdefault(name, {})
        if self._shapes.get(name) != shape:
            self._shapes[name] = shape
            for fingerprint, each in held.items():
                held[fingerprint] = each.with_rules(rules, pool)
        for authority in (source.authority, source.former):
            if authority is not None and fingerprint_of(authority.certificate) not in held:
                threads = KeyThreads(MAX_SESSIONS, self._clock) if source.in_token else None
                held[fingerprint_of(authority.certificate)] = (
                    source.remote(rules) if source.remote else HeldSigner(authority, rules, pool, threads)
                )

    def _sign(self, obj: CertificateSigner, plan: Plan) -> None:
        name, signer_name = obj.metadata.name, obj.spec.signer_name
        held = self._held[name]
        if not plan.signs:
            self._signers.remove(signer_name)
            return
        self._put[name] = held[plan.signs]
        self._signers.put(signer_name, held[plan.signs])
        listed = {each.fingerprint for each in plan.authorities if each.retired_at is None}
        for gone in set(held) - listed:
            del held[gone]

    def _forget(self, name: str) -> None:
        self._held.pop(name, None)
        self._shapes.pop(name, None)
        signer_name, put = self._names.pop(name, ""), self._put.pop(name, None)
        # Another object may have the name by now.
        if put is not None and self._signers.get(signer_name) is put:
            self._signers.remove(signer_name)

    # -------------------------------------------------------------- status

    async def _tell(
        self,
        obj: CertificateSigner,
        listed: Sequence[SignerAuthority],
        standing: str,
        reason: str,
        message: str,
    ) -> None:
        """Write the status, if it is another one. Raises what the client raises."""
        if reason != "NameTaken":
            self._signers.stands(obj.spec.signer_name, standing == wellknown.CONDITION_TRUE)
            self._names[obj.metadata.name] = obj.spec.signer_name
        generation, now = obj.metadata.generation, Time.of(self._clock.now())
        before = {each.type: each for each in obj.status.conditions}
        message = message[:_MAX_MESSAGE]

        def condition(kind: str, status: str, why: str, text: str) -> Condition:
            old = before.get(kind)
            since = old.last_transition_time if old is not None and old.status == status else now
            return Condition(
                type=kind, status=status, observed_generation=generation, last_transition_time=since, reason=why,
                message=text,
            )  # fmt: skip

        conditions = [condition(READY, standing, reason, message)]
        if reason == STOPPED:
            conditions.append(condition(STOPPED, wellknown.CONDITION_TRUE, "WrongCertificate", message))
        status = CertificateSignerStatus(
            observed_generation=generation, authorities=list(listed), conditions=conditions
        )
        name = obj.metadata.name
        is_early = reason == "CAMissing" and self._clock.now().timestamp() - age(obj)[0] < _LAG_SECONDS
        told = {"signer": obj.spec.signer_name, "ready": standing, "why": reason, "text": message}
        if status == obj.status:
            if name in self._early and not is_early:
                self._early.discard(name)
                log.error("a signer's standing", **told)
            return
        self._early.discard(name)
        ready = before.get(READY)
        await self._client.update(
            CERTIFICATE_SIGNERS, msgspec.structs.replace(obj, status=status), subresource="status"
        )
        if ready is not None and (ready.status, ready.reason) == (standing, reason):
            return
        kind = NORMAL if standing == wellknown.CONDITION_TRUE else WARNING
        if is_early:
            self._early.add(name)
        tell = log.info if kind == NORMAL or is_early else log.error
        tell("a signer's standing", **told)
        about = ObjectReference(
            kind=CERTIFICATE_SIGNERS.kind, name=name, uid=obj.metadata.uid,
            api_version=CERTIFICATE_SIGNERS.api_version,
        )  # fmt: skip
        await self._events.record(about, kind, reason, message)


def _stop_of(obj: CertificateSigner) -> str:
    """Why it has stopped, as its status says: until somebody takes that away, also after a restart."""
    return next((each.message for each in obj.status.conditions if each.type == STOPPED), "")


def age(obj: CertificateSigner) -> tuple[float, str]:
    created = obj.metadata.creation_timestamp
    return (created.datetime().timestamp() if created is not None else 0.0), obj.metadata.name


def _described(source: Source, certificate: Certificate) -> SignerAuthority:
    return SignerAuthority(
        fingerprint=fingerprint_of(certificate),
        subject=certificate.subject.common_name,
        not_after=Time.of(certificate.not_after),
        certificate="".join(each.pem().decode() for each in source.anchors_of(certificate)),
    )


def _standing(plan: Plan) -> tuple[str, str, str]:
    """Status, reason and message of the Ready condition."""
    signing = next((each for each in plan.authorities if each.fingerprint == plan.signs), None)
    coming = next((each for each in plan.authorities if each.signs_since is None), None)
    if signing is None:
        return wellknown.CONDITION_FALSE, "WaitingForTrust", "the CA is published, and signs once others know it"
    what = f"the CA {signing.subject}, which ends at {signing.not_after}, signs"
    if coming is not None:
        return wellknown.CONDITION_TRUE, "RollingOver", f"{what}; {coming.subject} is published, and signs next"
    return wellknown.CONDITION_TRUE, "Signing", what


def build(context: Context) -> QueueController | None:
    """None where nothing signs."""
    if csr_signing.NAME not in context.running or context.named_authorities is None:
        return None
    client, signers = context.connect(NAME), context.signers
    objects = context.informers.informer(CERTIFICATE_SIGNERS, client=client)
    secrets = context.informers.informer(SECRETS, client=client, namespace=NAMESPACE)
    reconciler = CertificateSigners(
        client,
        objects.lister,
        secrets.lister,
        context.named_authorities,
        signers,
        context.clock,
        Guards(client, context.clock, is_own_server=context.is_own_server),
    )
    controller = QueueController(NAME, reconciler, context.clock)

    def of_object(obj: CertificateSigner) -> Iterable[Request]:
        """Others of the same signer name, too: one of them may have it now."""
        name = obj.spec.signer_name
        yield request_of(obj)
        for other in objects.lister.list(matches=lambda each: each.spec.signer_name == name):
            yield request_of(other)

    def of_secret(secret: Secret) -> Iterable[Request]:
        name = secret.metadata.name
        return [request_of(each) for each in objects.lister.list(matches=lambda obj: obj.spec.ca.secret_name == name)]

    def stopped(signer_name: str) -> None:
        for obj in objects.lister.list(matches=lambda each: each.spec.signer_name == signer_name):
            controller.queue.add(request_of(obj))

    controller.watch(objects, on_add=of_object, on_update=of_object, on_delete=of_object)
    controller.watch(secrets, on_add=of_secret, on_update=of_secret, on_delete=of_secret)
    signers.on_stop(stopped)
    return controller
