"""Which handler a request reaches, on a server of its own."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from asynctest import async_test
from custom_world import ask
from kubevouch.config import kubeconfig
from kubevouch.testing import Cluster


@pytest.mark.parametrize("method", ["DELETE", "POST", "PUT", "PATCH"])
def test_old_watch_paths_are_for_get_only(tmp_path: Path, method: str) -> None:
    """Their verb is watch whatever the method, so who may only watch must not reach anything else by them."""
    with Cluster(https=True) as cluster:
        config = kubeconfig.load(cluster.kubeconfig.read_bytes())
        context = ssl.create_default_context(
            cadata=next(iter(config.clusters.values())).certificate_authority_data.decode()
        )
        user = next(iter(config.users.values()))
        pem = tmp_path / "admin.pem"
        pem.write_bytes(user.client_certificate_data + user.client_key_data)
        context.load_cert_chain(pem)
        request = urllib.request.Request(f"{cluster.url}/api/v1/watch/nodes", method=method)
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(request, context=context, timeout=120)
        assert caught.value.code == 405
        caught.value.close()


@async_test
async def test_what_a_group_does_not_serve_is_a_status_and_other_groups_are_plain_text() -> None:
    async with Cluster() as cluster:
        client = cluster.client()
        for path in (
            "apiextensions.k8s.io/v1beta1/customresourcedefinitions",
            "certificates.k8s.io/v9",
            "apps.io/v1/x",
        ):
            answer = await ask(client, "GET", f"/apis/{path}")
            assert answer.status == 404
            if path.startswith("apps"):
                assert answer.body == b"404 page not found\n"
            else:
                status = json.loads(answer.body)
                assert (status["message"], status["details"]) == (
                    "the server could not find the requested resource", {},
                )  # fmt: skip
