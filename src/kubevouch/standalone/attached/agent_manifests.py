"""The agent beside kubelets that have their certificates from elsewhere: a DaemonSet in a namespace of its own.

It writes what belongs to the kubelet, which no restricted pod may: the namespace allows privileged pods, and has no
other program in it. It runs on the nodes only that bear a label, so that each is taken over, and given back, by itself.
"""

from __future__ import annotations

from typing import Any

from kubevouch import wellknown

Tree = dict[str, Any]

NAMESPACE = "kubevouch-agent"
NODE_LABEL = "kubevouch.io/agent"
"""``true`` on the nodes whose kubelet leaves its certificates to the agent."""
HEALTH_PORT = 10451
_NAME = "kubevouch-agent"
_FOLDERS = {"kubernetes": "/etc/kubernetes", "pki": "/var/lib/kubelet/pki"}


def arguments() -> list[str]:
    """Of ``kubevouch``."""
    return ["agent", "--serving", f"--healthz-address=127.0.0.1:{HEALTH_PORT}"]


def daemon_set(image: str) -> list[Tree]:
    """The namespace, the account, which may do nothing, and the DaemonSet."""
    labels = {"app.kubernetes.io/name": _NAME}
    pod = {
        # It acts with the kubelet's own credential.
        "automountServiceAccountToken": False,
        "containers": [_container(image)],
        "dnsPolicy": "Default",
        "enableServiceLinks": False,
        # The kubeconfig may name an address that only the node itself reaches, and the host name is the node's.
        "hostNetwork": True,
        "nodeSelector": {wellknown.OS_LABEL: "linux", NODE_LABEL: "true"},
        "securityContext": {
            # The kubelet's files belong to root.
            "runAsGroup": 0, "runAsUser": 0, "seccompProfile": {"type": "RuntimeDefault"},
        },
        "serviceAccountName": _NAME,
        "terminationGracePeriodSeconds": 30,
        # A node that is not ready may be so for want of a certificate.
        "tolerations": [{"operator": "Exists"}],
        "volumes": [
            {"emptyDir": {"medium": "Memory"}, "name": "run"},
            *(
                {"hostPath": {"path": path, "type": "Directory"}, "name": name}
                for name, path in _FOLDERS.items()
            ),
        ],
    }  # fmt: skip
    return [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}, "name": NAMESPACE},
        },
        {
            "apiVersion": "v1",
            "automountServiceAccountToken": False,
            "kind": "ServiceAccount",
            "metadata": {"name": _NAME, "namespace": NAMESPACE},
        },
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"labels": labels, "name": _NAME, "namespace": NAMESPACE},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod},
                "updateStrategy": {"rollingUpdate": {"maxUnavailable": "10%"}, "type": "RollingUpdate"},
            },
        },
    ]


def _container(image: str) -> Tree:
    probe = {"httpGet": {"host": "127.0.0.1", "path": "/healthz", "port": HEALTH_PORT}}
    return {
        "args": arguments(),
        "image": image,
        "name": "agent",
        # It tells of a certificate that is missing; a new start would mend nothing.
        "readinessProbe": {**probe, "periodSeconds": 30},
        "resources": {"limits": {"memory": "256Mi"}, "requests": {"cpu": "10m", "memory": "64Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [
            {"mountPath": "/run/kubevouch", "name": "run"},
            *({"mountPath": path, "name": name} for name, path in _FOLDERS.items()),
        ],
    }  # fmt: skip
