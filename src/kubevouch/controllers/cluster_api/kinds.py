"""The kinds of Cluster API in the cluster that has them, followed for as long as there are such."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from kubevouch.client.cache.informer import ChangeHandler, SharedInformer
from kubevouch.client.interface import Client
from kubevouch.controllers.custom_kinds import CustomKind, CustomKinds
from kubevouch.controllers.interface import Management, Request
from kubevouch.machinery.custom_object import CustomObject
from kubevouch.machinery.scheme import Resource
from kubevouch.policy.cluster_api import CLUSTERS, GROUP, ClusterFacts, cluster_of

ALL = Request("cluster")
"""There is one Cluster."""

Changed = Callable[[CustomObject, bool], None]
"""Is told of an object, and whether it is gone."""


class Followed(NamedTuple):
    """A kind that is followed. ``field_selector`` leaves out what nobody asks for."""

    group: str
    plural: str
    changed: Changed
    field_selector: str = ""


class ClusterSeen:
    """What the Cluster says, as far as is known; None where there is none.

    Args:
        changed: is told of what it says by now.
    """

    def __init__(self, changed: Callable[[ClusterFacts | None], None]) -> None:
        self.facts: ClusterFacts | None = None
        self._tell = changed

    def followed(self, management: Management) -> Followed:
        """The one Cluster that stands for this cluster."""
        return Followed(GROUP, CLUSTERS, self._changed, f"metadata.name={management.name}")

    def _changed(self, obj: CustomObject, gone: bool) -> None:
        facts = None if gone else cluster_of(obj)
        if facts != self.facts:
            self.facts = facts
            self._tell(facts)


class FollowedKinds:
    """Tells of the objects of some kinds in the namespace of the Cluster, in whatever version they are served."""

    def __init__(self, management: Management, client: Client, followed: Iterable[Followed]) -> None:
        self._management = management
        self._client = client
        self._followed: Mapping[tuple[str, str], Followed] = {(each.group, each.plural): each for each in followed}
        self._informers: dict[tuple[str, str], SharedInformer[CustomObject]] = {}
        self._kinds = CustomKinds(management.informers, client, self._came, self._went)
        self._definitions = management.definitions(client)

    def have_loaded(self) -> bool:
        """Whether all that there is has been told."""
        loaded = self._definitions.synced and self._kinds.has_told
        return loaded and all(each.synced for each in self._informers.values())

    def get(self, group: str, plural: str, name: str) -> CustomObject | None:
        """One of the objects; None if it is not there, as far as is known."""
        informer = self._informers.get((group, plural))
        return None if informer is None else informer.indexer.get(f"{self._management.namespace}/{name}")

    def all_of(self, group: str, plural: str) -> Iterable[CustomObject]:
        informer = self._informers.get((group, plural))
        return () if informer is None else informer.indexer.values()

    def resource(self, group: str, kind: str) -> Resource[CustomObject] | None:
        """In the preferred version of those that are served; None if there is no such kind."""
        return next((each for each in self._kinds if (each.group, each.kind) == (group, kind)), None)

    def _came(self, kind: CustomKind) -> None:
        key = (kind.resource.group, kind.resource.plural)
        followed = self._followed.get(key)
        if followed is None or not kind.resource.namespaced:
            return
        informer = self._management.informers.informer(
            kind.resource,
            client=self._client,
            namespace=self._management.namespace,
            field_selector=followed.field_selector,
        )
        self._informers[key] = informer
        informer.add_handler(ChangeHandler(followed.changed))

    def _went(self, kind: CustomKind) -> None:
        key = (kind.resource.group, kind.resource.plural)
        informer = self._informers.pop(key, None)
        if informer is None:
            return
        for each in informer.indexer.values():
            self._followed[key].changed(each, True)
        # Whoever else follows the kind forgets the informer, which they share.
        self._management.informers.forget(informer)
