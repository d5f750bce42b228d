"""kubeadm's uploaded keys live as long as the token that owns them (facts of kubeadm's upload-certs phase, 1.36)."""

from __future__ import annotations

import datetime as dt

from asynctest import async_test
from controller_world import NOW, world
from kubevouch.api.catalog import SECRETS
from kubevouch.api.core_v1 import Secret
from kubevouch.controllers import garbage_collector, token_cleaner
from kubevouch.machinery.meta import ObjectMeta, OwnerReference


@async_test
async def test_uploaded_certificates_go_with_their_token() -> None:
    async with world() as at:
        running = await at.run(token_cleaner.NAME, garbage_collector.NAME)
        token = await at.client.create(
            SECRETS,
            Secret(
                metadata=ObjectMeta(name="bootstrap-token-abcdef", namespace="kube-system"),
                type="bootstrap.kubernetes.io/token",
                data={
                    "token-id": b"abcdef",
                    "token-secret": b"0123456789abcdef",
                    "expiration": (NOW + dt.timedelta(hours=2)).isoformat().encode(),
                },
            ),
        )
        owner = OwnerReference(
            api_version="v1", kind="Secret", name=token.metadata.name, uid=token.metadata.uid, controller=True,
            block_owner_deletion=True,
        )  # fmt: skip
        meta = ObjectMeta(name="kubeadm-certs", namespace="kube-system", owner_references=[owner])
        await at.client.create(SECRETS, Secret(metadata=meta, data={"ca.key": b"sealed"}))
        await at.clock.run(7100)
        await running.settle()
        assert len((await at.client.list(SECRETS, "kube-system")).items) == 2
        await at.clock.run(101)
        await running.settle()
        assert (await at.client.list(SECRETS, "kube-system")).items == []
