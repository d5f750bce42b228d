"""The signers that run, by signer name: some from the start, others as objects that describe them come and go."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from kubevouch.signers.interface import Signer


class Signers:
    """A mapping that changes while controllers run. A name belongs to who put it there first.

    Args:
        fixed: signers that stay; nothing takes their names.
    """

    def __init__(self, fixed: Mapping[str, Signer] | None = None) -> None:
        self._fixed = dict(fixed or {})
        self._others: dict[str, Signer] = {}
        self._listeners: list[Callable[[str], None]] = []
        self._stop_listeners: list[Callable[[str], None]] = []
        self._stops: dict[str, str] = {}
        self._standings: dict[str, bool] = {}
        self._aside: dict[str, str] = {}

    def get(self, signer_name: str) -> Signer | None:
        return self._fixed.get(signer_name) or self._others.get(signer_name)

    def __contains__(self, signer_name: object) -> bool:
        return signer_name in self._fixed or signer_name in self._others

    def __iter__(self) -> Iterator[str]:
        """The names, in no order that means anything; a copy."""
        return iter((*self._fixed, *self._others))

    def is_fixed(self, signer_name: str) -> bool:
        return signer_name in self._fixed

    def put(self, signer_name: str, signer: Signer) -> None:
        """Have ``signer`` sign under this name from now on. Raises ``ValueError`` for the name of one that stays."""
        if signer_name in self._fixed:
            raise ValueError(f"{signer_name} is a signer of the command line")
        if self._others.get(signer_name) is not signer:
            self._others[signer_name] = signer
            self._tell(signer_name)

    def remove(self, signer_name: str) -> None:
        """Have nobody sign under this name; one that stays, stays."""
        if self._others.pop(signer_name, None) is not None:
            self._tell(signer_name)

    def on_change(self, listener: Callable[[str], None]) -> None:
        """Have ``listener`` hear the name of each signer that came, changed or went, once it has."""
        self._listeners.append(listener)

    @property
    def standings(self) -> dict[str, bool]:
        """By signer name, whether it signs; also of those that are described and cannot be set up."""
        idle = (*self._stops, *self._aside)
        return {**dict.fromkeys(self, True), **self._standings, **dict.fromkeys(idle, False)}

    def stands(self, signer_name: str, ready: bool | None) -> None:
        """Note whether a signer that is described signs; None once it is described no more."""
        if ready is None:
            self._standings.pop(signer_name, None)
        else:
            self._standings[signer_name] = ready

    # -------------------------------------------------------------- signers that have stopped

    def report_stop(self, signer_name: str, why: str) -> None:
        """A signer has made what was not allowed, and signs no more."""
        if signer_name not in self._stops:
            self._stops[signer_name] = why
            for listener in self._stop_listeners:
                listener(signer_name)

    def stop_of(self, signer_name: str) -> str:
        """Why it has stopped; empty if it has not, or if that is written down elsewhere."""
        return self._stops.get(signer_name, "")

    def clear_stop(self, signer_name: str) -> None:
        """It is written down elsewhere."""
        self._stops.pop(signer_name, None)

    def on_stop(self, listener: Callable[[str], None]) -> None:
        """Have ``listener`` hear the name of each signer that stops, stands aside, or signs again after that."""
        self._stop_listeners.append(listener)

    # -------------------------------------------------------------- signers that stand aside

    @property
    def aside(self) -> Mapping[str, str]:
        """By signer name, why it leaves its requests to somebody else who signs."""
        return self._aside

    def stand_aside(self, signer_name: str, why: str) -> None:
        """Somebody else signs under this name."""
        self._aside[signer_name] = why
        for listener in self._stop_listeners:
            listener(signer_name)

    def resume(self, signer_name: str) -> None:
        """Nobody else does any more. Those who wait are looked at again."""
        if self._aside.pop(signer_name, None) is not None:
            for listener in self._stop_listeners:
                listener(signer_name)
            self._tell(signer_name)

    def _tell(self, signer_name: str) -> None:
        for listener in self._listeners:
            listener(signer_name)
