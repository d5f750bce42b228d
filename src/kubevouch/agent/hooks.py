"""Commands that run after a renewal, such as reloading a service."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence

from kubevouch.agent.certificate_store import StoredPair
from kubevouch.agent.manager_interface import Manager
from kubevouch.util.clock import Clock
from kubevouch.util.logger import get_logger
from kubevouch.util.tasks import deadline

log = get_logger("agent.hooks")

HOOK_SECONDS = 60.0
_SHOWN_BYTES = 500

Command = tuple[str, ...]


class Hooks:
    """Runs the commands of a certificate one after the other; one that fails does not hold up the next.

    Args:
        commands: by the certificate's name; each a program and its arguments, run without a shell. They find the path
            in ``KUBEVOUCH_CERTIFICATE`` and the name in ``KUBEVOUCH_CERTIFICATE_NAME``.
    """

    def __init__(self, commands: Mapping[str, Sequence[Command]], clock: Clock) -> None:
        self._commands = commands
        self._clock = clock

    async def renewed(self, manager: Manager, _former: StoredPair | None, /) -> None:
        faults = []
        for command in self._commands.get(manager.name, ()):
            fault = await self._run(command, manager)
            if fault:
                log.error("a hook failed", certificate=manager.name, command=command[0], error=fault)
                faults.append(f"{command[0]}: {fault}")
            else:
                log.info("a hook ran", certificate=manager.name, command=command[0])
        manager.standing.hooks = faults

    def failed(self, _manager: Manager, /) -> None:
        """Nothing has changed."""

    async def _run(self, command: Command, manager: Manager) -> str:
        """Why it failed, empty if it did not."""
        environment = os.environ | {
            "KUBEVOUCH_CERTIFICATE": manager.standing.path,
            "KUBEVOUCH_CERTIFICATE_NAME": manager.name,
        }
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                env=environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
        except OSError as err:
            return err.strerror or str(err)
        try:
            async with deadline(self._clock, HOOK_SECONDS):
                output, _ = await process.communicate()
        except TimeoutError:
            return f"it took longer than {HOOK_SECONDS:g} s and was ended"
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            said = " ".join(output[-_SHOWN_BYTES:].decode(errors="replace").split())
            return f"it ended with status {process.returncode}: {said}"
        return ""
