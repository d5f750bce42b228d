"""The flags for what decides about requests for certificates, of ``kubevouch up`` and of controllers elsewhere."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kubevouch.cli.flags import together

if TYPE_CHECKING:
    from kubevouch.policy.kubelet_serving import Network
    from kubevouch.standalone.approval_options import ApprovalOptions


def _networks(_ctx: click.Context, param: click.Parameter, value: str) -> tuple[Network, ...]:
    try:
        return tuple(ipaddress.ip_network(text.strip()) for text in value.split(",") if text.strip())
    except ValueError as err:
        raise click.BadParameter(f"got {value!r}, expected ranges such as 10.0.0.0/16: {err}", param=param) from err


def _domains(_ctx: click.Context, param: click.Parameter, value: str) -> tuple[str, ...]:
    from kubevouch.machinery.text import names

    found = tuple(text.strip().lower() for text in value.split(",") if text.strip())
    for each in found:
        if names.subdomain(each):
            raise click.BadParameter(f"got {each!r}, expected a domain such as nodes.example.com", param=param)
    return found


_DECLARED = (
    click.option(
        "--kubelet-serving-networks",
        default="",
        callback=_networks,
        help="Ranges in which kubelets serve. Outside of them an address needs more than the word of its Node.",
    ),
    click.option(
        "--kubelet-serving-domains",
        default="",
        callback=_domains,
        help="Domains in which nodes have names. Outside of them a name needs more than the word of its Node.",
    ),
)

_FLAGS = (
    click.option(
        "--inventory-config",
        type=click.Path(path_type=Path),
        help="An InventoryConfiguration: files, URLs and objects that list the machines to expect.",
    ),
    click.option(
        "--approver-webhook-config",
        type=click.Path(path_type=Path),
        help="An ApproverWebhookConfiguration: services that are asked about requests for certificates.",
    ),
    click.option(
        "--attestation-config",
        type=click.Path(path_type=Path),
        help="An AttestationConfiguration: by which methods machines prove what they are.",
    ),
    *_DECLARED,
    click.option(
        "--kubelet-serving-dns",
        is_flag=True,
        help="Ask this machine's name servers about names and addresses that nothing else justifies.",
    ),
    click.option(
        "--no-kubelet-serving-approval",
        is_flag=True,
        help="As Kubernetes: leave kubelets' serving certificates to people.",
    ),
)


approval_flags = together(*_FLAGS)
serving_flags = together(*_DECLARED)


def take_approval(flags: dict[str, Any]) -> ApprovalOptions:
    """What the flags say; takes them out of ``flags``."""
    from kubevouch.standalone.approval_options import ApprovalOptions, ServingApproval

    serving = ServingApproval(
        flags.pop("kubelet_serving_networks"), flags.pop("kubelet_serving_domains"), flags.pop("kubelet_serving_dns")
    )
    return ApprovalOptions(
        inventory_config=flags.pop("inventory_config"),
        webhook_config=flags.pop("approver_webhook_config"),
        attestation_config=flags.pop("attestation_config"),
        serving=None if flags.pop("no_kubelet_serving_approval") else serving,
    )
