"""Which API versions and resources are served: kube-apiserver's ``--runtime-config``.

    RuntimeConfigError    a setting names what there is not; the text is kube-apiserver's

Source: k8s.io/apiserver/pkg/server/resourceconfig/helpers.go, …/server/options/api_enablement.go (Kubernetes 1.36).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kubevouch.api import catalog
from kubevouch.machinery.scheme import GroupVersion, Resource, Scheme
from kubevouch.machinery.text.gotext import quote

# In the order in which they are looked at: the later one counts.
_STABILITIES = {
    "api/all": re.compile(r"v[0-9]+.*"),
    "api/ga": re.compile(r"v[0-9]+"),
    "api/beta": re.compile(r"v[0-9]+beta[0-9]+"),
    "api/alpha": re.compile(r"v[0-9]+alpha[0-9]+"),
}
_DEFAULT = _STABILITIES["api/ga"]
# Younger than the Kubernetes of this server: who looks for what that one has must not find more.
_BY_NAME_ONLY = frozenset({catalog.POD_CERTIFICATE_REQUESTS_V1})
# Go's strconv.ParseBool; a key without a value is on.
_BOOLEANS = dict.fromkeys(("", "1", "t", "T", "true", "TRUE", "True"), True) | dict.fromkeys(
    ("0", "f", "F", "false", "FALSE", "False"), False
)


class RuntimeConfigError(ValueError):
    """A setting names what there is not, or says neither true nor false."""


class RuntimeConfig:
    """Says of every resource whether it is served. Without settings, what is generally available is.

    ``group/version/resource`` counts before ``group/version``, that before ``api/beta`` and its like. What only a later
    Kubernetes has is served where it is named with its resource.
    """

    def __init__(self, settings: Mapping[str, str] | None = None, scheme: Scheme = catalog.SCHEME) -> None:
        """Raises :class:`RuntimeConfigError`."""
        settings = settings or {}
        _check_groups(settings, scheme)
        self._stabilities = {key: _boolean(key, settings[key]) for key in _STABILITIES if key in settings}
        self._versions: dict[GroupVersion, bool] = {}
        self._resources: dict[tuple[GroupVersion, str], bool] = {}
        for key, value in settings.items():
            if key in _STABILITIES:
                continue
            group, version, *rest = key.split("/")
            named = GroupVersion(group, version)
            if not scheme.knows_group_version(group, version):
                raise RuntimeConfigError(f"group version {named} that has not been registered")
            enabled = _boolean(key, value)
            if not rest:
                self._versions[named] = enabled
                continue
            if rest[0] != rest[0].lower():
                raise RuntimeConfigError(
                    f"invalid key {key}: group/version/resource and resource is always lowercase plural, "
                    f"not {quote(rest[0])}"
                )
            self._resources[named, rest[0]] = enabled

    @classmethod
    def parse(cls, text: str) -> RuntimeConfig:
        """From ``key=value,key=value``. Raises :class:`RuntimeConfigError`."""
        pairs = (each.partition("=") for each in text.split(",") if each)
        return cls({key.strip(): value.strip() for key, _, value in pairs})

    def serves(self, resource: Resource[Any]) -> bool:
        """Whether clients get to see this version of a resource."""
        version = resource.group_version
        if resource in _BY_NAME_ONLY:
            return self._resources.get((version, resource.plural), False)
        found = self._resources.get((version, resource.plural), self._versions.get(version))
        if found is not None:
            return found
        served = _DEFAULT.fullmatch(version.version) is not None
        for key, enabled in self._stabilities.items():
            if _STABILITIES[key].fullmatch(version.version):
                served = enabled
        return served


def _check_groups(settings: Mapping[str, str], scheme: Scheme) -> None:
    if len(settings) == 1 and settings.get("api/all") == "false":
        raise RuntimeConfigError("invalid key with only api/all=false")
    known = {gvk.group for gvk in scheme.kinds}
    unknown = []
    for key in settings:
        if key in _STABILITIES:
            continue
        parts = key.split("/")
        if len(parts) not in (2, 3):
            raise RuntimeConfigError(f"runtime-config invalid key {key}")
        if parts[0] not in known:
            unknown.append(parts[0])
    if unknown:
        raise RuntimeConfigError(f"unknown api groups {','.join(unknown)}")


def _boolean(key: str, value: str) -> bool:
    found = _BOOLEANS.get(value)
    if found is None:
        raise RuntimeConfigError(
            f"invalid value of {key}: {value}, err: strconv.ParseBool: parsing {quote(value)}: invalid syntax"
        )
    return found
