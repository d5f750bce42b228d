"""Breaks the code on purpose, one small change at a time, and asks which changes no test notices.

    scripts/mutants.py [--report] [PACKAGE | MODULE | PATTERN …]

Names are as under src/kubevouch: `pki`, `pki/jws`, `authorization/rbac*`; without one, all of PACKAGES. A module is
tried with its mirrored tests and those of ALSO, or with all of its package's where it has no mirrored ones; the tool
runs, for a change, only those that reach the changed function. Results are in .mutants/results, a file for each module,
with the changes that survived. A module whose source and tests are as they were is not run again; one that was
interrupted goes on where it was. `--report` writes the figures that lie there into docs/mutants.md, and leaves those of
modules that have none there as they are recorded.
`make mutants` brings the tool, mutmut.
"""

from __future__ import annotations

import argparse
import fnmatch
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "kubevouch"
FOLDER = ROOT / ".mutants"
RESULTS = FOLDER / "results"
REPORT = ROOT / "docs" / "mutants.md"
PACKAGES = (
    "pki",
    "authentication",
    "authorization",
    "admission",
    "registry/certificates",
    "controllers/approval",
    "signers",
    "storage",
    "records",
)

# Tests elsewhere that hold a module too, below tests/.
ALSO: Mapping[str, Sequence[str]] = {
    "pki/jws": ("unit/agent/test_discovery.py",),
    "pki/pins": ("unit/agent/test_discovery.py", "contract/test_pki_node.py"),
    "pki/rotation": ("unit/agent/test_rotation_plan.py", "contract/test_pki_node.py"),
    "pki/csr_name": ("unit/agent/test_certificate_request.py", "contract/test_pki_node.py"),
    "pki/policy": ("unit/signers", "contract/test_pki_signer.py"),
    "pki/recognizers": ("unit/controllers/test_csr_approving.py", "contract/test_pki_signer.py"),
    "pki/client_certificate": ("unit/authentication/test_x509.py", "contract/test_pki_server.py"),
    "pki/certificate_chain": ("unit/authentication/test_x509.py", "contract/test_pki_server.py"),
    "pki/x509/*": ("contract/test_pki_signer.py", "contract/test_pki_server.py"),
    "storage/memory": ("integration/test_store_memory.py",),
    "storage/sqlite/*": ("integration/test_store_sqlite.py",),
    "records/bootstrap_tokens": ("unit/authentication/test_bootstrap_token.py",),
    "controllers/approval/recovery_admission": ("unit/controllers/test_node_recovery.py",),
}

# Lines that are nothing but words for a reader: contract tests hold them.
UNTOUCHED = (r'^\s*[rf]{0,2}"[^"]* [^"]*"[,)]*$', r"""^\s*[rf]{0,2}'[^']* [^']*'[,)]*$""")
# What mutmut's exit codes mean: pytest's own, and its own for "no test reaches it" and for running out of time.
SURVIVED, NO_TESTS, UNTRIED, KILLED = (0,), (5, 33), (None, 2), (1, 3)
KINDS = ("killed", "slow", "survived", "untested")
FIGURES_START, FIGURES_END = "<!-- figures: scripts/mutants.py --report -->", "<!-- end of figures -->"


def modules(patterns: Sequence[str]) -> Iterator[str]:
    """Modules that one of the patterns names, in the patterns' order, each once.

    Raises:
        SystemExit: A pattern names nothing.
    """
    every = sorted(
        str(path.relative_to(SOURCE).with_suffix("")) for path in SOURCE.rglob("*.py") if path.name != "__init__.py"
    )
    seen: set[str] = set()
    for pattern in patterns:
        named = [name for name in every if fnmatch.fnmatch(name, pattern) or name.startswith(pattern + "/")]
        if not named:
            sys.exit(f"error: no module below {SOURCE.relative_to(ROOT)} fits {pattern!r}; write pki, or pki/jws")
        yield from (name for name in named if name not in seen)
        seen.update(named)


def tests_of(module: str) -> list[str]:
    """The mirrored tests of a module and those of ALSO, as paths below the project."""
    folder, _, stem = module.rpartition("/")
    mirrored = ROOT / "tests" / "unit" / folder
    named = [
        path for path in (mirrored / f"test_{stem}.py", *sorted(mirrored.glob(f"test_{stem}_*.py"))) if path.exists()
    ]
    also = [
        ROOT / "tests" / path for pattern, paths in ALSO.items() if fnmatch.fnmatch(module, pattern) for path in paths
    ]
    return sorted({str(path.relative_to(ROOT)) for path in ([*named] or [mirrored]) + also if path.exists()})


def stamp(module: str, tests: Iterable[str]) -> str:
    """Changes when the module or one of its tests does."""
    digest = hashlib.sha256((SOURCE / f"{module}.py").read_bytes())
    for name in tests:
        path = ROOT / name
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            digest.update(file.read_bytes())
    return digest.hexdigest()


def prepare(module: str, tests: Sequence[str], now: str) -> Path:
    """The folder in which mutmut works on one module: the project's own files, and settings of its own.

    It is made anew when the module or its tests have changed since it was begun.
    """
    work = FOLDER / "work" / module.replace("/", ".")
    mark = work / "stamp"
    if mark.exists() and mark.read_text() == now:
        return work
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    for name in ("src", "tests"):
        (work / name).symlink_to(ROOT / name)
    settings = {
        "source_paths": ["src"],
        "only_mutate": [f"src/kubevouch/{module}.py"],
        "pytest_add_cli_args": ["-n0", "-p", "no:cacheprovider"],
        "pytest_add_cli_args_test_selection": list(tests),
        "do_not_mutate_patterns": list(UNTOUCHED),
        # Fifteen times the sum of this and of what the tests took unchanged, in seconds: less than pytest-timeout's
        # limit, which would call a change killed that only waits, and take four minutes for each.
        "timeout_constant": 1.0,
        "use_git_change_detection": False,
        "track_dependencies": False,
    }
    # A list of strings, a string and a boolean are written alike in JSON and in TOML.
    lines = "".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items())
    (work / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text() + "\n[tool.mutmut]\n" + lines)
    mark.write_text(now)
    return work


def differences(work: Path, names: Sequence[str]) -> dict[str, str]:
    """What each of the named mutants changes."""
    show = "import json, sys; from mutmut.mutation.diff_apply import get_diff_for_mutant as show"
    done = mutmut(work, f"{show}; print(json.dumps({{name: show(name) for name in sys.argv[1:]}}))", *names)
    return dict(json.loads(done.stdout))


def mutmut(work: Path, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program, *arguments]
    # One test process, and that one behind everything else on the machine.
    return subprocess.run(
        ["nice", "-n", "19", *command],
        cwd=work,
        env={**os.environ, "PYTHONPATH": str(FOLDER / "site")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def kind(code: int | None) -> str:
    """One of KINDS. What ran out of time is not said to be killed: on a busy machine that says nothing."""
    if code in SURVIVED:
        return "survived"
    return "untested" if code in NO_TESTS else "killed" if code in KILLED else "slow"


def try_module(module: str) -> None:
    """Runs what is left to run of one module, and writes its result.

    Raises:
        SystemExit: mutmut could not run: the tests fail without any change, or it was interrupted.
    """
    tests = tests_of(module)
    now = stamp(module, tests)
    result = RESULTS / f"{module.replace('/', '.')}.json"
    if result.exists() and json.loads(result.read_text())["stamp"] == now:
        print(f"{module:44} as it was", flush=True)
        return
    work = prepare(module, tests, now)
    done = mutmut(work, "from mutmut.__main__ import cli; cli()", "run", "--max-children", "1")
    meta = work / "mutants" / "src" / "kubevouch" / f"{module}.py.meta"
    codes: dict[str, int | None] = json.loads(meta.read_text())["exit_code_by_key"] if meta.exists() else {}
    if "could not find any test case" in done.stdout:  # said too where there is nothing to change
        codes = dict.fromkeys(codes, NO_TESTS[0])
    elif done.returncode != 0 or any(code in UNTRIED for code in codes.values()):
        (work / "log").write_text(done.stdout)
        print(f"{module:44} not finished: see {(work / 'log').relative_to(ROOT)}", flush=True)
        return
    counts = Counter(map(kind, codes.values()))
    survivors = differences(work, [name for name, code in codes.items() if code in SURVIVED])
    untested = sorted({name.rpartition("__mutmut_")[0] for name, code in codes.items() if code in NO_TESTS})
    RESULTS.mkdir(parents=True, exist_ok=True)
    figures = {name: counts[name] for name in KINDS}
    content = {"stamp": now, "tests": tests, **figures, "untested functions": untested, "survivors": survivors}
    result.write_text(json.dumps(content, indent=1))
    shutil.rmtree(work, ignore_errors=True)
    print(f"{module:44} " + "  ".join(f"{number:4} {name}" for name, number in figures.items()), flush=True)


def recorded(text: str) -> dict[str, dict[str, int]]:
    """The figures of every module in a table that `figures` wrote, by module; of those that are still there."""
    rows = re.findall(r"^\| `(.+?)` \|((?: \d+ \|)+)$", text, re.MULTILINE)
    counts = {name: [int(number) for number in re.findall(r"\d+", rest)][1:] for name, rest in rows}
    return {
        name: dict(zip(KINDS, numbers, strict=True))
        for name, numbers in counts.items()
        if (SOURCE / f"{name}.py").exists()
    }


def figures(modules: Mapping[str, Mapping[str, int]]) -> str:
    """A table with a line for each module, and one for each package."""
    lines = ["| module | mutants | killed | too slow | survived | no test reaches it |", "|---|---|---|---|---|---|"]

    def line(title: str, of: Iterable[Mapping[str, int]]) -> str:
        numbers = [sum(row[name] for row in of) for name in KINDS]
        return f"| {title} | {sum(numbers)} | {' | '.join(map(str, numbers))} |"

    packages: dict[str, dict[str, Mapping[str, int]]] = {package: {} for package in PACKAGES}
    for name, row in sorted(modules.items()):
        of_ours = (package for package in PACKAGES if name.startswith(package + "/"))
        packages.setdefault(next(of_ours, name.rpartition("/")[0]), {})[name] = row
    for package, rows in packages.items():
        if rows:
            lines.append(line(f"**{package}**", list(rows.values())))
            lines += [line(f"`{name}`", [row]) for name, row in rows.items()]
    lines.append(line("**all**", list(modules.values())))
    return "\n".join(lines)


def write_report(report: Path = REPORT, results: Path = RESULTS) -> None:
    text = report.read_text()
    rows = recorded(text)
    for path in results.glob("*.json"):
        result = json.loads(path.read_text())
        if any(result[name] for name in KINDS):
            rows[path.stem.replace(".", "/")] = {name: result[name] for name in KINDS}
    between = re.compile(re.escape(FIGURES_START) + r".*?" + re.escape(FIGURES_END), re.DOTALL)
    report.write_text(between.sub(lambda _: f"{FIGURES_START}\n\n{figures(rows)}\n\n{FIGURES_END}", text))


def main() -> None:
    parser = argparse.ArgumentParser(description="Which changes of the code no test notices")
    parser.add_argument("names", nargs="*", metavar="PACKAGE|MODULE", default=[])
    parser.add_argument("--report", action="store_true", help="only write the figures into docs/mutants.md")
    arguments = parser.parse_args()
    if arguments.report:
        write_report()
        return
    for module in modules(arguments.names or PACKAGES):
        try_module(module)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("interrupted; the same command goes on where it was")
