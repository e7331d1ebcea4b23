"""The nodes of a parsed template. `str()` of a node is the form in which Go quotes it in its errors."""

from __future__ import annotations

from dataclasses import dataclass, field

from haulout.base.gotemplate.text import quote


class TemplateError(Exception):
    """A template cannot be parsed or executed. The message is Go's."""


@dataclass
class Node:
    """The base of all nodes of a parsed template. `pos` is the offset in the template, for error messages."""

    pos: int


@dataclass
class Text(Node):
    """Text outside of `{{ }}`, which is written as it stands."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass
class Listing(Node):
    """A sequence of nodes that are executed in order: a template, or the body of a block."""

    nodes: list[Node] = field(default_factory=list)

    def __str__(self) -> str:
        return "".join(map(str, self.nodes))


@dataclass
class Boolean(Node):
    """The constant `true` or `false`."""

    value: bool

    def __str__(self) -> str:
        return "true" if self.value else "false"


@dataclass
class Number(Node):
    """A number constant, with each kind of Go number that it can be.

    `ideal` is its value where no kind is required; an OverflowError if it is too large for Go's int.
    """

    text: str
    ideal: object

    def __str__(self) -> str:
        return self.text


@dataclass
class String(Node):
    """A text constant. `quoted` is how the template writes it, `value` the text that it means."""

    quoted: str
    value: str

    def __str__(self) -> str:
        return self.quoted


@dataclass
class Dot(Node):
    """The word `.`: the value that the template is working on."""

    def __str__(self) -> str:
        return "."


@dataclass
class NilWord(Node):
    """The word `nil`, which Go accepts only as an argument."""

    def __str__(self) -> str:
        return "nil"


@dataclass
class Identifier(Node):
    """The name of a function."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass
class Variable(Node):
    """A variable, perhaps with fields of its value: `$x.name` has the names `$x` and `name`."""

    names: list[str]

    def __str__(self) -> str:
        return ".".join(self.names)


@dataclass
class Field(Node):
    """Fields of the current value: `.metadata.name` has the names `metadata` and `name`."""

    names: list[str]

    def __str__(self) -> str:
        return "".join(f".{name}" for name in self.names)


@dataclass
class Chain(Node):
    """Fields of the value of another node, such as `(index .items 0).name`."""

    node: Node
    names: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        inner = f"({self.node})" if isinstance(self.node, Pipe) else str(self.node)
        return inner + "".join(f".{name}" for name in self.names)


@dataclass
class Command(Node):
    """One command of a pipeline: a function with its arguments, or a single value."""

    args: list[Node] = field(default_factory=list)

    def __str__(self) -> str:
        return " ".join(f"({arg})" if isinstance(arg, Pipe) else str(arg) for arg in self.args)


@dataclass
class Pipe(Node):
    """A pipeline: commands, each of which takes the result of the one before as its last argument.

    `declared`: the variables that take the result.
    `is_assign`: they exist already (`=`) and are not declared here (`:=`).
    """

    is_assign: bool = False
    declared: list[Variable] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)

    def __str__(self) -> str:
        sign = " = " if self.is_assign else " := "
        declared = ", ".join(map(str, self.declared)) + sign if self.declared else ""
        return declared + " | ".join(map(str, self.commands))


@dataclass
class Action(Node):
    """A pipeline between `{{` and `}}` whose result is written."""

    pipe: Pipe

    def __str__(self) -> str:
        return f"{{{{{self.pipe}}}}}"


@dataclass
class Branch(Node):
    """A block that is executed under a condition or for each member of a value.

    `word`: if, with or range.
    """

    word: str
    pipe: Pipe
    body: Listing
    otherwise: Listing | None

    def __str__(self) -> str:
        otherwise = f"{{{{else}}}}{self.otherwise}" if self.otherwise is not None else ""
        return f"{{{{{self.word} {self.pipe}}}}}{self.body}{otherwise}{{{{end}}}}"


@dataclass
class Call(Node):
    """A call of another template.

    It is written as {{template}}; a {{block}} becomes one, too.
    """

    name: str
    pipe: Pipe | None

    def __str__(self) -> str:
        return f"{{{{template {quote(self.name)}{f' {self.pipe}' if self.pipe else ''}}}}}"


@dataclass
class Jump(Node):
    """The end of the innermost `range`, or of one of its rounds.

    `word`: break or continue.
    """

    word: str

    def __str__(self) -> str:
        return f"{{{{{self.word}}}}}"


@dataclass
class Else(Node):
    """The word `{{else}}`. It ends a listing and does not stay in the tree."""

    def __str__(self) -> str:
        return "{{else}}"


@dataclass
class End(Node):
    """The word `{{end}}`. It ends a listing and does not stay in the tree."""

    def __str__(self) -> str:
        return "{{end}}"


def is_empty(node: Node) -> bool:
    """Whether a template has nothing but space. Another template of the same name may replace such a one."""
    if isinstance(node, Listing):
        return all(map(is_empty, node.nodes))
    return isinstance(node, Text) and not node.text.strip()
