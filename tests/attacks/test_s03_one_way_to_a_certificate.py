"""S3: a certificate passes one gate, wherever its request came from (CVE-2025-44005: a way around authorization).

What the gate itself demands (an approval, a record before and after) is in tests/unit/signers/test_issuance.py.
"""

from __future__ import annotations

import ast
from pathlib import Path

import kubevouch

SOURCE = Path(kubevouch.__file__).parent
GATE = "signers/issuance.py"


def callers(method: str, of: set[str]) -> set[str]:
    """The files that call ``x.method(...)`` where ``x`` is one of these names or attributes."""
    found = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == method:
                owner = node.func.value
                name = (
                    owner.attr if isinstance(owner, ast.Attribute) else owner.id if isinstance(owner, ast.Name) else ""
                )
                if name in of:
                    found.add(str(path.relative_to(SOURCE)))
    return found


def test_a_signer_is_asked_by_the_gate_alone() -> None:
    assert callers("sign", {"signer", "_signer", "signers", "_signers"}) == {GATE}


def test_the_gate_has_a_visitor_for_each_kind_of_request() -> None:
    users = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module == "kubevouch.signers.issuance"
        if any(alias.name == "issue" for alias in node.names)
    }
    assert users == {"controllers/csr_signing.py", "controllers/pod_certificates.py"}


def test_the_ca_s_key_signs_for_signers_and_for_the_server_s_own_files() -> None:
    """``authority.sign`` is behind the rules of the signers, or makes what ``up`` and ``init`` need for themselves.

    Whoever publishes CRLs has it certify the CA's own key once more, for those who verify them.
    """
    assert callers("sign", {"authority", "_authority", "ca"}) == {
        "pki/authority.py",
        "pki/issuance.py",
        "controllers/crl_publisher.py",
    }
    assert callers("issue", {"issuance"}) == {"signers/held.py"}
