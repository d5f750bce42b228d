"""Why a machine cannot join: what a join would do, step by step, without changing anything."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kubevouch import wellknown
from kubevouch.agent.discovery import token_discovery, verify_authority
from kubevouch.agent.interface import NotTrustedError, SettingsError
from kubevouch.api import catalog
from kubevouch.client import stored
from kubevouch.client.credentials import FixedCredential
from kubevouch.client.endpoint import Endpoint, EndpointError, parse_endpoint
from kubevouch.client.https import HTTPSClient
from kubevouch.client.interface import Client, TransportError
from kubevouch.client.options import ClientOptions, Retry, Timeouts
from kubevouch.client.tls import TLSFiles, TLSSources
from kubevouch.doctor import reach, rights, tokens
from kubevouch.doctor.findings import Code, Finding, Report, fitting
from kubevouch.doctor.reach import NotReached
from kubevouch.doctor.tokens import Signature
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.text.times import Time
from kubevouch.phases.join import JoinError, JoinOptions, verify_joined, verify_node_is_free
from kubevouch.pki import pins
from kubevouch.pki.errors import ParseError, PinError
from kubevouch.pki.pins import PinSet
from kubevouch.pki.x509 import x509_certificate
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.records.bootstrap_tokens import AUTHENTICATION, SIGNING, USAGES, Token, TokenSyntaxError, parse_token
from kubevouch.records.cluster_info import ClusterInfo, ClusterInfoError, parse_kubeconfig
from kubevouch.util.clock import Clock

_UNSEEN = (
    "for how many machines, which names and which addresses the token is, and what is left of it: that is for "
    "operators to read; give --kubeconfig"
)
_MAX_BYTES = 4 << 20  # more than any object that etcd stores


@dataclass(frozen=True, slots=True)
class JoinAttempt:
    """What a join was or would be given, as it was typed.

    Args:
        environ: the environment variables of whoever joins.
        tls_bootstrap_token: for the certificate request, if it is another one than that for discovery.
        root: before every path of the machine that joins; None does not look at its files.
    """

    endpoint: str
    token: str = field(repr=False)
    hashes: tuple[str, ...] = ()
    node_name: str = ""
    unsafe_skip_ca_verification: bool = False
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    tls_bootstrap_token: str = field(default="", repr=False)
    root: Path | None = None


async def examine(attempt: JoinAttempt, clock: Clock, operator: Client | None = None) -> Report:
    """All that stands in the way of a join.

    Args:
        operator: may read the token's Secret, which makes the diagnosis of a token exact.

    Raises:
        APIStatusError, TransportError: from ``operator`` only.
    """
    return await _Examination(attempt, clock, operator).run()


# ------------------------------------------------------------------ judgements


def judge_settings(attempt: JoinAttempt) -> tuple[Endpoint | None, Token | None, PinSet, list[Finding]]:
    """What can be read of the settings, and what cannot."""
    found: list[Finding] = []
    endpoint, token, pinned = None, None, PinSet(())
    try:
        endpoint = parse_endpoint(attempt.endpoint)
    except EndpointError as err:
        found.append(Code.ENDPOINT_MALFORMED.found(str(err)))
    try:
        token = parse_token(attempt.token)
    except TokenSyntaxError as err:
        found.append(Code.TOKEN_MALFORMED.found(str(err)))
    try:
        pinned = pins.parse(attempt.hashes)
    except PinError as err:
        found.append(Code.PIN_MALFORMED.found(str(err)))
    else:
        if not pinned and not attempt.unsafe_skip_ca_verification:
            found.append(Code.PIN_MISSING.found("no CA certificate hash is given; the join is refused without one"))
    return endpoint, token, pinned, found


def request_token(attempt: JoinAttempt, discovery: Token | None) -> tuple[Token | None, list[Finding]]:
    """The token for the certificate request, which is that for discovery where none is given."""
    if not attempt.tls_bootstrap_token or attempt.tls_bootstrap_token == attempt.token:
        return discovery, []
    try:
        return parse_token(attempt.tls_bootstrap_token), []
    except TokenSyntaxError as err:
        return None, [Code.TOKEN_MALFORMED.found(str(err))]


def judge_refusal(err: APIStatusError) -> Finding:
    """Why cluster-info was not given to somebody without credentials."""
    if err.code == 404:
        return Code.CLUSTER_INFO_MISSING.found("there is no ConfigMap cluster-info in kube-public")
    if err.code == 401:
        return Code.CLUSTER_INFO_FORBIDDEN.found(
            "the API server answers 401 to anonymous requests: they are turned off",
            "kube-apiserver --anonymous-auth=true",
        )
    return Code.CLUSTER_INFO_FORBIDDEN.found(f"cluster-info is not for everybody to read: {err}")


def judge_authority(text: str, pinned: PinSet) -> tuple[ClusterInfo | None, tuple[Certificate, ...], list[Finding]]:
    """The cluster that cluster-info names, those of its CA certificates that the pins cover, and what is wrong."""
    try:
        info = parse_kubeconfig(text)
        bundle = tuple(x509_certificate.parse_bundle(info.certificate_authority_data))
    except (ClusterInfoError, ParseError) as err:
        return None, (), [Code.CLUSTER_INFO_BROKEN.found(str(err))]
    if not pinned:
        return info, bundle, []
    try:
        return info, verify_authority(text, pinned)[1], []
    except NotTrustedError:
        seen = ", ".join(map(pins.pin_of, bundle))
        given = ", ".join(f"{pins.FORMAT}:{digest.hex()}" for digest in pinned.digests)
        return info, (), [Code.PIN_WRONG.found(f"the cluster's CA is {seen}, expected {given}")]


# ------------------------------------------------------------------ the examination


class _Examination:
    def __init__(self, attempt: JoinAttempt, clock: Clock, operator: Client | None) -> None:
        self._attempt = attempt
        self._clock = clock
        self._operator = operator
        self._found: list[Finding] = []
        self._facts: list[tuple[str, str]] = []
        self._skew: dt.timedelta | None = None

    async def run(self) -> Report:
        endpoint, token, pinned, found = judge_settings(self._attempt)
        self._found += found
        self._look_at_machine()
        if endpoint is not None:
            try:
                await self._ask(endpoint, token, pinned)
            except NotReached as err:
                self._found.append(err.finding)
            self._found += reach.judge_clock(self._skew)
            self._found += reach.judge_proxies(self._attempt.environ, endpoint)
        return Report(await self._fitting(endpoint), tuple(self._facts))

    async def _fitting(self, endpoint: Endpoint | None) -> tuple[Finding, ...]:
        """The findings, with commands for the kind of server that answers."""
        if endpoint is None or not any(each.fits_kubevouch_only for each in self._found):
            return tuple(self._found)
        async with self._client(endpoint, TLSSources(insecure=True)) as client:
            return fitting(self._found, await reach.is_kubevouch(client))

    def _look_at_machine(self) -> None:
        """A machine that has joined elsewhere, or as somebody else, is refused before anybody is asked."""
        attempt = self._attempt
        if attempt.root is None:
            return
        try:
            settings = token_discovery(
                attempt.endpoint,
                attempt.token,
                attempt.hashes,
                unsafe_skip_ca_verification=attempt.unsafe_skip_ca_verification,
            )
            known = verify_joined(JoinOptions(settings, attempt.node_name, attempt.root), self._clock)
        except SettingsError:
            return  # said already
        except OSError as err:
            self._facts.append(("machine", f"{err.filename} cannot be read: {err.strerror}"))
        except JoinError as err:
            self._found.append(Code.JOINED_ALREADY.found(str(err)))
        else:
            if known is not None:
                what = known.problem or f"has joined already, until {Time.of(known.chain[0].not_after)}"
                self._facts.append(("machine", what))

    async def _ask(self, endpoint: Endpoint, token: Token | None, pinned: PinSet) -> None:
        self._facts.append(("addresses", ", ".join(await reach.addresses_of(endpoint, self._clock))))
        leaf = await reach.serving_certificate(endpoint, self._clock)
        self._facts.append(("server certificate", f"until {Time.of(leaf.not_after)}"))
        entries = await self._cluster_info(endpoint)
        info, trusted, found = judge_authority(entries.get(wellknown.KUBECONFIG_KEY, ""), pinned)
        self._found += found
        if info is not None:
            self._facts.append(("cluster-info", f"names {info.server}, signed with {_listed(entries)}"))
        request, malformed = request_token(self._attempt, token)
        self._found += malformed
        signature = None if token is None else tokens.signature_of(entries, token)
        accepted: bool | None = None
        # A token is shown only to a server that the pin, or the token's own signature, vouches for.
        if trusted and (pinned or signature is Signature.GOOD):
            wrong = list(reach.judge_serving(leaf, endpoint.host, trusted, endpoint, now=self._clock.now()))
            self._found += wrong
            bad = [each for each in wrong if each.code is not Code.SERVING_CERTIFICATE_EXPIRING]
            if request is not None and not bad:
                accepted = await self._try_token(endpoint, request, trusted)
        if token is not None and signature is not None:
            if request == token:
                self._found += await self._judge_token(token, signature, accepted, entries)
            else:
                self._found += await self._judge_token(token, signature, None, entries, (SIGNING,))
        if request is not None and request != token:
            self._found += await self._judge_request_token(request, accepted)
        if self._operator is None and token is not None:
            self._facts.append(("not seen", _UNSEEN))

    async def _cluster_info(self, endpoint: Endpoint) -> Mapping[str, str]:
        async with self._client(endpoint, TLSSources(insecure=True)) as client:
            try:
                found = await client.get(
                    catalog.CONFIG_MAPS, wellknown.CLUSTER_INFO_CONFIGMAP, wellknown.KUBE_PUBLIC_NAMESPACE
                )
            except APIStatusError as err:
                raise NotReached(judge_refusal(err)) from err
            except TransportError as err:
                raise NotReached(reach.judge_transport(err, endpoint)) from err
            finally:
                self._skew = None if client.server_date is None else client.server_date.skew
        return found.data

    async def _try_token(self, endpoint: Endpoint, token: Token, trusted: Iterable[Certificate]) -> bool | None:
        bundle = b"".join(each.pem() for each in trusted)
        async with self._client(endpoint, TLSSources(ca_bundle=bundle), token) as client:
            try:
                self._found += [each async for each in rights.of_token(client)]
            except APIStatusError as err:
                return False if err.code == 401 else None
            except TransportError as err:
                self._found.append(reach.judge_transport(err, endpoint))
                return None
            if self._attempt.node_name:
                try:
                    await verify_node_is_free(client, self._attempt.node_name)
                except JoinError:
                    name = self._attempt.node_name
                    self._found.append(
                        Code.NODE_NAME_TAKEN.found(
                            f"the node {name} is in the cluster and Ready", f"kubectl delete node {name}"
                        )
                    )
        return True

    async def _judge_token(
        self,
        token: Token,
        signature: Signature,
        accepted: bool | None,
        entries: Mapping[str, str],
        usages: Collection[str] = USAGES,
    ) -> list[Finding]:
        guessed = list(tokens.judge_treatment(token, signature, accepted, entries))
        if self._operator is None:
            return guessed
        return await self._known(self._operator, token, accepted, usages) or guessed

    async def _judge_request_token(self, token: Token, accepted: bool | None) -> list[Finding]:
        text = f"the API server answers 401 to the token {token.token_id}"
        guessed = [Code.TOKEN_NOT_FOR_AUTHENTICATION.found(text)] if accepted is False else []
        if self._operator is None:
            return guessed
        return await self._known(self._operator, token, accepted, (AUTHENTICATION,)) or guessed

    async def _known(
        self, operator: Client, token: Token, accepted: bool | None, usages: Collection[str]
    ) -> list[Finding]:
        secret = await stored.find(operator, catalog.SECRETS, token.secret_name, wellknown.KUBE_SYSTEM_NAMESPACE)
        return list(
            tokens.judge_secret(
                secret,
                token,
                now=self._clock.now(),
                node_name=self._attempt.node_name,
                accepted=accepted,
                usages=usages,
            )
        )

    def _client(self, endpoint: Endpoint, tls: TLSSources, token: Token | None = None) -> HTTPSClient:
        options = ClientOptions(
            server=endpoint.url,
            component="doctor",
            protobuf=False,
            timeouts=Timeouts.all(reach.STAGE_SECONDS),
            retry=Retry(attempts=1),
            max_body_bytes=_MAX_BYTES,
        )
        credential = FixedCredential() if token is None else FixedCredential.token(token.text)
        return HTTPSClient(options, tls=TLSFiles(tls, self._clock), credentials=credential, clock=self._clock)


def _listed(entries: Mapping[str, str]) -> str:
    return ", ".join(tokens.signed_ids(entries)) or "no token"
