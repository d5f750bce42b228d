"""How a machine finds the cluster it joins: kubeadm's rules for what may be said together (1.36)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from kubevouch.agent import file_discovery
from kubevouch.agent.discovery import TIMEOUT_SECONDS, TokenDiscovery, token_discovery
from kubevouch.agent.file_discovery import FileDiscovery
from kubevouch.agent.interface import SettingsError
from kubevouch.client.endpoint import EndpointError, endpoint_of_url
from kubevouch.config import kubeadm_v1beta4 as kubeadm
from kubevouch.config import kubeconfig
from kubevouch.phases.join_phases import Phase
from kubevouch.records.bootstrap_tokens import Token, TokenSyntaxError, parse_token
from kubevouch.util.clock import Clock

_NO_CREDENTIALS = (
    "could not find authentication credentials for the TLS bootstrap process. Please use Token discovery, a discovery "
    "file with embedded authentication credentials or a discovery file without authentication credentials but with the "
    "TLSBootstrapToken flag"
)


def from_flags(
    endpoint: str = "",
    *,
    token: str = "",
    discovery_token: str = "",
    tls_bootstrap_token: str = "",
    discovery_file: str = "",
    hashes: Iterable[str] = (),
    unsafe_skip_ca_verification: bool = False,
) -> kubeadm.Discovery:
    """What the flags of ``join`` say together: ``token`` stands for both kinds of token where those are not given.

    Without an endpoint nothing about token discovery counts, as in kubeadm.
    """
    by_token = None
    if endpoint:
        by_token = kubeadm.BootstrapTokenDiscovery(
            token=discovery_token or token,
            api_server_endpoint=endpoint,
            ca_cert_hashes=list(hashes),
            unsafe_skip_ca_verification=unsafe_skip_ca_verification,
        )
        # An address beside a file says where the cluster is twice; only a token makes it token discovery.
        if discovery_file and not by_token.token:
            by_token = None
    by_file = kubeadm.FileDiscovery(kube_config_path=discovery_file) if discovery_file else None
    return complete(
        kubeadm.Discovery(bootstrap_token=by_token, file=by_file, tls_bootstrap_token=tls_bootstrap_token or token)
    )


def complete(discovery: kubeadm.Discovery) -> kubeadm.Discovery:
    """The token of discovery is also that of the certificate request, unless there is one for it."""
    if discovery.tls_bootstrap_token or discovery.bootstrap_token is None:
        return discovery
    return msgspec.structs.replace(discovery, tls_bootstrap_token=discovery.bootstrap_token.token)


def verify(discovery: kubeadm.Discovery) -> kubeadm.Discovery:
    """Exactly one way to find the cluster. Raises :class:`SettingsError` with kubeadm's texts."""
    if discovery.bootstrap_token is None and discovery.file is None:
        raise SettingsError("bootstrapToken or file must be set", "give HOST:PORT and --token, or --discovery-file")
    if discovery.bootstrap_token is not None and discovery.file is not None:
        raise SettingsError("bootstrapToken and file cannot both be set", "give --token or --discovery-file, not both")
    if discovery.bootstrap_token is not None and not discovery.bootstrap_token.api_server_endpoint:
        raise SettingsError("Required value: APIServerEndpoint is not set", "give the API server as HOST:PORT")
    if discovery.file is not None:
        file_discovery.verify_source(discovery.file.kube_config_path)
    return discovery


def request_token(discovery: kubeadm.Discovery) -> Token:
    """The token for the certificate request. Raises :class:`SettingsError`."""
    if not discovery.tls_bootstrap_token:
        raise SettingsError(_NO_CREDENTIALS, "give --tls-bootstrap-token")
    try:
        return parse_token(discovery.tls_bootstrap_token)
    except TokenSyntaxError as err:
        raise SettingsError(f"the TLS bootstrap token is invalid: {err}", "kubevouch token create makes one") from err


def from_bootstrap_kubeconfig(path: Path, *, timeout: float = TIMEOUT_SECONDS) -> tuple[FileDiscovery, Token]:
    """The proven cluster and the token that the phase ``kubelet-start`` has left. Raises :class:`SettingsError`."""
    hint = f"kubevouch join phase {Phase.KUBELET_START} writes it"
    try:
        config = kubeconfig.load(path.read_bytes())
        context = config.contexts[config.current_context]
        cluster, user = config.clusters[context.cluster], config.users[context.user]
        found = FileDiscovery(
            endpoint_of_url(cluster.server),
            cluster.certificate_authority_data,
            timeout,
            cluster.tls_server_name,
            cluster.proxy_url,
        )
        return found, parse_token(user.token)
    except OSError as err:
        raise SettingsError(f"{path} cannot be read: {err.strerror}", hint) from err
    except KeyError as err:
        raise SettingsError(f"{path} names no {err}", hint) from err
    except (kubeconfig.KubeconfigError, EndpointError, TokenSyntaxError) as err:
        raise SettingsError(f"{path} cannot be used: {err}", hint) from err


async def settings(
    discovery: kubeadm.Discovery, clock: Clock, *, timeout: float = TIMEOUT_SECONDS
) -> TokenDiscovery | FileDiscovery:
    """The way to go, read and checked.

    Raises:
        SettingsError
        NoClusterError, NotTrustedError: a discovery file cannot be had from its address.
    """
    verify(discovery)
    if discovery.bootstrap_token is not None:
        by_token = discovery.bootstrap_token
        return token_discovery(
            by_token.api_server_endpoint,
            by_token.token,
            by_token.ca_cert_hashes,
            unsafe_skip_ca_verification=by_token.unsafe_skip_ca_verification,
            timeout=timeout,
        )
    assert discovery.file is not None
    # Before anything is fetched: without it there is nothing to ask with afterwards.
    request_token(discovery)
    return await file_discovery.read(discovery.file.kube_config_path, clock, timeout=timeout)
