"""One version of a definition, compiled: what its objects look like, from the request's text to what is stored.

Source: k8s.io/apiextensions-apiserver/pkg/apiserver/customresource_handler.go (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubevouch.structural import defaulting, pruning
from kubevouch.structural.schema import Schema, compile_schema


class CompiledVersion:
    """What requests about objects of one version need, made once when its definition changes.

    Args:
        tree: the version's ``openAPIV3Schema``.

    Raises:
        TooDeep: the schema nests too deep to be walked.
    """

    def __init__(self, tree: Mapping[str, Any]) -> None:
        self.schema: Schema = compile_schema(tree)

    def clean(self, tree: dict[str, Any]) -> list[str]:
        """Prune, drop nulls that mean nothing, fill in defaults, all in place.

        Returns:
            The paths of the fields that the schema does not know, sorted. What they held is gone.
        """
        unknown = pruning.prune(tree, self.schema)
        defaulting.drop_nulls(tree, self.schema)
        defaulting.fill(tree, self.schema)
        return sorted(unknown)
