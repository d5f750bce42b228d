#!/bin/sh
# Rewrites the lock files from pyproject.toml; needs uv, which nothing else in the project does.
set -eu
cd "$(dirname "$0")/.."
lock() {
    uv pip compile --universal --generate-hashes --python-version 3.11 --no-header --no-annotate --no-emit-index-url \
        --quiet "$@"
}
lock pyproject.toml --group build -o requirements.lock
lock pyproject.toml --group build --group dev -o requirements-dev.lock
lock --group docs -o requirements-docs.lock
lock --group release -o requirements-release.lock
