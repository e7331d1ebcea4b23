"""Executes templates: a walk over the tree, with Go's rules for fields, calls, variables and what counts as true."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from haulout.base.gotemplate.functions import FUNCTIONS, CallFailed
from haulout.base.gotemplate.parse import Tree, parse
from haulout.base.gotemplate.printing import format_value
from haulout.base.gotemplate.text import quote, to_bytes
from haulout.base.gotemplate.tree import (
    Action,
    Boolean,
    Branch,
    Call,
    Chain,
    Command,
    Dot,
    Field,
    Identifier,
    Jump,
    Listing,
    NilWord,
    Node,
    Number,
    Pipe,
    String,
    TemplateError,
    Text,
    Variable,
)
from haulout.base.gotemplate.values import (
    Func,
    Map,
    Object,
    Word,
    entries,
    items,
    kind,
    sorted_entries,
    truth,
    type_name,
)

# A message is a few lines. A template that takes more steps or gives a longer text is a mistake. It must not block the
# process.
MOST_STEPS = 20_000
MOST_TEXT = 1_000_000
_DEEPEST = 100
_MISSING = object()


class _Break(Exception):
    pass


class _Continue(Exception):
    pass


def render(text: str, data: Any) -> str:
    """Return the template with the data filled in. Raises TemplateError with Go's message."""
    trees = parse(text, frozenset(FUNCTIONS))
    run = _Run(text, trees)
    state = _State(run, trees[""], data)
    try:
        state.walk(data, trees[""].root)
    except RecursionError:
        raise TemplateError("template: : exceeded maximum template depth") from None
    return "".join(run.out)


class _Run:
    def __init__(self, text: str, trees: dict[str, Tree]) -> None:
        self.text = text
        self.trees = trees
        self.out: list[str] = []
        self.steps = 0
        self.length = 0


class _State:
    """The execution of one template. `_node` is the current node, which error messages quote."""

    def __init__(self, run: _Run, tree: Tree, dot: Any, depth: int = 0) -> None:
        self._run = run
        self._tree = tree
        self._node: Node = tree.root
        self._variables: list[tuple[str, Any]] = [("$", dot)]
        self._depth = depth

    def walk(self, dot: Any, node: Node) -> None:
        self._node = node
        self._run.steps += 1
        if self._run.steps > MOST_STEPS:
            raise self._wrong(f"too much work for a message (more than {MOST_STEPS} steps)")
        match node:
            case Text():
                self._write(node.text)
            case Listing():
                for each in node.nodes:
                    self.walk(dot, each)
            case Action():
                value = self._pipeline(dot, node.pipe)
                if not node.pipe.declared:
                    self._print(node, value)
            case Branch(word="range"):
                self._range(dot, node)
            case Branch():
                self._branch(dot, node)
            case Call():
                self._template(dot, node)
            case Jump(word="break"):
                raise _Break
            case Jump():
                raise _Continue

    def _wrong(self, what: str) -> TemplateError:
        before = self._run.text[: self._node.pos]
        line, column = 1 + before.count("\n"), len(to_bytes(before.rpartition("\n")[2]))
        where = f"template: :{line}:{column}: executing {quote(self._tree.name)} at <{self._node}>"
        return TemplateError(f"{where}: {what}")

    def _print(self, node: Node, value: Any) -> None:
        self._node = node
        if isinstance(value, Func):
            raise self._wrong(f"can't print {node} of type {type_name(value)}")
        self._write("<no value>" if value is None else format_value(value))

    def _write(self, text: str) -> None:
        self._run.length += len(text)
        if self._run.length > MOST_TEXT:
            raise self._wrong(f"too long for a message (more than {MOST_TEXT} characters)")
        self._run.out.append(text)

    def _branch(self, dot: Any, node: Branch) -> None:
        mark = len(self._variables)
        value = self._pipeline(dot, node.pipe)
        if truth(value):
            self.walk(value if node.word == "with" else dot, node.body)
        elif node.otherwise is not None:
            self.walk(dot, node.otherwise)
        del self._variables[mark:]

    def _range(self, dot: Any, node: Branch) -> None:
        mark = len(self._variables)
        value = self._pipeline(dot, node.pipe)
        rounds = self._rounds(value, node)
        ran = False
        inner = len(self._variables)
        try:
            for key, element in rounds:
                ran = True
                self._set_round(node, key, element)
                with contextlib.suppress(_Continue):
                    self.walk(element, node.body)
                del self._variables[inner:]
        except _Break:
            pass
        if not ran and node.otherwise is not None:
            self.walk(dot, node.otherwise)
        del self._variables[mark:]

    def _rounds(self, value: Any, node: Branch) -> Any:
        match kind(value):
            case "int":
                if len(node.pipe.declared) > 1:
                    raise self._wrong(f"can't use {int(value)} to iterate over more than one variable")
                return ((None, number) for number in range(value))
            case "slice":
                return enumerate(items(value))
            case "map":
                return sorted_entries(value)
            case "invalid":
                return ()
        raise self._wrong(f"range can't iterate over {format_value(value)}")

    def _set_round(self, node: Branch, key: Any, element: Any) -> None:
        declared = node.pipe.declared
        values = [element] if len(declared) == 1 else [key, element]
        for number, (variable, value) in enumerate(zip(declared, values, strict=False)):
            if node.pipe.is_assign:
                self._assign(variable.names[0], value)
            else:
                at = len(self._variables) - len(declared) + number
                self._variables[at] = (variable.names[0], value)

    def _template(self, dot: Any, node: Call) -> None:
        self._node = node
        tree = self._run.trees.get(node.name)
        if tree is None:
            raise self._wrong(f"template {quote(node.name)} not defined")
        if self._depth == _DEEPEST:
            raise self._wrong(f"exceeded maximum template depth ({_DEEPEST})")
        value = self._pipeline(dot, node.pipe) if node.pipe is not None else None
        _State(self._run, tree, value, self._depth + 1).walk(value, tree.root)

    # Values

    def _pipeline(self, dot: Any, pipe: Pipe) -> Any:
        self._node = pipe
        value: Any = _MISSING
        for command in pipe.commands:
            value = self._command(dot, command, value)
        for variable in pipe.declared:
            if pipe.is_assign:
                self._assign(variable.names[0], value)
            else:
                self._variables.append((variable.names[0], value))
        return value

    def _assign(self, name: str, value: Any) -> None:
        for at in range(len(self._variables) - 1, -1, -1):
            if self._variables[at][0] == name:
                self._variables[at] = (name, value)
                return
        raise self._wrong(f"undefined variable: {name}")

    def _variable(self, name: str) -> Any:
        for known, value in reversed(self._variables):
            if known == name:
                return value
        raise self._wrong(f"undefined variable: {name}")

    def _command(self, dot: Any, command: Command, final: Any) -> Any:
        first = command.args[0]
        match first:
            case Field() | Chain() | Variable():
                return self._named(dot, first, command.args, final)
            case Identifier():
                self._node = first
                return self._call(dot, FUNCTIONS[first.name], command, first.name, command.args, final)
            case Pipe():
                self._no_function(command.args, final)
                return self._pipeline(dot, first)
        self._node = first
        self._no_function(command.args, final)
        match first:
            case Dot():
                return dot
            case NilWord():
                raise self._wrong("nil is not a command")
        return self._constant(first)

    def _no_function(self, args: Sequence[Node], final: Any) -> None:
        if len(args) > 1 or final is not _MISSING:
            raise self._wrong(f"can't give argument to non-function {args[0]}")

    def _constant(self, node: Node) -> Any:
        match node:
            case Boolean() | String():
                return node.value
            case Number():
                self._node = node
                if isinstance(node.ideal, OverflowError):
                    raise self._wrong(f"{node.text} overflows int")
                return node.ideal
        raise self._wrong(f"can't evaluate command {quote(str(node))}")

    def _named(self, dot: Any, node: Field | Chain | Variable, args: Sequence[Node], final: Any) -> Any:
        """Return a field of a value, or the result of its method."""
        self._node = node
        match node:
            case Field():
                receiver, names = dot, node.names
            case Chain():
                if isinstance(node.node, NilWord):
                    raise self._wrong(f"indirection through explicit nil in {node}")
                receiver, names = self._argument(dot, "", node.node), node.names
            case Variable():
                receiver, names = self._variable(node.names[0]), node.names[1:]
                if not names:
                    self._no_function(args, final)
                    return receiver
        for name in names[:-1]:
            receiver = self._field(dot, name, node, (), _MISSING, receiver)
        return self._field(dot, names[-1], node, args, final, receiver)

    def _field(self, dot: Any, name: str, node: Node, args: Sequence[Node], final: Any, receiver: Any) -> Any:
        match kind(receiver):
            case "invalid":
                return None
            case "ptr" if name in receiver.methods:
                raise self._wrong(
                    f"error calling {name}: runtime error: invalid memory address or nil pointer dereference"
                )
            case "ptr":
                raise self._wrong(f"nil pointer evaluating {type_name(receiver)}.{name}")
        if isinstance(receiver, Object | Map) and name in receiver.methods:
            return self._call(dot, receiver.methods[name], node, name, args, final)
        has_args = len(args) > 1 or final is not _MISSING
        if isinstance(receiver, Object | Word):
            for fields in (receiver.fields, receiver.promoted if isinstance(receiver, Object) else {}):
                if name in fields:
                    if has_args:
                        raise self._wrong(f"{name} has arguments but cannot be invoked as function")
                    return fields[name]
        if kind(receiver) == "map":
            if has_args:
                raise self._wrong(f"{name} is not a method but has arguments")
            return entries(receiver).get(name)
        raise self._wrong(f"can't evaluate field {name} in type {type_name(receiver)}")

    def _call(self, dot: Any, function: Func, node: Node, name: str, args: Sequence[Node], final: Any) -> Any:
        args = args[1:]
        count, fixed = len(args) + (final is not _MISSING), len(function.takes)
        if function.more and count < fixed:
            raise self._wrong(f"wrong number of args for {name}: want at least {fixed} got {len(args)}")
        if not function.more and count != fixed:
            raise self._wrong(f"wrong number of args for {name}: want {fixed} got {count}")
        types = [*function.takes, *[function.more] * count]
        if isinstance(node, Command) and name in {"and", "or"}:
            return self._and_or(dot, name, args, final)
        values = [self._argument(dot, wanted, arg) for wanted, arg in zip(types, args, strict=False)]
        if final is not _MISSING:
            values.append(self._checked(final, types[count - 1]))
        if isinstance(node, Command | Identifier) and name == "call":
            values.insert(0, str(args[0]) if args else format_value(final))
        try:
            value = function.call(*values)
        except CallFailed as error:
            self._node = node
            raise self._wrong(f"error calling {name}: {error}") from None
        if isinstance(value, str) and len(value) > MOST_TEXT:
            raise self._wrong(f"error calling {name}: too long for a message (more than {MOST_TEXT} characters)")
        return value

    def _and_or(self, dot: Any, name: str, args: Sequence[Node], final: Any) -> Any:
        """Return the first operand that decides an `and` or `or`, else the last. Later operands are not evaluated."""
        value: Any = None
        for arg in args:
            value = self._argument(dot, "any", arg)
            if truth(value) == (name == "or"):
                return value
        return value if final is _MISSING else final

    def _argument(self, dot: Any, wanted: str, node: Node) -> Any:
        self._node = node
        match node:
            case Dot():
                return self._checked(dot, wanted)
            case NilWord():
                if wanted == "any":
                    return None
                raise self._wrong(f"cannot assign nil to {wanted}")
            case Field() | Chain() | Variable():
                return self._checked(self._named(dot, node, (), _MISSING), wanted)
            case Pipe():
                return self._checked(self._pipeline(dot, node), wanted)
            case Identifier():
                return self._checked(self._call(dot, FUNCTIONS[node.name], node, node.name, (), _MISSING), wanted)
        if wanted == "string" and not isinstance(node, String):
            raise self._wrong(f"expected string; found {node}")
        return self._constant(node)

    def _checked(self, value: Any, wanted: str) -> Any:
        if wanted in {"any", ""}:
            return value
        if value is None:
            raise self._wrong(f"invalid value; expected {wanted}")
        if type_name(value) != wanted:
            raise self._wrong(f"wrong type for value; expected {wanted}; got {type_name(value)}")
        return value
