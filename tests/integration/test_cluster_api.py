"""Controllers attached to two clusters over HTTPS: one that machines join, one in which Cluster API knows of them."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

import peers
from asynctest import async_test
from attached_world import account_config, attached, cluster_of, foreign, holds, options_for
from cluster_api_world import CLUSTER, NAMESPACE, Objects, definitions
from controller_world import decoded
from kubevouch import wellknown
from kubevouch.api.catalog import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    NAMESPACES,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
)
from kubevouch.api.core_v1 import Secret
from kubevouch.machinery.codec import yamltext
from kubevouch.machinery.custom_object import CustomObject
from kubevouch.machinery.errors import APIStatusError, Reason
from kubevouch.machinery.scheme import Resource
from kubevouch.policy.approval_bindings import NAMES
from kubevouch.records.bootstrap_tokens import from_secret, parse_token
from kubevouch.standalone.approval_options import ApprovalOptions
from kubevouch.standalone.attached import manifests
from kubevouch.standalone.attached.options import AttachedCluster, AttachedOptionsError
from kubevouch.standalone.attached.process import running
from kubevouch.standalone.cluster_api_options import ClusterAPIOptions
from kubevouch.testing.cluster import Cluster
from kubevouch.testing.waiting import wait_for, wait_for_deletion
from kubevouch.util.clock import SystemClock

CONFIGURATION = """apiVersion: kubevouch.io/v1alpha1
kind: AttestationConfiguration
attestors: [{provider: %s}]
"""
_KINDS: dict[str, Resource[Any]] = {
    each.kind: each
    for each in (NAMESPACES, CONFIG_MAPS, SERVICE_ACCOUNTS, CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS, ROLES, ROLE_BINDINGS)
}
ON = {wellknown.KUBELET_AUTHENTICATION_ANNOTATION: "true"}


def configuration(folder: Path, provider: str = "insecure") -> ApprovalOptions:
    path = folder / "attestation.yaml"
    path.write_text(CONFIGURATION % provider)
    return ApprovalOptions(attestation_config=path)


async def apply(cluster: Cluster, file: str) -> None:
    """What a file of deploy/ has that is not there already."""
    for tree in yamltext.load_documents((peers.ROOT / "deploy" / file).read_bytes()):
        try:
            await cluster.client().create(_KINDS[tree["kind"]], decoded(_KINDS[tree["kind"]], tree))
        except APIStatusError as err:
            if err.reason != Reason.ALREADY_EXISTS:
                raise


def is_told(infrastructure: CustomObject) -> bool:
    return infrastructure.metadata.annotations.get(wellknown.CLIENT_SIGNER_ANNOTATION, "").endswith("-insecure")


def lasts(token: Secret) -> bool:
    expires = from_secret(token).expires
    return expires is not None and expires - SystemClock().now() > dt.timedelta(minutes=10)


@async_test
async def test_with_the_rights_of_the_manifests_both_clusters_are_worked_on(tmp_path: Path) -> None:
    async with foreign() as cluster, Cluster(https=True, real_time=True, crds=definitions("v1beta2")) as management:
        objects = Objects(management.client())
        await objects.cluster(annotations=ON)
        token = await cluster.token_async(ttl=dt.timedelta(minutes=5))
        await objects.config(await objects.machine("worker-7", "demo://7"), token)
        for file in ("controllers/access.yaml", "controllers/attestation.yaml", "cluster-api/workload.yaml"):
            await apply(cluster, file)
        await apply(management, "cluster-api/management.yaml")
        account = manifests.PROGRAMS[0].name
        config = await account_config(cluster, manifests.NAMESPACE, account)
        there = await account_config(management, manifests.NAMESPACE, account)
        options = options_for(
            cluster, clusters=(AttachedCluster("", config),), election=None, approval=configuration(tmp_path),
            controllers=(*manifests.PROGRAMS[0].controllers, "tokenrotation"),
            cluster_api=ClusterAPIOptions(NAMESPACE, CLUSTER, there),
        )  # fmt: skip
        async with attached(cluster, options=options) as found:
            await holds(lambda: found.clusters[0].manager is not None)
            client = cluster.client()
            for name in NAMES.values():
                await wait_for_deletion(client, CLUSTER_ROLE_BINDINGS, name)
            await wait_for(management.client(), objects.resource("DockerCluster"), CLUSTER, NAMESPACE, until=is_told)
            await wait_for(client, SECRETS, parse_token(token).secret_name, "kube-system", until=lasts)
            # Cluster API is started again, and what it says then counts.
            await management.restart_async()
            off = {"metadata": {"annotations": {wellknown.KUBELET_AUTHENTICATION_ANNOTATION: "false"}}}
            await Objects(management.client()).change("Cluster", CLUSTER, off)
            for name in NAMES.values():
                await wait_for(client, CLUSTER_ROLE_BINDINGS, name)


@async_test
async def test_what_cannot_be_meant_is_said_before_anything_is_asked(tmp_path: Path) -> None:
    async with foreign() as cluster:
        one = ClusterAPIOptions(NAMESPACE, CLUSTER)
        clusters = (cluster_of(cluster, "a"), cluster_of(cluster, "b"))
        for options, expected in (
            (options_for(cluster, clusters=clusters, cluster_api=one), "one Cluster of Cluster API"),
            (options_for(cluster, approval=configuration(tmp_path, "nope")), "nope"),
            (options_for(cluster, approval=ApprovalOptions(attestation_config=tmp_path / "none")), "cannot be read"),
        ):
            with pytest.raises(AttachedOptionsError, match=expected):
                async with running(options, SystemClock()):
                    pass
