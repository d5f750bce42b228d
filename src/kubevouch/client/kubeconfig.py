"""Which kubeconfig files count, and what they come to together.

KubeconfigError           there is none, or it cannot be used; ``hint`` says what to do

Precedence and merging: k8s.io/client-go tools/clientcmd/loader.go (Kubernetes 1.36).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from kubevouch.client.interface import ClientConfigurationError
from kubevouch.config import kubeconfig as stanzas
from kubevouch.util.files import log_exposure, warn_of_exposure

E = TypeVar("E", stanzas.Cluster, stanzas.User, stanzas.Context)

VARIABLE = "KUBECONFIG"
HOME_FILE = Path(".kube/config")


class KubeconfigError(ClientConfigurationError):
    """No usable kubeconfig."""


class Located(msgspec.Struct, Generic[E], frozen=True):
    """An entry and the folder of the file that it stands in, to which its paths are relative."""

    entry: E
    folder: Path

    def path(self, text: str) -> Path:
        return self.folder / text


class Merged(msgspec.Struct, frozen=True):
    """Several kubeconfigs as one: each name belongs to the first file that has it, so does current-context."""

    clusters: Mapping[str, Located[stanzas.Cluster]] = msgspec.field(default_factory=dict)
    users: Mapping[str, Located[stanzas.User]] = msgspec.field(default_factory=dict)
    contexts: Mapping[str, Located[stanzas.Context]] = msgspec.field(default_factory=dict)
    current_context: str = ""


def merge(files: Iterable[tuple[Path, stanzas.Kubeconfig]]) -> Merged:
    """The files in the order of their precedence, each with its folder."""
    clusters: dict[str, Located[stanzas.Cluster]] = {}
    users: dict[str, Located[stanzas.User]] = {}
    contexts: dict[str, Located[stanzas.Context]] = {}
    current = ""
    for folder, config in files:
        for name, cluster in config.clusters.items():
            clusters.setdefault(name, Located(cluster, folder))
        for name, user in config.users.items():
            users.setdefault(name, Located(user, folder))
        for name, context in config.contexts.items():
            contexts.setdefault(name, Located(context, folder))
        current = current or config.current_context
    return Merged(clusters, users, contexts, current)


def load(
    explicit: Path | None = None,
    environ: Mapping[str, str] = os.environ,
    home: Path | None = None,
    on_exposed: Callable[[str], None] = log_exposure,
) -> Merged:
    """The kubeconfig that counts: ``explicit``, else the files of ``KUBECONFIG``, else the one in the home folder.

    Args:
        on_exposed: is told of each of these files, and of each key and token file that they name, that is not private.

    Raises:
        KubeconfigError: ``explicit`` is not there, or a file that is there is no kubeconfig.
    """
    if explicit is not None:
        return merge([_read(explicit, on_exposed)])
    return merge(_read(path, on_exposed) for path in candidates(environ, home) if path.exists())


def candidates(environ: Mapping[str, str] = os.environ, home: Path | None = None) -> list[Path]:
    """The files that :func:`load` looks for when none is named."""
    listed = [Path(part) for part in environ.get(VARIABLE, "").split(os.pathsep) if part]
    return listed or [(home or Path.home()) / HOME_FILE]


def _read(path: Path, on_exposed: Callable[[str], None]) -> tuple[Path, stanzas.Kubeconfig]:
    try:
        with path.open("rb") as file:
            text = file.read(stanzas.MAX_BYTES + 1)
    except OSError as err:
        raise KubeconfigError(f"the kubeconfig {path} cannot be read: {err.strerror}") from err
    try:
        config = stanzas.load(text)
    except stanzas.KubeconfigError as err:
        raise KubeconfigError(f"the kubeconfig {path} cannot be used: {err}") from err
    for secret in _secrets(path, config):
        warn_of_exposure(secret, on_exposed)
    return path.absolute().parent, config


def _secrets(path: Path, config: stanzas.Kubeconfig) -> Iterator[Path]:
    """The files that hold a credential of ``config``, itself among them."""
    users = config.users.values()
    if any(user.client_key_data or user.token or user.password for user in users):
        yield path
    for user in users:
        yield from (path.parent / name for name in (user.client_key, user.token_file) if name)
