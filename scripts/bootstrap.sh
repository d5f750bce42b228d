#!/bin/sh
# Prints a Python, 3.11 or later, that can make virtual environments. When there is none, root gets it from Debian's
# packages and everybody else is told in one line what is missing. PYTHON=… in the environment is tried first.
set -eu

packages="python3 python3-venv ca-certificates"

find_python() {
    for candidate in ${PYTHON:-} python3 python3.11 python3.12 python3.13 python3.14; do
        path=$(command -v "$candidate") || continue
        # Debian splits ensurepip off into python3-venv; sys.executable sees through version managers' wrappers.
        "$path" -c '
import sys
if sys.version_info < (3, 11):
    sys.exit(1)
import ensurepip, sqlite3, ssl, venv
print(sys.executable)' 2>/dev/null && return
    done
    return 1
}

find_python && exit
if ! command -v apt-get >/dev/null; then
    echo "error: Python 3.11 or later with its venv and ensurepip modules is missing; install it and run this again" >&2
    exit 1
fi
if [ "$(id -u)" -ne 0 ]; then
    echo "error: Python 3.11 or later with venv is missing; run: sudo apt-get install $packages" >&2
    exit 1
fi
echo "installing $packages" >&2
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# shellcheck disable=SC2086  # one word per package
if ! { apt-get update && apt-get install --yes --no-install-recommends $packages; } >"$log" 2>&1; then
    echo "error: apt-get could not install $packages: $(grep '^E:' "$log" | tail -n 1)" >&2
    exit 1
fi
if ! find_python; then
    echo "error: this system's newest python3 is older than 3.11; set PYTHON to a newer one" >&2
    exit 1
fi
