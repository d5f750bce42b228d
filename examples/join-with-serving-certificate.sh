#!/bin/sh
# A cluster, a machine that joins it, and the machine's serving certificate: nobody approves anything by hand.
#
# Everything lies in one folder, runs without root, listens on 127.0.0.1 only and is gone at the end. The kubelet is not
# here; what it would report of its addresses, the machine writes with its own credential, as a kubelet does.
set -eu

NODE=worker-1
ADDRESS=10.0.0.9
KUBEVOUCH=${KUBEVOUCH:-kubevouch}
WORK=$(mktemp -d)
CLUSTER= AGENT=

cleanup() {
    for process in $AGENT $CLUSTER; do kill "$process" 2>/dev/null || true; done
    for process in $AGENT $CLUSTER; do wait "$process" 2>/dev/null || true; done
    rm -rf "$WORK"
}
trap cleanup EXIT INT TERM

# Half a minute at most.
until_there() {
    tries=0
    until "$@" >/dev/null 2>&1; do
        tries=$((tries + 1))
        [ $tries -lt 300 ] || { echo "gave up waiting for: $*" >&2; cat "$WORK"/*.log >&2; exit 1; }
        sleep 0.1
    done
}

echo "1. a cluster"
"$KUBEVOUCH" up --data-dir "$WORK/cluster" --bind-address 127.0.0.1 --secure-port 0 >"$WORK/up.log" 2>&1 &
CLUSTER=$!
until_there grep -q 'kubevouch join' "$WORK/up.log"

echo "2. a machine joins it with the line that it printed"
JOIN=$(sed -n 's/^ *kubevouch join //p' "$WORK/up.log")
# shellcheck disable=SC2086 # these are several words
"$KUBEVOUCH" join $JOIN --rootfs "$WORK/machine" --node-name "$NODE" --ignore-preflight-errors=all >"$WORK/join.log" 2>&1

echo "3. its kubelet says where it is"
NODE_CREDENTIAL="$WORK/machine/etc/kubernetes/kubelet.conf"
kubectl --kubeconfig "$NODE_CREDENTIAL" create -f - <<END
apiVersion: v1
kind: Node
metadata:
  name: $NODE
status:
  addresses:
  - {type: Hostname, address: $NODE}
  - {type: InternalIP, address: $ADDRESS}
END

echo "4. the agent asks for its serving certificate, and has it"
"$KUBEVOUCH" agent --serving --kubeconfig "$NODE_CREDENTIAL" --cert-dir "$WORK/machine/var/lib/kubelet/pki" \
    --node-name "$NODE" --healthz-address "" --socket "$WORK/agent.sock" >"$WORK/agent.log" 2>&1 &
AGENT=$!
until_there test -e "$WORK/machine/var/lib/kubelet/pki/kubelet-server-current.pem"
openssl x509 -in "$WORK/machine/var/lib/kubelet/pki/kubelet-server-current.pem" -noout -subject -ext subjectAltName

echo "5. why it was approved"
kubectl --kubeconfig "$WORK/cluster/admin.conf" get csr \
    --field-selector spec.signerName=kubernetes.io/kubelet-serving \
    -o jsonpath='{range .items[*]}{.status.conditions[0].message}{"\n"}{end}'
