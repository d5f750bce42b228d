"""One version of a definition, compiled: what its objects look like, from the request's text to what is stored.

Sources: k8s.io/apiextensions-apiserver/pkg/apiserver/customresource_handler.go,
pkg/registry/customresource/{strategy,status_strategy,validator}.go (Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from kubevouch.cel.program import Turn
from kubevouch.machinery.codec.json_codec import UnmarshalError
from kubevouch.machinery.field import FieldError
from kubevouch.structural import defaulting, embedded, lists, pruning, values
from kubevouch.structural.correlation import Correlated
from kubevouch.structural.rules import UNCHECKED, Rules, may_run
from kubevouch.structural.scale import ScalePaths
from kubevouch.structural.schema import Schema, compile_schema

STATUS = "status"


class Verdict(msgspec.Struct, frozen=True):
    """What a schema says of an object: errors, and warnings of what was wrong before and may stay so."""

    errors: list[FieldError]
    warnings: list[str]


class CompiledVersion:
    """What requests about objects of one version need, made once when its definition changes.

    Args:
        tree: the version's ``openAPIV3Schema``.
        scale: where its objects keep what their ``/scale`` says, if they have one.

    Raises:
        TooDeep: the schema nests too deep to be walked.
    """

    def __init__(self, tree: Mapping[str, Any], scale: ScalePaths | None = None) -> None:
        self.schema: Schema = compile_schema(tree)
        self._scale = scale
        self._check = values.compile_checks(self.schema)
        status = self.schema.properties.get(STATUS)
        self._check_status = None if status is None else values.compile_checks(status)
        self._rules = Rules(self.schema)

    def clean(self, tree: dict[str, Any], *, stored: bool = False) -> list[str]:
        """Prune, drop nulls that mean nothing, fill in defaults, all in place.

        Args:
            stored: it comes from storage, and has to be readable: what is malformed in objects inside of it goes, too,
                and defaults end where they are too many.

        Returns:
            The paths of the fields that the schema does not know, sorted; those in metadata of objects inside of it
            come last. What they held is gone.

        Raises:
            UnmarshalError: an object inside of it is none, or defaults make it too large; never with ``stored``.
        """
        unknown = sorted(pruning.prune(tree, self.schema))
        defaulting.drop_nulls(tree, self.schema)
        unknown += embedded.coerce(tree, self.schema, drop_malformed=stored)
        if not defaulting.fill(tree, self.schema) and not stored:
            raise UnmarshalError(f"the defaults of its schema come to more than {defaulting.MOST_BYTES} bytes")
        return unknown

    def validate(
        self, new: dict[str, Any], old: dict[str, Any] | None, *, subresource: str = "", turn: Turn | None = None
    ) -> Verdict:
        """What is wrong with ``new``, but for what was as wrong in ``old``.

        Args:
            new: cleaned, as ``old`` is; of their metadata the names.
            subresource: ``status`` where nothing else may have changed.
            turn: bounds the work where others wait for this thread.

        Raises:
            TurnOver: only with ``turn``.
        """
        correlated = None if old is None else Correlated(new, old, self.schema)
        if subresource == STATUS:
            errors = self._status_errors(new, correlated, turn)
        else:
            errors = values.validate(self._check, new, correlated, turn=turn)
            if self._scale is not None:
                errors += self._scale.check_spec(new) + self._scale.check_status(new)
            errors += embedded.check_embedded(new, self.schema)
        repeated = lists.check_lists(new, self.schema)
        if repeated and (old is None or not lists.check_lists(old, self.schema)):
            errors += repeated
        if not self._rules:
            return Verdict(errors, [])
        if not may_run(errors):
            return Verdict([*errors, UNCHECKED], [])
        checked = self._rules.check(new, old, turn=turn)
        return Verdict(errors + checked.errors, checked.warnings)

    def _status_errors(self, new: dict[str, Any], correlated: Correlated | None, turn: Turn | None) -> list[FieldError]:
        errors: list[FieldError] = []
        if self._check_status is not None and STATUS in new:
            before = None if correlated is None else correlated.key(STATUS)
            errors = values.validate(self._check_status, new[STATUS], before, STATUS, turn)
        if self._scale is not None:
            errors += self._scale.check_status(new)
        return errors
