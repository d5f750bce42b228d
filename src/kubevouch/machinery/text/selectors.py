"""Label and field selectors: from a query's text or an object's struct to a test of labels and fields.

    SelectorError (ValueError)    the text or the struct is no selector; ``str()`` is Kubernetes' sentence

Sources: k8s.io/apimachinery/pkg/labels/selector.go, pkg/fields/selector.go, pkg/apis/meta/v1/helpers.go (Kubernetes
1.36). Parsing takes time linear in the text (and sorts the requirements). A selector has at most ``MAX_TERMS``
requirements and values and ``MAX_TEXT`` characters, which Kubernetes leaves to the length of the URL; to ask it about
an object takes time in proportion to the labels of the object or to its own keys, whichever are fewer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

import msgspec

from kubevouch.machinery.field import FieldError, aggregate, invalid
from kubevouch.machinery.meta import LabelSelector as LabelSelectorStruct
from kubevouch.machinery.text import gotext, names


class SelectorError(ValueError):
    """The text or the struct is no selector; ``str()`` is Kubernetes' sentence."""


# A URL of 64 KiB holds ten thousand requirements, which cost 100 ms to read and as much for every hundred objects.
MAX_TERMS = 1000
MAX_TEXT = 16 * 1024


def _check_size(text: str) -> None:
    if len(text) > MAX_TEXT:
        raise SelectorError(f"selector is too long: got {len(text)} characters, at most {MAX_TEXT} are allowed")


def _too_many() -> SelectorError:
    return SelectorError(f"selector has too many requirements and values: at most {MAX_TERMS} are allowed")


def _cost(keys: int) -> int:
    # A call, then some 60 ns a key.
    return 1 + (keys + 15) // 16


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


class Requirement(msgspec.Struct, frozen=True):
    """One condition on one label; ``values`` is sorted and has no repeats when it comes from a text."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

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


class _Values(msgspec.Struct):
    """What all requirements together want of the value of a key that has to be there.

    ``exact`` None admits every value; ``above`` and ``below`` are the bounds of Gt and Lt.
    """

    exact: frozenset[str] | None = None
    above: int | None = None
    below: int | None = None

    @property
    def none(self) -> bool:
        """No value will do."""
        return self.exact is not None and not self.exact

    def narrow(self, one: Requirement) -> None:
        """Take in another requirement of the same key."""
        if one.operator in (Operator.GREATER_THAN, Operator.LESS_THAN):
            limit = _int64(one.values[0])
            if limit is None:
                self.exact = frozenset()
            elif one.operator is Operator.GREATER_THAN:
                self.above = limit if self.above is None else max(self.above, limit)
            else:
                self.below = limit if self.below is None else min(self.below, limit)
        elif one.operator is not Operator.EXISTS:
            values = frozenset(one.values)
            self.exact = values if self.exact is None else self.exact & values

    def refuse(self, values: frozenset[str] | None) -> None:
        """Leave out values that another requirement refuses; None are all."""
        if values is None:
            self.exact = frozenset()
        elif self.exact is not None:
            self.exact -= values

    def settle(self) -> None:
        """Leave out the exact values beyond the bounds, which nobody asks about where there is one exact value."""
        if self.exact is not None:
            self.exact = frozenset(filter(self.allow, self.exact))

    def allow(self, value: str | None) -> bool:
        if value is None or (self.exact is not None and value not in self.exact):
            return False
        if self.above is None and self.below is None:
            return True
        number = _int64(value)
        if number is None or (self.above is not None and number <= self.above):
            return False
        return self.below is None or number < self.below


def _compile(requirements: Iterable[Requirement]) -> tuple[dict[str, _Values], dict[str, frozenset[str] | None]]:
    """One test a key: what has to be there, and what may not be; None refuses every value of a key."""
    required: dict[str, _Values] = {}
    refused: dict[str, frozenset[str] | None] = {}
    unions: dict[str, set[str]] = {}
    for one in requirements:
        if one.operator is Operator.DOES_NOT_EXIST:
            refused[one.key] = None
        elif one.operator in (Operator.NOT_EQUALS, Operator.NOT_IN):
            unions.setdefault(one.key, set()).update(one.values)
        else:
            required.setdefault(one.key, _Values()).narrow(one)
    for key, values in unions.items():
        refused.setdefault(key, frozenset(values))
    for key, wanted in required.items():
        if key in refused:
            wanted.refuse(refused[key])
            if wanted.exact is not None:
                del refused[key]
        wanted.settle()
    return required, refused


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """Selects by labels. Without requirements it matches all, unless ``nothing`` is set.

    ``str()`` is the canonical text, which :func:`parse_label_selector` reads back.
    """

    requirements: tuple[Requirement, ...] = ()
    nothing: bool = False
    # The common case, a=b: comparing values is a third of the cost of asking each requirement.
    _equals: tuple[tuple[str, str], ...] = field(default=(), init=False, repr=False, compare=False)
    # Keys that have to be there, with what their values have to be; then those that may be missing.
    _required: Mapping[str, _Values] = field(default_factory=dict, init=False, repr=False, compare=False)
    _refused: Mapping[str, frozenset[str] | None] = field(default_factory=dict, init=False, repr=False, compare=False)
    _impossible: bool = field(default=False, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        required, refused = _compile(self.requirements)
        equals = {key: next(iter(one)) for key, values in required.items() if (one := values.exact) and len(one) == 1}
        object.__setattr__(self, "_equals", tuple(equals.items()))
        object.__setattr__(self, "_required", {key: each for key, each in required.items() if key not in equals})
        object.__setattr__(self, "_refused", refused)
        object.__setattr__(self, "_impossible", self.nothing or any(each.none for each in required.values()))

    @property
    def empty(self) -> bool:
        """True if it selects everything."""
        return not self.requirements and not self.nothing

    @property
    def cost(self) -> int:
        """Of :meth:`matches` for an object with as many labels, in steps of about a microsecond."""
        return _cost(len(self._equals) + len(self._required) + len(self._refused))

    def matches(self, labels: Mapping[str, str]) -> bool:
        if self._impossible or len(labels) < len(self._equals) + len(self._required):
            return False
        for key, value in self._equals:
            if labels.get(key) != value:
                return False
        for key, values in self._required.items():
            if not values.allow(labels.get(key)):
                return False
        return not self._refused or self._tolerates(labels)

    def _tolerates(self, labels: Mapping[str, str]) -> bool:
        """Asks by the labels or by the keys, whichever are fewer."""
        refused = self._refused
        for key in labels if len(labels) < len(refused) else refused:
            if key in refused and (value := labels.get(key)) is not None:
                values = refused[key]
                if values is None or value in values:
                    return False
        return True

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
    if terms_of(struct) > MAX_TERMS:
        raise _too_many()
    found = [requirement(key, Operator.EQUALS, [value]) for key, value in struct.match_labels.items()]
    for expression in struct.match_expressions:
        operator = _STRUCT_OPERATORS.get(expression.operator)
        if operator is None:
            raise SelectorError(f"{gotext.quote(expression.operator)} is not a valid label selector operator")
        found.append(requirement(expression.key, operator, expression.values))
    return LabelSelector(_by_key(found))


def terms_of(struct: LabelSelectorStruct) -> int:
    """How many requirements and values an API object's selector has."""
    return len(struct.match_labels) + sum(1 + len(each.values) for each in struct.match_expressions)


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
        _check_size(text)
        self.tokens = _tokens(text)
        self.at = 0
        self.terms = 0

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
            self.terms += 1 + len(found[-1].values)
            if self.terms > MAX_TERMS:
                raise _too_many()
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


class FieldTerm(msgspec.Struct, frozen=True):
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
    # By field, however many terms are about it: the value that it must have, those that it may not have.
    _equals: Mapping[str, str] = field(default_factory=dict, init=False, repr=False, compare=False)
    _refused: Mapping[str, frozenset[str]] = field(default_factory=dict, init=False, repr=False, compare=False)
    _impossible: bool = field(default=False, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        equals: dict[str, str] = {}
        refused: dict[str, set[str]] = {}
        impossible = False
        for term in self.terms:
            if term.negated:
                refused.setdefault(term.field, set()).add(term.value)
            else:
                impossible = impossible or equals.setdefault(term.field, term.value) != term.value
        object.__setattr__(self, "_equals", equals)
        object.__setattr__(self, "_refused", {name: frozenset(values) for name, values in refused.items()})
        object.__setattr__(self, "_impossible", impossible)

    @property
    def empty(self) -> bool:
        return not self.terms

    @property
    def cost(self) -> int:
        """Of :meth:`matches` and of reading the fields, in steps of about a microsecond."""
        return _cost(4 * len(self.fields))

    @property
    def fields(self) -> frozenset[str]:
        """The fields that the terms are about."""
        return frozenset((*self._equals, *self._refused))

    def matches(self, values: Mapping[str, str]) -> bool:
        """A field that ``values`` does not have counts as empty."""
        return (
            not self._impossible
            and all(values.get(name, "") == value for name, value in self._equals.items())
            and all(values.get(name, "") not in refused for name, refused in self._refused.items())
        )

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
    _check_size(text)
    parts = _split_terms(text)
    if len(parts) > MAX_TERMS:
        raise _too_many()
    terms = []
    for part in sorted(parts):
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
