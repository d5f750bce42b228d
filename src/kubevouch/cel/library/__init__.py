"""The functions that Kubernetes adds to the language; importing this package makes all of them known.

Source: k8s.io/apiserver/pkg/cel/library, cel-go ext (Kubernetes 1.36).
"""

from kubevouch.cel.library import authorizer, collections, formats, formatting, network, quantity, semver, texts, url

__all__ = ("authorizer", "collections", "formats", "formatting", "network", "quantity", "semver", "texts", "url")
