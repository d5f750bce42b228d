"""``--tracing-config-file``, for whatever can be traced."""

from __future__ import annotations

from pathlib import Path

import click

tracing_flag = click.option(
    "--tracing-config-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="TracingConfiguration: where spans go, and how many.",
)
