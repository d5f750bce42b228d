"""What is applied to an existing cluster, part by part: by kubectl from ``kubevouch manifests``, or by ``install``.

Each part is a function from the settings to objects, and each object has the labels by which it is found again. The
same settings give the same text.

    ManifestSettingsError    a name cannot be meant
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

from kubevouch import __version__, wellknown
from kubevouch.api.catalog import CUSTOM_RESOURCE_DEFINITIONS
from kubevouch.api.kubevouch_v1alpha1.catalog import OWN_KINDS
from kubevouch.api.kubevouch_v1alpha1.guard_versions import GuardVersion, guards_for, version_for
from kubevouch.api.kubevouch_v1alpha1.own_kind import OwnKind, definition_of
from kubevouch.api.kubevouch_v1alpha1.revoked_writes import REVOCATION_POLICY
from kubevouch.machinery.codec import yamltext
from kubevouch.machinery.scheme import Resource
from kubevouch.standalone.attached import agent_manifests, manifests
from kubevouch.standalone.attached.rights import DEFAULT_NAMES, SignerNames

Tree = dict[str, Any]

MANAGED_BY: Final = "app.kubernetes.io/managed-by"
PART_OF: Final = "app.kubernetes.io/part-of"
COMPONENT: Final = "app.kubernetes.io/component"
"""The part: what a part has no more is taken away when it is installed again."""
NAME: Final = "kubevouch"
LABELS: Final = {MANAGED_BY: NAME, PART_OF: NAME, "app.kubernetes.io/version": __version__}
SELECTOR: Final = f"{MANAGED_BY}={NAME},{PART_OF}={NAME}"

_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_SUBDOMAIN = re.compile(rf"(?=.{{1,253}}\Z){_LABEL.pattern}(\.{_LABEL.pattern})*")
_SIGNER_PATH = re.compile(r"\*|[A-Za-z0-9]([A-Za-z0-9./_-]*[A-Za-z0-9])?")
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,511}")
_VERSION = re.compile(r"v?1\.([0-9]{1,3})(\.[0-9]{1,5})?")
_MOST_NAME = 571  # of a signer: RFC 1123's 253 for the domain, and as Kubernetes' validation.go has it for the path
_KUBERNETES = "kubernetes.io"
_OWN_DOMAIN = "kubernetes.io/"


class ManifestSettingsError(ValueError):
    """A setting that cannot be meant; ``hint`` says what can."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class Settings(msgspec.Struct, frozen=True):
    """What differs from cluster to cluster.

    Args:
        signers: for which signers certificates are signed; none by default.
        approve: for which further signers requests are approved, by policies as a rule.
        kube_version: the minor version of Kubernetes 1; None is the newest that is known.
        api_server_ports: where the pods reach the API server.

    Raises:
        ManifestSettingsError
    """

    namespace: str = manifests.NAMESPACE
    image: str = manifests.IMAGE
    ca_secret: str = manifests.SIGNING_SECRET
    signers: tuple[str, ...] = ()
    approve: tuple[str, ...] = ()
    kube_version: int | None = None
    api_server_ports: tuple[int, ...] = manifests.API_SERVER_PORTS

    def __post_init__(self) -> None:
        if not _LABEL.fullmatch(self.namespace) or self.namespace in (
            *wellknown.SYSTEM_NAMESPACES, wellknown.SIGNERS_NAMESPACE, wellknown.JOIN_TOKENS_NAMESPACE,
            agent_manifests.NAMESPACE,
        ):  # fmt: skip
            raise ManifestSettingsError(
                f"got --namespace {self.namespace!r}, expected a namespace for these programs alone",
                f"such as {manifests.NAMESPACE}",
            )
        if not _IMAGE.fullmatch(self.image):
            raise ManifestSettingsError(
                f"got --image {self.image!r}, expected the name of an image",
                f"such as registry.example/{manifests.IMAGE}",
            )
        if not _SUBDOMAIN.fullmatch(self.ca_secret):
            raise ManifestSettingsError(
                f"got --ca-secret {self.ca_secret!r}, expected the name of a Secret",
                f"such as {manifests.SIGNING_SECRET}",
            )
        for each in self.signers:
            _expect_signer("--signers", each)
            if each.startswith(_OWN_DOMAIN) and each not in manifests.CA_FLAGS:
                raise ManifestSettingsError(
                    f"got --signers {each}, expected one of Kubernetes' signers or one of a domain of your own",
                    f"Kubernetes' are {', '.join(manifests.CA_FLAGS)}",
                )
        for each in self.approve:
            _expect_signer("--approve", each)
        if any(not 0 < each < 65536 for each in self.api_server_ports) or not self.api_server_ports:
            raise ManifestSettingsError("got no --api-server-port from 1 to 65535", "such as 6443")

    @property
    def names(self) -> SignerNames:
        """For which signers the accounts get rights."""
        own = [each for each in self.signers if not each.startswith(_OWN_DOMAIN)]
        approve = dict.fromkeys((*DEFAULT_NAMES.approve, *own, *self.approve))
        return SignerNames(approve=tuple(approve), sign=tuple(dict.fromkeys(self.signers)))

    @property
    def programs(self) -> tuple[manifests.Program, ...]:
        return manifests.programs_for(tuple(sorted(set(self.signers))))


def _expect_signer(flag: str, name: str) -> None:
    domain, slash, path = name.partition("/")
    is_name = slash and len(name) <= _MOST_NAME and _SUBDOMAIN.fullmatch(domain) and "." in domain
    if not is_name or not _SIGNER_PATH.fullmatch(path) or (domain == _KUBERNETES and path == "*"):
        raise ManifestSettingsError(
            f"got {flag} {name!r}, expected the name of a signer",
            "such as kubernetes.io/kubelet-serving, example.com/plain, or example.com/* for all of a domain",
        )


def version_of(text: str) -> int:
    """The minor version in ``1.33`` or ``v1.33.2``. Raises :class:`ManifestSettingsError`."""
    found = _VERSION.fullmatch(text)
    if found is None:
        raise ManifestSettingsError(f"got --kube-version {text!r}, expected Kubernetes' version", "such as 1.33")
    return int(found.group(1))


# ------------------------------------------------------------------ parts


class Part(msgspec.Struct, frozen=True):
    """Args:
    make: the objects, in the order in which they are to be applied.
    is_usual: it is part of ``all``; others are for who asks for them.
    """

    about: str
    make: Callable[[Settings], Iterable[Tree]]
    is_usual: bool = True


def definition(kind: OwnKind) -> Tree:
    return _written(CUSTOM_RESOURCE_DEFINITIONS, definition_of(kind))


def _definitions(_settings: Settings) -> Iterator[Tree]:
    return map(definition, OWN_KINDS)


def _guards(settings: Settings) -> Iterator[Tree]:
    minor = settings.kube_version
    return guards(GuardVersion.MUTATING if minor is None else version_for(1, minor), settings.namespace)


def guards(version: GuardVersion, namespace: str) -> Iterator[Tree]:
    """Those that a server with these kinds can hold. They name the account of the controllers, in their namespace."""
    return (_renamed(_written(resource, guard), namespace) for resource, guard in guards_for(version))


def _renamed(tree: Any, namespace: str) -> Any:
    prefix = wellknown.SERVICE_ACCOUNT_USER_PREFIX
    if isinstance(tree, dict):
        return {key: _renamed(value, namespace) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_renamed(each, namespace) for each in tree]
    if isinstance(tree, str):
        return tree.replace(f"{prefix}{manifests.NAMESPACE}:", f"{prefix}{namespace}:")
    return tree


def access(settings: Settings) -> list[Tree]:
    return manifests.access(settings.programs, settings.namespace, settings.names)


def workloads(settings: Settings) -> list[Tree]:
    return [
        *manifests.protections(settings.programs, settings.namespace, settings.api_server_ports),
        *manifests.deployments(settings.programs, settings.namespace, settings.image, settings.ca_secret),
    ]


def _attestation(settings: Settings) -> list[Tree]:
    return manifests.attestation_access(settings.programs, settings.namespace, settings.names)


PARTS: dict[str, Part] = {
    "crds": Part("the definitions of kubevouch's own kinds", _definitions),
    "guards": Part("admission policies that hold writers of these kinds to their own rights", _guards),
    "controllers": Part("accounts, roles and pods", lambda settings: [*access(settings), *workloads(settings)]),
    "revocation": Part(
        "the admission policy that refuses what revoked certificates write",
        lambda _settings: (_written(resource, each) for resource, each in REVOCATION_POLICY),
    ),
    "attestation": Part("roles where machines prove what they are", _attestation, is_usual=False),
    "agent": Part(
        "the agent on nodes that are labelled for it",
        lambda settings: agent_manifests.daemon_set(settings.image),
        is_usual=False,
    ),
}
ALL: Final = "all"


def trees(parts: Sequence[str], settings: Settings) -> list[Tree]:
    """The objects of these parts, each once, labelled. ``all`` stands for the usual ones."""
    found: dict[tuple[str, str, str], Tree] = {}
    for name in chosen(parts):
        for each in PARTS[name].make(settings):
            meta = each["metadata"]
            found.setdefault((each["kind"], meta.get("namespace", ""), meta["name"]), labelled(each, name))
    return list(found.values())


def chosen(parts: Sequence[str]) -> tuple[str, ...]:
    """Their names, in the order in which they are applied."""
    usual = ALL in parts or not parts
    return tuple(name for name, part in PARTS.items() if name in parts or (part.is_usual and usual))


def labelled(tree: Tree, part: str) -> Tree:
    """With the labels by which it is found again."""
    meta = tree["metadata"]
    labels = dict(sorted({**meta.get("labels", {}), **LABELS, COMPONENT: part}.items()))
    return {**tree, "metadata": {**meta, "labels": labels}}


def documents(objects: Iterable[Tree]) -> str:
    """YAML, a document each."""
    return "---\n".join(yamltext.dumps(each) for each in objects)


def _written(resource: Resource[Any], obj: Any) -> Tree:
    """An object as a client writes it."""
    tree = resource.codec.to_tree(obj)
    tree.pop("status", None)
    tree["metadata"].pop("creationTimestamp", None)
    return {"apiVersion": resource.api_version, "kind": resource.kind, **tree}
