"""S19: cluster-info is public and signed with tokens, so that anybody can guess their secrets at home.

What is guessed must let nobody in, what can be guessed is not taken, and what is made is random without a bias.
"""

from __future__ import annotations

import io
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import processes
from kubevouch.cli import ui
from kubevouch.cli.exit_codes import ExitCode
from kubevouch.cli.flags import secret_input
from kubevouch.cli.main import run
from kubevouch.records.bootstrap_tokens import (
    Token,
    WeakTokenError,
    generate_token,
    parse_token,
    verify_strength,
)
from kubevouch.records.token_strength import FLOOR_BITS, estimated_bits
from kubevouch.testing import Cluster
from processes import Up

WEAK = (
    "aaaaaaaaaaaaaaaa", "0123456789abcdef", "fedcba9876543210", "abcdefghijklmnop", "abababababababab",
    "passwordpassword", "qwertyuiopasdfgh", "1234567890123456", "4821059371602847", "kubernetesadmin1",
    "p9k2zqp9k2zqp9k2", "1a2b3c4d5e6f7g8h", "aaaaaaaabbbbbbbb", "hellohellohello1", "zzzzzzzzzzzzzzz1",
)  # fmt: skip
STRONG = "k7wq2n.x4mz8tbr5hcp1vdy"


@pytest.mark.parametrize("secret", WEAK)
def test_s19_a_secret_that_can_be_guessed_is_refused(
    secret: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    token = Token("p9k2zq", secret)
    assert token.bits < FLOOR_BITS
    with pytest.raises(WeakTokenError) as refused:
        verify_strength(token)
    assert secret not in str(refused.value)
    assert run(["token", "create", token.text, "--kubeconfig", str(tmp_path / "none")]) == ExitCode.INVALID
    assert run(["init", "phase", "bootstrap-token", "--token", token.text, "--rootfs", str(tmp_path)]) != 0
    said = capsys.readouterr().err
    assert said.count("hint: leave ") == 2
    assert secret not in said


def test_s19_a_configuration_file_is_held_to_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "init.yaml"
    config.write_text(
        "apiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\n"
        "bootstrapTokens: [{token: abcdef.0123456789abcdef}]\n"
    )
    words = ["init", "phase", "bootstrap-token", "--config", str(config), "--rootfs", str(tmp_path), "--dry-run"]
    assert run(words) == ExitCode.INVALID
    assert "can guess it" in capsys.readouterr().err
    assert run([*words, "--insecure-allow-weak-token"]) == 0
    assert "warning: INSECURE: the secret of the token abcdef can be guessed" in capsys.readouterr().err


def test_s19_hexadecimal_digits_and_random_ones_pass() -> None:
    assert estimated_bits("abcdef", "9f86d081884c7d65") == 64.0
    chance = random.Random(19)
    for _ in range(5_000):
        # As it is made, before the generator looks: the second look is for one in many millions.
        letters = "".join(chance.choice("0123456789abcdefghijklmnopqrstuvwxyz") for _ in range(16))
        assert estimated_bits("abcdef", letters) >= FLOOR_BITS, letters


def test_s19_what_is_made_always_passes() -> None:
    """Even from a source that is stuck at first."""
    chance, asked = random.Random(7), Counter[str]()

    def choose(letters: str) -> str:
        asked["all"] += 1
        return letters[0] if asked["all"] <= 22 * 3 else chance.choice(letters)

    token = generate_token(choose)
    assert verify_strength(token) is token
    assert asked["all"] == 22 * 4


def test_s19_no_letter_is_made_more_often_than_another() -> None:
    """Chi-square over 36 letters at 35 degrees of freedom: a fair source is above 66.6 once in a thousand, a byte
    modulo 36 is far above with as many letters.
    """
    chance = random.Random(1234)
    fair = Counter("".join(f"{each.token_id}{each.token_secret}" for each in _made(chance, 3000)))
    assert set(fair) == set("0123456789abcdefghijklmnopqrstuvwxyz")
    assert _chi_square(fair) < 66.6
    letters = "0123456789abcdefghijklmnopqrstuvwxyz"
    biased = Counter(letters[chance.randrange(256) % 36] for _ in range(sum(fair.values())))
    assert _chi_square(biased) > 66.6


def _made(chance: random.Random, count: int) -> Iterator[Token]:
    return (generate_token(chance.choice) for _ in range(count))


def _chi_square(counts: Counter[str]) -> float:
    expected = sum(counts.values()) / 36
    return sum((count - expected) ** 2 / expected for count in counts.values())


# ------------------------------------------------------------------ what is printed


def test_s19_the_printed_command_has_separate_tokens(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Cluster(https=True, controllers=("*",)) as cluster:
        monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
        assert run(["token", "create", "--print-join-command"]) == 0
        words = capsys.readouterr().out.split()
        tokens = [words[words.index(flag) + 1] for flag in ("--discovery-token", "--tls-bootstrap-token")]
        assert "--token" not in words
        assert _usages(cluster, tokens[0]) == {"signing"}
        assert _usages(cluster, tokens[1]) == {"authentication"}
        # What anybody can verify guesses with lets nobody in, and the other one is in no signature.
        cluster.settle()
        signed = cluster.get("configmaps", "cluster-info", "kube-public").data
        assert f"jws-kubeconfig-{tokens[0][:6]}" in signed
        assert f"jws-kubeconfig-{tokens[1][:6]}" not in signed
        for flags, separate in (
            ([], False),
            (["--no-separate", "--print-join-command"], False),
            (["--separate"], True),
        ):
            assert run(["token", "create", *flags]) == 0
            out = capsys.readouterr().out
            made = [word for word in out.split() if len(word) == 23 and word[6] == "."]
            assert len(made) == (2 if separate else 1), out
            assert _usages(cluster, made[-1]) == ({"authentication"} if separate else {"authentication", "signing"})


def _usages(cluster: Cluster, token: str) -> set[str]:
    data = cluster.get("secrets", f"bootstrap-token-{token[:6]}", "kube-system").data
    return {key.removeprefix("usage-bootstrap-") for key, value in data.items() if key.startswith("usage-") and value}


def test_s19_show_says_what_a_secret_is_worth_and_the_doctor_finds_weak_ones(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Cluster(https=True, controllers=("*",)) as cluster:
        monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
        for text in (STRONG, "weakly.aaaaaaaaaaaaaaab"):
            assert run(["token", "create", text, "--insecure-allow-weak-token"]) == 0
        assert "warning: INSECURE" in capsys.readouterr().err
        cluster.settle()
        assert run(["token", "show", "k7wq2n"]) == 0
        shown = capsys.readouterr().out
        assert "secret           about 82.7 bits\n" in shown
        assert "signed with it: whoever reads it can try secrets without asking the server" in shown
        run(["token", "show", "weakly"])
        assert "bits; weak, expected 60 or more" in capsys.readouterr().out
        run(["doctor", "cluster"])
        found = capsys.readouterr().out
        assert found.count("✗ token-weak\n") == 1
        assert "the secret of the token weakly is worth about" in found
        assert "aaaaaaaaaaaaaaab" not in found


# ------------------------------------------------------------------ S16: not only in the command line


@pytest.mark.parametrize(
    ("lines", "flags", "found"),
    [
        ("a.b\n", {"token": "-"}, ("a.b", "", "")),
        ("a.b\nc.d\n", {"token": "-"}, ("", "a.b", "c.d")),
        ("a.b\nc.d\n", {"discovery": "-", "tls_bootstrap": "-"}, ("", "a.b", "c.d")),
        ("c.d\n", {"discovery": "x.y", "tls_bootstrap": "-"}, ("", "x.y", "c.d")),
        ("\n a.b \n\n", {"token_file": "-"}, ("a.b", "", "")),
        ("", {"token": "plain"}, ("plain", "", "")),
    ],
)
def test_s16_tokens_come_from_standard_input(
    lines: str, flags: dict[str, str], found: tuple[str, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(lines))
    assert secret_input.take_tokens(**{"token": "", "token_file": "", **flags}) == found


@pytest.mark.parametrize(
    ("lines", "flags"),
    [
        ("", {"token": "-"}), ("a\nb\nc\n", {"token": "-"}), ("a\n", {"discovery": "-", "tls_bootstrap": "-"}),
        ("a\n", {"token_file": "-", "token": "x"}), ("a\n", {"token_file": "-", "discovery": "x"}),
        ("", {"token_file": "/nowhere"}), ("x\n" * 100_000, {"token": "-"}),
    ],
)  # fmt: skip
def test_s16_what_is_no_token_in_a_file_is_refused(
    lines: str, flags: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(lines))
    with pytest.raises(ui.CLIError):
        secret_input.take_tokens(**{"token": "", "token_file": "", **flags})


def test_s16_a_file_that_others_can_read_is_warned_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "token"
    for mode, warned in ((0o600, False), (0o640, True), (0o604, True)):
        path.touch()
        path.chmod(mode)
        path.write_text(f"{STRONG}\n")
        assert secret_input.take_tokens("", str(path)).token == STRONG
        assert ("can be read by others" in capsys.readouterr().err) is warned


def test_s16_no_secret_stands_in_a_command_line_or_an_environment(tmp_path: Path) -> None:
    """A whole join with the printed tokens, by a file and by standard input."""
    with Up(tmp_path) as up:
        address, discovery, authentication, pin = up.printed_join
        assert discovery[:6] != authentication[:6]
        for text in (discovery, authentication):
            verify_strength(parse_token(text))
        port = address.rpartition(":")[2]
        path = tmp_path / "join.token"
        path.touch(0o600)
        path.write_text(f"{discovery}\n{authentication}\n")
        common = ["--discovery-token-ca-cert-hash", pin, "--node-name"]
        for number, (words, given) in enumerate(
            ((["--token-file", str(path)], ""), (["--token", "-"], path.read_text()))
        ):
            name = f"worker-{number}"
            process = subprocess.Popen(
                [*processes.KUBEVOUCH, "join", f"127.0.0.1:{port}", *words, *common, name, "--rootfs", f"./{name}"],
                cwd=tmp_path, env=processes.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, text=True,
            )  # fmt: skip
            seen = b"".join((Path("/proc") / str(process.pid) / what).read_bytes() for what in ("cmdline", "environ"))
            out, err = process.communicate(given, timeout=processes.PATIENCE_SECONDS)
            assert process.returncode == 0, err
            for token in (discovery, authentication):
                assert token.partition(".")[2] not in seen.decode() + out + err
        assert up.end() == 0
