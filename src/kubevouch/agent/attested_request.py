"""Asking for a certificate with a proof: what the machine is asked, what it shows, and the request that carries it.

Source: the Cluster API proposal "Kubelet authentication" (2021), whose flow for a version that is not read is in
:meth:`_Attempt._fall_back`; the challenge is kubevouch's own.

Every step can be repeated. The key is on disk before anything is asked, and stays the same for as long as the request
is not granted: what the cluster has recorded of the machine by that key still is the machine's when a program was
stopped in between. Requests of one key have names that follow from it, so a restart finds the one that is under way.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, contextmanager

import msgspec

from kubevouch import wellknown
from kubevouch.agent import certificate_request
from kubevouch.agent.attestation_settings import STAYS_IN_TPM, AttestationSettings, Method
from kubevouch.agent.certificate_request import Poster, Requester, RequestTemplate, put_in_place
from kubevouch.agent.certificate_store import CertificateStore
from kubevouch.agent.csr_wait import UnreadEvidenceError, wait_for_certificate
from kubevouch.agent.interface import (
    AttestationRefusedError,
    AttestationUnavailableError,
    EvidenceVersionError,
    NotIssuedError,
    Observer,
    SettingsError,
    Step,
)
from kubevouch.api.certificates_v1 import CertificateSigningRequest
from kubevouch.api.kubevouch_v1alpha1.attestation_challenges import (
    READY,
    REFUSED,
    AttestationChallenge,
    AttestationChallengeSpec,
)
from kubevouch.api.kubevouch_v1alpha1.catalog import ATTESTATION_CHALLENGES
from kubevouch.attestation import catalog, interface
from kubevouch.attestation import request as blocks
from kubevouch.attestation.interface import Asked, Attestor, Binding, Evidence
from kubevouch.client.interface import Client, EventType, TransportError, WatchOptions
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.pki import keys
from kubevouch.pki.client_certificate import TrustAnchors
from kubevouch.pki.errors import IncompatibleRequestError
from kubevouch.pki.x509 import provider_id
from kubevouch.pki.x509.certificate_extensions import Extension
from kubevouch.pki.x509.request_builder import build_request
from kubevouch.pki.x509.signature import PrivateKey
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.policy import node_names
from kubevouch.records.cluster_identity import CLUSTER_ANNOTATION
from kubevouch.util import backoff
from kubevouch.util.clock import Clock
from kubevouch.util.tasks import deadline

# The denied requests of one key: as many as are made in the hour until the cleaner removes them.
_NAMES = 12
_EVIDENCE_SECONDS = 60.0
"""How old a proof may be when the request is made; a challenge lasts for two minutes."""
_FIRST_CALM, _LONGEST_CALM = 30.0, 1800.0
_FIRST_DELAY, _LONGEST_DELAY = 0.25, 5.0
_SOON_SECONDS = 1.0
_WATCH_SECONDS = 60


class OpenedMethod(msgspec.Struct, frozen=True):
    """A method that is ready to prove.

    Args:
        versions: of evidence that may be shown, newest first; at least one.
    """

    attestor: Attestor
    versions: tuple[str, ...]


@asynccontextmanager
async def opened(settings: AttestationSettings, clock: Clock) -> AsyncIterator[tuple[OpenedMethod, ...]]:
    """The methods, for one attempt: a TPM that was away, or a setting of the machine that has changed, is seen anew.

    Raises:
        SettingsError: there is no such method, or it cannot work with its settings.
        AttestationUnavailableError, AttestationRefusedError
    """
    async with AsyncExitStack() as stack:
        found = []
        for method in settings.methods:
            with _own_errors(method.name):
                attestor = await catalog.attestor(method.name)(dict(method.settings), clock)
            stack.push_async_callback(attestor.close)
            found.append(OpenedMethod(attestor, _may_show(method, attestor.versions)))
        yield tuple(found)


async def prepare(settings: AttestationSettings, clock: Clock) -> None:
    """Have the methods look at their settings, and say which TPM the keys are in that files name.

    Raises:
        SettingsError: there is no such method, or it cannot work with its settings.
    """
    async with opened(settings, clock):
        pass


def _may_show(method: Method, made: Sequence[str]) -> tuple[str, ...]:
    if not method.oldest:
        return tuple(made)
    if method.oldest not in made:
        raise SettingsError(
            f"got {method.oldest!r} as the oldest version of {method.name} evidence, expected one of {', '.join(made)}"
        )
    return tuple(made[: made.index(method.oldest) + 1])


@contextmanager
def _own_errors(name: str) -> Iterator[None]:
    """What a method raises becomes what an agent raises."""
    try:
        yield
    except interface.SettingsError as err:
        raise SettingsError(f"{name}: {err}", err.hint) from err
    except interface.UnavailableError as err:
        raise AttestationUnavailableError(f"{name}: {err}", retry_after=err.retry_after) from err
    except interface.RefusedEvidenceError as err:
        # With another key it may be right: this one may be of another TPM, or no TPM's at all.
        raise AttestationRefusedError(f"{name}: {err}", spent=True, reason=err.step) from err
    except interface.AttestationError as err:
        raise AttestationRefusedError(f"{name}: {err}") from err


# ------------------------------------------------------------------ decisions


def unread(shown: Mapping[str, str], supported: str) -> str:
    """Of which method the version is not read: the first that is not among those that are.

    Args:
        shown: the version by method.
        supported: as for :func:`older`.

    Raises:
        EvidenceVersionError: all are read, if the cluster is right.
    """
    for provider, version in shown.items():
        if version not in _read(supported, provider):
            return provider
    told = ", ".join(f"{provider}/{version}" for provider, version in shown.items())
    raise EvidenceVersionError(f"the cluster does not read {told}, and says that it reads {supported[:200]}")


def _read(supported: str, provider: str) -> set[str]:
    parts = (each.strip().rpartition("/") for each in supported.split(","))
    return {version for named, _, version in parts if named in ("", provider)}


def older(versions: Sequence[str], shown: str, supported: str, provider: str) -> str:
    """Which version to show after ``shown`` was not read.

    Args:
        versions: that may be shown, newest first.
        supported: what the cluster reads, ``v2,v1``; of several methods each with its name, ``tpm/v2``.

    Raises:
        EvidenceVersionError: none of those that may be shown is both older and read.
    """
    left = versions[versions.index(shown) + 1 :] if shown in versions else ()
    for version in left:
        if version in _read(supported, provider):
            return version
    # What the cluster claims is written by others, and may be anything.
    told = supported[:200]
    raise EvidenceVersionError(
        f"the cluster reads {told} of {provider} evidence, this machine may show {', '.join(versions) or shown}",
        "bring this machine and the cluster to versions of kubevouch that understand each other; the oldest version to "
        "be shown is a setting of this machine",
    )


def is_ready(challenge: AttestationChallenge) -> bool:
    """Whether it can be answered.

    Raises:
        UnreadEvidenceError: not with this version.
        AttestationRefusedError: not at all.
    """
    status = challenge.status
    if status.supported_versions and challenge.spec.version not in status.supported_versions:
        raise UnreadEvidenceError(",".join(status.supported_versions))
    for condition in status.conditions:
        if condition.type == REFUSED and condition.status == wellknown.CONDITION_TRUE:
            raise AttestationRefusedError(
                f"challenge {challenge.metadata.name} is refused, reason: {condition.reason or '-'}, message: "
                f"{condition.message or '-'}",
                "kubectl describe attestationchallenges says on the cluster what was shown",
                reason=condition.reason,
            )
    ready = any(each.type == READY and each.status == wellknown.CONDITION_TRUE for each in status.conditions)
    return ready and bool(status.nonce)


def verify_calm(denied: Sequence[CertificateSigningRequest], err: AttestationRefusedError, now: dt.datetime) -> None:
    """That it is time for another request, after those that were ``denied``.

    kubectl runs a plug-in that fails five times in a row, and a kubelet does for each of its requests.

    Raises:
        AttestationRefusedError: ``err``: the answer would be the same.
    """
    created = [each.metadata.creation_timestamp for each in denied]
    last = max((each.datetime() for each in created if each is not None), default=None)
    wait = min(_FIRST_CALM * 2 ** (len(denied) - 1), _LONGEST_CALM)
    if last is not None and abs((now - last).total_seconds()) < wait:
        raise err


# ------------------------------------------------------------------ the request


async def obtain(
    store: CertificateStore,
    poster: Poster,
    template: RequestTemplate,
    anchors: TrustAnchors | None,
    clock: Clock,
    observer: Observer,
    *,
    timeout: float,
    random: backoff.Random,
) -> tuple[Certificate, ...]:
    """A new pair that has been verified and is the current one of ``store``, which the caller has locked.

    Args:
        timeout: seconds for request and certificate together.

    Returns:
        Its certificates, leaf first.

    Raises:
        AgentError: Settings, RequestDenied, AttestationUnavailable, NotIssued, WrongCertificate or CertificateStore.
        OSError: a file cannot be read or written; the former pair is as it was.
    """
    if template.attestation is None:
        return await certificate_request.obtain(
            store, poster, template, anchors, clock, observer, timeout=timeout, random=random
        )
    async with opened(template.attestation, clock) as methods:
        return await _obtain(store, poster, template, anchors, clock, observer, methods, timeout, random)


async def _obtain(
    store: CertificateStore,
    poster: Poster,
    template: RequestTemplate,
    anchors: TrustAnchors | None,
    clock: Clock,
    observer: Observer,
    methods: tuple[OpenedMethod, ...],
    timeout: float,
    random: backoff.Random,
) -> tuple[Certificate, ...]:
    async def make_key() -> PrivateKey | None:
        for method in methods:
            with _own_errors(method.attestor.name):
                key = await method.attestor.make_key()
            if key is not None:
                return key
        return None

    key, made = await store.pending_key(template.algorithm, make_key)
    if template.by_plugin and keys.is_in_tpm(key):
        # Before anything is asked for it. An agent that has begun with it begins anew.
        store.drop_pending_key()
        raise SettingsError(*STAYS_IN_TPM)
    where = f"{'in' if made else 'found in'} {store.pending_key_path}"
    observer.done(Step.KEY_MADE, f"{keys.public_key_of(key).name}, {where}")
    # So that who refuses the proofs can say what is wrong with them. It only says so: the proofs are bound to it.
    claim = {CLUSTER_ANNOTATION: poster.cluster_id} if poster.cluster_id else {}
    poster = msgspec.structs.replace(poster, annotations={**poster.annotations, **claim})
    attempt = _Attempt(poster, key, template, clock, observer, random, methods, clock.monotonic() + timeout)
    try:
        done = await attempt.run(found=not made)
    except AttestationRefusedError as err:
        if err.spent or err.reason in node_names.REASONS:
            store.drop_pending_key()
        raise
    return put_in_place(store, done.status.certificate, key, template, anchors, clock, observer)


class _Attempt:
    """One try to be granted a certificate for ``key``.

    Args:
        give_up: on the monotonic clock.
    """

    def __init__(
        self,
        poster: Poster,
        key: PrivateKey,
        template: RequestTemplate,
        clock: Clock,
        observer: Observer,
        random: backoff.Random,
        methods: tuple[OpenedMethod, ...],
        give_up: float,
    ) -> None:
        self._poster = poster
        self._key = key
        self._public_key = keys.public_key_of(key)
        self._template = template
        self._clock = clock
        self._observer = observer
        self._random = random
        self._methods = methods
        self._give_up = give_up
        # By method: the version that is shown next; :meth:`_fall_back` makes it older.
        self._versions = {each.attestor.name: each.versions[0] for each in methods}
        # Earlier requests of this key, as they are found before another one is made.
        self._denied: list[tuple[CertificateSigningRequest, AttestationRefusedError]] = []
        # The newest content of a request, and when it was made on the monotonic clock.
        self._made: tuple[float, bytes] | None = None

    async def run(self, *, found: bool) -> CertificateSigningRequest:
        """The request with its certificate.

        Args:
            found: the key is from before, and there may be requests of it.
        """
        requester = Requester(
            self._poster,
            self._key,
            self._template,
            self._clock,
            self._observer,
            self._random,
            content=self._content,
            look_first=found,
            names=_NAMES,
        )
        for name in requester.names:
            try:
                csr, earlier = await requester.place(name, self._give_up)
            except IncompatibleRequestError as err:
                self._observer.warning(f"the request {name} is another one, so this one gets another name: {err}")
                continue
            try:
                return await wait_for_certificate(
                    self._poster.requests, csr, self._clock, self._observer, timeout=self._left, random=self._random
                )
            except UnreadEvidenceError as err:
                self._fall_back(_shown(csr) or self._versions, err.supported)
            except AttestationRefusedError as err:
                # One from before may have been too old when it was looked at, or something was put right since.
                if not earlier:
                    raise
                self._denied.append((csr, err))
            self._made = None
        raise NotIssuedError(
            "no name is left for another request of this key",
            "denied requests are removed after an hour, and it is tried again then",
        )

    @property
    def _left(self) -> float:
        return max(self._give_up - self._clock.monotonic(), 0.0)

    def _fall_back(self, shown: Mapping[str, str], supported: str) -> None:
        """Show an older version next. Raises :class:`EvidenceVersionError`."""
        provider = unread(shown, supported)
        may_show = next((each.versions for each in self._methods if each.attestor.name == provider), ())
        version = older(may_show, shown[provider], supported, provider)
        self._versions[provider] = version
        self._observer.warning(f"the cluster does not read {provider}/{shown[provider]}: {version} is shown")

    # -------------------------------------------------------------- the content

    async def _content(self) -> bytes:
        """The request with the proofs behind it; made anew once it is old, for whoever has waited for a server."""
        if self._template.by_plugin and self._denied:
            verify_calm([csr for csr, _ in self._denied], self._denied[-1][1], self._clock.now())
        now = self._clock.monotonic()
        if self._made is None or now - self._made[0] > _EVIDENCE_SECONDS:
            self._made = (now, await self._prove())
        return self._made[1]

    async def _prove(self) -> bytes:
        if not self._poster.cluster_id:
            self._observer.warning(
                "the cluster does not say which it is: proofs are bound to none, and methods that look refuse them"
            )
        proofs, told = [], []
        for method in self._methods:
            evidence = await self._proof(method.attestor)
            proofs.append(evidence)
            answers = f", answers {evidence.challenge}" if evidence.challenge else ""
            told.append(f"{evidence.provider}/{evidence.version}{answers}")
        extensions = await self._provider_id()
        template = self._template
        arguments = (self._key, template.subject, template.alt_names, extensions)
        # A TPM takes its time to sign.
        in_tpm = keys.is_in_tpm(self._key)
        with _own_errors(self._methods[0].attestor.name):
            signed = await asyncio.to_thread(build_request, *arguments) if in_tpm else build_request(*arguments)
        content = blocks.build(signed, proofs)
        if len(content) > blocks.MAX_BYTES:
            raise AttestationRefusedError(
                f"got {len(content)} bytes of request and proof, expected at most {blocks.MAX_BYTES}"
            )
        self._observer.done(Step.PROVEN, "; ".join(told))
        return content

    async def _proof(self, attestor: Attestor) -> Evidence:
        name = attestor.name
        while True:
            version = self._versions[name]
            try:
                asked = await self._ask(attestor, version) if attestor.needs_challenge else None
            except UnreadEvidenceError as err:
                self._fall_back({name: version}, err.supported)
                continue
            binding = Binding(
                self._public_key.canonical_info, self._poster.cluster_id, b"" if asked is None else asked.nonce
            )
            with _own_errors(name):
                shown = await attestor.attest(version, self._key, binding, asked)
            return Evidence(provider=name, version=version, data=shown, challenge="" if asked is None else asked.name)

    async def _provider_id(self) -> tuple[Extension, ...]:
        found = {}
        for method in self._methods:
            with _own_errors(method.attestor.name):
                found[await method.attestor.provider_id()] = method.attestor.name
        found.pop("", "")
        if len(found) > 1:
            told = " and ".join(f"{each} by {name}" for each, name in found.items())
            raise AttestationRefusedError(f"the methods are of two machines: got the provider ids {told}")
        try:
            return tuple(provider_id.extension(each) for each in found)
        except ValueError as err:
            raise AttestationRefusedError(str(err)) from err

    # -------------------------------------------------------------- the challenge

    async def _ask(self, attestor: Attestor, version: str) -> Asked:
        """A challenge of this attempt alone. Raises ``APIStatusError`` and ``TransportError`` besides."""
        with _own_errors(attestor.name):
            opening = await attestor.opening(version)
        spec = AttestationChallengeSpec(
            provider=attestor.name,
            version=version,
            key_fingerprint=self._public_key.fingerprint().hex(),
            opening=opening,
            requester=next(iter(self._poster.usernames), ""),
        )
        client = self._poster.requests.client
        try:
            made = await client.create(
                ATTESTATION_CHALLENGES,
                AttestationChallenge(metadata=ObjectMeta(generate_name="attest-"), spec=spec),
            )
        except APIStatusError as err:
            if err.code != 404:
                raise
            raise NotIssuedError(
                "the cluster asks no machine for a proof: it has no AttestationChallenges",
                "kubevouch up serves that kind, and kubevouch controllers says how another API server comes to it",
            ) from err
        name = made.metadata.name
        teller = asyncio.create_task(self._tell_later(name), name="wait-for-challenge")
        try:
            async with deadline(self._clock, self._left):
                found = await self._answered(client, made)
        except TimeoutError as err:
            raise NotIssuedError(
                f"challenge {name} was not filled in until the time was over",
                f"the cluster's {wellknown.NODE_ATTESTATION_CONTROLLER} does that, if it runs and has the method "
                f"{attestor.name}",
            ) from err
        finally:
            teller.cancel()
        return Asked(name, found.status.nonce, found.status.content)

    async def _tell_later(self, name: str) -> None:
        await self._clock.sleep(_SOON_SECONDS)
        self._observer.waiting(f"challenge {name} waits for the cluster's {wellknown.NODE_ATTESTATION_CONTROLLER}")

    async def _answered(self, client: Client, challenge: AttestationChallenge) -> AttestationChallenge:
        """The challenge once it can be answered; watches, and looks again where a watch cannot be had."""
        name = challenge.metadata.name
        delays = backoff.full_jitter(backoff.exponential(_FIRST_DELAY, _LONGEST_DELAY), self._random)
        while not is_ready(challenge):
            try:
                challenge = await _changed(client, challenge)
            except (APIStatusError, TransportError):
                await self._clock.sleep(next(delays))
                try:
                    challenge = await client.get(ATTESTATION_CHALLENGES, name)
                except TransportError:
                    continue
                except APIStatusError as err:
                    if err.code < 500 and err.code != 429:
                        raise
        return challenge


async def _changed(client: Client, challenge: AttestationChallenge) -> AttestationChallenge:
    """As it is after a change. Raises ``APIStatusError`` also when the watch is over."""
    options = WatchOptions(
        field_selector=f"metadata.name={challenge.metadata.name}",
        resource_version=challenge.metadata.resource_version,
        timeout_seconds=_WATCH_SECONDS,
    )
    async with aclosing(client.watch(ATTESTATION_CHALLENGES, options=options)) as events:
        async for event in events:
            if event.status is not None:
                raise APIStatusError(event.status)
            if event.type is EventType.DELETED:
                break
            if event.object is not None and event.type is not EventType.BOOKMARK:
                return event.object
    raise TransportError("the watch is over")


def _shown(csr: CertificateSigningRequest) -> dict[str, str]:
    """The versions in a request that may be of an earlier run; empty where nothing can be read."""
    try:
        return {each.provider: each.version for each in blocks.parse(csr.spec.request or b"")}
    except interface.RefusedEvidenceError:
        return {}
