from __future__ import annotations

import pytest

from kubevouch.config.kubeconfig import (
    MAX_BYTES,
    AuthProviderConfig,
    Cluster,
    Context,
    ExecConfig,
    ExecEnvVar,
    Kubeconfig,
    KubeconfigError,
    NamedExtension,
    User,
    dump,
    load,
)
from kubevouch.machinery.codec import yamltext

FULL = """\
apiVersion: v1
kind: Config
preferences:
  colors: true
current-context: kubernetes-admin@kubernetes
clusters:
- name: kubernetes
  cluster:
    server: https://10.0.0.1:6443
    certificate-authority-data: Y2E=
    tls-server-name: api.example.com
    insecure-skip-tls-verify: false
    proxy-url: null
    disable-compression: true
    extensions:
    - name: client.authentication.k8s.io/exec
      extension: {audience: [a, 1]}
contexts:
- name: kubernetes-admin@kubernetes
  context: {cluster: kubernetes, user: kubernetes-admin, namespace: team}
users:
- name: kubernetes-admin
  user:
    client-certificate-data: Y2VydA==
    client-key: /etc/key
    tokenFile: /var/token
    as: somebody
    as-uid: u1
    as-groups: [g]
    as-user-extra: {k: [v]}
- name: plugin
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1
      command: kubevouch
      args: [credential, --x]
      env:
      - {name: A, value: b}
      installHint: get it
      provideClusterInfo: true
      interactiveMode: Never
      unknown: field
"""


def test_every_field_is_read() -> None:
    config = load(FULL)
    assert config == Kubeconfig(
        clusters={
            "kubernetes": Cluster(
                server="https://10.0.0.1:6443",
                certificate_authority_data=b"ca",
                tls_server_name="api.example.com",
                disable_compression=True,
                extensions=[NamedExtension(name="client.authentication.k8s.io/exec", extension={"audience": ["a", 1]})],
            )
        },
        users={
            "kubernetes-admin": User(
                client_certificate_data=b"cert",
                client_key="/etc/key",
                token_file="/var/token",
                impersonate="somebody",
                impersonate_uid="u1",
                impersonate_groups=["g"],
                impersonate_user_extra={"k": ["v"]},
            ),
            "plugin": User(
                exec=ExecConfig(
                    api_version="client.authentication.k8s.io/v1",
                    command="kubevouch",
                    args=["credential", "--x"],
                    env=[ExecEnvVar(name="A", value="b")],
                    install_hint="get it",
                    provide_cluster_info=True,
                    interactive_mode="Never",
                )
            ),
        },
        contexts={
            "kubernetes-admin@kubernetes": Context(cluster="kubernetes", user="kubernetes-admin", namespace="team")
        },
        current_context="kubernetes-admin@kubernetes",
    )


def test_a_dump_is_read_again() -> None:
    config = load(FULL)
    assert load(dump(config)) == config
    provider = Kubeconfig(users={"u": User(auth_provider=AuthProviderConfig(name="oidc", config={"a": "b"}))})
    assert load(dump(provider)) == provider


def test_a_dump_has_the_fields_that_client_go_always_writes() -> None:
    config = Kubeconfig(
        clusters={"c": Cluster()}, contexts={"x": Context()}, users={"u": User(), "e": User(exec=ExecConfig())}
    )
    tree, _ = yamltext.loads(dump(config))
    assert tree == {
        "apiVersion": "v1",
        "kind": "Config",
        "preferences": {},
        "current-context": "",
        "clusters": [{"cluster": {"server": ""}, "name": "c"}],
        "contexts": [{"context": {"cluster": "", "user": ""}, "name": "x"}],
        "users": [
            {
                "name": "e",
                "user": {
                    "exec": {
                        "command": "",
                        "args": None,
                        "env": None,
                        "provideClusterInfo": False,
                        "interactiveMode": "IfAvailable",
                    }
                },
            },
            {"name": "u", "user": {}},
        ],
    }


def test_extensions_of_the_file_itself_are_kept() -> None:
    config = Kubeconfig(extensions=[NamedExtension(name="x", extension={"a": [1]})])
    assert load(dump(config)) == config


def test_an_empty_file_is_an_empty_kubeconfig() -> None:
    assert load("") == load(b"---\n") == Kubeconfig()
    assert load("{}") == Kubeconfig()


def test_base64_may_be_wrapped() -> None:
    text = "users:\n- name: u\n  user:\n    client-key-data: |\n      Y2Vy\n      dA==\n"
    assert load(text).users["u"].client_key_data == b"cert"


def test_nulls_are_zero_values() -> None:
    assert load("clusters: null\nusers:\n- name: u\n  user: null\n") == Kubeconfig(users={"u": User()})


def test_json_is_yaml() -> None:
    assert load(b'{"clusters":[{"name":"","cluster":{"server":"https://a"}}]}').clusters[""].server == "https://a"


@pytest.mark.parametrize(
    "text",
    [
        "{{{ not yaml",
        "- a",
        "kind: Secret",
        "apiVersion: v2",
        "clusters: {}\nusers: x",
        "clusters:\n- name: a\n  cluster: {server: 5}",
        "clusters:\n- name: a\n  cluster: {certificate-authority-data: '@'}",
        "users:\n- name: a\n- name: a\n",
        "users:\n- name: a\n  user: [b]",
        "current-context: [a]",
        "x: " + "a" * MAX_BYTES,
    ],
)
def test_what_is_no_kubeconfig(text: str) -> None:
    with pytest.raises(KubeconfigError):
        load(text)


def test_credentials_show_neither_in_repr_nor_in_errors() -> None:
    user = User(token="hunter2", client_key_data=b"hunter2", password="hunter2", username="bob")
    assert repr(user) == "User(client_key_data=…, token=…, username=…, password=…)"
    with pytest.raises(KubeconfigError) as caught:
        load("users:\n- name: u\n  user: {token: {hunter2: hunter2}}\n")
    assert "hunter2" not in str(caught.value)
