"""Exec credential plug-ins, from the side of the program that runs them.

Source: k8s.io/client-go plugin/pkg/client/auth/exec, apis/clientauthentication (Kubernetes 1.36). One difference: after
a 401 the plug-in runs again *and* the request is repeated, where client-go leaves the repetition to the caller.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec

from kubevouch.client.credentials import Credential, bearer
from kubevouch.client.interface import ClientConfigurationError, CredentialsFailed
from kubevouch.client.tls import check_pair
from kubevouch.machinery.codec import json_codec
from kubevouch.machinery.text.times import Time
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger
from kubevouch.util.tasks import deadline

log = get_logger("client.execplugin")

V1 = "client.authentication.k8s.io/v1"
V1BETA1 = "client.authentication.k8s.io/v1beta1"

InteractiveMode = Literal["Never", "IfAvailable", "Always"]

MAX_OUTPUT_BYTES = 1024 * 1024
# A plug-in that may not ask anybody has no reason to take longer; one that may ask waits for its user.
SILENT_SECONDS = 60.0


class ExecCluster(msgspec.Struct, frozen=True):
    """The cluster as a plug-in sees it with ``provideClusterInfo``; ``config`` is the extension of that purpose."""

    server: str
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    certificate_authority_data: bytes = b""
    proxy_url: str = ""
    disable_compression: bool = False
    config: Any = None


@dataclass(frozen=True, slots=True)
class ExecConfig:
    """The ``exec`` stanza of a kubeconfig user. ``command`` is what is run, relative paths already resolved."""

    api_version: str
    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    install_hint: str = ""
    interactive_mode: InteractiveMode = "IfAvailable"
    cluster: ExecCluster | None = None


class _Status(msgspec.Struct, rename="camel"):
    expiration_timestamp: str | None = None
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    kind: str = ""
    api_version: str = ""
    status: _Status | None = None


class Issued(msgspec.Struct, frozen=True):
    """What a plug-in gave, and until when it may be used (None: until the server refuses it)."""

    credential: Credential
    expires: Time | None


class PluginError(Exception):
    """The plug-in gave nothing usable; ``str()`` is client-go's sentence."""


_decoder = msgspec.json.Decoder(_ExecCredential)


def parse_output(output: bytes, api_version: str) -> Issued:
    """What stands on a plug-in's standard output. Raises :class:`PluginError`."""
    try:
        document = _decoder.decode(output)
    except (msgspec.DecodeError, ValueError, RecursionError) as err:
        raise PluginError(f"decoding stdout: {err}") from err
    if document.api_version != api_version or document.kind != "ExecCredential":
        if document.api_version == api_version:
            raise PluginError(f"decoding stdout: got kind {document.kind[:60]!r}, expected ExecCredential")
        raise PluginError(
            f"exec plugin is configured to use API version {api_version}, "
            f"plugin returned version {document.api_version[:120]}"
        )
    status = document.status
    if status is None:
        raise PluginError("exec plugin didn't return a status field")
    certificate, key = status.client_certificate_data or "", status.client_key_data or ""
    if not status.token and not certificate and not key:
        raise PluginError("exec plugin didn't return a token or cert/key pair")
    if bool(certificate) != bool(key):
        raise PluginError("exec plugin returned only certificate or key, not both")
    try:
        if certificate:
            check_pair(certificate.encode(), key.encode())
        authorization = bearer(status.token) if status.token else ""
    except ClientConfigurationError as err:
        raise PluginError(f"failed parsing client key/certificate: {err}" if certificate else str(err)) from err
    try:
        expires = Time.parse(status.expiration_timestamp) if status.expiration_timestamp else None
    except ValueError as err:
        raise PluginError(f"decoding stdout: expirationTimestamp: {err}") from err
    return Issued(Credential(authorization, certificate.encode(), key.encode()), expires)


def exec_info(config: ExecConfig, *, interactive: bool) -> str:
    """The value of ``KUBERNETES_EXEC_INFO``."""
    spec: dict[str, Any] = {"interactive": interactive}
    if config.cluster is not None:
        cluster = config.cluster
        shown: dict[str, Any] = {"server": cluster.server}
        if cluster.tls_server_name:
            shown["tls-server-name"] = cluster.tls_server_name
        if cluster.insecure_skip_tls_verify:
            shown["insecure-skip-tls-verify"] = True
        if cluster.certificate_authority_data:
            shown["certificate-authority-data"] = base64.b64encode(cluster.certificate_authority_data).decode()
        if cluster.proxy_url:
            shown["proxy-url"] = cluster.proxy_url
        if cluster.disable_compression:
            shown["disable-compression"] = True
        # Always there, as a Go RawExtension without omitempty writes it.
        shown["config"] = cluster.config
        spec["cluster"] = shown
    return json_codec.encode({"kind": "ExecCredential", "apiVersion": config.api_version, "spec": spec}).decode()


def _stdin_is_a_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


class ExecPlugin:
    """A :class:`CredentialSource` that asks a program, and remembers what it said."""

    def __init__(
        self, config: ExecConfig, clock: Clock, *, at_terminal: Callable[[], bool] = _stdin_is_a_terminal
    ) -> None:
        """``at_terminal`` says whether somebody is there to answer the plug-in's questions."""
        self.config = config
        self._clock = clock
        self._at_terminal = at_terminal
        self._issued: Issued | None = None
        self._running = asyncio.Lock()

    async def current(self) -> Credential:
        async with self._running:
            issued = self._issued
            if issued is None or (issued.expires is not None and Time.of(self._clock.now()) > issued.expires):
                issued = await self._run()
            return issued.credential

    async def refused(self, credential: Credential) -> bool:
        async with self._running:
            # Whoever comes second finds what the first has fetched.
            if self._issued is not None and self._issued.credential == credential:
                await self._run()
            return self._issued is not None and self._issued.credential != credential

    async def _run(self) -> Issued:
        self._issued = None
        config = self.config
        try:
            output = await self._output(interactive=_interactive(config.interactive_mode, self._at_terminal()))
            self._issued = parse_output(output, config.api_version)
        except PluginError as err:
            raise CredentialsFailed(
                f"getting credentials: {err}", address=config.command, hint=config.install_hint
            ) from err
        return self._issued

    async def _output(self, *, interactive: bool) -> bytes:
        config = self.config
        environment = {
            **os.environ,
            **config.env,
            "KUBERNETES_EXEC_INFO": exec_info(config, interactive=interactive),
        }
        try:
            process = await asyncio.create_subprocess_exec(
                config.command,
                *config.args,
                stdin=None if interactive else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                env=environment,
                start_new_session=not interactive,  # so that what it leaves behind can be ended with it
            )
        except FileNotFoundError as err:
            raise PluginError(f"exec: executable {Path(config.command).name} not found") from err
        except OSError as err:
            raise PluginError(f"exec: {config.command}: {err.strerror}") from err
        try:
            async with deadline(self._clock, None if interactive else SILENT_SECONDS):
                output = await _read_bounded(process)
                code = await process.wait()
        except TimeoutError as err:
            raise PluginError(f"exec: executable {config.command} gave no answer within {SILENT_SECONDS:.0f}s") from err
        finally:
            await _end(process, group=not interactive)
        if code != 0:
            raise PluginError(f"exec: executable {config.command} failed with exit code {code}")
        return output


async def _read_bounded(process: asyncio.subprocess.Process) -> bytes:
    assert process.stdout is not None
    output = bytearray()
    while chunk := await process.stdout.read(64 * 1024):
        output += chunk
        if len(output) > MAX_OUTPUT_BYTES:
            raise PluginError(f"decoding stdout: more than {MAX_OUTPUT_BYTES} bytes")
    return bytes(output)


async def _end(process: asyncio.subprocess.Process, *, group: bool) -> None:
    """Leave no process behind, whatever happened."""
    if process.returncode is not None:
        return
    if group:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    await process.wait()


def _interactive(mode: InteractiveMode, terminal: bool) -> bool:
    if mode == "Always" and not terminal:
        raise PluginError("exec plugin cannot support interactive mode: standard input is not a terminal")
    return terminal and mode != "Never"
