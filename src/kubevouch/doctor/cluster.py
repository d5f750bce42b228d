"""What in a cluster keeps machines from joining and nodes from renewing."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from kubevouch import wellknown
from kubevouch.admission import joined_names
from kubevouch.api import catalog
from kubevouch.api.certificates_v1 import CertificateSigningRequest
from kubevouch.api.core_v1 import Secret
from kubevouch.client import stored
from kubevouch.client.endpoint import Endpoint, EndpointError, endpoint_of_url
from kubevouch.client.interface import Client, ClientConfigurationError, ListOptions, TransportError
from kubevouch.client.options import Retry
from kubevouch.client.pager import PAGES, list_all
from kubevouch.client.rest_config import RESTConfig
from kubevouch.client.tls import MAX_PEM_BYTES, Source, read_bounded
from kubevouch.doctor import definitions, kubelets, ledger, policies, reach, revocations, rights, signers
from kubevouch.doctor.findings import Code, Finding, Report, argument, fitting, limited
from kubevouch.doctor.reach import NotReached
from kubevouch.doctor.tokens import Signature, signature_of
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.text.gotext import human_duration
from kubevouch.machinery.text.times import Time
from kubevouch.pki import control_plane, pins
from kubevouch.pki.errors import ParseError
from kubevouch.pki.x509 import x509_certificate
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.records import node_recovery
from kubevouch.records.bootstrap_tokens import (
    AUTHENTICATION,
    USAGE_KEY_PREFIX,
    BootstrapTokenError,
    TokenRefusedError,
    TokenSettingsError,
    accept_for_signing,
    expiration_of,
    from_secret,
    groups_of,
)
from kubevouch.records.cluster_info import ClusterInfoError, parse_kubeconfig
from kubevouch.records.node_recovery import RecoveryRecordError
from kubevouch.records.token_strength import FLOOR_BITS
from kubevouch.reviews import csr_review
from kubevouch.reviews.csr_review import State, state_of
from kubevouch.util.clock import Clock

# A rollover with overlap takes as long as the longest kubelet certificate, a year; half of one is the last call.
AUTHORITY_SOON = dt.timedelta(days=180)
OPERATOR_SOON = dt.timedelta(days=30)
# Controllers decide and sign within a second or two.
PATIENCE = dt.timedelta(minutes=1)
_OUTLOOKS = 20  # each costs a question or two
_EVENTS = 500  # of signers that are away or have stopped
_NODES = 500  # whose kubelets are dialled


async def examine(config: RESTConfig, clock: Clock) -> Report:
    """All that is wrong with the cluster, as its operator sees it.

    Raises:
        ClientConfigurationError: the kubeconfig cannot be used.
    """
    return await _Examination(config, clock).run()


class Dated(NamedTuple):
    """A certificate in the operator's kubeconfig."""

    name: str
    ends: dt.datetime


def dated(config: RESTConfig) -> Iterator[Dated]:
    """Raises ClientConfigurationError."""
    for each in _certificates(config.tls.ca_bundle, "CA bundle"):
        yield Dated(f"CA {each.subject.common_name or pins.pin_of(each)}", each.not_after)
    for each in _certificates(config.tls.certificate, "client certificate")[:1]:
        yield Dated(f"this kubeconfig ({each.subject.common_name})", each.not_after)


# ------------------------------------------------------------------ judgements


def judge_authority(bundle: Iterable[Certificate], *, now: dt.datetime) -> Iterator[Finding]:
    for each in bundle:
        name = each.subject.common_name or pins.pin_of(each)
        if now > each.not_after:
            yield Code.CA_EXPIRED.found(f"the CA {name} has ended at {Time.of(each.not_after)}")
        elif each.not_after - now < AUTHORITY_SOON:
            left = human_duration((each.not_after - now).total_seconds())
            yield Code.CA_EXPIRING.found(f"the CA {name} ends in {left}, at {Time.of(each.not_after)}")


def judge_trust(data: Mapping[str, str]) -> Iterator[Finding]:
    """``data``: of the ConfigMap that says whom the API servers believe."""
    try:
        clients, proxies = (
            x509_certificate.parse_bundle(data.get(key, "").encode()) if data.get(key) else []
            for key in ("client-ca-file", "requestheader-client-ca-file")
        )
    except ParseError:
        return  # whoever believes it believes nobody
    if control_plane.shares_key(clients, proxies):
        yield Code.CA_SHARED.found("the CA of the front proxy has the key of a CA of clients")


def judge_operator(leaf: Certificate | None, *, now: dt.datetime) -> Iterator[Finding]:
    if leaf is not None and leaf.not_after - now < OPERATOR_SOON:
        when = "has ended" if now > leaf.not_after else "ends"
        yield Code.OPERATOR_CERTIFICATE_EXPIRING.found(
            f"the certificate of {leaf.subject.common_name} in this kubeconfig {when} at {Time.of(leaf.not_after)}"
        )


def judge_cluster_info(entries: Mapping[str, str], authority: Iterable[Certificate]) -> Iterator[Finding]:
    """``authority`` is what the kubeconfig of the operator trusts; nothing is compared where it is empty."""
    try:
        info = parse_kubeconfig(entries.get(wellknown.KUBECONFIG_KEY, ""))
        published = x509_certificate.parse_bundle(info.certificate_authority_data)
    except (ClusterInfoError, ParseError) as err:
        yield Code.CLUSTER_INFO_BROKEN.found(str(err))
        return
    known = {each.contents for each in authority}
    if known and not known & {each.contents for each in published}:
        shown = ", ".join(map(pins.pin_of, published))
        yield Code.CLUSTER_INFO_OTHER_CA.found(f"cluster-info publishes the CA {shown}, which is not the one in use")


def judge_tokens(secrets: Iterable[Secret], entries: Mapping[str, str], *, now: dt.datetime) -> Iterator[Finding]:
    """Each token that should be signed with and is not, and each Secret that is none."""
    unsigned = []
    for secret in secrets:
        name = secret.metadata.name
        try:
            known = from_secret(secret)
            weak = known.token.bits < FLOOR_BITS
        except BootstrapTokenError as err:
            yield Code.TOKEN_BROKEN.found(
                str(err), f"kubectl -n {wellknown.KUBE_SYSTEM_NAMESPACE} delete secret {argument(name)}"
            )
            continue
        if weak and not expiration_of(secret, now).expired:
            yield Code.TOKEN_WEAK.found(
                f"the secret of the token {known.token.token_id} is worth about {known.token.bits:.0f} bits",
                f"kubevouch token delete {argument(known.token.token_id)}",
            )
        try:
            token = accept_for_signing(secret, now)
        except TokenRefusedError:
            continue  # has ended, or is not for signing
        signature = signature_of(entries, token)
        if signature is Signature.NONE_AT_ALL:
            unsigned.append(token.token_id)
        elif signature is not Signature.GOOD:
            yield Code.TOKEN_UNSIGNED.found(f"the signature of the token {token.token_id} is {signature.value}")
    if unsigned:
        yield Code.SIGNATURES_MISSING.found(
            f"cluster-info carries no signature, and should carry those of {', '.join(unsigned)}"
        )


def judge_requests(
    requests: Iterable[CertificateSigningRequest],
    outlooks: Mapping[str, str],
    *,
    now: dt.datetime,
    told: Mapping[str, str] | None = None,
) -> Iterator[Finding]:
    """``outlooks`` says, by name, what would approve an undecided request; ``told``, by uid, why one is not signed."""
    for csr in requests:
        name, state = csr.metadata.name, state_of(csr)
        who = f"{name} of {csr.spec.username}"
        if state is State.FAILED:
            yield Code.REQUEST_FAILED.found(
                f"{who}: {_said(csr, wellknown.CSR_FAILED)}", f"kubectl describe csr {argument(name)}"
            )
            continue
        since = now - _since(csr, now)
        if since < PATIENCE:
            continue
        waited = human_duration(since.total_seconds())
        if state is State.PENDING:
            yield Code.REQUEST_WAITING.found(
                f"{who} waits for {waited}" + (f": {outlooks[name]}" if name in outlooks else ""),
                f"kubevouch csr show {argument(name)}",
            )
        elif state is State.APPROVED:
            yield Code.REQUEST_UNSIGNED.found(
                f"{who} is approved for {waited}, and nobody has signed it for {csr.spec.signer_name}"
                + (f": {told[csr.metadata.uid]}" if told and csr.metadata.uid in told else "")
            )


async def _told(client: Client) -> dict[str, str]:
    """What the signing controller's Events say, by the uid of the request. Empty where nobody may read them."""
    told: dict[str, str] = {}
    for reason in (wellknown.SIGNER_UNAVAILABLE, wellknown.SIGNER_STOPPED):
        options = ListOptions(field_selector=f"reason={reason}", limit=_EVENTS)
        with contextlib.suppress(APIStatusError, TransportError):
            for event in (await client.list(catalog.EVENTS, wellknown.DEFAULT_NAMESPACE, options)).items:
                told[event.involved_object.uid] = event.message
    return told


def judge_names(requests: Iterable[CertificateSigningRequest]) -> Iterator[Finding]:
    """Machines that share a name."""
    for node, names in joined_names.shared_names(requests).items():
        yield Code.NODE_NAME_SHARED.found(
            f"{len(names)} machines have become {node}: by the requests {', '.join(names)}",
            f"kubevouch csr show {argument(names[-1])}",
        )


def _since(csr: CertificateSigningRequest, now: dt.datetime) -> dt.datetime:
    """When it came into its state."""
    times = [each.last_update_time for each in csr.status.conditions if each.last_update_time is not None]
    newest = max(times, default=csr.metadata.creation_timestamp)
    return now if newest is None else newest.datetime()


def _said(csr: CertificateSigningRequest, kind: str) -> str:
    return "; ".join(f"{each.reason}: {each.message}" for each in csr.status.conditions if each.type == kind)


def groups_of_tokens(secrets: Iterable[Secret], *, now: dt.datetime) -> list[tuple[str, ...]]:
    """Each combination of groups that the tokens for authentication give; kubeadm's where there is no token."""
    found: dict[tuple[str, ...], None] = {}
    for secret in secrets:
        if secret.data.get(f"{USAGE_KEY_PREFIX}{AUTHENTICATION}") == b"true" and not expiration_of(secret, now).expired:
            try:
                found[tuple(groups_of(secret))] = None
            except TokenSettingsError:
                continue
    return list(found) or [(wellknown.BOOTSTRAPPERS_GROUP, wellknown.DEFAULT_NODE_TOKEN_GROUP)]


# ------------------------------------------------------------------ the examination


class _Examination:
    def __init__(self, config: RESTConfig, clock: Clock) -> None:
        self._config = replace(config, options=replace(config.options, retry=Retry(attempts=1)))
        self._clock = clock
        self._found: list[Finding] = []
        self._facts: list[tuple[str, str]] = []
        self._authority: list[Certificate] = []
        self._entries: Mapping[str, str] | None = None
        self._secrets: list[Secret] = []

    async def run(self) -> Report:
        config, now = self._config, self._clock.now()
        try:
            endpoint = endpoint_of_url(config.options.server)
        except EndpointError as err:
            raise ClientConfigurationError(str(err)) from err
        self._authority = _certificates(config.tls.ca_bundle, "CA bundle")
        operator = _certificates(config.tls.certificate, "client certificate")
        self._found += judge_authority(self._authority, now=now)
        self._found += judge_operator(operator[0] if operator else None, now=now)
        for each in self._authority:
            self._facts.append(("CA", f"{pins.pin_of(each)} until {Time.of(each.not_after)}"))
        async with config.client(component="doctor", clock=self._clock) as client:
            try:
                await self._way(endpoint)
                await self._look(client)
            except NotReached as err:
                self._found.append(err.finding)
            except TransportError as err:
                self._found += [] if self._found else [reach.judge_transport(err, endpoint)]
            skew = None if client.server_date is None else client.server_date.skew
            self._found += reach.judge_clock(skew)
            if any(each.fits_kubevouch_only for each in self._found):
                self._found = list(fitting(self._found, await reach.is_kubevouch(client)))
        return Report(limited(self._found), tuple(self._facts))

    async def _way(self, endpoint: Endpoint) -> None:
        await reach.addresses_of(endpoint, self._clock)
        name = self._config.tls.server_name or endpoint.host
        leaf = await reach.serving_certificate(endpoint, self._clock, name)
        if self._authority:
            self._found += reach.judge_serving(leaf, name, self._authority, endpoint, now=self._clock.now())

    async def _look(self, client: Client) -> None:
        checks = (self._cluster_info, self._tokens, self._rights, self._requests, self._ledger, self._signers)
        for check in (self._trust, *checks, self._definitions, self._policies, self._revocations, self._recovery,
                      self._kubelets):  # fmt: skip
            try:
                await check(client)
            except APIStatusError as err:
                self._found.append(Code.ACCESS_REFUSED.found(f"the API server answers {err.code}: {err}"))
                if err.code == 401:
                    return

    async def _definitions(self, client: Client) -> None:
        self._found += await definitions.examine(client)

    async def _cluster_info(self, client: Client) -> None:
        found = await stored.find(
            client, catalog.CONFIG_MAPS, wellknown.CLUSTER_INFO_CONFIGMAP, wellknown.KUBE_PUBLIC_NAMESPACE
        )
        if found is None:
            self._found.append(Code.CLUSTER_INFO_MISSING.found("there is no ConfigMap cluster-info in kube-public"))
            return
        self._entries = found.data
        self._found += judge_cluster_info(found.data, self._authority)
        anonymous = (wellknown.ANONYMOUS_USER, (wellknown.UNAUTHENTICATED_GROUP,))
        if not await rights.may_somebody(client, *anonymous, rights.READ_CLUSTER_INFO):
            self._found.append(Code.CLUSTER_INFO_FORBIDDEN.found("RBAC lets nobody read cluster-info anonymously"))

    async def _trust(self, client: Client) -> None:
        name = wellknown.EXTENSION_APISERVER_AUTHENTICATION_CONFIGMAP
        found = await stored.find(client, catalog.CONFIG_MAPS, name, wellknown.KUBE_SYSTEM_NAMESPACE)
        self._found += judge_trust({} if found is None else found.data)

    async def _tokens(self, client: Client) -> None:
        options = replace(PAGES, field_selector=f"type={wellknown.BOOTSTRAP_TOKEN_SECRET}")
        secrets = (await list_all(client, catalog.SECRETS, wellknown.KUBE_SYSTEM_NAMESPACE, options)).items
        self._secrets = secrets
        self._facts.append(("tokens", str(len(secrets))))
        if self._entries is not None:
            self._found += judge_tokens(secrets, self._entries, now=self._clock.now())

    async def _recovery(self, client: Client) -> None:
        options = replace(PAGES, label_selector=node_recovery.LOCKED_LABEL)
        for each in (await list_all(client, catalog.CONFIG_MAPS, node_recovery.NAMESPACE, options)).items:
            with contextlib.suppress(RecoveryRecordError):
                record = node_recovery.record_of(each)
                self._found.append(Code.RECOVERY_LOCKED.found(f"node {record.node}: {record.locked}"))

    async def _rights(self, client: Client) -> None:
        for groups in groups_of_tokens(self._secrets, now=self._clock.now()):
            everybody = [*groups, wellknown.AUTHENTICATED_GROUP]
            user = f"{wellknown.BOOTSTRAP_USER_PREFIX}000000"
            shown = ", ".join(groups)
            if not await rights.may_somebody(client, user, everybody, rights.requests()):
                self._found.append(Code.JOINING_NOT_ALLOWED.found(f"{shown} may not create CertificateSigningRequests"))
            elif not await rights.may_somebody(client, user, everybody, rights.requests(rights.NODE_CLIENT)):
                self._found.append(
                    Code.APPROVAL_NOT_AUTOMATIC.found(f"nobody but a person approves requests of {shown}")
                )
        node = f"{wellknown.NODE_USER_PREFIX}any"
        members = [wellknown.NODES_GROUP, wellknown.AUTHENTICATED_GROUP]
        if not await rights.may_somebody(client, node, members, rights.requests(rights.SELF_NODE_CLIENT)):
            self._found.append(Code.RENEWAL_NOT_AUTOMATIC.found("nobody but a person approves the renewals of nodes"))

    async def _requests(self, client: Client) -> None:
        found = await csr_review.fetch(client)
        now = self._clock.now()
        waiting = [csr for csr in found.pending if now - _since(csr, now) >= PATIENCE]
        outlooks = {csr.metadata.name: await csr_review.outlook(client, csr) for csr in waiting[:_OUTLOOKS]}
        self._facts.append(("requests", f"{len(found.all)}, {len(found.pending)} of them undecided"))
        told = await _told(client) if any(state_of(csr) is State.APPROVED for csr in found.all) else {}
        self._found += judge_requests(found.all, outlooks, now=now, told=told)
        self._found += judge_names(found.all)
        self._found += kubelets.judge_pile(found.all)

    async def _ledger(self, client: Client) -> None:
        self._found += await ledger.examine(client)

    async def _signers(self, client: Client) -> None:
        self._found += await signers.examine(client, now=self._clock.now())

    async def _policies(self, client: Client) -> None:
        self._found += await policies.examine(client)

    async def _revocations(self, client: Client) -> None:
        self._found += await revocations.examine(client, self._clock)

    async def _kubelets(self, client: Client) -> None:
        nodes = (await client.list(catalog.NODES, options=ListOptions(limit=_NODES))).items
        self._facts.append(("nodes", f"{len(nodes)}, {sum(map(kubelets.is_ready, nodes))} of them ready"))
        self._found += await kubelets.visit(nodes, self._authority, self._clock)


def _certificates(source: Source | None, what: str) -> list[Certificate]:
    """Raises ClientConfigurationError."""
    content = read_bounded(source, what, MAX_PEM_BYTES) if isinstance(source, Path) else source or b""
    try:
        return x509_certificate.parse_bundle(content) if content else []
    except ParseError as err:
        raise ClientConfigurationError(f"the {what} cannot be read: {err}") from err
