"""The table of codes."""

from __future__ import annotations

import re
import shlex

import click
import pytest

import peers
from kubevouch.cli.main import cli
from kubevouch.doctor.findings import Code, Report, fitting


def test_codes_are_stable_words_and_each_is_there_once() -> None:
    codes = [code.value.code for code in Code]
    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)+", code) for code in codes)
    assert all(code.value.code == code.name.lower().replace("_", "-") for code in Code)


@pytest.mark.parametrize("code", Code, ids=lambda code: code.value.code)
def test_what_is_said_is_one_line_and_one_command(code: Code) -> None:
    kind = code.value
    assert kind.meaning.endswith(".")
    assert "\n" not in kind.meaning + kind.fix
    assert shlex.split(kind.fix)


OURS = [code for code in Code if code.value.fix.startswith("kubevouch ")]


@pytest.mark.parametrize("code", OURS, ids=lambda code: code.value.code)
def test_commands_of_ours_exist(code: Code) -> None:
    """With the options that are given."""
    words = shlex.split(code.value.fix)[1:]
    command: click.Command = cli
    ctx = click.Context(cli)
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        found = command.get_command(ctx, words[0])
        if found is None:
            assert command.invoke_without_command, code.value.fix
            break
        command, words = found, words[1:]
    known = {name for parameter in command.params for name in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= known, code.value.fix


def test_the_form_for_scripts() -> None:
    finding = Code.CLOCK_OFF.found("it is 7h behind")
    assert Report((finding,), (("a", "b"),)).tree() == {
        "findings": [
            {
                "code": "clock-off", "cause": "it is 7h behind", "fix": "timedatectl set-ntp true",
                "docs": f"{peers.ROOT}/docs/reference/findings.md#clock-off",
            }
        ],
        "facts": [{"name": "a", "text": "b"}],
    }  # fmt: skip
    assert Code.CLOCK_OFF.found("x", "date").fix == "date"


def test_a_fix_is_for_the_server_at_hand() -> None:
    found = [Code.SIGNATURES_MISSING.found("x"), Code.REQUEST_UNSIGNED.found("x"), Code.CA_EXPIRED.found("x")]
    for kubevouch in (True, None):
        assert list(fitting(found, kubevouch)) == found
    signatures, unsigned, expired = fitting(found, kubevouch=False)
    assert signatures.fix.startswith("kube-controller-manager --controllers")
    assert "--cluster-signing-key-file" in unsigned.fix and expired == found[2]
