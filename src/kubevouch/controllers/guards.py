"""Whether the API server holds the writers of our objects to their own rights, as the guards have it.

A controller acts with rights of its own for whoever wrote an object. On an API server of somebody else the guards are
objects that may not have been applied: then nobody has looked at who wrote it, and it is not acted upon.

Source: docs/adr/0063-guards-by-what-the-server-serves.md.
"""

from __future__ import annotations

from kubevouch.api.catalog import VALIDATING_ADMISSION_POLICIES, VALIDATING_ADMISSION_POLICY_BINDINGS
from kubevouch.api.kubevouch_v1alpha1.guard_versions import is_guard
from kubevouch.client.interface import Client
from kubevouch.client.stored import find
from kubevouch.machinery.errors import APIStatusError
from kubevouch.util.clock import Clock

GUARD_SECONDS = 10.0
"""How long what was read of a guard counts."""


class Guards:
    """Asks the API server for ValidatingAdmissionPolicies and their bindings.

    Args:
        is_own_server: the API server is ours: its admission does the same in code, whatever becomes of the guards.
    """

    def __init__(self, client: Client, clock: Clock, *, is_own_server: bool) -> None:
        self._client = client
        self._clock = clock
        self._is_own_server = is_own_server
        self._known: dict[str, tuple[float, str]] = {}

    async def fault(self, name: str) -> str:
        """Why the guard of that name holds nobody; empty if it holds. Raises APIStatusError, TransportError."""
        if self._is_own_server:
            return ""
        until, fault = self._known.get(name, (float("-inf"), ""))
        if self._clock.monotonic() >= until:
            fault = await self._look(name)
            self._known[name] = (self._clock.monotonic() + GUARD_SECONDS, fault)
        return fault

    async def _look(self, name: str) -> str:
        try:
            policy = await find(self._client, VALIDATING_ADMISSION_POLICIES, name)
            binding = await find(self._client, VALIDATING_ADMISSION_POLICY_BINDINGS, name)
        except APIStatusError as err:
            if err.code != 403:
                raise
            return f"no right to read the ValidatingAdmissionPolicy {name} and its binding"
        if policy is None or binding is None:
            return f"no ValidatingAdmissionPolicy {name} with its binding, of the guards"
        return "" if is_guard(policy, binding) else f"a ValidatingAdmissionPolicy {name} of another version"
