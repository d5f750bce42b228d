"""An ApproverWebhookConfiguration says which services are asked, and what is wrong with it is told by its field."""

from __future__ import annotations

import pytest

from kubevouch.config import approver_webhooks
from kubevouch.config.config_file import ConfigFileError

HEAD = "apiVersion: kubevouch.io/v1alpha1\nkind: ApproverWebhookConfiguration\n"
GOOD = "name: cmdb, kubeConfigFile: a.conf, signerNames: [kubernetes.io/kubelet-serving]"


def webhooks(*lines: str) -> bytes:
    return (HEAD + "webhooks:\n" + "".join(f"- {{{line}}}\n" for line in lines)).encode()


def test_services_in_their_order() -> None:
    second = f"{GOOD}, failurePolicy: Deny, timeoutSeconds: 30".replace("cmdb", "b")
    config = approver_webhooks.decode(webhooks(GOOD, second))
    assert [each.name for each in config.webhooks] == ["cmdb", "b"]
    assert [(each.failure_policy, each.timeout_seconds) for each in config.webhooks] == [("Wait", 5), ("Deny", 30)]
    assert approver_webhooks.decode(HEAD.encode()).webhooks == []


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ((GOOD.replace("cmdb", "A B"),), "webhooks[0].name: Invalid value"),
        ((GOOD, GOOD), "webhooks[1].name: Duplicate value"),
        ((GOOD.replace("a.conf", "''"),), "webhooks[0].kubeConfigFile: Required value"),
        ((GOOD.replace("[kubernetes.io/kubelet-serving]", "[]"),), "webhooks[0].signerNames: Required value"),
        ((GOOD.replace("[kubernetes.io/kubelet-serving]", f"[{', '.join(map(str, ['a/b'] * 65))}]"),), "Too many"),
        ((f"{GOOD}, timeoutSeconds: 0",), "webhooks[0].timeoutSeconds: Invalid value: 0: expected 1 to 30"),
        ((f"{GOOD}, timeoutSeconds: 31",), "webhooks[0].timeoutSeconds"),
        ((f"{GOOD}, failurePolicy: Allow",), "webhooks[0].failurePolicy: Unsupported value"),
        (tuple(GOOD.replace("cmdb", f"n{number}") for number in range(9)), "webhooks: Too many"),
        ((f"{GOOD}, colour: red",), "unknown field"),
    ],
)
def test_what_is_wrong(lines: tuple[str, ...], why: str) -> None:
    with pytest.raises(ConfigFileError) as raised:
        approver_webhooks.decode(webhooks(*lines))
    assert why in str(raised.value)
