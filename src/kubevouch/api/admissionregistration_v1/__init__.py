"""admissionregistration.k8s.io/v1: which webhooks and policies have a say about writes.

Field numbers and order: k8s.io/api/admissionregistration/v1 generated.proto and types.go; rules:
pkg/apis/admissionregistration/validation/validation.go and v1/defaults.go (Kubernetes 1.36).
"""

GROUP = "admissionregistration.k8s.io"
