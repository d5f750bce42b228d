"""Which undecided requests the approving controller's rules justify, gathered through the API for a person.

The rules are the controller's own. What only the server beside it knows, such as from where a request came, counts as
not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from kubevouch import wellknown
from kubevouch.api.catalog import (
    CERTIFICATE_SIGNING_REQUESTS,
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    ENDPOINT_SLICES,
    NODES,
    SECRETS,
    SERVICES,
)
from kubevouch.api.certificates_v1 import CertificateSigningRequest
from kubevouch.api.core_v1 import ConfigMap, Secret
from kubevouch.api.discovery_v1 import SERVICE_NAME_LABEL
from kubevouch.client import stored
from kubevouch.client.cache.indexer import Indexer, by_namespace
from kubevouch.client.cache.lister import NAMESPACE_INDEX, Lister
from kubevouch.client.interface import Client, ListOptions
from kubevouch.client.pager import PAGES, list_all
from kubevouch.controllers.approval import csr_outlook
from kubevouch.controllers.approval.name_admission import (
    KEY_INDEX,
    NODE_INDEX,
    NameAdmission,
    NameCaches,
    NameRefusedError,
    keys_of_request,
    node_names_of_request,
    node_record,
)
from kubevouch.controllers.approval.serving_sources import (
    MACHINE_GROUP,
    MACHINE_PLURAL,
    APIServers,
    ServingSources,
)
from kubevouch.controllers.approval.token_admission import TokenAdmission
from kubevouch.controllers.custom_kinds import custom_kind
from kubevouch.controllers.interface import ReconcileError
from kubevouch.controllers.record_maps import RecordMaps
from kubevouch.ledger.memory import MemoryLedger
from kubevouch.machinery.meta import Object
from kubevouch.machinery.scheme import Resource
from kubevouch.pki.errors import ParseError
from kubevouch.pki.recognizers import APPROVED_REASON
from kubevouch.pki.x509 import x509_request
from kubevouch.pki.x509.x509_request import CertificateRequest
from kubevouch.policy import kubelet_serving
from kubevouch.policy.facts import RequestFacts, facts_of
from kubevouch.policy.kubelet_serving import Known, ServingRules
from kubevouch.policy.verdict import Outcome, Verdict
from kubevouch.records.bootstrap_tokens import secret_name
from kubevouch.records.token_bounds import TokenBoundError
from kubevouch.util.clock import Clock

T = TypeVar("T", bound=Object)

CLIENT = "kubelet-client"


class Justifier:
    """Judges requests by what a cluster held when it was gathered."""

    def __init__(
        self,
        client: Client,
        rules: ServingRules,
        sources: ServingSources,
        records: RecordMaps,
        clock: Clock,
    ) -> None:
        self._client = client
        self._rules = rules
        self._sources = sources
        self._records = records
        csrs = sources.csrs
        csrs.add_index(NODE_INDEX, node_names_of_request)
        csrs.add_index(KEY_INDEX, keys_of_request)
        tokens = TokenAdmission(client, Lister(_indexed(())))
        caches = NameCaches(Lister(csrs), Lister(sources.nodes), records)
        self._names = NameAdmission(client, caches, tokens, clock, takeover=False)

    @property
    def requests(self) -> list[CertificateSigningRequest]:
        """All that there are."""
        return self._sources.csrs.values()

    async def judge(self, csr: CertificateSigningRequest) -> tuple[RequestFacts | None, Verdict]:
        """What the request is, None if it cannot be read, and what the rules say of it.

        Raises:
            APIStatusError, TransportError
        """
        try:
            request = x509_request.parse_pem(csr.spec.request or b"")
        except ParseError as err:
            return None, _left("", "Unreadable", f"spec.request cannot be read: {err}")
        facts = facts_of(csr, request)
        if facts.signer_name == wellknown.KUBELET_SERVING_SIGNER:
            return facts, await self._serving(csr, facts)
        return facts, await self._client_certificate(csr, request)

    async def _serving(self, csr: CertificateSigningRequest, facts: RequestFacts) -> Verdict:
        node = kubelet_serving.node_of(facts)
        if not node:
            return kubelet_serving.decide(facts, Known(), self._rules)
        known = await self._sources.known(csr, facts, self._rules, node_record(self._records, node))
        return kubelet_serving.decide(facts, known, self._rules)

    async def _client_certificate(self, csr: CertificateSigningRequest, request: CertificateRequest) -> Verdict:
        found = await csr_outlook.outlook(self._client, csr, self._secret_of_token)
        told = csr.metadata.annotations.get(wellknown.JOIN_STUCK_ANNOTATION, "")
        if found.reason != csr_outlook.NOT_LOOKED_AT or told:
            return _left(CLIENT, found.reason, told or found.message)
        try:
            await self._names.verify(csr, request)
        except NameRefusedError as err:
            return Verdict(Outcome.DENY, CLIENT, err.reason, str(err))
        except (TokenBoundError, ReconcileError) as err:
            return _left(CLIENT, "Waits", str(err))
        return Verdict(Outcome.APPROVE, CLIENT, APPROVED_REASON, found.message)

    async def _secret_of_token(self, token_id: str) -> Secret | None:
        return await stored.find(self._client, SECRETS, secret_name(token_id), wellknown.KUBE_SYSTEM_NAMESPACE)


def _left(approver: str, reason: str, why: str) -> Verdict:
    return Verdict(Outcome.NO_OPINION, approver, reason, missing=why)


async def gather(client: Client, clock: Clock, rules: ServingRules) -> Justifier:
    """What is needed to judge every undecided request.

    Args:
        rules: what is declared; the API servers that the cluster knows of are added.

    Raises:
        APIStatusError, TransportError: a part of it may not be read; nothing is judged by half of it.
    """
    csrs = _indexed(await _all(client, CERTIFICATE_SIGNING_REQUESTS))
    sources = ServingSources(csrs, _indexed(await _all(client, NODES)), MemoryLedger(), clock)
    for machine in await _machines(client):
        sources.saw_machine(machine, gone=False)
    config_maps = await _all(client, CONFIG_MAPS, wellknown.KUBE_SYSTEM_NAMESPACE)
    about = ListOptions(label_selector=f"{SERVICE_NAME_LABEL}=kubernetes")
    slices = (await client.list(ENDPOINT_SLICES, wellknown.DEFAULT_NAMESPACE, about)).items
    service = await stored.find(client, SERVICES, "kubernetes", wellknown.DEFAULT_NAMESPACE)
    info = await stored.find(client, CONFIG_MAPS, wellknown.CLUSTER_INFO_CONFIGMAP, wellknown.KUBE_PUBLIC_NAMESPACE)
    cluster_info: Indexer[ConfigMap] = _indexed(() if info is None else (info,))
    servers = APIServers(_indexed(slices), _indexed(() if service is None else (service,)), cluster_info)
    rules = msgspec.structs.replace(rules, api_server=rules.api_server | servers.names())
    return Justifier(client, rules, sources, RecordMaps(_indexed(config_maps)), clock)


async def _all(client: Client, resource: Resource[T], namespace: str = "") -> Sequence[T]:
    return (await list_all(client, resource, namespace, options=PAGES)).items


async def _machines(client: Client) -> Sequence[Any]:
    """Cluster API's, where that kind is served."""
    definition = await stored.find(client, CUSTOM_RESOURCE_DEFINITIONS, f"{MACHINE_PLURAL}.{MACHINE_GROUP}")
    kind = None if definition is None else custom_kind(definition)
    return () if kind is None else await _all(client, kind.resource)


def _indexed(objects: Iterable[T]) -> Indexer[T]:
    indexer: Indexer[T] = Indexer({NAMESPACE_INDEX: by_namespace})
    for each in objects:
        indexer.put(each)
    return indexer
