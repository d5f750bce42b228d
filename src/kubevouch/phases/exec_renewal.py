"""A new certificate for the exec credential, by the agent's own means and under its lock."""

from __future__ import annotations

import random as random_module

from msgspec.structs import replace

from kubevouch.agent.attestation_settings import AttestationSettings, is_given_for
from kubevouch.agent.attested_request import obtain, prepare
from kubevouch.agent.certificate_request import node_client
from kubevouch.agent.certificate_store import CertificateStore, StoredPair
from kubevouch.agent.interface import AgentError, CertificateStoreInUseError, CredentialRefusedError
from kubevouch.agent.manager_interface import LoggingObserver
from kubevouch.agent.node_access import ClusterFiles, NodeAccess
from kubevouch.client.interface import ClientConfigurationError, TransportError
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.text.times import Time
from kubevouch.phases.exec_credential import Action, CredentialError, plan
from kubevouch.util import backoff
from kubevouch.util.clock import Clock
from kubevouch.util.tasks import deadline

_LOCK_SECONDS = 0.2


async def renew(
    store: CertificateStore,
    files: ClusterFiles,
    node_name: str,
    clock: Clock,
    *,
    timeout: float,
    attestation: AttestationSettings | None = None,
    random: backoff.Random = random_module.random,
) -> StoredPair:
    """A pair that need not be renewed: a new one, or that of whoever was faster.

    Args:
        timeout: seconds for all of it.
        attestation: what is shown with the request; None shows nothing.

    Raises:
        CredentialError: there is none; the former pair is as it was.
    """
    try:
        async with deadline(clock, timeout):
            while True:
                try:
                    return await _renew(store, files, node_name, clock, timeout, attestation, random)
                except CertificateStoreInUseError:
                    await clock.sleep(_LOCK_SECONDS)
    except TimeoutError as err:
        raise CredentialError(
            f"no certificate was issued within {timeout:g} s", "kubevouch doctor node says what stands in the way"
        ) from err
    except (AgentError, ClientConfigurationError, TransportError) as err:
        raise CredentialError(str(err), getattr(err, "hint", "")) from err
    except (APIStatusError, OSError) as err:
        raise CredentialError(str(err), "kubevouch doctor node says what stands in the way") from err


async def _renew(
    store: CertificateStore,
    files: ClusterFiles,
    node_name: str,
    clock: Clock,
    timeout: float,
    attestation: AttestationSettings | None,
    random: backoff.Random,
) -> StoredPair:
    with store.locked():
        pair = store.current()
        proven = pair is None or is_given_for(store.current_path, attestation, pair.leaf)
        action = plan(None if pair is None else pair.leaf, now=clock.now(), proven=proven)
        if pair is not None and action is Action.KEEP:
            return pair
        if attestation is not None:
            # As join and agent do: what can never work is said before anybody is asked.
            await prepare(attestation, clock)
        bootstrap = files.bootstrap_kubeconfig
        if action is Action.OBTAIN and (bootstrap is None or not bootstrap.exists()):
            raise _nothing_to_ask_with(store, pair)
        access = NodeAccess(files, node_name, clock, random, attests=attestation is not None)
        observer = LoggingObserver(certificate="client")
        wanted = replace(node_client(node_name, attestation=attestation), by_plugin=True)

        async def ask() -> None:
            async with access.connected(pair) as poster:
                await obtain(
                    store, poster, wanted, access.anchors(), clock, observer, timeout=timeout, random=random
                )  # fmt: skip

        try:
            await ask()
        except CredentialRefusedError:
            if pair is None or bootstrap is None or not bootstrap.exists():
                raise
            # The machine was forgotten, or its certificate revoked: it begins anew, with what it began with.
            access.refused(pair)
            await ask()
        renewed = store.current()
        assert renewed is not None  # it was put there under the lock
        return renewed


def _nothing_to_ask_with(store: CertificateStore, pair: StoredPair | None) -> CredentialError:
    hint = "let the machine join again: kubevouch join HOST:PORT --token TOKEN --discovery-token-ca-cert-hash HASH"
    if pair is None:
        return CredentialError(f"there is no certificate in {store.current_path.parent}", hint)
    ended = Time.of(pair.leaf.not_after)
    return CredentialError(f"the certificate of {pair.leaf.subject.common_name} has ended at {ended}", hint)
