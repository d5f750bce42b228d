"""What decides about requests for certificates, as its files say.

ApprovalOptionsError    a file cannot be used; nothing was begun
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kubevouch import wellknown
from kubevouch.client.interface import ClientConfigurationError
from kubevouch.client.kubeconfig import load
from kubevouch.client.resolver import Resolver, of_this_machine
from kubevouch.client.rest_config import resolve
from kubevouch.client.webhook import Webhook
from kubevouch.config import approver_webhooks, inventory_config
from kubevouch.config.approver_webhooks import ApproverWebhook
from kubevouch.config.config_file import ConfigFileError
from kubevouch.config.inventory_config import Source
from kubevouch.controllers.interface import ApproverService
from kubevouch.policy.approval_review import MAX_ANSWER
from kubevouch.standalone.approval_options import ApprovalOptions
from kubevouch.util.clock import Clock


class ApprovalOptionsError(Exception):
    """A file cannot be used."""


def inventory_sources(options: ApprovalOptions) -> Sequence[Source]:
    """Raises :class:`ApprovalOptionsError`."""
    path = options.inventory_config
    if path is None:
        return ()
    try:
        return inventory_config.decode(path.read_bytes()).sources
    except OSError as err:
        raise ApprovalOptionsError(f"the inventory configuration {path} cannot be read: {err.strerror}") from err
    except ConfigFileError as err:
        raise ApprovalOptionsError(f"the inventory configuration {path} cannot be used: {err}") from err


def resolver(options: ApprovalOptions, clock: Clock) -> Resolver | None:
    """None where nobody is to be asked."""
    return of_this_machine(clock) if options.serving is not None and options.serving.dns else None


def approver_services(options: ApprovalOptions, clock: Clock) -> Sequence[ApproverService]:
    """The services that are asked; whoever has them closes them. Raises :class:`ApprovalOptionsError`."""
    path = options.webhook_config
    if path is None:
        return ()
    try:
        config = approver_webhooks.decode(path.read_bytes())
        return [ApproverService(each, _webhook(each, clock)) for each in config.webhooks]
    except OSError as err:
        raise ApprovalOptionsError(f"the webhook configuration {path} cannot be read: {err.strerror}") from err
    except (ConfigFileError, ClientConfigurationError) as err:
        raise ApprovalOptionsError(f"the webhook configuration {path} cannot be used: {err}") from err


def _webhook(each: ApproverWebhook, clock: Clock) -> Webhook:
    config = resolve(load(Path(each.kube_config_file)))
    # Whoever can answer in its place approves certificates.
    if not config.options.server.startswith("https://") or config.tls.insecure:
        raise ClientConfigurationError(
            f"{each.kube_config_file}: expected an https server whose certificate is verified"
        )
    return Webhook(
        config,
        clock,
        component=wellknown.CSR_APPROVING_CONTROLLER,
        seconds=float(each.timeout_seconds),
        max_answer=MAX_ANSWER,
    )
