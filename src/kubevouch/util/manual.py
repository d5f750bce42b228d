"""Where the manual is, for messages that lead to a page of it: on the machine, which may reach no other."""

from __future__ import annotations

from pathlib import Path

import kubevouch


def manual_folder() -> Path:
    """The pages that were installed with the package; in a checkout those of the checkout."""
    package = Path(kubevouch.__file__).parent
    installed = package / "manual"
    return installed if installed.is_dir() else package.parents[1] / "docs"
