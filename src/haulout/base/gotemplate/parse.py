"""Parses the items of a template into trees: one for the text, and one for each template that it defines."""

from __future__ import annotations

from dataclasses import dataclass

from haulout.base.gotemplate.lex import Item, Kind, Lexer
from haulout.base.gotemplate.literals import read_number
from haulout.base.gotemplate.text import quote, unquote
from haulout.base.gotemplate.tree import (
    Action,
    Boolean,
    Branch,
    Call,
    Chain,
    Command,
    Dot,
    Else,
    End,
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
    is_empty,
)

# The deepest nesting. Messages that people write are not as deep, and Python's stack allows more.
_DEEPEST = 50
_OPERANDS = frozenset(
    (
        Kind.BOOL,
        Kind.CHAR_CONSTANT,
        Kind.COMPLEX,
        Kind.DOT,
        Kind.FIELD,
        Kind.IDENTIFIER,
        Kind.NUMBER,
        Kind.NIL,
        Kind.RAW_STRING,
        Kind.STRING,
        Kind.VARIABLE,
        Kind.LEFT_PAREN,
    )
)


@dataclass
class Tree:
    """One parsed template: the name under which it can be called, and its nodes."""

    name: str
    root: Listing


def parse(text: str, functions: frozenset[str]) -> dict[str, Tree]:
    """Return the templates by name. The text itself has an empty name."""
    trees: dict[str, Tree] = {}
    _Parser(_Tokens(text), functions, trees).top()
    return trees


class _Tokens:
    """The items of a template, of which up to three can be put back.

    `line` is the line of the item that was read last. Error messages name it.
    """

    def __init__(self, text: str) -> None:
        self._lexer = Lexer(text)
        self._items: list[Item] = []
        self.line = 1

    def next(self) -> Item:
        if self._items:
            return self._items.pop()
        item = self._lexer.next()
        self.line = item.line
        return item

    def back(self, *items: Item) -> None:
        """Put items back, in the order in which they were read."""
        self._items += reversed(items)

    def peek(self) -> Item:
        item = self.next()
        self.back(item)
        return item

    def next_word(self) -> Item:
        while (item := self.next()).kind is Kind.SPACE:
            pass
        return item

    def peek_word(self) -> Item:
        item = self.next_word()
        self.back(item)
        return item


class _Parser:
    def __init__(self, tokens: _Tokens, functions: frozenset[str], trees: dict[str, Tree]) -> None:
        self._tokens = tokens
        self._functions = functions
        self._trees = trees
        self._variables = ["$"]
        self._action_line = 0
        self._ranges = 0
        self._depth = 0

    def top(self) -> None:
        root = Listing(self._tokens.peek().pos)
        while self._tokens.peek().kind is not Kind.EOF:
            if self._tokens.peek().kind is Kind.LEFT_DELIM:
                left = self._tokens.next()
                word = self._tokens.next_word()
                if word.kind is Kind.DEFINE:
                    self._inner().definition()
                    continue
                self._tokens.back(left, word)
            node = self._text_or_action()
            if isinstance(node, End | Else):
                raise self._error(f"unexpected {node}")
            root.nodes.append(node)
        self.add("", root)

    def _inner(self) -> _Parser:
        return _Parser(self._tokens, self._functions, self._trees)

    def _error(self, what: str) -> TemplateError:
        return TemplateError(f"template: :{self._tokens.line}: {what}")

    def _unexpected(self, item: Item, context: str) -> TemplateError:
        if item.kind is not Kind.ERROR:
            return self._error(f"unexpected {item} in {context}")
        extra = ""
        if self._action_line and self._action_line != item.line:
            where = " started" if item.text.endswith(" action") else " in action started"
            extra = f"{where} at :{self._action_line}"
        return self._error(f"{item}{extra}")

    def _expect(self, context: str, *kinds: Kind) -> Item:
        item = self._tokens.next_word()
        if item.kind not in kinds:
            raise self._unexpected(item, context)
        return item

    def add(self, name: str, root: Listing) -> None:
        known = self._trees.get(name)
        if known is None or is_empty(known.root):
            self._trees[name] = Tree(name, root)
        elif not is_empty(root):
            raise self._error(f"template: multiple definition of template {quote(name)}")

    def _unquoted(self, item: Item) -> str:
        try:
            return unquote(item.text)
        except ValueError as error:
            raise self._error(str(error)) from None

    def definition(self) -> None:
        context = "define clause"
        name = self._unquoted(self._expect(context, Kind.STRING, Kind.RAW_STRING))
        self._expect(context, Kind.RIGHT_DELIM)
        root, end = self.items()
        if not isinstance(end, End):
            raise self._error(f"unexpected {end} in {context}")
        self.add(name, root)

    def items(self) -> tuple[Listing, Node]:
        listing = Listing(self._tokens.peek_word().pos)
        while self._tokens.peek_word().kind is not Kind.EOF:
            node = self._text_or_action()
            if isinstance(node, End | Else):
                return listing, node
            listing.nodes.append(node)
        raise self._error("unexpected EOF")

    def _text_or_action(self) -> Node:
        item = self._tokens.next_word()
        match item.kind:
            case Kind.TEXT:
                return Text(item.pos, item.text)
            case Kind.LEFT_DELIM:
                self._action_line = item.line
                node = self._action()
                self._action_line = 0
                return node
        raise self._unexpected(item, "input")

    def _action(self) -> Node:
        item = self._tokens.next_word()
        match item.kind:
            case Kind.BLOCK:
                return self._block()
            case Kind.BREAK | Kind.CONTINUE:
                return self._jump(item)
            case Kind.ELSE:
                return self._else()
            case Kind.END:
                return End(self._expect("end", Kind.RIGHT_DELIM).pos)
            case Kind.IF | Kind.RANGE | Kind.WITH:
                return self._branch(item.text)
            case Kind.TEMPLATE:
                return self._call()
        self._tokens.back(item)
        return Action(item.pos, self._pipeline("command", Kind.RIGHT_DELIM))

    def _jump(self, item: Item) -> Node:
        following = self._tokens.next_word()
        if following.kind is not Kind.RIGHT_DELIM:
            raise self._unexpected(following, f"{{{{{item.text}}}}}")
        if not self._ranges:
            raise self._error(f"{{{{{item.text}}}}} outside {{{{range}}}}")
        return Jump(item.pos, item.text)

    def _else(self) -> Node:
        following = self._tokens.peek_word()
        if following.kind in {Kind.IF, Kind.WITH}:
            return Else(following.pos)
        return Else(self._expect("else", Kind.RIGHT_DELIM).pos)

    def _branch(self, word: str) -> Branch:
        known = len(self._variables)
        self._deeper()
        pipe = self._pipeline(word, Kind.RIGHT_DELIM)
        self._ranges += word == "range"
        body, following = self.items()
        self._ranges -= word == "range"
        otherwise: Listing | None = None
        if isinstance(following, Else):
            otherwise = self._otherwise(word, following)
        del self._variables[known:]
        self._depth -= 1
        return Branch(pipe.pos, word, pipe, body, otherwise)

    def _otherwise(self, word: str, start: Else) -> Listing:
        following = self._tokens.peek().text
        if word in {"if", "with"} and following == word:
            self._tokens.next()
            return Listing(start.pos, [self._branch(word)])
        otherwise, end = self.items()
        if not isinstance(end, End):
            raise self._error(f"expected end; found {end}")
        return otherwise

    def _block(self) -> Node:
        context = "block clause"
        item = self._tokens.next_word()
        name = self._template_name(item, context)
        pipe = self._pipeline(context, Kind.RIGHT_DELIM)
        inner = self._inner()
        root, end = inner.items()
        if not isinstance(end, End):
            raise self._error(f"unexpected {end} in {context}")
        inner.add(name, root)
        return Call(item.pos, name, pipe)

    def _call(self) -> Node:
        context = "template clause"
        item = self._tokens.next_word()
        name = self._template_name(item, context)
        pipe = None
        following = self._tokens.next_word()
        if following.kind is not Kind.RIGHT_DELIM:
            self._tokens.back(following)
            pipe = self._pipeline(context, Kind.RIGHT_DELIM)
        return Call(item.pos, name, pipe)

    def _template_name(self, item: Item, context: str) -> str:
        if item.kind not in {Kind.STRING, Kind.RAW_STRING}:
            raise self._unexpected(item, context)
        return self._unquoted(item)

    def _pipeline(self, context: str, end: Kind) -> Pipe:
        pipe = Pipe(self._tokens.peek_word().pos)
        while self._tokens.peek_word().kind is Kind.VARIABLE and self._declares(pipe, context):
            pass
        while True:
            item = self._tokens.next_word()
            if item.kind is end:
                self._check(pipe, context)
                return pipe
            if item.kind not in _OPERANDS:
                raise self._unexpected(item, context)
            self._tokens.back(item)
            pipe.commands.append(self._command())

    def _declares(self, pipe: Pipe, context: str) -> bool:
        """Read one variable that the pipeline sets. Return whether another may follow."""
        variable = self._tokens.next_word()
        space = self._tokens.peek()
        following = self._tokens.next_word()
        if following.kind in {Kind.ASSIGN, Kind.DECLARE}:
            pipe.is_assign = following.kind is Kind.ASSIGN
            self._declare(pipe, variable)
            return False
        if following.kind is Kind.CHAR and following.text == ",":
            self._declare(pipe, variable)
            if context != "range" or len(pipe.declared) >= 2:
                raise self._error(f"too many declarations in {context}")
            if self._tokens.peek_word().kind not in {Kind.VARIABLE, Kind.RIGHT_DELIM, Kind.RIGHT_PAREN}:
                raise self._error("range can only initialize variables")
            return True
        self._tokens.back(variable, *((space, following) if space.kind is Kind.SPACE else (following,)))
        return False

    def _declare(self, pipe: Pipe, variable: Item) -> None:
        pipe.declared.append(Variable(variable.pos, variable.text.split(".")))
        self._variables.append(variable.text)

    def _check(self, pipe: Pipe, context: str) -> None:
        if not pipe.commands:
            raise self._error(f"missing value for {context}")
        for number, command in enumerate(pipe.commands[1:], 2):
            if isinstance(command.args[0], Boolean | Dot | NilWord | Number | String):
                raise self._error(f"non executable command in pipeline stage {number}")

    def _command(self) -> Command:
        command = Command(self._tokens.peek_word().pos)
        while True:
            self._tokens.peek_word()
            operand = self._operand()
            if operand is not None:
                command.args.append(operand)
            item = self._tokens.next()
            if item.kind is Kind.SPACE:
                continue
            if item.kind in {Kind.RIGHT_DELIM, Kind.RIGHT_PAREN}:
                self._tokens.back(item)
            elif item.kind is not Kind.PIPE:
                raise self._unexpected(item, "operand")
            break
        if not command.args:
            raise self._error("empty command")
        return command

    def _operand(self) -> Node | None:
        node = self._term()
        first = self._tokens.peek()
        if node is None or first.kind is not Kind.FIELD:
            return node
        names = []
        while self._tokens.peek().kind is Kind.FIELD:
            names.append(self._tokens.next().text[1:])
        match node:
            case Field():
                return Field(first.pos, [*node.names, *names])
            case Variable():
                return Variable(first.pos, [*node.names, *names])
            case Boolean() | String() | Number() | NilWord() | Dot():
                raise self._error(f"unexpected . after term {quote(str(node))}")
        return Chain(first.pos, node, names)

    def _term(self) -> Node | None:
        item = self._tokens.next_word()
        match item.kind:
            case Kind.IDENTIFIER:
                if item.text not in self._functions:
                    raise self._error(f"function {quote(item.text)} not defined")
                return Identifier(item.pos, item.text)
            case Kind.DOT:
                return Dot(item.pos)
            case Kind.NIL:
                return NilWord(item.pos)
            case Kind.VARIABLE:
                if item.text not in self._variables:
                    raise self._error(f"undefined variable {quote(item.text)}")
                return Variable(item.pos, [item.text])
            case Kind.FIELD:
                return Field(item.pos, [item.text[1:]])
            case Kind.BOOL:
                return Boolean(item.pos, item.text == "true")
            case Kind.CHAR_CONSTANT | Kind.COMPLEX | Kind.NUMBER:
                return self._number(item)
            case Kind.LEFT_PAREN:
                self._deeper()
                pipe = self._pipeline("parenthesized pipeline", Kind.RIGHT_PAREN)
                self._depth -= 1
                return pipe
            case Kind.STRING | Kind.RAW_STRING:
                return String(item.pos, item.text, self._unquoted(item))
        self._tokens.back(item)
        return None

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self._error("max expression depth exceeded")

    def _number(self, item: Item) -> Number:
        try:
            return read_number(item)
        except ValueError as error:
            raise self._error(str(error)) from None
