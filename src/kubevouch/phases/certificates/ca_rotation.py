"""A CA rotation, step by step: the state is a ConfigMap in the cluster, the rest are files beside ``ca.crt``.

    CARotationError    what was asked for is not possible now; ``obstacles`` says who is in the way

A step writes down what it is about to do, does it, and can be run again wherever it was cut off.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping

import msgspec
from msgspec.structs import replace

from kubevouch import wellknown
from kubevouch.agent import trust_bundle
from kubevouch.agent.trust_bundle import HASH_ANNOTATION, TrustBundleError
from kubevouch.api import catalog
from kubevouch.api.core_v1 import ConfigMap
from kubevouch.client import stored
from kubevouch.client.interface import Client
from kubevouch.client.pager import PAGES, list_all
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.phases.certificates import ca_rotation_files, ca_rotation_plan, served_certificates
from kubevouch.phases.certificates.ca_rotation_files import FORMER, NEXT
from kubevouch.phases.certificates.ca_rotation_plan import Facts, Obstacle, Phase, Rotation, Standing
from kubevouch.phases.certificates.control_plane_files import Layout
from kubevouch.pki.errors import ParseError
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.pki.x509 import x509_certificate
from kubevouch.pki.x509.x509_certificate import Certificate
from kubevouch.records import ca_rotation, certificate_ledger
from kubevouch.records.ca_rotation import RENEWAL_ANNOTATION, STATE_CONFIGMAP, STATE_KEY
from kubevouch.records.certificate_ledger import IssuedCertificate
from kubevouch.records.cluster_info import build_kubeconfig, kubeconfig_of, parse_kubeconfig
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger

log = get_logger("phases.ca_rotation")

_APISERVER = "apiserver"


class CARotationError(Exception):
    """What was asked for is not possible now."""

    def __init__(self, message: str, hint: str = "", obstacles: tuple[Obstacle, ...] = ()) -> None:
        super().__init__(message)
        self.hint = hint
        self.obstacles = obstacles


class Settings(msgspec.Struct, frozen=True):
    """What ``start`` can be told.

    Args:
        given_up: machines and common names that nobody waits for.
        force: have the next CA sign although some do not trust it yet.
        window: in which machines renew; None leaves it as it is.
        algorithm: of the next CA's key; None takes that of the former one.
    """

    given_up: tuple[str, ...] = ()
    force: bool = False
    window: dt.timedelta | None = None
    algorithm: KeyAlgorithm | None = None


class CARotation:
    """All methods may raise CertsError, APIStatusError, TransportError and OSError.

    Args:
        layout: the control plane whose files change.
        credential: tells the certificate with which the next command acts, None if it has none. It may change under us.
    """

    def __init__(
        self,
        client: Client,
        layout: Layout,
        clock: Clock,
        credential: Callable[[], Certificate | None] = lambda: None,
    ) -> None:
        self._client = client
        self._layout = layout
        self._clock = clock
        self._credential = credential

    # -------------------------------------------------------------- looking

    async def read(self) -> Rotation | None:
        """What the cluster says; if it says nothing, what the files show to be under way.

        Raises:
            CARotationError: the ConfigMap cannot be understood.
        """
        found = await stored.find(self._client, catalog.CONFIG_MAPS, STATE_CONFIGMAP, wellknown.KUBE_SYSTEM_NAMESPACE)
        if found is None:
            return self._from_files()
        try:
            return msgspec.json.decode(found.data.get(STATE_KEY, ""), type=Rotation)
        except msgspec.MsgspecError as err:
            raise CARotationError(
                f"ConfigMap {STATE_CONFIGMAP} in kube-system cannot be understood: {err}",
                "delete it; the files say how far the rotation is",
            ) from err

    def _from_files(self) -> Rotation | None:
        """A cluster may lose its objects, as one in memory does at each restart."""
        seen = ca_rotation_files.underway(self._layout)
        if seen is None:
            return None
        former, following, switched = seen
        now = self._clock.now()
        return Rotation(
            phase=Phase.RENEWING if switched else Phase.DISTRIBUTING,
            since=now,
            began=now,
            former=former.pem().decode(),
            next=following.pem().decode(),
            renewal_begins=now if switched else None,
        )

    async def status(self) -> tuple[Rotation | None, Standing]:
        rotation = await self.read()
        return rotation, ca_rotation_plan.standing(rotation, await self.facts(), self._clock.now())

    async def facts(self) -> Facts:
        client, now = self._client, self._clock.now()
        issued: dict[str, IssuedCertificate] = {}
        since: dt.datetime | None = None
        for config_map in (await list_all(client, catalog.CONFIG_MAPS, wellknown.KUBE_SYSTEM_NAMESPACE, PAGES)).items:
            if config_map.metadata.name.startswith(certificate_ledger.PREFIX):
                certificate_ledger.add(issued, certificate_ledger.decode(config_map.data))
                created = config_map.metadata.creation_timestamp
                if created is not None:
                    moment = dt.datetime.fromtimestamp(created.seconds, dt.UTC)
                    since = moment if since is None else min(since, moment)
        # Merged once: with each request it would be quadratic in their number, which whoever has a token decides.
        of_requests: dict[str, IssuedCertificate] = {}
        for csr in (await list_all(client, catalog.CERTIFICATE_SIGNING_REQUESTS, options=PAGES)).items:
            try:
                entry = certificate_ledger.entry_of(
                    csr.spec.signer_name, x509_certificate.parse_pem(csr.status.certificate)
                )
            except ParseError:
                continue
            certificate_ledger.add(of_requests, {entry.key: entry})
        issued = certificate_ledger.merged(issued, of_requests, now=now)
        machines = {entry.machine: "" for entry in issued.values() if entry.machine}
        machines |= {node.metadata.name: "" for node in (await list_all(client, catalog.NODES, options=PAGES)).items}
        for lease in (await list_all(client, catalog.LEASES, wellknown.KUBE_NODE_LEASE_NAMESPACE, PAGES)).items:
            # A machine that is gone leaves its Lease behind.
            if lease.metadata.name in machines:
                machines[lease.metadata.name] = lease.metadata.annotations.get(HASH_ANNOTATION, "")
        own = dict(ca_rotation_files.own_certificates(self._layout))
        credential = self._credential()
        if credential is not None:
            own["the kubeconfig of this command"] = credential
        return Facts(machines, list(issued.values()), own, await self._published(), since, await self._outdated())

    async def _outdated(self) -> list[str]:
        """A client that trusts only the CA that stays would be turned away from there."""
        endpoint = served_certificates.ports(self._layout).get(_APISERVER)
        if endpoint is None:
            return []
        seen = await served_certificates.look(_APISERVER, endpoint, self._layout, self._clock)
        return [f"{_APISERVER} at {seen.address}"] if seen.is_current is False else []

    async def _published(self) -> str:
        found = await stored.find(
            self._client, catalog.CONFIG_MAPS, wellknown.ROOT_CA_CONFIGMAP, wellknown.KUBE_SYSTEM_NAMESPACE
        )
        text = "" if found is None else found.data.get(wellknown.CA_CERTIFICATE_KEY, "")
        try:
            told = wellknown.ROOT_CA_CONFIGMAP
            return trust_bundle.bundle_hash(trust_bundle.parse(text.encode(), told)) if text else ""
        except TrustBundleError:
            return "unreadable"

    # -------------------------------------------------------------- steps

    async def start(self, settings: Settings | None = None) -> Rotation:
        """Begin, or go on by one phase if nothing is in the way.

        Raises:
            CARotationError: somebody is; what belongs to the phase has been done once more nevertheless.
        """
        settings, now = settings or Settings(), self._clock.now()
        rotation = await self.read()
        if rotation is not None and rotation.phase is Phase.FINISHING:
            return await self.finish(settings.given_up)
        if rotation is not None and rotation.phase is Phase.WITHDRAWING:
            return await self.rollback()
        if rotation is None or rotation.over:
            ca_rotation_files.verify_controller_manager(self._layout)
            ca_rotation_files.clear(self._layout)
            rotation = await self._enter(Rotation(phase=Phase.PREPARING, since=now, began=now))
        rotation = await self._settled(rotation, settings)
        if rotation.phase is Phase.PREPARING:
            return await self._distribute(rotation, settings)
        await self._apply(rotation)
        if rotation.phase is Phase.DISTRIBUTING:
            late = tuple(ca_rotation_plan.laggards(rotation, await self.facts()))
            if late and not settings.force:
                raise CARotationError(
                    f"the next CA cannot sign yet: {_names(late)} would not trust it",
                    f"they take it over within two hours; {ca_rotation_plan.COMMAND} start again then, or with "
                    "--accept-loss NAME, or with --force",
                    late,
                )
            begins = msgspec.structs.replace(rotation, renewal_begins=now)
            rotation = await self._enter(begins.enter(Phase.RENEWING, now))
            await self._apply(rotation)
        return rotation

    async def _settled(self, rotation: Rotation, settings: Settings) -> Rotation:
        """With what ``start`` was told, and no longer paused."""
        changed = msgspec.structs.replace(
            rotation, paused=False, given_up=tuple(sorted({*rotation.given_up, *settings.given_up}))
        )
        if settings.window is not None:
            changed = msgspec.structs.replace(changed, window_seconds=int(settings.window.total_seconds()))
        if rotation.paused and rotation.phase is Phase.RENEWING:
            # Those whose moment has passed meanwhile must not come all at once.
            changed = msgspec.structs.replace(changed, renewal_begins=self._clock.now())
        return changed if changed == rotation else await self._enter(changed)

    async def _distribute(self, rotation: Rotation, settings: Settings) -> Rotation:
        now = self._clock.now()
        former, following = ca_rotation_files.prepare(self._layout, now=now, algorithm=settings.algorithm)
        ca_rotation_files.verify_controller_manager(self._layout)
        known = msgspec.structs.replace(rotation, former=former.pem().decode(), next=following.pem().decode())
        rotation = await self._enter(known.enter(Phase.DISTRIBUTING, now))
        await self._apply(rotation)
        return rotation

    async def pause(self) -> Rotation:
        """No phase is entered and no machine begins to renew until the next ``start``."""
        rotation = self._underway(await self.read())
        ca_rotation_files.verify_own(self._layout, rotation.bundle)
        if not rotation.paused:
            rotation = await self._enter(msgspec.structs.replace(rotation, paused=True))
        await self._tell(rotation)
        return rotation

    async def rollback(self) -> Rotation:
        """Back to the former CA.

        Raises:
            CARotationError: there is nothing to go back from.
        """
        rotation, now = self._underway(await self.read()), self._clock.now()
        match rotation.phase:
            case Phase.FINISHING:
                raise CARotationError(
                    "one of the CAs is being given up already", f"{ca_rotation_plan.COMMAND} finish, then rotate again"
                )
            case Phase.RENEWING:
                turned = msgspec.structs.replace(
                    rotation, backwards=not rotation.backwards, paused=False, renewal_begins=now
                )
                rotation = await self._enter(turned.enter(Phase.RENEWING, now))
                await self._apply(rotation)
                return rotation
            case Phase.PREPARING:
                ca_rotation_files.clear(self._layout)
                return await self._enter(rotation.enter(Phase.WITHDRAWN, now))
            case _:
                rotation = await self._enter(rotation.enter(Phase.WITHDRAWING, now))
                await self._apply(rotation)
                ca_rotation_files.clear(self._layout)
                return await self._enter(rotation.enter(Phase.WITHDRAWN, now))

    async def sync(self) -> Rotation:
        """Bring the files of another control plane, to which ``ca-rotation/`` was copied, to the cluster's phase.

        Raises:
            CARotationError: there is no phase to be brought to, or the files are not here.
        """
        rotation = await self.read()
        if rotation is None or not rotation.next:
            raise CARotationError("no CAs are published yet", f"{ca_rotation_plan.COMMAND} start on one machine first")
        if ca_rotation_files.folder_of(self._layout).exists():
            await self._apply(rotation)
            if rotation.over:
                ca_rotation_files.clear(self._layout)
        elif not rotation.over:
            folder = ca_rotation_files.folder_of(self._layout)
            raise CARotationError(f"{folder} is not here", "copy it from the machine on which the rotation was started")
        return rotation

    async def finish(self, given_up: Iterable[str] = ()) -> Rotation:
        """Give up the CA that goes.

        Raises:
            CARotationError: certificates still depend on it, or it is too early.
        """
        rotation, now = self._underway(await self.read()), self._clock.now()
        if rotation.phase not in (Phase.RENEWING, Phase.FINISHING):
            raise CARotationError(
                f"the phase is {rotation.phase}, expected {Phase.RENEWING}", f"{ca_rotation_plan.COMMAND} start goes on"
            )
        given_up = tuple(sorted({*rotation.given_up, *given_up}))
        rotation = msgspec.structs.replace(rotation, given_up=given_up)
        if rotation.phase is Phase.RENEWING:
            await self._apply(rotation)
            late = tuple(ca_rotation_plan.hanging(rotation, await self.facts(), now))
            if late:
                raise CARotationError(
                    f"the CA cannot be given up yet: it is needed for {_names(late)}",
                    f"wait until they have renewed, or give up those that are gone: {ca_rotation_plan.COMMAND} finish "
                    "--accept-loss NAME",
                    late,
                )
            rotation = await self._enter(rotation.enter(Phase.FINISHING, now))
        await self._apply(rotation)
        rotation = await self._enter(rotation.enter(Phase.FINISHED, now))
        ca_rotation_files.clear(self._layout)
        return rotation

    def _underway(self, rotation: Rotation | None) -> Rotation:
        if rotation is None or rotation.over:
            raise CARotationError("no CA rotation is under way", f"{ca_rotation_plan.COMMAND} start begins one")
        return rotation

    # -------------------------------------------------------------- doing

    async def _apply(self, rotation: Rotation) -> None:
        """All that belongs to the phase."""
        layout, bundle = self._layout, rotation.bundle
        ca_rotation_files.verify_own(layout, bundle)
        if rotation.phase is Phase.RENEWING:
            # Trusted before it signs, whatever was cut off before.
            ca_rotation_files.publish(layout, bundle, linked=True)
            await self._tell(rotation)
            name = FORMER if rotation.backwards else NEXT
            renewed = ca_rotation_files.switch(layout, name, now=self._clock.now())
            log.info("the CA signs", authority=rotation.coming.subject.common_name, renewed=renewed)
        else:
            await self._tell(rotation)
        # What has just been finished leads to both for whoever has slept: it goes with the next renewal.
        linked = rotation.phase is not Phase.WITHDRAWING
        ca_rotation_files.publish(layout, bundle, linked=linked)

    async def _tell(self, rotation: Rotation) -> None:
        """cluster-info: which CAs, and whether to renew. The bootstrap signer signs it anew."""
        order = rotation.order
        if not rotation.bundle:
            return

        def decide(found: ConfigMap | None) -> ConfigMap | None:
            if found is None:
                log.warning("there is no cluster-info: agents cannot hear of the rotation")
                return None
            changed = _told(found, rotation.bundle, "" if order is None else ca_rotation.encode(order))
            # The signer writes the same object.
            return None if changed == found else changed

        name, namespace = wellknown.CLUSTER_INFO_CONFIGMAP, wellknown.KUBE_PUBLIC_NAMESPACE
        await stored.change(self._client, catalog.CONFIG_MAPS, name, namespace, decide)

    async def _enter(self, rotation: Rotation) -> Rotation:
        meta = ObjectMeta(name=STATE_CONFIGMAP, namespace=wellknown.KUBE_SYSTEM_NAMESPACE)
        text = msgspec.json.encode(rotation).decode()
        await stored.create_or_update(
            self._client, catalog.CONFIG_MAPS, ConfigMap(metadata=meta, data={STATE_KEY: text})
        )
        log.info("CA rotation", phase=rotation.phase.value, paused=rotation.paused, backwards=rotation.backwards)
        return rotation


def _told(cluster_info: ConfigMap, bundle: Iterable[Certificate], order: str) -> ConfigMap:
    info = parse_kubeconfig(kubeconfig_of(cluster_info))
    text = build_kubeconfig(replace(info, certificate_authority_data=b"".join(each.pem() for each in bundle)))
    annotations: Mapping[str, str] = {
        key: value for key, value in cluster_info.metadata.annotations.items() if key != RENEWAL_ANNOTATION
    } | ({RENEWAL_ANNOTATION: order} if order else {})
    data = {**cluster_info.data, wellknown.KUBECONFIG_KEY: text}
    changed = msgspec.structs.replace(cluster_info, data=data)
    return msgspec.structs.replace(
        changed, metadata=msgspec.structs.replace(changed.metadata, annotations=dict(annotations))
    )


def _names(obstacles: tuple[Obstacle, ...]) -> str:
    names = sorted({each.name for each in obstacles})
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
