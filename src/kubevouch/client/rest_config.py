"""From a context of a kubeconfig, or the service account of a pod, to a client.

Source: k8s.io/client-go tools/clientcmd/{client_config,overrides,validation}.go, rest/config.go (Kubernetes 1.36).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast, get_args

import msgspec

from kubevouch.client.credentials import CredentialSource, FixedCredential, TokenFile
from kubevouch.client.execplugin import ExecCluster, ExecConfig, ExecPlugin, InteractiveMode
from kubevouch.client.gate import Gate
from kubevouch.client.https import HTTPSClient
from kubevouch.client.interface import ClientConfigurationError
from kubevouch.client.kubeconfig import E, KubeconfigError, Located, Merged, candidates, load
from kubevouch.client.options import ClientOptions, Impersonation, Timeouts
from kubevouch.client.tls import MAX_PEM_BYTES, Source, TLSFiles, TLSSources, read_bounded
from kubevouch.client.transport import log_warning
from kubevouch.config import kubeconfig as stanzas
from kubevouch.util.clock import Clock, SystemClock
from kubevouch.util.files import log_exposure

# Names fixed by the kubelet's token volume and by exec plug-ins.
SERVICE_ACCOUNT_FOLDER = Path("/var/run/secrets/kubernetes.io/serviceaccount")
EXEC_EXTENSION = "client.authentication.k8s.io/exec"


@dataclass(frozen=True, slots=True)
class Overrides:
    """What the command line says instead of the file. Empty means: as the file says."""

    context: str = ""
    cluster: str = ""
    user: str = ""
    namespace: str = ""
    server: str = ""
    certificate_authority: Path | None = None
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    proxy: str = ""
    token: str = field(default="", repr=False)
    client_certificate: Path | None = None
    client_key: Path | None = None
    impersonate: Impersonation | None = None
    request_timeout: float | None = None


class RESTConfig(msgspec.Struct, frozen=True):
    """Everything a client needs, in Kubernetes' word for it.

    ``user_name`` is the kubeconfig's name for the user, not the name by which the server knows it.
    """

    options: ClientOptions
    tls: TLSSources
    credentials: Callable[[Clock], CredentialSource]
    namespace: str = "default"
    context_name: str = ""
    cluster_name: str = ""
    user_name: str = ""

    def client(
        self,
        *,
        component: str,
        clock: Clock | None = None,
        protobuf: bool = True,
        timeouts: Timeouts | None = None,
        on_warning: Callable[[str], None] = log_warning,
        gate: Gate | None = None,
    ) -> HTTPSClient:
        """A client of its own, with connections of its own. Raises :class:`ClientConfigurationError`."""
        clock = clock or SystemClock()
        options = msgspec.structs.replace(self.options, component=component, protobuf=protobuf)
        if timeouts is not None:
            options = msgspec.structs.replace(options, timeouts=timeouts)
        return HTTPSClient(
            options,
            tls=TLSFiles(self.tls, clock),
            credentials=self.credentials(clock),
            clock=clock,
            on_warning=on_warning,
            gate=gate,
        )


def rest_config(
    explicit: Path | None = None,
    overrides: Overrides = Overrides(),
    environ: Mapping[str, str] = os.environ,
    home: Path | None = None,
    on_exposed: Callable[[str], None] = log_exposure,
) -> RESTConfig:
    """The settings by the full order of precedence, a pod's service account last. ``on_exposed`` as for :func:`load`.

    Raises:
        KubeconfigError: nothing is found, or what is found cannot be used.
    """
    merged = load(explicit, environ, home, on_exposed)
    if explicit is None and merged == Merged() and not overrides.server:
        if in_cluster_possible(environ):
            return in_cluster(environ, overrides=overrides)
        looked = ", ".join(str(path) for path in candidates(environ, home))
        raise KubeconfigError(
            f"no kubeconfig: there is none at {looked}, and this is not a pod",
            hint="give --kubeconfig FILE or set KUBECONFIG",
        )
    return resolve(merged, overrides)


def client_from_kubeconfig(
    path: Path | None = None, *, component: str, overrides: Overrides = Overrides(), clock: Clock | None = None
) -> HTTPSClient:
    """The short way from a kubeconfig to a client. Raises :class:`ClientConfigurationError`."""
    return rest_config(path, overrides).client(component=component, clock=clock)


def resolve(merged: Merged, overrides: Overrides = Overrides()) -> RESTConfig:
    """The settings of the chosen context. Raises :class:`KubeconfigError`."""
    context_name = overrides.context or merged.current_context
    context = _context(merged, context_name, overrides)
    cluster_name = overrides.cluster or context.cluster
    user_name = overrides.user or context.user
    here = Path()
    cluster = _named(merged.clusters, "cluster", cluster_name) or Located(stanzas.Cluster(), here)
    user = _named(merged.users, "user", user_name) or Located(stanzas.User(), here)
    cluster = _overridden_cluster(cluster, overrides)
    user = _overridden_user(user, overrides)
    if not cluster.entry.server:
        raise KubeconfigError(f"cluster {cluster_name!r} has no server", hint="give it one, or --server URL")
    tls = _tls(cluster, user)
    return RESTConfig(
        options=_options(cluster.entry, user.entry, overrides),
        tls=tls,
        credentials=_credentials(cluster, user, user_name, tls),
        namespace=overrides.namespace or context.namespace or "default",
        context_name=context_name,
        cluster_name=cluster_name,
        user_name=user_name,
    )


def _context(merged: Merged, name: str, overrides: Overrides) -> stanzas.Context:
    if name:
        found = _named(merged.contexts, "context", name)
        assert found is not None
        return found.entry
    if overrides.cluster or overrides.server:
        return stanzas.Context()
    known = ", ".join(sorted(merged.contexts)) or "none"
    raise KubeconfigError(f"no context is chosen; there are: {known}", hint="give --context NAME")


def _named(entries: Mapping[str, Located[E]], what: str, name: str) -> Located[E] | None:
    """The entry, or None for no name."""
    if not name:
        return None
    if name not in entries:
        known = ", ".join(sorted(entries)) or "none"
        raise KubeconfigError(f"{what} {name!r} does not exist; there are: {known}")
    return entries[name]


def _overridden_cluster(cluster: Located[stanzas.Cluster], overrides: Overrides) -> Located[stanzas.Cluster]:
    entry, folder = cluster.entry, cluster.folder
    if overrides.server:
        # A name to verify belongs to the server it was written for.
        entry = msgspec.structs.replace(entry, server=overrides.server, tls_server_name="")
    if overrides.tls_server_name:
        entry = msgspec.structs.replace(entry, tls_server_name=overrides.tls_server_name)
    if overrides.proxy:
        entry = msgspec.structs.replace(entry, proxy_url=overrides.proxy)
    if overrides.insecure_skip_tls_verify:
        entry = msgspec.structs.replace(
            entry, insecure_skip_tls_verify=True, certificate_authority="", certificate_authority_data=b""
        )
    if overrides.certificate_authority is not None:
        entry = msgspec.structs.replace(
            entry,
            certificate_authority=str(overrides.certificate_authority.absolute()),
            certificate_authority_data=b"",
            insecure_skip_tls_verify=overrides.insecure_skip_tls_verify,
        )
    return Located(entry, folder)


def _overridden_user(user: Located[stanzas.User], overrides: Overrides) -> Located[stanzas.User]:
    entry = user.entry
    if overrides.token:
        entry = msgspec.structs.replace(entry, token=overrides.token, token_file="")
    if overrides.client_certificate is not None:
        path = str(overrides.client_certificate.absolute())
        entry = msgspec.structs.replace(entry, client_certificate=path, client_certificate_data=b"")
    if overrides.client_key is not None:
        path = str(overrides.client_key.absolute())
        entry = msgspec.structs.replace(entry, client_key=path, client_key_data=b"")
    return Located(entry, user.folder)


def _tls(cluster: Located[stanzas.Cluster], user: Located[stanzas.User]) -> TLSSources:
    ours, theirs = user.entry, cluster.entry
    return TLSSources(
        ca_bundle=_source(cluster, theirs.certificate_authority_data, theirs.certificate_authority) or None,
        certificate=_source(user, ours.client_certificate_data, ours.client_certificate),
        private_key=_source(user, ours.client_key_data, ours.client_key),
        server_name=theirs.tls_server_name,
        insecure=theirs.insecure_skip_tls_verify,
    )


def _source(located: Located[E], content: bytes, path: str) -> Source:
    """Content beats the file of the same purpose."""
    return content if content or not path else located.path(path)


def _options(cluster: stanzas.Cluster, user: stanzas.User, overrides: Overrides) -> ClientOptions:
    options = ClientOptions(
        server=cluster.server,
        proxy=cluster.proxy_url,
        compression=not cluster.disable_compression,
        impersonate=overrides.impersonate or _impersonation(user),
    )
    if overrides.request_timeout is not None:
        options = msgspec.structs.replace(options, timeouts=Timeouts.all(overrides.request_timeout))
    return options


def _impersonation(user: stanzas.User) -> Impersonation | None:
    if not user.impersonate:
        if user.impersonate_groups or user.impersonate_uid or user.impersonate_user_extra:
            raise KubeconfigError("as-groups, as-uid or as-user-extra is given without as", hint="say whom to act as")
        return None
    extra = {key: tuple(values) for key, values in user.impersonate_user_extra.items()}
    return Impersonation(user.impersonate, user.impersonate_uid, tuple(user.impersonate_groups), extra)


# ------------------------------------------------------------------ credentials


def _credentials(
    cluster: Located[stanzas.Cluster], user: Located[stanzas.User], name: str, tls: TLSSources
) -> Callable[[Clock], CredentialSource]:
    """How to make the source. A static credential silently beats a plug-in, as in client-go."""
    entry = user.entry
    if entry.exec is not None and entry.auth_provider is not None:
        raise KubeconfigError(
            f"authProvider cannot be provided in combination with an exec plugin to authenticate {name}"
        )
    if (entry.token or entry.token_file) and entry.username:
        raise KubeconfigError(f"user {name!r} has both a token and a password", hint="keep one of them")
    if entry.token_file:
        path = user.path(entry.token_file)
        return lambda clock: TokenFile(path, clock, first=entry.token)
    if entry.token:
        fixed = FixedCredential.token(entry.token)
        return lambda _clock: fixed
    if entry.username:
        password = FixedCredential.password(entry.username, entry.password)
        return lambda _clock: password
    if entry.exec is not None and not tls.certificate:
        config = _exec_config(cluster, user, entry.exec, name)
        return lambda clock: ExecPlugin(config, clock)
    if entry.auth_provider is not None:
        raise KubeconfigError(
            f"user {name!r} uses the auth provider {entry.auth_provider.name!r}, which no longer exists",
            hint="use the provider's exec plug-in",
        )
    return lambda _clock: FixedCredential()


def _exec_config(
    cluster: Located[stanzas.Cluster], user: Located[stanzas.User], stanza: stanzas.ExecConfig, name: str
) -> ExecConfig:
    suffix = f"for {name} to use exec authentication plugin"
    if not stanza.command:
        raise KubeconfigError(f"command must be specified {suffix}")
    if stanza.api_version not in stanzas.EXEC_API_VERSIONS:
        raise KubeconfigError(
            f"exec plugin: invalid apiVersion {stanza.api_version!r}",
            hint=f"expected {' or '.join(stanzas.EXEC_API_VERSIONS)}",
        )
    if any(not variable.name for variable in stanza.env):
        raise KubeconfigError(f"env variable name must be specified {suffix}")
    mode = stanza.interactive_mode
    if not mode and stanza.api_version.endswith("/v1beta1"):
        mode = "IfAvailable"
    if mode not in get_args(InteractiveMode):
        got = f"invalid interactiveMode {mode!r}" if mode else "interactiveMode must be specified"
        raise KubeconfigError(f"{got} {suffix}", hint="expected Never, IfAvailable or Always")
    return ExecConfig(
        api_version=stanza.api_version,
        # A bare name is looked up in PATH, anything with a slash belongs to the file.
        command=str(user.path(stanza.command)) if "/" in stanza.command else stanza.command,
        args=tuple(stanza.args),
        env={variable.name: variable.value for variable in stanza.env},
        install_hint=stanza.install_hint,
        interactive_mode=cast("InteractiveMode", mode),
        cluster=_exec_cluster(cluster) if stanza.provide_cluster_info else None,
    )


def _exec_cluster(cluster: Located[stanzas.Cluster]) -> ExecCluster:
    entry = cluster.entry
    bundle = entry.certificate_authority_data
    if not bundle and entry.certificate_authority:
        try:
            bundle = read_bounded(cluster.path(entry.certificate_authority), "CA bundle", MAX_PEM_BYTES)
        except ClientConfigurationError as err:
            raise KubeconfigError(str(err)) from err
    extensions = (extension.extension for extension in entry.extensions if extension.name == EXEC_EXTENSION)
    return ExecCluster(
        server=entry.server,
        tls_server_name=entry.tls_server_name,
        insecure_skip_tls_verify=entry.insecure_skip_tls_verify,
        certificate_authority_data=bundle,
        proxy_url=entry.proxy_url,
        disable_compression=entry.disable_compression,
        config=next(extensions, None),
    )


# ------------------------------------------------------------------ in a pod


def in_cluster_possible(environ: Mapping[str, str] = os.environ) -> bool:
    return bool(environ.get("KUBERNETES_SERVICE_HOST") and environ.get("KUBERNETES_SERVICE_PORT"))


def in_cluster(
    environ: Mapping[str, str] = os.environ,
    folder: Path = SERVICE_ACCOUNT_FOLDER,
    overrides: Overrides = Overrides(),
) -> RESTConfig:
    """The settings of a pod's service account. Raises :class:`KubeconfigError` outside of pods."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        raise KubeconfigError("this is not a pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set")
    if not (folder / "token").exists():
        raise KubeconfigError(
            f"this pod has no service account token at {folder}/token", hint="set automountServiceAccountToken"
        )
    cluster = stanzas.Cluster(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        certificate_authority="ca.crt" if (folder / "ca.crt").exists() else "",
    )
    name = "in-cluster"
    pod = Merged(
        clusters={name: Located(cluster, folder)}, users={name: Located(stanzas.User(token_file="token"), folder)}
    )
    config = resolve(pod, replace(overrides, context="", cluster=name, user=name))
    own = folder / "namespace"
    namespace = overrides.namespace or (own.read_text().strip() if own.exists() else "")
    return msgspec.structs.replace(config, namespace=namespace or "default")
