#!/bin/sh
# venv.sh dev|runtime: makes .venv from the lock file with the project in it, or does nothing when it is up to date.
# A changed lock makes it anew, so that nothing stays that the lock no longer names.
set -eu
cd "$(dirname "$0")/.."
# Where it is set, each start of a server compiles again what it loads: a second of processor time.
unset PYTHONDONTWRITEBYTECODE

case "$1" in
dev) lock=requirements-dev.lock ;;
runtime) lock=requirements.lock ;;
esac

# The root is part of the stamp because a copied .venv still points to the tree it was made in.
stamp() { printf '%s %s\n' "$(sha256sum <"$1" | cut -d ' ' -f 1)" "$PWD"; }
made_from() { [ "$(cat ".venv/made-from-$1" 2>/dev/null)" = "$(stamp "$1")" ]; }
pip() { .venv/bin/python -m pip --disable-pip-version-check --no-input -qq "$@"; }

# Two makes at once: the second waits and finds the work done.
exec 9<scripts/venv.sh
if command -v flock >/dev/null; then flock 9; fi

if ! .venv/bin/python -c '' 2>/dev/null || ! made_from "$lock"; then
    python=$(scripts/bootstrap.sh)
    echo "making .venv from $lock" >&2
    "$python" -m venv --clear .venv
    # Byte code comes with the first import of what is used, instead of a quarter of the time of every installation.
    pip install --no-compile --require-hashes -r "$lock"
    stamp "$lock" >".venv/made-from-$lock"
    # Everything the runtime lock names is in the other one too.
    if [ "$lock" = requirements-dev.lock ]; then stamp requirements.lock >.venv/made-from-requirements.lock; fi
fi
# The entry points live in pyproject.toml. hatchling comes from the lock, so the network is not needed.
if ! made_from pyproject.toml; then
    pip install --no-compile --no-deps --no-build-isolation --editable .
    stamp pyproject.toml >.venv/made-from-pyproject.toml
    # For whoever starts it where byte code may not be written.
    .venv/bin/python -c 'import kubevouch.cli.up, kubevouch.standalone.up'
fi
