"""client/rest_config.py: contexts, overrides, credentials, pods."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from asynctest import async_test
from kubevouch.client.credentials import FixedCredential, TokenFile
from kubevouch.client.execplugin import ExecCluster, ExecConfig, ExecPlugin
from kubevouch.client.interface import ClientConfigurationError
from kubevouch.client.kubeconfig import KubeconfigError, Merged, merge
from kubevouch.client.options import Impersonation, Timeouts
from kubevouch.client.rest_config import (
    Overrides,
    RESTConfig,
    in_cluster,
    in_cluster_possible,
    resolve,
    rest_config,
)
from kubevouch.client.tls import TLSSources
from kubevouch.config import kubeconfig as stanzas
from kubevouch.testing.clock import FakeClock

FOLDER = Path("/etc/vouch")
EXEC = {"apiVersion": "client.authentication.k8s.io/v1", "command": "helper", "interactiveMode": "Never"}


def merged(user: dict[str, Any] | None = None, cluster: dict[str, Any] | None = None, **context: str) -> Merged:
    document = {
        "current-context": "here",
        "clusters": [
            {"name": "c", "cluster": {"server": "https://c:6443", **(cluster or {})}},
            {"name": "d", "cluster": {"server": "https://d:6443"}},
        ],
        "users": [{"name": "u", "user": user or {}}, {"name": "v", "user": {"token": "v-token"}}],
        "contexts": [
            {"name": "here", "context": {"cluster": "c", "user": "u", **context}},
            {"name": "there", "context": {"cluster": "d", "user": "v", "namespace": "far"}},
        ],
    }
    return merge([(FOLDER, stanzas.load(msgspec.json.encode(document)))])


async def authorization(config: RESTConfig) -> str:
    return (await config.credentials(FakeClock()).current()).authorization


def test_the_current_context() -> None:
    config = resolve(merged({"token": "t"}, {"disable-compression": True, "proxy-url": "http://p:3128"}))
    assert (config.options.server, config.namespace) == ("https://c:6443", "default")
    assert (config.options.proxy, config.options.compression) == ("http://p:3128", False)
    assert (config.context_name, config.cluster_name, config.user_name) == ("here", "c", "u")
    assert config.tls == TLSSources(ca_bundle=None)


@async_test
async def test_overrides_choose_context_cluster_user_and_namespace() -> None:
    config = resolve(merged(), Overrides(context="there"))
    assert (config.options.server, config.namespace, await authorization(config)) == (
        "https://d:6443", "far", "Bearer v-token",
    )  # fmt: skip
    config = resolve(merged(), Overrides(cluster="d", user="v", namespace="n"))
    assert (config.options.server, config.namespace, await authorization(config)) == (
        "https://d:6443", "n", "Bearer v-token",
    )  # fmt: skip


def test_paths_are_relative_to_their_file_and_contents_beat_paths() -> None:
    config = resolve(
        merged(
            {"client-certificate": "pki/me.crt", "client-key": "/abs/me.key", "client-key-data": "S0VZ"},
            {"certificate-authority": "ca.crt", "tls-server-name": "kubernetes"},
        )
    )
    assert config.tls == TLSSources(
        ca_bundle=FOLDER / "ca.crt", certificate=FOLDER / "pki/me.crt", private_key=b"KEY", server_name="kubernetes"
    )


def test_overriding_the_server_drops_the_name_that_was_meant_for_another() -> None:
    file = merged(cluster={"tls-server-name": "old", "certificate-authority-data": "Q0E="})
    assert resolve(file, Overrides(server="https://x")).tls == TLSSources(ca_bundle=b"CA")
    config = resolve(file, Overrides(server="https://x", tls_server_name="new", proxy="http://p"))
    assert (config.options.server, config.options.proxy, config.tls.server_name) == ("https://x", "http://p", "new")


def test_trust_overrides() -> None:
    file = merged(cluster={"certificate-authority-data": "Q0E="})
    assert resolve(file, Overrides(insecure_skip_tls_verify=True)).tls == TLSSources(insecure=True)
    insecure = merged(cluster={"insecure-skip-tls-verify": True})
    assert resolve(insecure).tls.insecure
    assert resolve(insecure, Overrides(certificate_authority=Path("/ca"))).tls == TLSSources(ca_bundle=Path("/ca"))


def test_a_server_and_a_token_need_no_file(tmp_path: Path) -> None:
    config = rest_config(None, Overrides(server="https://x:6443", token="t"), {}, tmp_path)
    assert config.options.server == "https://x:6443"


@async_test
async def test_credentials_by_kind() -> None:
    clock = FakeClock()
    assert await authorization(resolve(merged())) == ""
    assert await authorization(resolve(merged({"token": "t"}))) == "Bearer t"
    assert await authorization(resolve(merged({"username": "u", "password": "p"}))) == "Basic dTpw"
    assert await authorization(resolve(merged({"token": "t"}), Overrides(token="other"))) == "Bearer other"
    assert isinstance(resolve(merged({"tokenFile": "token"})).credentials(clock), TokenFile)
    assert isinstance(resolve(merged({"exec": EXEC})).credentials(clock), ExecPlugin)
    # exec-022 of the case file: a static credential silently beats the plug-in
    assert await authorization(resolve(merged({"token": "static", "exec": EXEC}))) == "Bearer static"
    pair = {"client-certificate": "a", "client-key": "b", "exec": EXEC}
    assert isinstance(resolve(merged(pair)).credentials(clock), FixedCredential)


def test_impersonation_from_the_file_and_from_the_command_line() -> None:
    file = merged({"as": "a", "as-uid": "1", "as-groups": ["g"], "as-user-extra": {"k": ["v"]}})
    assert resolve(file).options.impersonate == Impersonation("a", "1", ("g",), {"k": ("v",)})
    assert resolve(file, Overrides(impersonate=Impersonation("b"))).options.impersonate == Impersonation("b")
    with pytest.raises(KubeconfigError, match="without as"):
        resolve(merged({"as-groups": ["g"]}))


def test_request_timeout() -> None:
    assert resolve(merged(), Overrides(request_timeout=3)).options.timeouts == Timeouts(3, 3, 3, 3, 3)


def test_exec_stanza_becomes_what_is_run(tmp_path: Path) -> None:
    stanza = {
        **EXEC, "command": "bin/helper", "args": ["-x"], "env": [{"name": "A", "value": "1"}], "installHint": "get it",
        "provideClusterInfo": True,
    }  # fmt: skip
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "a"}}
    (tmp_path / "ca.crt").write_bytes(b"PEM")
    cluster = {"certificate-authority": str(tmp_path / "ca.crt"), "tls-server-name": "k", "extensions": [extension]}
    plugin = resolve(merged({"exec": stanza}, cluster)).credentials(FakeClock())
    assert isinstance(plugin, ExecPlugin)
    assert plugin.config == ExecConfig(
        api_version="client.authentication.k8s.io/v1", command="/etc/vouch/bin/helper", args=("-x",), env={"A": "1"},
        install_hint="get it", interactive_mode="Never",
        cluster=ExecCluster("https://c:6443", "k", False, b"PEM", config={"audience": "a"}),
    )  # fmt: skip
    bare = resolve(
        merged({"exec": {**EXEC, "apiVersion": "client.authentication.k8s.io/v1beta1", "interactiveMode": ""}})
    )
    plugin = bare.credentials(FakeClock())
    assert isinstance(plugin, ExecPlugin)
    assert (plugin.config.command, plugin.config.interactive_mode) == ("helper", "IfAvailable")


@pytest.mark.parametrize(
    ("user", "problem"),
    [
        ({"exec": EXEC, "auth-provider": {"name": "x"}},
         "authProvider cannot be provided in combination with an exec plugin to authenticate u"),
        ({"auth-provider": {"name": "gcp"}}, "auth provider 'gcp', which no longer exists"),
        ({"exec": {**EXEC, "command": ""}}, "command must be specified for u to use exec authentication plugin"),
        ({"exec": {**EXEC, "apiVersion": "client.authentication.k8s.io/v1alpha1"}}, "invalid apiVersion"),
        ({"exec": {**EXEC, "interactiveMode": ""}}, "interactiveMode must be specified for u"),
        ({"exec": {**EXEC, "interactiveMode": "Maybe"}}, "invalid interactiveMode 'Maybe' for u"),
        ({"exec": {**EXEC, "env": [{"value": "v"}]}}, "env variable name must be specified for u"),
        ({"token": "t", "username": "u"}, "both a token and a password"),
    ],
)  # fmt: skip
def test_users_that_cannot_be_used(user: dict[str, Any], problem: str) -> None:
    with pytest.raises(KubeconfigError, match=problem):
        resolve(merged(user))


def test_a_bad_token_is_refused_without_being_shown() -> None:
    with pytest.raises(ClientConfigurationError) as caught:
        resolve(merged({"token": "se\ncret"}))
    assert "cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("overrides", "problem"),
    [
        (Overrides(context="nowhere"), "context 'nowhere' does not exist; there are: here, there"),
        (Overrides(cluster="x"), "cluster 'x' does not exist; there are: c, d"),
        (Overrides(user="x"), "user 'x' does not exist; there are: u, v"),
    ],
)
def test_names_that_do_not_exist_are_answered_with_those_that_do(overrides: Overrides, problem: str) -> None:
    with pytest.raises(KubeconfigError, match=problem):
        resolve(merged(), overrides)


def test_no_context_chosen_and_no_server() -> None:
    with pytest.raises(KubeconfigError, match="no context is chosen; there are: here, there"):
        resolve(replace(merged(), current_context=""))
    with pytest.raises(KubeconfigError, match="cluster 'c' has no server"):
        resolve(merged(cluster={"server": ""}))


def test_nothing_found_says_where_it_looked(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match=f"none at {tmp_path}/.kube/config, and this is not a pod") as caught:
        rest_config(None, Overrides(), {}, tmp_path)
    assert "KUBECONFIG" in caught.value.hint


@async_test
async def test_a_pod_s_service_account(tmp_path: Path) -> None:
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    for name, text in (("token", "t1\n"), ("ca.crt", "PEM"), ("namespace", "kube-system\n")):
        (tmp_path / name).write_text(text)
    assert in_cluster_possible(environ) and not in_cluster_possible({})
    config = in_cluster(environ, tmp_path)
    assert (config.options.server, config.namespace) == ("https://[fd00::1]:443", "kube-system")
    assert config.tls == TLSSources(ca_bundle=tmp_path / "ca.crt")
    assert await authorization(config) == "Bearer t1"


def test_outside_of_pods_and_without_a_token(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match="not a pod"):
        in_cluster({}, tmp_path)
    with pytest.raises(KubeconfigError, match="no service account token"):
        in_cluster({"KUBERNETES_SERVICE_HOST": "h", "KUBERNETES_SERVICE_PORT": "1"}, tmp_path)
