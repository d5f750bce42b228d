"""The agent as people run it: real processes, real TLS, real files."""

from __future__ import annotations

import socket
import stat
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from kubevouch.config import kubeconfig
from processes import PATIENCE_SECONDS, Up
from running_agent import READY_LINE, RunningAgent, bootstrap_kubeconfig, healthz_port


def _serial(agent: RunningAgent) -> int:
    found = agent.store.current()
    assert found is not None
    return found.leaf.serial


def test_a_joined_machine_is_kept_joined(tmp_path: Path) -> None:
    with Up(tmp_path) as up:
        assert up.join().code == 0
        hook = tmp_path / "hook"
        hook.write_text('#!/bin/sh\necho "$KUBEVOUCH_CERTIFICATE_NAME $KUBEVOUCH_CERTIFICATE" >> hooked\n')
        hook.chmod(0o755)
        config = tmp_path / "agent.yaml"
        config.write_text(
            f"apiVersion: agent.kubevouch.io/v1alpha1\nkind: AgentConfiguration\nclientHooks: [{{command: [{hook}]}}]\n"
        )
        with RunningAgent(tmp_path, tmp_path / "worker-1", ("--config", str(config))) as agent:
            agent.until(READY_LINE)
            before = _serial(agent)
            shown = agent.command("status")
            assert shown.code == 0 and "node worker-1 is well" in shown.stdout
            assert "that it comes well before the end is normal" in shown.stdout
            assert stat.S_IMODE(agent.socket.stat().st_mode) == 0o600
            assert agent.command("rotate").code == 0
            agent.until("certificate in use")
            agent.until("a hook ran")
            assert _serial(agent) != before
            assert (tmp_path / "hooked").read_text() == f"client {agent.store.current_path}\n"
            # One id in all lines of the attempt.
            steps = [line for line in agent.lines if "attempt=" in line]
            assert len({line.partition("attempt=")[2][:10] for line in steps}) == 1 and len(steps) >= 5
            certificate = agent.status()["certificates"][0]  # type: ignore[index]
            assert (certificate["state"], certificate["rotations"]) == ("good", 1)
            assert agent.command("rotate", "nothing").code == 1
            # A second one on the same socket is told so; the first goes on.
            with RunningAgent(tmp_path, tmp_path / "worker-1") as second:
                assert second.process.wait(PATIENCE_SECONDS) == 1
            assert agent.command("status").code == 0
            assert agent.end() == 0
        assert not agent.socket.exists()
        gone = agent.command("status")
        assert gone.code == 1 and "no agent answers" in gone.stderr and "hint:" in gone.stderr


def test_from_a_bootstrap_kubeconfig_with_metrics_and_notifications(tmp_path: Path) -> None:
    node = tmp_path / "node"
    notified = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    notified.bind(str(tmp_path / "notify"))
    notified.settimeout(PATIENCE_SECONDS)
    with Up(tmp_path) as up:
        _, token, _ = up.join_arguments
        bootstrap_kubeconfig(tmp_path, node, kubeconfig.User(token=token))
        environ = (("NOTIFY_SOCKET", str(tmp_path / "notify")), ("WATCHDOG_USEC", "2000000"))
        with RunningAgent(tmp_path, node, ("--node-name", "worker-9"), environ) as agent:
            agent.until("certificate in use")
            told = b""
            while not all(word in told for word in (b"READY=1", b"WATCHDOG=1", b"STATUS=")):
                told += notified.recv(4096)
            port = healthz_port(agent)
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz") as answer:
                assert answer.read() == b"ok"
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
                metrics = answer.read().decode()
            left = float(metrics.partition("\nkubelet_certificate_manager_client_ttl_seconds ")[2].split()[0])
            assert 0 < left < 366 * 86400
            assert "\nkubelet_certificate_manager_client_expiration_renew_errors 0.0\n" in metrics
            agent.until("names the certificate")
        config = kubeconfig.load((node / "etc/kubernetes/kubelet.conf").read_bytes())
        assert config.users["default-auth"].client_certificate == str(agent.store.current_path)
        # What is there is used, and nothing is asked for.
        with RunningAgent(tmp_path, node) as again:
            again.until(READY_LINE)
            assert again.status()["nodeName"] == "worker-9"
            assert not any("is asked for" in line for line in again.lines)
    notified.close()


def test_unhealthy_without_a_certificate(tmp_path: Path) -> None:
    node = tmp_path / "node"
    with Up(tmp_path) as up:
        bootstrap_kubeconfig(tmp_path, node, kubeconfig.User(token="abcdef.0123456789abcdef"))
        with RunningAgent(tmp_path, node, ("--node-name", "worker-9")) as agent:
            agent.until("the attempt failed")
            with pytest.raises(urllib.error.HTTPError) as unhealthy:
                urllib.request.urlopen(f"http://127.0.0.1:{healthz_port(agent)}/healthz")
            with unhealthy.value as answer:
                assert answer.code == 500 and b"no certificate" in answer.read()
            shown = agent.command("status")
            assert shown.code == 1 and "does not accept" in shown.stdout
        assert up.end() == 0


def test_nothing_to_begin_with(tmp_path: Path) -> None:
    with RunningAgent(tmp_path, tmp_path / "nowhere", ("--node-name", "a")) as agent:
        assert agent.process.wait(PATIENCE_SECONDS) == 3
    assert any("error: neither" in line for line in agent.lines)
