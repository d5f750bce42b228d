"""The pytest plug-in: fixtures that start a real, truthful API server inside a test.

Loaded by pytest through the entry point ``pytest11``; importing it costs nothing until a fixture is used.
"""

from __future__ import annotations
