"""/version: which Kubernetes this server speaks like (apiserver server/routes/version.go)."""

from __future__ import annotations

import platform

from kubevouch import __version__
from kubevouch.machinery.codec import json_codec
from kubevouch.server.request import BytesResult, Request, Result

# The Kubernetes release whose behaviour this server follows.
MAJOR, MINOR, PATCH = "1", "36", "2"


def document() -> dict[str, str]:
    """Clients read major, minor and gitVersion; kubeadm parses gitVersion as a semantic version."""
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return {
        "major": MAJOR,
        "minor": MINOR,
        "emulationMajor": MAJOR,
        "emulationMinor": MINOR,
        "minCompatibilityMajor": MAJOR,
        "minCompatibilityMinor": str(int(MINOR) - 1),
        "gitVersion": f"v{MAJOR}.{MINOR}.{PATCH}+kubevouch-{__version__}",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": f"{platform.system().lower()}/{machine}",
    }


async def serve(_request: Request) -> Result:
    return BytesResult(json_codec.indent(json_codec.encode(document())), "application/json")
