"""The parser: a source becomes a syntax tree, its macros expanded.

What it refuses it does not explain: the texts of syntax errors are those of the generated parsers that cel-go and
Google's C++ compiler share, so whoever wants one asks the compiler.

Source: cel-spec doc/langdef.md; cel-go parser/{gen/CEL.g4,parser,unescape}.go (0.26).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from kubevouch.cel import macros
from kubevouch.cel.issues import Issue
from kubevouch.cel.tree import (
    Call,
    Entry,
    FieldEntry,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Node,
    Select,
    StructLiteral,
)
from kubevouch.cel.values import MAX_INT, MAX_UINT, MIN_INT, UInt

MAX_DEPTH: Final = 250

_ESCAPE = r"\\(?:[abfnrtv\"'\\?`]|[0-3][0-7][0-7]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})"
_QUOTED = (
    r"[rR](?:\"\"\"(?s:.*?)\"\"\"|'''(?s:.*?)'''|\"[^\"\n\r]*\"|'[^'\n\r]*')"
    rf"|\"\"\"(?:{_ESCAPE}|[^\\])*?\"\"\"|'''(?:{_ESCAPE}|[^\\])*?'''"
    rf"|\"(?:{_ESCAPE}|[^\\\"\n\r])*\"|'(?:{_ESCAPE}|[^\\'\n\r])*'"
)
_TOKEN = re.compile(
    r"(?P<blank>[\t\n\f\r ]+|//[^\n]*)"
    rf"|(?P<bytes>[bB](?:{_QUOTED}))|(?P<string>{_QUOTED})"
    r"|(?P<double>(?:[0-9]+\.[0-9]+|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)"
    r"|(?P<uint>(?:0x[0-9a-fA-F]+|[0-9]+)[uU])|(?P<int>0x[0-9a-fA-F]+|[0-9]+)"
    r"|(?P<name>[a-zA-Z_][a-zA-Z0-9_]*)"
    r"|(?P<sign>==|!=|<=|>=|&&|\|\||[-+*/%<>!?:.,()\[\]{}])",
    re.ASCII,
)
_LITERALS: Final[dict[str, object]] = {"true": True, "false": False, "null": None}
KEYWORDS: Final = (*_LITERALS, "in")
RESERVED: Final = frozenset({
    "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop", "package",
    "namespace", "return", "var", "void", "while",
})  # fmt: skip
"""Names that no variable may have; a member may."""

_LEVELS: Final[dict[str, tuple[int, str]]] = {
    "||": (1, "_||_"), "&&": (2, "_&&_"),
    "<": (3, "_<_"), "<=": (3, "_<=_"), ">": (3, "_>_"), ">=": (3, "_>=_"), "==": (3, "_==_"), "!=": (3, "_!=_"),
    "in": (3, "@in"), "+": (4, "_+_"), "-": (4, "_-_"), "*": (5, "_*_"), "/": (5, "_/_"), "%": (5, "_%_"),
}  # fmt: skip
_LOGIC: Final = 2
_CONTROL: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class NotAnExpression(Exception):
    """The source is not in the language; the compiler knows the words for it."""


class IssuesFound(Exception):
    """The source is in the language, but what it says cannot be."""

    def __init__(self, issues: Sequence[Issue]) -> None:
        super().__init__()
        self.issues = issues


class Token(NamedTuple):
    kind: str
    text: str
    offset: int


def parse(source: str) -> Node:
    """The syntax tree.

    Raises:
        NotAnExpression
        IssuesFound
    """
    parser = _Parser(_tokens(source))
    try:
        node = parser.whole()
    except _TooLong as err:
        raise IssuesFound([Issue(None, "max recursion depth exceeded")]) from err
    except (_TooDeep, RecursionError) as err:
        raise IssuesFound([Issue(None, f"expression recursion limit exceeded: {MAX_DEPTH}")]) from err
    if parser.issues:
        raise IssuesFound(parser.issues)
    return node


def _tokens(source: str) -> list[Token]:
    found, place = [], 0
    while place < len(source):
        match = _TOKEN.match(source, place)
        if match is None:
            raise NotAnExpression
        if match.lastgroup != "blank":
            found.append(Token(match.lastgroup or "", match.group(), place))
        place = match.end()
    found.append(Token("end", "", len(source)))
    return found


class _TooDeep(Exception):
    """In parentheses, brackets and the like."""


class _TooLong(Exception):
    """Of a chain whose every link is a level."""


class _Parser:
    def __init__(self, tokens: list[Token]) -> None:
        self.issues: list[Issue] = []
        self._tokens = tokens
        self._place = 0
        self._depth = 0

    def whole(self) -> Node:
        node = self._expression()
        if self._now.kind != "end":
            raise NotAnExpression
        return node

    @property
    def _now(self) -> Token:
        return self._tokens[self._place]

    def _next(self) -> Token:
        token = self._tokens[self._place]
        self._place += 1
        return token

    def _at(self, text: str) -> bool:
        """Whether the next token is this sign; if so it is taken."""
        token = self._tokens[self._place]
        if token.kind == "sign" and token.text == text:
            self._place += 1
            return True
        return False

    def _expect(self, text: str) -> Token:
        token = self._now
        if not self._at(text):
            raise NotAnExpression
        return token

    def _expression(self) -> Node:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise _TooDeep
        node = self._operators(1)
        token = self._now
        if self._at("?"):
            yes = self._operators(1)
            self._expect(":")
            node = Call(token.offset, "_?_:_", None, (node, yes, self._expression()))
        self._depth -= 1
        return node

    def _operators(self, least: int) -> Node:
        """Operators that bind at least so closely."""
        token = self._now
        is_unary = token.kind == "sign" and token.text in "!-" and not self._is_negative_number()
        left, links = self._unary(token) if is_unary else self._member(), 0
        while True:
            token = self._now
            level, function = _LEVELS.get(token.text, (0, "")) if token.kind in ("sign", "name") else (0, "")
            if level < least or not level:
                return left
            if level <= _LOGIC:
                left = self._logic(left, token.text, function, level)
                continue
            links += 1
            if links >= MAX_DEPTH:
                raise _TooLong
            self._next()
            left = Call(token.offset, function, None, (left, self._operators(level + 1)))

    def _logic(self, first: Node, sign: str, function: str, level: int) -> Node:
        """A chain of and, or of or, as a tree as flat as can be."""
        terms, offsets = [first], []
        while self._now.text == sign and self._now.kind == "sign":
            offsets.append(self._next().offset)
            terms.append(self._operators(level + 1))

        def balanced(low: int, high: int) -> Node:
            middle = (low + high + 1) // 2
            left = terms[middle] if middle == low else balanced(low, middle - 1)
            right = terms[middle + 1] if middle == high else balanced(middle + 1, high)
            return Call(offsets[middle], function, None, (left, right))

        return balanced(0, len(offsets) - 1)

    def _unary(self, token: Token) -> Node:
        count = 0
        while self._at(token.text):
            count += 1
        node = self._member()
        if count % 2 == 0:
            return node
        return Call(token.offset, "!_" if token.text == "!" else "-_", None, (node,))

    def _is_negative_number(self) -> bool:
        return self._now.text == "-" and self._tokens[self._place + 1].kind in ("int", "double")

    def _member(self) -> Node:
        # As few calls as can be for each level: the interpreter's stack is what bounds them.
        if self._at("("):
            node = self._expression()
            self._expect(")")
        else:
            node = self._primary()
        links = 0
        while True:
            token = self._now
            if self._at("."):
                node = self._dotted(node, token)
            elif self._at("["):
                optional = self._at("?")
                index = self._expression()
                self._expect("]")
                node = Call(token.offset, "_[?_]" if optional else "_[_]", None, (node, index))
            else:
                return node
            links += 1
            if links >= MAX_DEPTH:
                raise _TooLong

    def _dotted(self, node: Node, dot: Token) -> Node:
        optional = self._at("?")
        name = self._next()
        if name.kind != "name" or name.text in KEYWORDS:
            raise NotAnExpression
        if optional:
            return Call(dot.offset, "_?._", None, (node, Literal(name.offset, name.text)))
        opening = self._now
        if self._at("("):
            return self._called(opening.offset, name.text, node, self._arguments(")"))
        return Select(dot.offset, node, name.text)

    def _called(self, offset: int, function: str, target: Node | None, args: list[Node]) -> Node:
        try:
            return macros.expand(offset, function, target, args) or Call(offset, function, target, args)
        except macros.MacroError as err:
            self.issues.append(err.issue)
            return Call(offset, function, target, args)

    def _arguments(self, closing: str) -> list[Node]:
        found: list[Node] = []
        if self._at(closing):
            return found
        while True:
            found.append(self._expression())
            if self._at(closing):
                return found
            self._expect(",")

    def _primary(self) -> Node:
        token = self._next()
        if token.kind == "name" and token.text in _LITERALS:
            return Literal(token.offset, _LITERALS[token.text])
        if token.kind == "name" or (token.text == "." and token.kind == "sign"):
            return self._named(token)
        if token.kind != "sign":
            return self._constant(token)
        if token.text == "[":
            return self._list(token)
        if token.text == "{":
            return self._map(token)
        if token.text == "-":
            return self._constant(self._next(), token)
        raise NotAnExpression

    def _named(self, token: Token) -> Node:
        leading = ""
        if token.kind == "sign":
            leading, token = ".", self._next()
        if token.kind != "name" or token.text in KEYWORDS:
            raise NotAnExpression
        struct = self._struct(leading + token.text)
        if struct is not None:
            return struct
        opening = self._now
        if self._at("("):
            return self._called(opening.offset, leading + token.text, None, self._arguments(")"))
        if token.text in RESERVED:
            self.issues.append(Issue(token.offset, f"reserved identifier: {token.text}"))
        return Ident(token.offset, leading + token.text)

    def _struct(self, name: str) -> Node | None:
        """A message, if what comes is a qualified name with an opening brace behind it."""
        place = self._place
        while self._tokens[place].text == "." and self._tokens[place + 1].kind == "name":
            name += f".{self._tokens[place + 1].text}"
            place += 2
        opening = self._tokens[place]
        if opening.text != "{" or opening.kind != "sign":
            return None
        self._place = place + 1
        entries: list[FieldEntry] = []
        while not self._at("}"):
            if entries:
                self._expect(",")
                if self._at("}"):
                    break
            optional = self._at("?")
            key = self._next()
            if key.kind != "name" or key.text in KEYWORDS:
                raise NotAnExpression
            colon = self._expect(":")
            entries.append(FieldEntry(colon.offset, key.text, self._expression(), optional))
        return StructLiteral(opening.offset, name, entries)

    def _list(self, opening: Token) -> Node:
        elements: list[Node] = []
        optional = set()
        while not self._at("]"):
            if elements:
                self._expect(",")
                if self._at("]"):
                    break
            if self._at("?"):
                optional.add(len(elements))
            elements.append(self._expression())
        return ListLiteral(opening.offset, elements, frozenset(optional))

    def _map(self, opening: Token) -> Node:
        entries: list[Entry] = []
        while not self._at("}"):
            if entries:
                self._expect(",")
                if self._at("}"):
                    break
            optional = self._at("?")
            key = self._expression()
            colon = self._expect(":")
            entries.append(Entry(colon.offset, key, self._expression(), optional))
        return MapLiteral(opening.offset, entries)

    def _constant(self, token: Token, minus: Token | None = None) -> Node:
        offset, sign = (token.offset, 1) if minus is None else (minus.offset, -1)
        if token.kind == "double":
            return Literal(offset, sign * float(token.text))
        if token.kind in ("int", "uint"):
            return self._integer(token, offset, sign)
        if token.kind == "string":
            return Literal(offset, _text(token.text))
        if token.kind == "bytes":
            return self._bytes(token)
        raise NotAnExpression

    def _integer(self, token: Token, offset: int, sign: int) -> Node:
        digits = token.text.rstrip("uU")
        # Python refuses to read thousands of digits.
        base, digits = (16, digits[2:]) if digits.startswith("0x") else (10, digits)
        number = sign * int(digits.lstrip("0")[:30] or "0", base)
        least, greatest = (0, MAX_UINT) if token.kind == "uint" else (MIN_INT, MAX_INT)
        if not least <= number <= greatest:
            self.issues.append(Issue(offset, f"invalid {token.kind} literal"))
        return Literal(offset, UInt(number) if token.kind == "uint" else number)

    def _bytes(self, token: Token) -> Node:
        raw, body = _body(token.text[1:])
        if raw:
            return Literal(token.offset, body.encode())
        found = bytearray()
        for part in re.split(f"({_ESCAPE})", body):
            if not part.startswith("\\"):
                found += part.encode()
            elif part[1] in "uU":
                self.issues.append(Issue(token.offset, "invalid bytes literal: unable to unescape string"))
                break
            else:
                found.append(ord(_unescaped(part)))
        return Literal(token.offset, bytes(found))


def _body(text: str) -> tuple[bool, str]:
    """Whether a quoted text is raw, and what is between its quotes."""
    raw = text[0] in "rR"
    text = text[1:] if raw else text
    quotes = 3 if text[:3] in ('"""', "'''") else 1
    return raw, text[quotes:-quotes]


def _text(text: str) -> str:
    raw, body = _body(text)
    return body if raw or "\\" not in body else re.sub(_ESCAPE, lambda match: _unescaped(match[0]), body)


def _unescaped(escape: str) -> str:
    kind = escape[1]
    if kind in _CONTROL:
        return _CONTROL[kind]
    if kind in "xXuU":
        code = int(escape[2:], 16)
        return chr(code) if code <= 0x10FFFF else "\ufffd"
    return chr(int(escape[1:], 8)) if kind.isdigit() else kind
