"""The policy that refuses writes of revoked credentials, in our own server."""

from __future__ import annotations

import pytest

from asynctest import async_test
from kubevouch.api.catalog import CONFIG_MAPS
from kubevouch.api.core_v1 import ConfigMap
from kubevouch.api.kubevouch_v1alpha1.catalog import CERTIFICATE_REVOCATIONS
from kubevouch.api.kubevouch_v1alpha1.revoked_writes import REVOCATION_POLICY
from kubevouch.authentication.interface import UserInfo
from kubevouch.machinery.errors import APIStatusError
from kubevouch.machinery.meta import ObjectMeta
from kubevouch.server.bootstrap import own_kinds
from kubevouch.testing import Cluster
from revoked_write_cases import CASES, REVOCATIONS, STATUS
from unit.phases.test_revocation import revoked


@async_test
async def test_who_is_refused() -> None:
    async with Cluster() as cluster:
        admin = cluster.client()
        await own_kinds.ensure(admin)
        for resource, obj in REVOCATION_POLICY:
            await admin.create(resource, obj)
        mine = ConfigMap(metadata=ObjectMeta(name="mine", namespace="default"))

        async def answer(user: UserInfo, name: str) -> str:
            try:
                await cluster.client(user).create(
                    CONFIG_MAPS, ConfigMap(metadata=ObjectMeta(name=name, namespace="default"))
                )
            except APIStatusError as err:
                return str(err).rpartition("by the CertificateRevocation ")[2]
            return ""

        users = [
            UserInfo(each.user, groups=("system:masters", "system:authenticated"), extra=each.extra) for each in CASES
        ]
        for number, user in enumerate(users):
            assert await answer(user, f"before-{number}") == ""
        for name, targets in REVOCATIONS.items():
            await admin.create(CERTIFICATE_REVOCATIONS, revoked(name, **targets))
            if name in STATUS:
                tree = CERTIFICATE_REVOCATIONS.codec.to_tree(await admin.get(CERTIFICATE_REVOCATIONS, name))
                found = CERTIFICATE_REVOCATIONS.codec.from_tree(tree | {"status": STATUS[name]}).value
                await admin.update(CERTIFICATE_REVOCATIONS, found, subresource="status")
        await admin.create(CONFIG_MAPS, mine)
        for case, user in zip(CASES, users, strict=True):
            assert (case.name, await answer(user, case.name)) == (case.name, case.by)
        thief = cluster.client(users[1])
        for refused in (
            thief.update(CONFIG_MAPS, await thief.get(CONFIG_MAPS, "mine", "default")),
            thief.delete(CONFIG_MAPS, "mine", "default"),
        ):
            with pytest.raises(APIStatusError, match="by the CertificateRevocation by-fingerprint") as raised:
                await refused
            assert raised.value.code == 403
