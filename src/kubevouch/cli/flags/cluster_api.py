"""The flags about Cluster API, of ``kubevouch up`` and of controllers elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kubevouch.cli import ui
from kubevouch.cli.exit_codes import ExitCode
from kubevouch.cli.flags import together
from kubevouch.cli.flags.durations import DURATION

if TYPE_CHECKING:
    from kubevouch.client.rest_config import RESTConfig
    from kubevouch.standalone.cluster_api_options import ClusterAPIOptions

_IN_CLUSTER = Path("in-cluster")

cluster_api_flags = together(
    click.option(
        "--cluster-api", metavar="NAMESPACE/NAME",
        help="The Cluster of Cluster API that stands for this cluster: its machines are those that may join.",
    ),
    click.option(
        "--management-kubeconfig", type=click.Path(path_type=Path, dir_okay=False),
        help="Kubeconfig of the cluster in which it is; in-cluster is that of this pod.  [default: this cluster]",
    ),
    click.option(
        "--bootstrap-token-ttl", type=DURATION, default="15m", show_default=True,
        help="Life of the tokens that its machines join with, as of Cluster API's bootstrap provider.",
    ),
    click.option(
        "--replace-bootstrap-tokens", is_flag=True,
        help="Replace tokens, too, where that bootstrap provider does not run.",
    ),
)  # fmt: skip


def take_cluster_api(flags: dict[str, Any]) -> ClusterAPIOptions | None:
    """Takes the flags out of ``flags``; None without Cluster API.

    Raises:
        ClientConfigurationError: the kubeconfig cannot be used.
        CLIError: the flags cannot be meant.
    """
    cluster, kubeconfig = flags.pop("cluster_api"), flags.pop("management_kubeconfig")
    ttl, replaces = flags.pop("bootstrap_token_ttl"), flags.pop("replace_bootstrap_tokens")
    if cluster is None:
        if kubeconfig is not None or replaces:
            flag = "--management-kubeconfig" if kubeconfig is not None else "--replace-bootstrap-tokens"
            raise ui.CLIError(
                f"{flag} is about Cluster API, and no Cluster is named",
                hint="add --cluster-api NAMESPACE/NAME",
                code=ExitCode.INVALID,
            )
        return None
    from kubevouch.machinery.text import names
    from kubevouch.records.token_pools import LEAST_TTL, MOST_TTL
    from kubevouch.standalone.cluster_api_options import ClusterAPIOptions

    namespace, _, name = cluster.partition("/")
    if names.dns_label(namespace) or names.subdomain(name):
        raise ui.CLIError(
            f"got --cluster-api {cluster!r}, expected NAMESPACE/NAME such as default/prod",
            hint="kubectl get clusters -A lists them",
            code=ExitCode.INVALID,
        )
    if not LEAST_TTL <= ttl <= MOST_TTL:
        raise ui.CLIError(f"got --bootstrap-token-ttl {ttl}, expected {LEAST_TTL} to {MOST_TTL}", code=ExitCode.INVALID)
    return ClusterAPIOptions(namespace, name, _management(kubeconfig), ttl, replaces)


def _management(kubeconfig: Path | None) -> RESTConfig | None:
    if kubeconfig is None:
        return None
    from kubevouch.cli.cluster import rest_config_of
    from kubevouch.client.rest_config import in_cluster

    # A controller belongs into the management cluster, says the proposal: there its pod has an account.
    return in_cluster() if kubeconfig == _IN_CLUSTER else rest_config_of(kubeconfig)
