"""Which resources a server stored encrypted when it last ran, so that none is stored in clear text unnoticed.

Kubernetes takes any valid file: with ``identity`` in front, without an entry or without the flag, it stores Secrets in
clear text from then on and says nothing. Here that has to be said. Source: kubevouch's own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from kubevouch.config.encryption_config import parse_group_resource, shown, weakened
from kubevouch.machinery.scheme import GroupResource
from kubevouch.standalone.encryption_options import RECORD
from kubevouch.standalone.errors import InvalidOptionsError
from kubevouch.util import files
from kubevouch.util.logger import get_logger

log = get_logger("encryption")

_MOST_BYTES = 1 << 20

Plan = Mapping[GroupResource, bool]
"""Whether each resource or pattern that a configuration names is stored encrypted."""


class EncryptionWeakened(InvalidOptionsError):
    """Resources would be stored in clear text that were stored encrypted before."""

    def __init__(self, resources: list[str]) -> None:
        super().__init__(
            f"{', '.join(resources)} would be stored in clear text from now on, and were stored encrypted before",
            "in the file of --encryption-provider-config, list a provider that encrypts before identity; to store "
            "them in clear text, pass --encryption-allow-cleartext and keep the key in the file",
        )
        self.resources = resources


class EncryptionRecord:
    """The record of one data directory.

    Args:
        folder: the data directory; None remembers nothing between two starts.
        allow_cleartext: whether a resource may be stored in clear text that was not before.
    """

    def __init__(self, folder: Path | None, *, allow_cleartext: bool) -> None:
        self._path = None if folder is None else folder / RECORD
        self._allow_cleartext = allow_cleartext
        self._kept: Plan | None = None

    def check(self, plan: Plan) -> None:
        """Whether ``plan`` may be used.

        Raises:
            EncryptionWeakened: it stores in clear text what was not before, and that is not allowed.
            InvalidOptionsError: the record cannot be read.
        """
        found = weakened(self._former(), plan)
        if found and not self._allow_cleartext:
            raise EncryptionWeakened(found)

    def keep(self, plan: Plan) -> None:
        """Remember that ``plan`` is in use. Raises as :meth:`check`, and OSError."""
        self.check(plan)
        if plan == self._former():
            return
        if found := weakened(self._former(), plan):
            log.warning("resources are stored in clear text that were stored encrypted before", resources=found)
        if self._path is not None:
            tree = {shown(resource): encrypted for resource, encrypted in plan.items()}
            files.write_atomically(self._path, json.dumps(tree, sort_keys=True).encode() + b"\n")
        self._kept = plan

    def _former(self) -> Plan:
        if self._kept is None:
            self._kept = {} if self._path is None else _read(self._path)
        return self._kept


def _read(path: Path) -> Plan:
    try:
        tree = json.loads(files.read_regular(path, _MOST_BYTES))
        return {parse_group_resource(str(name)): bool(encrypted) for name, encrypted in tree.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, AttributeError) as err:
        # What cannot be read may have said that everything is encrypted.
        raise InvalidOptionsError(
            f"{path}, which says what was stored encrypted before, cannot be read: {err}",
            "delete it once the file of --encryption-provider-config says what you mean",
        ) from err
