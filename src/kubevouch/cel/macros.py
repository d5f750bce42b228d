"""The macros: calls that stand for a loop, a test of presence or a choice.

Source: cel-go parser/macro.go, cel/library.go (optional types), ext/{comprehensions,lists}.go (0.26).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kubevouch.cel.issues import Issue
from kubevouch.cel.tree import Call, Comprehension, Ident, ListLiteral, Literal, MapLiteral, Node, Select

ACCUMULATOR = "__result__"
_UNUSED = "#unused"
_SORTED = "@__sortBy_input__"

MAP_INSERT = "cel.@mapInsert"
SORT_BY_KEYS = "@sortByAssociatedKeys"
"""What macros call and nobody can write."""


class MacroError(Exception):
    """The arguments are not what the macro needs."""

    def __init__(self, node: Node, text: str) -> None:
        super().__init__(text)
        self.issue = Issue(node.offset, text)


def expand(offset: int, function: str, target: Node | None, args: Sequence[Node]) -> Node | None:
    """What a call stands for; None if it is not a macro.

    Raises:
        MacroError
    """
    if target is None:
        return _has(offset, args[0]) if function == "has" and len(args) == 1 else None
    macro = _MACROS.get((function, len(args)))
    return macro(offset, target, args) if macro is not None else None


def _has(offset: int, argument: Node) -> Node:
    if not isinstance(argument, Select) or argument.test_only:
        raise MacroError(argument, "invalid argument to has() macro")
    return Select(offset, argument.operand, argument.field, test_only=True)


def _name(argument: Node, text: str = "argument must be a simple name") -> str:
    if not isinstance(argument, Ident):
        raise MacroError(argument, text)
    if argument.name == ACCUMULATOR:
        raise MacroError(argument, "iteration variable overwrites accumulator variable")
    return argument.name


class _Factory:
    """Makes nodes at the place of the macro."""

    def __init__(self, offset: int) -> None:
        self._offset = offset

    def call(self, function: str, *args: Node) -> Call:
        return Call(self._offset, function, None, args)

    def method(self, function: str, target: Node, *args: Node) -> Call:
        return Call(self._offset, function, target, args)

    def constant(self, value: object) -> Literal:
        return Literal(self._offset, value)

    def ident(self, name: str) -> Ident:
        return Ident(self._offset, name)

    def result(self) -> Ident:
        return Ident(self._offset, ACCUMULATOR)

    def list(self, *elements: Node) -> ListLiteral:
        return ListLiteral(self._offset, elements)

    def loop(
        self, variables: Sequence[str], among: Node, start: Node, condition: Node, step: Node, result: Node
    ) -> Comprehension:
        second = variables[1] if len(variables) > 1 else ""
        return Comprehension(self._offset, variables[0], second, among, ACCUMULATOR, start, condition, step, result)

    def binding(self, name: str, value: Node, result: Node) -> Comprehension:
        return Comprehension(
            self._offset, _UNUSED, "", self.list(), name, value, self.constant(False), self.ident(name), result
        )


_Macro = Callable[[int, Node, Sequence[Node]], Node]


def _all(offset: int, target: Node, args: Sequence[Node]) -> Node:
    make, variables = _Factory(offset), [_name(each) for each in args[:-1]]
    condition = make.call("@not_strictly_false", make.result())
    step = make.call("_&&_", make.result(), args[-1])
    return make.loop(variables, target, make.constant(True), condition, step, make.result())


def _exists(offset: int, target: Node, args: Sequence[Node]) -> Node:
    make, variables = _Factory(offset), [_name(each) for each in args[:-1]]
    condition = make.call("@not_strictly_false", make.call("!_", make.result()))
    step = make.call("_||_", make.result(), args[-1])
    return make.loop(variables, target, make.constant(False), condition, step, make.result())


def _exists_one(offset: int, target: Node, args: Sequence[Node]) -> Node:
    make, variables = _Factory(offset), [_name(each) for each in args[:-1]]
    one_more = make.call("_+_", make.result(), make.constant(1))
    step = make.call("_?_:_", args[-1], one_more, make.result())
    result = make.call("_==_", make.result(), make.constant(1))
    return make.loop(variables, target, make.constant(0), make.constant(True), step, result)


def _filtered(make: _Factory, condition: Sequence[Node], step: Node) -> Node:
    return make.call("_?_:_", condition[0], step, make.result()) if condition else step


def _map(offset: int, target: Node, args: Sequence[Node]) -> Node:
    make = _Factory(offset)
    step: Node = make.call("_+_", make.result(), make.list(args[-1]))
    variables = [_name(args[0], "argument is not an identifier")]
    step = _filtered(make, args[1:-1], step)
    return make.loop(variables, target, make.list(), make.constant(True), step, make.result())


def _filter(offset: int, target: Node, args: Sequence[Node]) -> Node:
    make = _Factory(offset)
    variables = [_name(args[0], "argument is not an identifier")]
    step = _filtered(make, args[1:], make.call("_+_", make.result(), make.list(args[0])))
    return make.loop(variables, target, make.list(), make.constant(True), step, make.result())


def _transform_list(offset: int, target: Node, args: Sequence[Node]) -> Node:
    make, variables = _Factory(offset), [_name(each) for each in args[:2]]
    step = _filtered(make, args[2:-1], make.call("_+_", make.result(), make.list(args[-1])))
    return make.loop(variables, target, make.list(), make.constant(True), step, make.result())


def _transform_map(offset: int, target: Node, args: Sequence[Node]) -> Node:
    make, variables = _Factory(offset), [_name(each) for each in args[:2]]
    inserted = make.call(MAP_INSERT, make.result(), make.ident(variables[0]), args[-1])
    step = _filtered(make, args[2:-1], inserted)
    return make.loop(variables, target, MapLiteral(offset, ()), make.constant(True), step, make.result())


def _transform_map_entry(offset: int, target: Node, args: Sequence[Node]) -> Node:
    make, variables = _Factory(offset), [_name(each) for each in args[:2]]
    step = _filtered(make, args[2:-1], make.call(MAP_INSERT, make.result(), args[-1]))
    return make.loop(variables, target, MapLiteral(offset, ()), make.constant(True), step, make.result())


def _sort_by(offset: int, target: Node, args: Sequence[Node]) -> Node:
    make = _Factory(offset)
    keys = _map(offset, make.ident(_SORTED), args)
    return make.binding(_SORTED, target, make.method(SORT_BY_KEYS, make.ident(_SORTED), keys))


def _optional_map(offset: int, target: Node, args: Sequence[Node], *, flat: bool = False) -> Node:
    make = _Factory(offset)
    name = _name(args[0], f"{'optFlatMap' if flat else 'optMap'}() variable name must be a simple identifier")
    bound: Node = make.binding(name, make.method("value", target), args[1])
    return make.call(
        "_?_:_",
        make.method("hasValue", target),
        bound if flat else make.call("optional.of", bound),
        make.call("optional.none"),
    )


def _optional_flat_map(offset: int, target: Node, args: Sequence[Node]) -> Node:
    return _optional_map(offset, target, args, flat=True)


_MACROS: dict[tuple[str, int], _Macro] = {
    ("all", 2): _all, ("all", 3): _all, ("exists", 2): _exists, ("exists", 3): _exists,
    ("exists_one", 2): _exists_one, ("exists_one", 3): _exists_one,
    ("existsOne", 2): _exists_one, ("existsOne", 3): _exists_one,
    ("map", 2): _map, ("map", 3): _map, ("filter", 2): _filter,
    ("transformList", 3): _transform_list, ("transformList", 4): _transform_list,
    ("transformMap", 3): _transform_map, ("transformMap", 4): _transform_map,
    ("transformMapEntry", 3): _transform_map_entry, ("transformMapEntry", 4): _transform_map_entry,
    ("sortBy", 2): _sort_by, ("optMap", 2): _optional_map, ("optFlatMap", 2): _optional_flat_map,
}  # fmt: skip
