"""The state of a CA rotation is a ConfigMap: whoever writes it has nobody trust a CA of theirs."""

from __future__ import annotations

import msgspec
import pytest

from asynctest import async_test
from ca_world import NOW, CAWorld, ca_world
from kubevouch.api import catalog
from kubevouch.api.core_v1 import ConfigMap
from kubevouch.client import stored
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.phases.certificates.ca_rotation import CARotationError
from kubevouch.phases.certificates.ca_rotation_plan import Phase, Rotation
from kubevouch.phases.certificates.certs import CertsError
from kubevouch.pki import keys
from kubevouch.pki.authority import create_authority
from kubevouch.pki.keys import KeyAlgorithm
from kubevouch.records.ca_rotation import STATE_CONFIGMAP, STATE_KEY


async def forge(world: CAWorld, phase: Phase, *, backwards: bool) -> None:
    evil = create_authority("evil", keys.generate(KeyAlgorithm.ECDSA_P256), now=NOW).certificate.pem().decode()
    own = world.signing().pem().decode()
    state = Rotation(
        phase=phase, since=NOW, began=NOW, former=evil if backwards else own, next=own if backwards else evil,
        backwards=backwards,
    )  # fmt: skip
    text = msgspec.json.encode(state).decode()
    meta = ObjectMeta(name=STATE_CONFIGMAP, namespace="kube-system")
    await stored.create_or_update(
        world.cluster.client(), catalog.CONFIG_MAPS, ConfigMap(metadata=meta, data={STATE_KEY: text})
    )


@pytest.mark.parametrize("is_underway", [False, True], ids=["out-of-nothing", "in-a-rotation"])
@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize(
    ("step", "phase"),
    [
        ("start", Phase.DISTRIBUTING),
        ("start", Phase.RENEWING),
        ("start", Phase.FINISHING),
        ("pause", Phase.DISTRIBUTING),
        ("rollback", Phase.RENEWING),
        ("finish", Phase.RENEWING),
        ("sync", Phase.RENEWING),
    ],
)
@async_test
async def test_a_ca_of_whoever_writes_the_state_is_trusted_by_nobody(
    step: str, phase: Phase, backwards: bool, is_underway: bool
) -> None:
    async with ca_world() as world:
        await world.rotation.start()
        if not is_underway:
            await world.rotation.rollback()
        known = {each.contents for each in world.bundle()}
        info = (await world.cluster_info()).data
        await forge(world, phase, backwards=backwards)
        with pytest.raises((CertsError, CARotationError), match=r"in no file here: 'evil'|ca-rotation is not here"):
            await getattr(world.rotation, step)()
        assert {each.contents for each in world.bundle()} == known
        assert (await world.cluster_info()).data == info
