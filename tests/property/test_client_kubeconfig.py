"""Merging kubeconfigs: the first file that has a name owns it, whatever the others say."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from kubevouch.client.kubeconfig import Located, merge
from kubevouch.config.kubeconfig import Cluster, Context, Kubeconfig, User

names = st.sampled_from(["a", "b", "c", ""])
words = st.text("xyz", max_size=3)
configs = st.builds(
    Kubeconfig,
    clusters=st.dictionaries(names, st.builds(Cluster, server=words), max_size=3),
    users=st.dictionaries(names, st.builds(User, token=words), max_size=3),
    contexts=st.dictionaries(names, st.builds(Context, cluster=words), max_size=3),
    current_context=words,
)
files = st.lists(configs, max_size=4).map(lambda found: [(Path(f"/{at}"), config) for at, config in enumerate(found)])


@given(files)
def test_first_writer_wins(found: list[tuple[Path, Kubeconfig]]) -> None:
    merged = merge(found)
    for folder, config in reversed(found):
        for name, cluster in config.clusters.items():
            if not any(name in other.clusters for path, other in found if path < folder):
                assert merged.clusters[name] == Located(cluster, folder)
        for name, user in config.users.items():
            if not any(name in other.users for path, other in found if path < folder):
                assert merged.users[name] == Located(user, folder)
    assert merged.current_context == next((c.current_context for _, c in found if c.current_context), "")


@given(files, files)
def test_files_of_lower_precedence_only_add(
    first: list[tuple[Path, Kubeconfig]], more: list[tuple[Path, Kubeconfig]]
) -> None:
    alone, together = merge(first), merge([*first, *more])
    assert dict(together.contexts) | dict(alone.contexts) == dict(together.contexts)
    assert set(together.contexts) == set(alone.contexts) | {name for _, c in more for name in c.contexts}
