"""The compiler: a source becomes a checked tree and a program, or what is wrong with it in cel-go's words.

Google's compiler for C++ shares its generated parser with cel-go, so it is asked for the words of a syntax error; it
takes 15 MiB, and is loaded when there is one.

Source: cel-go cel/env.go (0.26), k8s.io/apiserver/pkg/cel/environment/base.go (Kubernetes 1.36).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec

from kubevouch.cel import interpreter, library, literals, optionals, standard, time_parts
from kubevouch.cel.checker import NOTHING, Additions, check
from kubevouch.cel.issues import Issue, display
from kubevouch.cel.parser import MAX_DEPTH, IssuesFound, NotAnExpression, parse
from kubevouch.cel.program import ExpressionError, NotRunnable, Program
from kubevouch.cel.tree import Node
from kubevouch.cel.types import NULL, Type
from kubevouch.cel.values import EvaluationError

# cel-go's parser takes 100,000 code points; a rule that needs a tenth of that is none that anybody reviews.
MAX_SOURCE = 10_000

# Their functions are known once they are imported.
FUNCTIONS_OF = (library, optionals, standard, time_parts)

_STATUS = re.compile(r"\A[A-Z_]+: |\s*\[[A-Z_]+\]\Z")
# What follows from another error, and has no place in the source.
_NOWHERE = re.compile(r"\n?ERROR: <input>:-1:-1: <<nil>> parsetree")


class Expression(msgspec.Struct, frozen=True):
    """A compiled expression.

    Args:
        tree: with types and signatures.
        names: the variables that it uses.
    """

    program: Program
    tree: Node
    type: Type
    names: frozenset[str]


def compile_expression(source: str, variables: Mapping[str, Type], additions: Additions = NOTHING) -> Expression:
    """Compile an expression over variables of these types, which may use ``additions``, too.

    Raises:
        ExpressionError: in cel-go's words, without a beginning.
        NotRunnable: nothing can be seen to be wrong before a constant pattern is used.
    """
    if len(source) > MAX_SOURCE:
        raise ExpressionError(f"got {len(source)} characters, expected at most {MAX_SOURCE}")
    try:
        tree = parse(source)
        checked = check(tree, variables, additions)
        issues = checked.issues or literals.issues(tree)
        if issues:
            raise ExpressionError(display(issues, source))
        assert tree.type is not None
        failure = literals.instantiation_error(tree) if "find" in source else ""
        if failure:
            raise NotRunnable(failure)
        result_type = "null_type" if tree.type == NULL else str(tree.type)
        program = Program(source, result_type, interpreter.build(tree), checked.names)
    except NotAnExpression as err:
        raise ExpressionError(_syntax_error(source)) from err
    except IssuesFound as err:
        raise ExpressionError(display(err.issues, source)) from err
    except RecursionError as err:
        issue = Issue(None, f"expression recursion limit exceeded: {MAX_DEPTH}")
        raise ExpressionError(display([issue], source)) from err
    except EvaluationError as err:
        raise ExpressionError(str(err)) from err
    return Expression(program, tree, tree.type, checked.names)


def _syntax_error(source: str) -> str:
    """What the generated parser says of it."""
    try:
        _engine().compile(source)
    except RuntimeError as err:
        text = _NOWHERE.sub("", _STATUS.sub("", str(err))).replace("'\\u003F'", "'?'")
        if "Syntax error" in text:
            return text
    return display([Issue(0, "Syntax error: no viable alternative at input")], source)


@cache
def _engine() -> Any:
    from cel_expr_python import cel

    return cel.NewEnv()
