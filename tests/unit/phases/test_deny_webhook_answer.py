"""What is taken for the deny webhook's answer, and for its address."""

from __future__ import annotations

from typing import Any

import pytest

from kubevouch.phases.deny_webhook_answer import (
    WebhookAddressError,
    WebhookAnswerError,
    verify_address,
    verify_answer,
)

KIND = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}


@pytest.mark.parametrize("status", [{"allowed": False}, {"allowed": False, "denied": False, "reason": ""}])
def test_no_opinion_is_its_answer(status: dict[str, Any]) -> None:
    verify_answer(KIND | {"status": status})


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (None, "got something else as its answer"),
        ([], "got something else as its answer"),
        (KIND | {"kind": "Status", "status": {"allowed": False}}, "got authorization.k8s.io/v1 Status"),
        (KIND | {"apiVersion": "authorization.k8s.io/v1beta1"}, "got authorization.k8s.io/v1beta1"),
        (KIND | {"apiVersion": "\x1b[2J"}, r"got \x1b[2J"),
        (KIND, "got allowed=None"),
        (KIND | {"status": "allowed"}, "got allowed=None"),
        (KIND | {"status": {"allowed": True}}, "got allowed=True"),
        (KIND | {"status": {"allowed": False, "denied": True}}, "denied=True"),
    ],
)
def test_another_answer_is_not(answer: Any, told: str) -> None:
    with pytest.raises(WebhookAnswerError) as raised:
        verify_answer(answer)
    assert told in str(raised.value)


@pytest.mark.parametrize("server", ["https://10.0.0.1:10268/authorize", "https://webhook.example/team/authorize"])
def test_an_address_has_a_host_and_a_path(server: str) -> None:
    verify_address(server)


@pytest.mark.parametrize(
    "server",
    ["", "webhook", "http://a/authorize", "https:///authorize", "https://a:x/authorize", "https://[", "https://a"],
)
def test_another_is_refused_with_what_to_say_instead(server: str) -> None:
    with pytest.raises(WebhookAddressError) as raised:
        verify_address(server)
    assert "expected" in str(raised.value) and raised.value.hint
