"""kube-controller-manager's flags for leader election, its client and its own port, for ``kubevouch controllers``."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kubevouch import wellknown
from kubevouch.cli import ui
from kubevouch.cli.exit_codes import ExitCode
from kubevouch.cli.flags import together
from kubevouch.cli.flags.durations import DURATION

if TYPE_CHECKING:
    from kubevouch.client.leader_election import ElectionOptions
    from kubevouch.client.rest_config import RESTConfig
    from kubevouch.standalone.attached.options import AttachedCluster, ServingOptions

FILE = click.Path(path_type=Path, dir_okay=False)


def _words(_ctx: click.Context, _param: click.Parameter, value: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in value.split(",") if word.strip())


controllers_option = click.option(
    "--controllers",
    default="*",
    show_default=True,
    callback=_words,
    help="Controllers to run: names, * for those that kube-controller-manager has not, -name to leave one out.",
)
assume_off_option = click.option(
    "--assume-off",
    default="",
    callback=_words,
    help="Controllers that kube-controller-manager does not run, for nobody can see its flags: csrapproving, "
    "csrsigning. What is seen to happen counts more.",
)
cluster_flags = together(
    click.option(
        "--kubeconfig",
        "kubeconfigs",
        type=FILE,
        multiple=True,
        help="Kubeconfig of a cluster; again for each further one.  [default: KUBECONFIG, ~/.kube/config, "
        "/etc/kubernetes/admin.conf, or the service account of this pod]",
    ),
    click.option("--cluster", "named", multiple=True, help="NAME=FILE: a kubeconfig, and what to call its cluster."),
    click.option("--context", default="", help="Context of the kubeconfig, of a single one."),
)
_ELECTION = (
    click.option(
        "--leader-elect",
        type=bool,
        default=True,
        show_default=True,
        help="Of several processes let one act. Without it, only one may run.",
    ),
    click.option(
        "--leader-elect-lease-duration", type=DURATION, default="15s", show_default=True,
        help="How long others wait for a leader that has gone silent.",
    ),
    click.option(
        "--leader-elect-renew-deadline", type=DURATION, default="10s", show_default=True,
        help="How long a leader goes on that cannot renew.",
    ),
    click.option(
        "--leader-elect-retry-period", type=DURATION, default="2s", show_default=True, help="Time between attempts.",
    ),
    click.option(
        "--leader-elect-resource-name", default="kubevouch-controllers", show_default=True,
        help="Name of the Lease; never kube-controller-manager's.",
    ),
    click.option(
        "--leader-elect-resource-namespace", default="kube-system", show_default=True, help="Its namespace.",
    ),
)  # fmt: skip
_CLIENT = (
    click.option(
        "--kube-api-qps", type=float, default=20.0, show_default=True,
        help="Requests a second of each controller; 0 or less is no bound.",
    ),
    click.option(
        "--kube-api-burst", type=click.IntRange(1), default=30, show_default=True, help="Of these, how many at once.",
    ),
)  # fmt: skip
_SERVING = (
    click.option("--bind-address", default="0.0.0.0", show_default=True, help="Address for health and metrics."),  # noqa: S104 - kube-controller-manager's
    click.option(
        "--secure-port", type=click.IntRange(0, 65535), default=10267, show_default=True,
        help="Port for health and metrics; 0 serves none.",
    ),
    click.option("--tls-cert-file", type=FILE, help="What to serve with.  [default: a pair of this process]"),
    click.option("--tls-private-key-file", type=FILE, help="Its key."),
    click.option("--plain-http", is_flag=True, help="Serve without TLS, to this machine alone."),
    click.option(
        "--authentication-kubeconfig", type=FILE,
        help="Cluster that says who asks for metrics, and whether they may.  [default: the first one]",
    ),
    click.option(
        "--authorization-always-allow-paths", default="/healthz,/readyz,/livez", show_default=True, callback=_words,
        help="Paths that everybody may read.",
    ),
)  # fmt: skip
attached_flags = together(*_ELECTION, *_CLIENT, *_SERVING)


def take_clusters(flags: dict[str, Any]) -> tuple[AttachedCluster, ...]:
    """The clusters; takes their flags out of ``flags``.

    Raises:
        ClientConfigurationError: a kubeconfig cannot be used.
        CLIError: the flags contradict each other.
    """
    from kubevouch.cli.cluster import rest_config_of
    from kubevouch.client.kubeconfig import load
    from kubevouch.client.rest_config import Overrides, resolve, rest_config
    from kubevouch.standalone.attached.options import AttachedCluster

    files: tuple[Path, ...] = flags.pop("kubeconfigs")
    named: tuple[str, ...] = flags.pop("named")
    context: str = flags.pop("context")
    if context and len(files) + len(named) > 1:
        raise ui.CLIError(
            "--context is about one kubeconfig, and there are several",
            hint="write kubeconfigs whose current-context is meant",
            code=ExitCode.INVALID,
        )

    def at(path: Path) -> RESTConfig:
        return resolve(load(path, on_exposed=ui.warning), Overrides(context=context))

    if not files and not named:
        config = rest_config(overrides=Overrides(context=context)) if context else rest_config_of(None)
        return (AttachedCluster("", config),)
    if len(files) == 1 and not named:
        return (AttachedCluster("", at(files[0])),)
    clusters = [AttachedCluster(path.stem, at(path)) for path in files]
    for each in named:
        name, equals, path = each.partition("=")
        if not (name and equals and path):
            raise ui.CLIError(f"got --cluster {each}, expected NAME=FILE", code=ExitCode.INVALID)
        clusters.append(AttachedCluster(name, at(Path(path))))
    return tuple(clusters)


def take_election(flags: dict[str, Any]) -> ElectionOptions | None:
    """Takes the flags out of ``flags``; None where nobody is asked. Raises :class:`CLIError`."""
    from kubevouch.client.leader_election import ElectionOptions, ElectionOptionsError

    wanted: bool = flags.pop("leader_elect")
    given = {
        name: flags.pop(f"leader_elect_{word}")
        for name, word in (
            ("namespace", "resource_namespace"), ("name", "resource_name"), ("lease_duration", "lease_duration"),
            ("renew_deadline", "renew_deadline"), ("retry_period", "retry_period"),
        )
    }  # fmt: skip
    try:
        election = ElectionOptions(**given)
    except ElectionOptionsError as err:
        raise ui.CLIError(str(err), hint="see the --leader-elect-* flags", code=ExitCode.INVALID) from err
    if wanted and election.name in (wellknown.KUBE_CONTROLLER_MANAGER, "kube-scheduler", "cloud-controller-manager"):
        raise ui.CLIError(
            f"the lease {election.name} is that of another program, all of which would stop",
            hint="choose another --leader-elect-resource-name",
            code=ExitCode.INVALID,
        )
    return election if wanted else None


def take_serving(flags: dict[str, Any]) -> ServingOptions:
    """Takes the flags out of ``flags``. Raises :class:`CLIError`."""
    from kubevouch.standalone.attached.options import ServingOptions

    address: str = flags.pop("bind_address")
    try:
        ipaddress.ip_address(address)
    except ValueError as err:
        raise ui.CLIError(f"got --bind-address {address}, expected an IP address", code=ExitCode.INVALID) from err
    certificate, key = flags.pop("tls_cert_file"), flags.pop("tls_private_key_file")
    if (certificate is None) != (key is None):
        raise ui.CLIError(
            "--tls-cert-file and --tls-private-key-file come together", hint="give both", code=ExitCode.INVALID
        )
    return ServingOptions(
        bind_address=address,
        port=flags.pop("secure_port") or None,
        files=None if certificate is None else (certificate, key),
        is_plain=flags.pop("plain_http"),
        open_paths=flags.pop("authorization_always_allow_paths"),
    )
