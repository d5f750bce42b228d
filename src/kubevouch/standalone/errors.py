"""Why nothing can be started."""

from __future__ import annotations


class StartError(Exception):
    """It cannot start here; ``hint`` says what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class InvalidOptionsError(StartError):
    """A setting cannot be meant; nothing was changed."""


class NotHereError(StartError):
    """The directory, the port or a part of the program is not to be had; nothing was changed."""
