"""S10: nothing shows this server's certificate for somebody else (CVE-2018-16886); every endpoint has the same TLS
(CVE-2020-15136).

TLS contexts are made in two modules, and whoever asks there says whom to trust. The server relays no request to
anybody, so no caller can act as it does.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

import kubevouch
from contract import route_matrix

SOURCE = Path(kubevouch.__file__).parent
CLIENT, SERVER = "client/tls.py", "server/edge/tls.py"
# Where a library would make a context of its own, or do without.
MAKERS = {
    "SSLContext", "create_default_context", "_create_unverified_context", "_create_default_https_context",
    "create_ssl_context", "wrap_socket", "urlopen",
}  # fmt: skip
PEERLESS = "insecure_context_that_verifies_nothing"
# aiohttp, asyncio: what a connection is made with. True is the library's own context, False and None none.
KEYWORDS = {"ssl", "ssl_context", "verify", "verify_ssl"}


# Whoever may be answered by anybody: discovery and its diagnosis, which verify the answer by other means; two readers
# of the certificate that is shown, which hang up behind the handshake; and the words of a kubeconfig.
LOOKERS = {"doctor/reach.py", "phases/certificates/served_certificates.py"}
TRUSTING = {"agent/discovery.py", "doctor/join.py", "client/rest_config.py", CLIENT}


@cache
def nodes() -> list[tuple[str, ast.AST]]:
    """Of all the sources, each with its file."""
    return [
        (str(path.relative_to(SOURCE)), node)
        for path in sorted(SOURCE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call | ast.Attribute)
    ]


def name_of(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def calls(names: set[str]) -> set[tuple[str, str]]:
    """File and function called."""
    return {
        (file, name_of(node.func))
        for file, node in nodes()
        if isinstance(node, ast.Call) and name_of(node.func) in names
    }


def test_contexts_are_made_in_one_place_for_each_side() -> None:
    assert calls(MAKERS) == {(CLIENT, "SSLContext"), (SERVER, "SSLContext")}


def test_who_may_be_answered_by_anybody_is_known() -> None:
    assert {file for file, _ in calls({PEERLESS})} == {CLIENT, *LOOKERS}
    unverified = {node for node in nodes() if isinstance(node[1], ast.Attribute) and node[1].attr == "CERT_NONE"}
    assert {file for file, _ in unverified} == {CLIENT}
    asked = {
        file
        for file, node in nodes()
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg == "insecure" and not (isinstance(keyword.value, ast.Constant) and keyword.value.value is False)
    }
    assert asked == TRUSTING


@pytest.mark.parametrize("file", sorted(LOOKERS))
def test_who_only_looks_at_a_certificate_sends_nothing(file: str) -> None:
    (function,) = [
        node
        for node in ast.walk(ast.parse((SOURCE / file).read_text()))
        if isinstance(node, ast.AsyncFunctionDef)
        if any(isinstance(each, ast.Call) and name_of(each.func) == PEERLESS for each in ast.walk(node))
    ]
    called = {name_of(each.func) for each in ast.walk(function) if isinstance(each, ast.Call)}
    assert not called & {"write", "writelines", "send", "sendall", "read", "readline", "request"}


def test_no_connection_is_made_with_a_library_s_own_idea_of_tls() -> None:
    wrong = [
        f"{file}:{node.lineno}"
        for file, node in nodes()
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg in KEYWORDS and isinstance(keyword.value, ast.Constant) and keyword.value.value is not None
    ]
    assert wrong == []


def test_the_server_s_pair_is_loaded_by_the_listener_alone() -> None:
    loaders = {file for file, _ in calls({"load_cert_chain"})}
    assert loaders == {CLIENT, SERVER, "standalone/ca_files.py"}


def test_no_route_relays_a_request() -> None:
    relayed = ("/proxy", "/exec", "/attach", "/portforward", "/log")
    assert [route for route in route_matrix.read() if route.endswith(relayed)] == []
