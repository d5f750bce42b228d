"""A long list of flags in groups, those that matter first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import click

REST = "Other options"


class FlagGroup(NamedTuple):
    """``flags`` are whole names, or beginnings of names that end in ``-``."""

    title: str
    flags: tuple[str, ...]

    def takes(self, name: str) -> bool:
        return any(name == flag or (flag.endswith("-") and name.startswith(flag)) for flag in self.flags)


class GroupedCommand(click.Command):
    """A command whose help shows its flags by :attr:`groups`; what none of them takes stands in a group at the end."""

    groups: Sequence[FlagGroup] = ()

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows: dict[str, dict[str, tuple[str, str]]] = {each.title: {} for each in self.groups}
        for param in self.get_params(ctx):
            row = param.get_help_record(ctx)
            if row is None:
                continue
            name = max(param.opts, key=len)
            title = next((each.title for each in self.groups if each.takes(name)), REST)
            rows.setdefault(title, {})[name] = row
        for title, group in rows.items():
            if group:
                with formatter.section(title):
                    formatter.write_dl(list(_in_order(title, group, self.groups)))


def _in_order(title: str, rows: dict[str, tuple[str, str]], groups: Sequence[FlagGroup]) -> Sequence[tuple[str, str]]:
    """In the order in which the group names them; those that it takes by their beginning as the command has them."""
    named = next((each.flags for each in groups if each.title == title), ())
    order = [name for name in named if name in rows]
    return [rows[name] for name in [*order, *(name for name in rows if name not in order)]]


class UpCommand(GroupedCommand):
    groups = (
        FlagGroup(
            "What matters first",
            (
                "--data-dir", "--secure-port", "--bind-address", "--advertise-address", "--control-plane-endpoint",
                "--tls-san", "--token-ttl", "--controllers", "--audit-policy-file", "--log-level",
            ),
        ),
        FlagGroup(
            "Who may become and stay a node",
            (
                "--no-token", "--allow-name-takeover", "--lock-out-deleted-nodes", "--node-monitor-grace-period",
                "--node-recovery", "--node-recovery-", "--inventory-config", "--attestation-config",
                "--approver-webhook-config",
                "--kubelet-serving-",
                "--no-kubelet-serving-approval",
            ),
        ),
        FlagGroup(
            "Cluster API",
            ("--cluster-api", "--management-kubeconfig", "--bootstrap-token-ttl", "--replace-bootstrap-tokens"),
        ),
        FlagGroup("Signing", ("--signing-", "--cluster-signing-", "--signer-", "--pkcs11-", "--allow-ml-dsa")),
        FlagGroup(
            "Authentication",
            (
                "--anonymous-auth", "--authentication-", "--oidc-", "--token-auth-file", "--service-account-",
                "--api-audiences", "--enable-bootstrap-token-auth",
            ),
        ),
        FlagGroup("Authorization", ("--authorization-",)),
        FlagGroup("Admission and API", ("--enable-admission-", "--disable-admission-", "--runtime-config", "--csr-")),
        FlagGroup(
            "Server and store",
            (
                "--store", "--service-cluster-ip-range", "--tls-", "--request-timeout", "--max-", "--etcd-",
                "--default-watch-", "--lease-reuse-", "--event-ttl", "--storage-", "--encryption-provider-",
            ),
        ),
        FlagGroup("Several servers", ("--other-server", "--certificate-key", "--workers", "--replace-cluster-ca")),
        FlagGroup("Audit", ("--audit-",)),
    )  # fmt: skip
