"""kubeconfig files: clusters, users and contexts by name.

    KubeconfigError    the text is not a kubeconfig

Merging several files, looking up relative paths and running credential plug-ins are for the client.

Source: k8s.io/client-go/tools/clientcmd/api/v1 (Kubernetes 1.36).
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from kubevouch.machinery.codec import yamltext

MAX_BYTES = 4 << 20  # far above any real file

EXEC_API_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")


class KubeconfigError(ValueError):
    """The text is not a kubeconfig."""


class NamedExtension(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody's own settings under a name."""

    name: str = ""
    extension: Any = None


class Cluster(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="kebab"):
    """How to reach an API server. Data beat the file of the same purpose."""

    server: str = ""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    certificate_authority: str = ""
    certificate_authority_data: bytes = b""
    proxy_url: str = ""
    disable_compression: bool = False
    extensions: list[NamedExtension] = []


class ExecEnvVar(msgspec.Struct, frozen=True, kw_only=True):
    """One environment variable of a credential plug-in."""

    name: str = ""
    value: str = ""


class ExecConfig(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A credential plug-in: a program that prints an ExecCredential."""

    command: str = ""
    args: list[str] = []
    env: list[ExecEnvVar] = []
    api_version: str = ""
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""


class AuthProviderConfig(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A built-in credential provider of old; kept as it is, never used."""

    name: str = ""
    config: dict[str, str] = {}


class User(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="kebab"):
    """Credentials. ``repr`` shows which kinds there are, not what they are."""

    client_certificate: str = ""
    client_certificate_data: bytes = b""
    client_key: str = ""
    client_key_data: bytes = b""
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    impersonate: str = msgspec.field(default="", name="as")
    impersonate_uid: str = msgspec.field(default="", name="as-uid")
    impersonate_groups: list[str] = msgspec.field(default_factory=list, name="as-groups")
    impersonate_user_extra: dict[str, list[str]] = msgspec.field(default_factory=dict, name="as-user-extra")
    username: str = ""
    password: str = ""
    auth_provider: AuthProviderConfig | None = None
    exec: ExecConfig | None = None
    extensions: list[NamedExtension] = []

    def __repr__(self) -> str:
        shown = [name for name in self.__struct_fields__ if getattr(self, name)]
        return f"User({', '.join(f'{name}=…' for name in shown)})"


class Context(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="kebab"):
    """A cluster, a user and a namespace under one name."""

    cluster: str = ""
    user: str = ""
    namespace: str = ""
    extensions: list[NamedExtension] = []


class Kubeconfig(msgspec.Struct, frozen=True, kw_only=True):
    """The entries of a kubeconfig by their names."""

    clusters: dict[str, Cluster] = {}
    users: dict[str, User] = {}
    contexts: dict[str, Context] = {}
    current_context: str = ""
    extensions: list[NamedExtension] = []


E = TypeVar("E", Cluster, User, Context)


def load(text: bytes | str) -> Kubeconfig:
    """A kubeconfig from YAML or JSON. Unknown fields are passed over, an empty file is an empty kubeconfig.

    Raises:
        KubeconfigError: too big, not YAML, another kind, a value that does not fit, or a name that occurs twice.
    """
    if len(text) > MAX_BYTES:
        raise KubeconfigError(f"a kubeconfig of {len(text)} bytes, at most {MAX_BYTES} are read")
    try:
        tree, _ = yamltext.loads(text)
    except yamltext.YAMLError as err:
        raise KubeconfigError(str(err)) from err
    if tree is None:
        return Kubeconfig()
    if not isinstance(tree, dict):
        raise KubeconfigError("a kubeconfig is a mapping")
    if tree.get("kind") not in (None, "", "Config") or tree.get("apiVersion") not in (None, "", "v1"):
        raise KubeconfigError(f"no kubeconfig but kind {tree.get('kind')!r} of {tree.get('apiVersion')!r}")
    try:
        return Kubeconfig(
            clusters=_entries(tree, "clusters", "cluster", Cluster),
            users=_entries(tree, "users", "user", User),
            contexts=_entries(tree, "contexts", "context", Context),
            current_context=msgspec.convert(tree.get("current-context") or "", str),
            extensions=msgspec.convert(_without_nulls(tree.get("extensions") or []), list[NamedExtension]),
        )
    except msgspec.ValidationError as err:
        raise KubeconfigError(str(err)) from err


def _entries(tree: dict[str, Any], plural: str, singular: str, kind: type[E]) -> dict[str, E]:
    entries: dict[str, E] = {}
    for index, item in enumerate(msgspec.convert(tree.get(plural) or [], list[dict[str, Any]])):
        name = msgspec.convert(item.get("name") or "", str)
        if name in entries:
            raise KubeconfigError(f"duplicate name {name!r} in {plural}")
        try:
            entries[name] = msgspec.convert(_conformed(item.get(singular) or {}), kind)
        except msgspec.ValidationError as err:
            # The error names the place and the types, not the value.
            raise KubeconfigError(f"{plural}[{index}].{singular}: {err}") from err
    return entries


def _conformed(entry: Any) -> Any:
    """One entry as msgspec takes it: Go passes over line breaks in base64, which YAML blocks bring along."""
    if not isinstance(entry, dict):
        return entry
    return {
        key: value.replace("\n", "").replace("\r", "") if key.endswith("-data") and isinstance(value, str) else value
        for key, value in _without_nulls(entry).items()
    }


def _without_nulls(value: Any) -> Any:
    """Go takes null for the zero value of any field."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def dump(config: Kubeconfig) -> str:
    """A kubeconfig as YAML with the keys, the order and the nulls that client-go writes. Holds all credentials."""
    tree: dict[str, Any] = {
        "apiVersion": "v1",
        "clusters": _listed(config.clusters, "cluster"),
        "contexts": _listed(config.contexts, "context"),
        "current-context": config.current_context,
        "kind": "Config",
        "preferences": {},
        "users": _listed(config.users, "user"),
    }
    if config.extensions:
        tree["extensions"] = msgspec.to_builtins(config.extensions)
    return yamltext.dumps(tree)


# Go's tags without omitempty: written even when they are empty.
_ALWAYS = {"cluster": ("server",), "context": ("cluster", "user"), "user": ()}
_EXEC_ALWAYS: dict[str, Any] = {
    "command": "", "args": None, "env": None, "provideClusterInfo": False, "interactiveMode": "IfAvailable",
}  # fmt: skip


def _listed(entries: dict[str, E], singular: str) -> list[dict[str, Any]] | None:
    if not entries:
        return None
    listed = []
    for name in sorted(entries):
        tree: dict[str, Any] = dict.fromkeys(_ALWAYS[singular], "") | msgspec.to_builtins(entries[name])
        if "exec" in tree:
            tree["exec"] = _EXEC_ALWAYS | tree["exec"]
        listed.append({singular: tree, "name": name})
    return listed
