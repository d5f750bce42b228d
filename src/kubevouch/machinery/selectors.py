"""Label and field selectors: from a query's text or an object's struct to a test of labels and fields.

    SelectorError (ValueError)    the text or the struct is no selector; ``str()`` is Kubernetes' sentence

Sources: k8s.io/apimachinery/pkg/labels/selector.go, pkg/fields/selector.go, pkg/apis/meta/v1/helpers.go (Kubernetes
1.36). Parsing takes time linear in the text (and sorts the requirements).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from kubevouch.machinery import gotext, names
from kubevouch.machinery.field import FieldError, aggregate, invalid
from kubevouch.machinery.meta import LabelSelector as LabelSelectorStruct


class SelectorError(ValueError):
    """The text or the struct is no selector; ``str()`` is Kubernetes' sentence."""


class Operator(Enum):
    """How a label requirement compares; the value is Kubernetes' word for it."""

    IN = "in"
    NOT_IN = "notin"
    EQUALS = "="
    DOUBLE_EQUALS = "=="
    NOT_EQUALS = "!="
    GREATER_THAN = "gt"
    LESS_THAN = "lt"
    EXISTS = "exists"
    DOES_NOT_EXIST = "!"


_BINARY = "in, notin, =, ==, !=, gt, lt"  # the order in which error messages list them
_INT64 = re.compile(r"[+-]?[0-9]+", re.ASCII)


def _int64(text: str) -> int | None:
    # 19 digits and a sign; more than that needs no conversion to be refused, leading zeros apart.
    if not _INT64.fullmatch(text) or len(text) > 64:
        return None
    value = int(text)
    return value if -(1 << 63) <= value < 1 << 63 else None


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one label; ``values`` is sorted and has no repeats when it comes from a text."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()
    _members: frozenset[str] = field(default=frozenset(), init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_members", frozenset(self.values))

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        operator = self.operator
        if operator in (Operator.EQUALS, Operator.DOUBLE_EQUALS, Operator.IN):
            return value in self._members
        if operator in (Operator.NOT_EQUALS, Operator.NOT_IN):
            return value not in self._members
        if operator is Operator.EXISTS:
            return value is not None
        if operator is Operator.DOES_NOT_EXIST:
            return value is None
        number, limit = _int64(value or ""), _int64(self.values[0])
        if number is None or limit is None:
            return False
        return number > limit if operator is Operator.GREATER_THAN else number < limit

    def __str__(self) -> str:
        operator, values = self.operator, ",".join(sorted(self.values))
        if operator is Operator.EXISTS:
            return self.key
        if operator is Operator.DOES_NOT_EXIST:
            return f"!{self.key}"
        if operator in (Operator.IN, Operator.NOT_IN):
            return f"{self.key} {operator.value} ({values})"
        sign = {Operator.GREATER_THAN: ">", Operator.LESS_THAN: "<"}.get(operator, operator.value)
        return f"{self.key}{sign}{values}"


def requirement(key: str, operator: Operator, values: Iterable[str]) -> Requirement:
    """A requirement whose key and values were checked. Raises :class:`SelectorError`."""
    given = tuple(values)
    errors = _invalid_key(key, "key")
    if operator in (Operator.IN, Operator.NOT_IN):
        if not given:
            errors.append(invalid("values", [], "for 'in', 'notin' operators, values set can't be empty"))
    elif operator in (Operator.EXISTS, Operator.DOES_NOT_EXIST):
        if given:
            errors.append(invalid("values", list(given), "values set must be empty for exists and does not exist"))
    elif operator in (Operator.GREATER_THAN, Operator.LESS_THAN):
        if len(given) != 1:
            errors.append(invalid("values", list(given), "for 'Gt', 'Lt' operators, exactly one value is required"))
        why = "for 'Gt', 'Lt' operators, the value must be an integer"
        errors += [invalid(f"values[{i}]", value, why) for i, value in enumerate(given) if _int64(value) is None]
    elif len(given) != 1:
        errors.append(invalid("values", list(given), "exact-match compatibility requires one single value"))
    for index, value in enumerate(given):
        messages = names.label_value(value)
        if messages:
            errors.append(invalid(f"values[{index}][{key}]", value, "; ".join(messages)))
    if errors:
        raise SelectorError(aggregate(errors))
    return Requirement(key, operator, given)


def _invalid_key(key: str, path: str) -> list[FieldError]:
    messages = names.qualified_name(key)
    return [invalid(path, key, "; ".join(messages))] if messages else []


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """Selects by labels. Without requirements it matches all, unless ``nothing`` is set.

    ``str()`` is the canonical text, which :func:`parse_label_selector` reads back.
    """

    requirements: tuple[Requirement, ...] = ()
    nothing: bool = False
    # The common case, a=b: comparing values is a third of the cost of asking each requirement.
    _equals: tuple[tuple[str, str], ...] = field(default=(), init=False, repr=False, compare=False)
    _others: tuple[Requirement, ...] = field(default=(), init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        exact = (Operator.EQUALS, Operator.DOUBLE_EQUALS)
        equals = tuple((r.key, r.values[0]) for r in self.requirements if r.operator in exact)
        object.__setattr__(self, "_equals", equals)
        object.__setattr__(self, "_others", tuple(r for r in self.requirements if r.operator not in exact))

    @property
    def empty(self) -> bool:
        """True if it selects everything."""
        return not self.requirements and not self.nothing

    def matches(self, labels: Mapping[str, str]) -> bool:
        if self.nothing:
            return False
        for key, value in self._equals:
            if labels.get(key) != value:
                return False
        return all(r.matches(labels) for r in self._others)

    def requires_exact(self, key: str) -> str | None:
        """The one value that ``key`` must have, if there is such."""
        for each in self.requirements:
            if each.key == key:
                exact = each.operator in (Operator.EQUALS, Operator.DOUBLE_EQUALS, Operator.IN)
                return each.values[0] if exact and len(each.values) == 1 else None
        return None

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))


EVERYTHING = LabelSelector()
NOTHING = LabelSelector(nothing=True)


def label_selector_of(struct: LabelSelectorStruct | None) -> LabelSelector:
    """The selector that an API object holds: None selects nothing, an empty one everything.

    Raises:
        SelectorError: unknown operator, bad key or value.
    """
    if struct is None:
        return NOTHING
    found = [requirement(key, Operator.EQUALS, [value]) for key, value in struct.match_labels.items()]
    for expression in struct.match_expressions:
        operator = _STRUCT_OPERATORS.get(expression.operator)
        if operator is None:
            raise SelectorError(f"{gotext.quote(expression.operator)} is not a valid label selector operator")
        found.append(requirement(expression.key, operator, expression.values))
    return LabelSelector(_by_key(found))


_STRUCT_OPERATORS = {
    "In": Operator.IN, "NotIn": Operator.NOT_IN, "Exists": Operator.EXISTS, "DoesNotExist": Operator.DOES_NOT_EXIST,
}  # fmt: skip


def _by_key(requirements: list[Requirement]) -> tuple[Requirement, ...]:
    return tuple(sorted(requirements, key=lambda r: r.key))


# ------------------------------------------------------------------ parsing label selectors

# Kubernetes' scanner takes a NUL for the end, of a token when it stands right behind one, else of the text.
_TOKEN = re.compile(r"[ \t\r\n]*(?:([=!(),<>]+)|([^=!(),<> \t\r\n\0]+))\0?")
_OPERATOR_TOKENS = {
    "in": Operator.IN, "notin": Operator.NOT_IN, "=": Operator.EQUALS, "==": Operator.DOUBLE_EQUALS,
    "!=": Operator.NOT_EQUALS, ">": Operator.GREATER_THAN, "<": Operator.LESS_THAN,
}  # fmt: skip
_IDENTIFIER, _SYMBOL, _END = "identifier", "symbol", "end"
_Token = tuple[str, str]


def _tokens(text: str) -> list[_Token]:
    """Identifiers and symbols in order, and the end."""
    found: list[_Token] = []
    at = 0
    while True:
        match = _TOKEN.match(text, at)
        if match is None:
            found.append((_END, ""))
            return found
        at = match.end()
        run, identifier = match.groups()
        if identifier is not None:
            found.append((_IDENTIFIER, identifier))
        else:
            found += ((_SYMBOL, symbol) for symbol in _split_symbols(run))


def _split_symbols(run: str) -> Iterable[str]:
    """A run of symbol characters as single symbols, the longest first."""
    at = 0
    while at < len(run):
        symbol = run[at : at + 2] if run[at : at + 2] in ("==", "!=") else run[at]
        yield symbol
        at += len(symbol)


class _LabelParser:
    """Recursive descent over the tokens, with Kubernetes' complaints."""

    def __init__(self, text: str) -> None:
        self.tokens = _tokens(text)
        self.at = 0

    @property
    def next(self) -> _Token:
        return self.tokens[min(self.at, len(self.tokens) - 1)]

    def take(self) -> _Token:
        token = self.next
        self.at += 1
        return token

    def requirements(self) -> list[Requirement]:
        found: list[Requirement] = []
        while True:
            kind, text = self.next
            if kind == _END:
                return found
            if kind != _IDENTIFIER and text != "!":
                raise SelectorError(f"found '{text}', expected: !, identifier, or 'end of string'")
            try:
                found.append(self.requirement())
            except SelectorError as err:
                raise SelectorError(f"unable to parse requirement: {err}") from err
            kind, text = self.take()
            if kind == _END:
                return found
            if text != "," or kind != _SYMBOL:
                raise SelectorError(f"found '{text}', expected: ',' or 'end of string'")
            kind, text = self.next
            if kind != _IDENTIFIER and text != "!":
                raise SelectorError(f"found '{text}', expected: identifier after ','")

    def requirement(self) -> Requirement:
        kind, key = self.take()
        negated = kind == _SYMBOL
        if negated:
            kind, key = self.take()
        if kind != _IDENTIFIER:
            raise SelectorError(f"found '{key}', expected: identifier")
        bad_key = _invalid_key(key, "<nil>")
        if bad_key:
            raise SelectorError(str(bad_key[0]))
        if negated:
            return requirement(key, Operator.DOES_NOT_EXIST, ())
        if self.next[0] == _END or self.next == (_SYMBOL, ","):
            return requirement(key, Operator.EXISTS, ())
        _, text = self.take()
        operator = _OPERATOR_TOKENS.get(text)
        if operator is None:
            raise SelectorError(f"found '{text}', expected: {_BINARY}")
        if operator in (Operator.IN, Operator.NOT_IN):
            return requirement(key, operator, sorted(self.value_set()))
        return requirement(key, operator, [self.exact_value()])

    def exact_value(self) -> str:
        if self.next[0] == _END or self.next == (_SYMBOL, ","):
            return ""
        kind, text = self.take()
        if kind != _IDENTIFIER:
            raise SelectorError(f"found '{text}', expected: identifier")
        return text

    def value_set(self) -> set[str]:
        kind, text = self.take()
        if text != "(" or kind != _SYMBOL:
            raise SelectorError(f"found '{text}' expected: '('")
        kind, text = self.next
        if (kind, text) == (_SYMBOL, ")"):
            self.take()
            return {""}
        if kind != _IDENTIFIER and text != ",":
            raise SelectorError(f"found '{text}', expected: ',', ')' or identifier")
        values = self.values()
        self.take()
        return values

    def values(self) -> set[str]:
        """Up to the closing parenthesis, which stays; a comma without a neighbour stands for the empty value."""
        values: set[str] = set()
        while True:
            kind, text = self.take()
            if kind == _IDENTIFIER:
                values.add(text)
                kind, text = self.next
                if (kind, text) == (_SYMBOL, ")"):
                    return values
                if text != "," or kind != _SYMBOL:
                    raise SelectorError(f"found '{text}', expected: ',' or ')'")
            elif text == ",":
                if not values:
                    values.add("")
                if self.next == (_SYMBOL, ")"):
                    values.add("")
                    return values
                if self.next == (_SYMBOL, ","):
                    self.take()
                    values.add("")
            else:
                raise SelectorError(f"found '{text}', expected: ',', or identifier")


def parse_label_selector(text: str) -> LabelSelector:
    """The selector of a ``labelSelector`` query, such as ``a=b,c in (x,y),!d,e>5``. Raises :class:`SelectorError`."""
    return LabelSelector(_by_key(_LabelParser(text).requirements())) if text else EVERYTHING


# ------------------------------------------------------------------ field selectors


@dataclass(frozen=True, slots=True)
class FieldTerm:
    """``field=value`` or, negated, ``field!=value``."""

    field: str
    value: str
    negated: bool = False

    def __str__(self) -> str:
        return f"{self.field}{'!=' if self.negated else '='}{escape_field_value(self.value)}"


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """Selects by the values of some fields; all terms must hold."""

    terms: tuple[FieldTerm, ...] = ()

    @property
    def empty(self) -> bool:
        return not self.terms

    def matches(self, values: Mapping[str, str]) -> bool:
        """A field that ``values`` does not have counts as empty."""
        return all((values.get(term.field, "") == term.value) is not term.negated for term in self.terms)

    def requires_exact(self, name: str) -> str | None:
        """The value that the field must have, if a term says so: ``metadata.name`` names the one key to read."""
        return next((term.value for term in self.terms if term.field == name and not term.negated), None)

    def transform(self, convert: Callable[[str, str], tuple[str, str]]) -> FieldSelector:
        """The selector with fields and values passed through ``convert``; a term that becomes two empty texts goes."""
        converted = (FieldTerm(*convert(term.field, term.value), term.negated) for term in self.terms)
        return FieldSelector(tuple(term for term in converted if term.field or term.value))

    def __str__(self) -> str:
        return ",".join(map(str, self.terms))


def parse_field_selector(text: str) -> FieldSelector:
    r"""The selector of a ``fieldSelector`` query. In values ``\``, ``,`` and ``=`` are escaped by ``\``.

    Raises:
        SelectorError: no operator in a term, or a bad escape.
    """
    terms = []
    for part in sorted(_split_terms(text)):
        if not part:
            continue
        operator = _FIELD_OPERATOR.search(part)
        if operator is None:
            raise SelectorError(f"invalid selector: '{text}'; can't understand '{part}'")
        value = _unescape(part[operator.end() :])
        terms.append(FieldTerm(part[: operator.start()], value, operator.group() == "!="))
    return FieldSelector(tuple(terms))


_FIELD_TERM = re.compile(r"(?:[^\\,]|\\.|\\\Z)*", re.DOTALL)
_FIELD_OPERATOR = re.compile(r"!=|==|=")


def _split_terms(text: str) -> list[str]:
    """At each comma that no backslash precedes."""
    terms = []
    at = 0
    while at <= len(text):
        match = _FIELD_TERM.match(text, at)
        end = match.end() if match else len(text)
        terms.append(text[at:end])
        at = end + 1
    return terms


def _unescape(text: str) -> str:
    kept: list[str] = []
    escaped = False
    for char in text:
        if escaped:
            if char not in "\\,=":
                raise SelectorError(f"invalid field selector: invalid escape sequence: \\{char}")
            kept.append(char)
            escaped = False
        elif char == "\\":
            escaped = True
        elif char in ",=":
            # Go prints a rune as its number.
            raise SelectorError(f"invalid field selector: unescaped character in value: {ord(char)}")
        else:
            kept.append(char)
    if escaped:
        raise SelectorError("invalid field selector: invalid escape sequence: \\")
    return "".join(kept)


def escape_field_value(text: str) -> str:
    """``text`` as the value of a term in a field selector's text."""
    return re.sub(r"[\\,=]", lambda match: f"\\{match.group()}", text)
