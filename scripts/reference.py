#!/usr/bin/env python3
"""Makes from the program itself: the reference, the list of differences, and the definitions of kubevouch's own kinds.

scripts/reference.py            docs/reference/{api,attacks,cli,findings,metrics,settings}.md, docs/compatibility.md,
                                docs/request-*.svg and deploy/**/*.yaml
scripts/reference.py --man DIR  a manual page for each command
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import click

import api_reference
import attack_reference
import compatibility
import metric_reference
import request_pictures
import settings_reference
from kubevouch import __version__
from kubevouch.api.kubevouch_v1alpha1.catalog import OWN_KINDS
from kubevouch.api.kubevouch_v1alpha1.guard_versions import GuardVersion
from kubevouch.api.kubevouch_v1alpha1.own_kind import OwnKind
from kubevouch.cli.commands import contexts
from kubevouch.doctor.findings import Area, Code
from kubevouch.machinery.codec.yamltext import dumps
from kubevouch.standalone.attached import manifest_parts, manifests
from kubevouch.standalone.attached.manifest_parts import documents

ROOT = Path(__file__).resolve().parents[1]
_MADE = "<!-- Made by scripts/reference.py; make reference makes it again. -->"


def paragraphs(ctx: click.Context) -> list[str]:
    """The help text; a paragraph is one line."""
    return [" ".join(each.split()) for each in (ctx.command.help or "").split("\n\n") if each.strip()]


def options(ctx: click.Context) -> list[tuple[str, str]]:
    """Each option and its help, as ``--help`` words them."""
    records = (parameter.get_help_record(ctx) for parameter in ctx.command.get_params(ctx))
    return [(left, " ".join(right.split())) for left, right in filter(None, records) if right]


def usage(ctx: click.Context) -> str:
    return " ".join([ctx.command_path, *ctx.command.collect_usage_pieces(ctx)])


# ------------------------------------------------------------------ Markdown


def cli_reference() -> str:
    parts = ["# Commands", _MADE, "Exit codes are in [exit-codes.md](exit-codes.md)."]
    for ctx in contexts():
        parts += [f"## {ctx.command_path}", *paragraphs(ctx), f"    {usage(ctx)}"]
        rows = [f"| `{_cell(left)}` | {_cell(right)} |" for left, right in options(ctx)]
        parts.append("\n".join(["| option | |", "|---|---|", *rows]))
    return "\n\n".join(parts) + "\n"


def findings_reference() -> str:
    parts = [
        "# What kubevouch doctor finds", _MADE,
        "A code never changes its meaning. The command is what helps as a rule; a finding may name a better one.",
    ]  # fmt: skip
    for area in Area:
        parts.append(f"## {area.value}")
        for code in Code:
            if code.value.area is area:
                parts += [f"### {code.value.code}", code.value.meaning, f"    {code.value.fix}"]
    return "\n\n".join(parts) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def metrics_reference() -> str:
    return metric_reference.page(_MADE)


_REVOCATION = "revocation/revoked-credentials.yaml"
_OWN_KINDS = (*(f"crds/{each.definition_name}.yaml" for each in OWN_KINDS), "crds/guards.yaml")
PAGES: dict[str, Callable[[], str]] = {
    "docs/reference/api.md": lambda: api_reference.page(_MADE),
    "docs/reference/attacks.md": lambda: attack_reference.page(_MADE),
    "docs/reference/cli.md": cli_reference,
    "docs/reference/findings.md": findings_reference,
    "docs/reference/metrics.md": metrics_reference,
    "docs/reference/settings.md": lambda: settings_reference.page(_MADE),
    "docs/compatibility.md": compatibility.page,
    "docs/request-life.svg": request_pictures.life,
    "docs/request-decision.svg": request_pictures.decision,
    "deploy/crds/guards.yaml": lambda: part("guards"),
    "deploy/guards/v1beta1.yaml": lambda: guards(GuardVersion.MUTATING_BETA),
    "deploy/guards/validating.yaml": lambda: guards(GuardVersion.VALIDATING),
    f"deploy/{_REVOCATION}": lambda: part("revocation"),
    "deploy/controllers/access.yaml": lambda: documents(_of_controllers(manifest_parts.access)),
    "deploy/controllers/deployment.yaml": lambda: documents(_of_controllers(manifest_parts.workloads)),
    "deploy/controllers/attestation.yaml": lambda: part("attestation"),
    "deploy/agent/daemonset.yaml": lambda: part("agent"),
    "deploy/cluster-api/workload.yaml": lambda: documents(manifests.cluster_api_access()),
    "deploy/cluster-api/management.yaml": lambda: documents(manifests.management_access()),
    "deploy/kustomization.yaml": lambda: dumps(
        manifests.kustomization((*_OWN_KINDS, "controllers/access.yaml", "controllers/deployment.yaml", _REVOCATION))
    ),
    "deploy/kubevouch.yaml": lambda: part(manifest_parts.ALL),
}


# ------------------------------------------------------------------ manual pages


def man_page(ctx: click.Context) -> str:
    """The page in the man macros (groff_man(7))."""
    title = ctx.command_path.replace(" ", "-")
    summary, *rest = paragraphs(ctx) or [ctx.command_path]
    lines = [
        f'.TH "{title.upper()}" 1 "" "kubevouch {__version__}" "kubevouch"',
        ".SH NAME", f"{_roff(title)} \\- {_roff(summary.rstrip('.'))}",
        ".SH SYNOPSIS", f".B {_roff(usage(ctx))}",
    ]  # fmt: skip
    if rest:
        lines += [".SH DESCRIPTION", *_joined(rest)]
    lines.append(".SH OPTIONS")
    for left, right in options(ctx):
        lines += [".TP", f".B {_roff(left)}", _roff(right)]
    if isinstance(ctx.command, click.Group):
        lines.append(".SH SEE ALSO")
        names = [f"{title}-{name}" for name in ctx.command.list_commands(ctx)]
        lines.append(", ".join(f"\\fB{_roff(name)}\\fR(1)" for name in names))
    return "\n".join(lines) + "\n"


def _joined(texts: list[str]) -> Iterator[str]:
    for number, text in enumerate(texts):
        if number:
            yield ".PP"
        yield _roff(text)


def _roff(text: str) -> str:
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped


def write_man_pages(folder: Path) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for ctx in contexts():
        path = folder / f"{ctx.command_path.replace(' ', '-')}.1"
        path.write_text(man_page(ctx))
        written.append(path)
    return written


def part(name: str) -> str:
    """As ``kubevouch manifests`` prints it."""
    return documents(manifest_parts.trees((name,), manifest_parts.Settings()))


def definition(kind: OwnKind) -> str:
    return documents([manifest_parts.labelled(manifest_parts.definition(kind), "crds")])


def _of_controllers(make: Callable[[manifest_parts.Settings], list[Any]]) -> list[Any]:
    return [manifest_parts.labelled(each, "controllers") for each in make(manifest_parts.Settings())]


def guards(version: GuardVersion) -> str:
    trees = manifest_parts.guards(version, manifest_parts.Settings().namespace)
    return documents([manifest_parts.labelled(each, "guards") for each in trees])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--into", type=Path, metavar="DIR", default=ROOT)
    parser.add_argument("--man", type=Path, metavar="DIR")
    arguments = parser.parse_args()
    if arguments.man is not None:
        written = write_man_pages(arguments.man)
        sys.stdout.write(f"{len(written)} pages in {arguments.man}\n")
        return
    kinds = {f"deploy/crds/{each.definition_name}.yaml": partial(definition, each) for each in OWN_KINDS}
    for name, make in (PAGES | kinds).items():
        path: Path = arguments.into / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(make())


if __name__ == "__main__":
    main()
