"""apiextensions.k8s.io/v1: kinds of one's own.

Field numbers and order: k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1 (Kubernetes 1.36).
"""

GROUP = "apiextensions.k8s.io"
