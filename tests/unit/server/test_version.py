from __future__ import annotations

import re

from kubevouch.server.version import document


def test_git_version_is_a_semantic_version_of_the_release_named() -> None:
    told = document()
    assert re.fullmatch(r"v1\.36\.\d+\+[0-9A-Za-z.-]+", told["gitVersion"], re.ASCII)
    assert (told["major"], told["minor"], told["minCompatibilityMinor"]) == ("1", "36", "35")
    assert re.fullmatch(r"[a-z]+/[a-z0-9_]+", told["platform"], re.ASCII)
