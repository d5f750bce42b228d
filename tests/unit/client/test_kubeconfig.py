"""client/kubeconfig.py: which files count, and merging."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubevouch.client.kubeconfig import KubeconfigError, candidates, load
from kubevouch.config import kubeconfig as stanzas
from kubevouch.testing.logs import capture_logs


def write(path: Path, *, server: str, current: str = "", name: str = "c") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f"apiVersion: v1\nkind: Config\ncurrent-context: '{current}'\n"
        f"clusters:\n- name: {name}\n  cluster: {{server: '{server}'}}\n"
    )
    return path


def test_the_named_file_beats_everything(tmp_path: Path) -> None:
    named = write(tmp_path / "named", server="https://named")
    other = write(tmp_path / "other", server="https://other")
    write(tmp_path / "home/.kube/config", server="https://home")
    merged = load(named, {"KUBECONFIG": str(other)}, tmp_path / "home")
    assert merged.clusters["c"].entry.server == "https://named"


def test_the_named_file_has_to_be_there(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match="cannot be read: No such file"):
        load(tmp_path / "missing", {}, tmp_path)


def test_the_variable_s_files_are_merged_first_writer_wins_and_missing_ones_are_passed_over(tmp_path: Path) -> None:
    first = write(tmp_path / "one/first", server="https://first")
    second = write(tmp_path / "two/second", server="https://second", current="chosen")
    third = write(tmp_path / "third", server="https://third", current="not", name="d")
    merged = load(None, {"KUBECONFIG": f":{tmp_path}/missing:{first}:{second}:{third}"}, tmp_path)
    assert {name: located.entry.server for name, located in merged.clusters.items()} == {
        "c": "https://first", "d": "https://third",
    }  # fmt: skip
    assert merged.current_context == "chosen"
    assert merged.clusters["c"].path("ca.crt") == tmp_path / "one/ca.crt"


@pytest.mark.parametrize("environ", [{}, {"KUBECONFIG": ""}])
def test_the_home_folder_s_file_comes_last(tmp_path: Path, environ: dict[str, str]) -> None:
    write(tmp_path / ".kube/config", server="https://home")
    assert load(None, environ, tmp_path).clusters["c"].entry.server == "https://home"
    assert candidates(environ, tmp_path) == [tmp_path / ".kube/config"]


def test_no_file_at_all_is_an_empty_kubeconfig(tmp_path: Path) -> None:
    assert not load(None, {}, tmp_path).clusters


@pytest.mark.parametrize(
    ("text", "problem"), [("[", "yaml"), ("kind: Secret", "no kubeconfig but kind 'Secret'"), ("clusters: 3", "array")]
)
def test_a_file_that_is_no_kubeconfig_is_named(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "bad"
    path.write_text(text)
    with pytest.raises(KubeconfigError, match=f"{path} cannot be used: .*{problem}"):
        load(None, {"KUBECONFIG": str(path)}, tmp_path)


@pytest.mark.parametrize(("mode", "warnings"), [(0o600, 0), (0o644, 1), (0o640, 1)])
def test_s17_a_kubeconfig_that_others_may_read_is_warned_about(tmp_path: Path, mode: int, warnings: int) -> None:
    path = tmp_path / "config"
    path.write_text(stanzas.dump(stanzas.Kubeconfig(users={"me": stanzas.User(token="secret")})))
    path.chmod(mode)
    with capture_logs() as logs:
        load(path)
    assert len(logs) == warnings
    assert all(entry["problem"].startswith(f"{path} can be read by others") for entry in logs)
    assert "secret" not in str(logs)
