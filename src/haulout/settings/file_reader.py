"""Converts a YAML tree to the typed blocks of `haulout.yaml`, and collects every problem with its place."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from datetime import timedelta
from typing import Any

import msgspec

from haulout.base import duration, selector, yaml
from haulout.base.address import OFF, AddressError, split_address
from haulout.base.number import digits
from haulout.base.struct_reader import NO_MAP, Path, StructReader
from haulout.base.yaml import Node, Place
from haulout.core.setting import Setting, split
from haulout.settings.blocks import File, RuleBlock, item_type, struct_in, surfaces_block

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
FORMATS = ("json", "console")
# The longest time that the setting requestTimeout may have. The transport gives a request up after it, too.
LONGEST_REQUEST_FOR = timedelta(seconds=30)
CERTIFICATES = ("self", "cert-manager")
POD_ACTIONS = ("ignore", "wait", "evict", "delete", "block")
RESTART_POLICIES = ("Always", "OnFailure", "Never")
NO_NUMBER = ("not a whole number", "digits")
NO_TEXT = ("not a text", "a single value, in quotes where in doubt")


class FileReader(StructReader):
    """A reader of one `haulout.yaml`. `origins`: the flag or variable that has set a path."""

    has_empty_blocks = True

    def __init__(self, source: str, tree: Node | None) -> None:
        super().__init__()
        self._source = source
        self._tree = tree
        self._plain: Any = None if tree is None else yaml.plain(tree)
        self.origins: dict[Path, str] = {}

    def problems(self, second_document: Place | None) -> list[str]:
        """Return the problems in the order of the file, after those of flags and variables."""
        found: dict[Path, tuple[Place, str]] = {}
        if (place := second_document) is not None:
            text = (
                f"{self._source}:{place.line}:{place.column}: another document begins, and only the first one is read"
            )
            found["---",] = (place, f"{text} (write everything above the ---, or take it away)")
        for path, what, right in self.flaws:
            # Only the first problem of a setting is kept: a check of a malformed value would report it again.
            found.setdefault(path, self._problem(path, what, right))
        return [text for _, text in sorted(found.values(), key=lambda each: (each[0].line, each[0].column))]

    def _problem(self, path: Path, what: str, right: str) -> tuple[Place, str]:
        place, origin = self._place(path, of_value=what == NO_MAP[0]), self.origins.get(path)
        where = origin or (f"{self._source}:{place.line}:{place.column}" if place else self._source)
        text = ": ".join((where, ".".join(path), what) if path else (where, what))
        return place if place and not origin else Place(0, 0), f"{text} ({right})"

    def _place(self, path: Path, *, of_value: bool) -> Place | None:
        """Return the place of a value, or of its key if it has one."""
        parent, node = yaml.node_at(self._tree, path[:-1]), yaml.node_at(self._tree, path)
        if isinstance(parent, yaml.Mapping) and path and not of_value:
            return parent.keys.get(path[-1])
        return node.place if node else None

    def override(self, path: Path, text: str, origin: str) -> None:
        """Replace the value at a path by the text of a flag or variable. A list is given with commas."""
        kind: Any = File
        block = self._plain = self._block(self._plain, ())
        for number, name in enumerate(path[:-1], 1):
            kind = struct_in(_annotation(kind, name))
            block[name] = self._block(block.get(name), path[:number])
            block = block[name]
        item = item_type(split(_annotation(kind, path[-1]))[0])
        entries = [each.strip() for each in text.split(",") if each.strip()]
        if struct_in(item) is not None and entries:
            self.wrong(path, "rules can be given in the file alone", "write them there")
            entries = []
        block[path[-1]] = text if item is None else entries
        self.origins[path] = origin

    def _block(self, value: Any, path: Path) -> dict[str, Any]:
        if value is not None and not isinstance(value, dict):
            self.wrong(path, *NO_MAP)
        return value if isinstance(value, dict) else {}

    def struct(self, kind: type[Any], content: Any, path: Path) -> Any:
        return super().struct(surfaces_block() if kind is msgspec.Struct else kind, content, path)

    def check_key(self, kind: type[Any], name: str, known: Collection[str], path: Path) -> None:
        node, inner = yaml.node_at(self._tree, path), (*path, name)
        if isinstance(node, yaml.Mapping) and name in node.earlier:
            self.wrong(inner, f"set in line {node.earlier[name].line} already", "keep one of them")
        if name not in known:
            import difflib

            near = difflib.get_close_matches(name, known, 1)
            right = f"did you mean {near[0]}?" if near else f"known are: {', '.join(known)}"
            self.wrong(inner, "unknown setting", right)

    def check(self, annotation: Any, value: Any, path: Path) -> None:
        kind, setting = split(annotation)
        is_list = item_type(kind) is not None
        for number, each in enumerate(value if is_list else (value,)):
            inner = (*path, str(number)) if is_list else path
            if setting.words:
                self._check_word(each, setting.words, inner)
            if setting.check is not None:
                self._check(setting.check, each, inner, setting.right)

    def scalar(self, annotation: Any, value: Any, path: Path) -> Any:
        kind, setting = split(annotation)
        if kind is bool:
            return self._truth(value, path)
        if not isinstance(value, str | int) or isinstance(value, bool):
            self.wrong(path, *(NO_NUMBER if kind is int else NO_TEXT))
            # The entries of a list keep their numbers.
            return kind()
        if kind is int:
            return self._integer(str(value), path)
        return self._duration(str(value), path, setting) if kind is timedelta else str(value)

    def _truth(self, value: Any, path: Path) -> bool:
        if path not in self.origins:
            what, made = "not a truth value", value
        else:
            what, made = f"{value!r} is neither true nor false", {"true": True, "false": False}.get(value.lower())
        if not isinstance(made, bool):
            self.wrong(path, what, "true or false")
        return made is True

    def _integer(self, text: str, path: Path) -> int:
        number = digits(text.removeprefix("-"))
        if number is None:
            self.wrong(path, f"{text!r} is not a whole number", "digits")
            return 0
        return -number if text.startswith("-") else number

    def _duration(self, text: str, path: Path, setting: Setting) -> timedelta:
        try:
            return duration.parse(text)
        except ValueError as error:
            self.wrong(path, str(error), setting.right)
            return timedelta()

    def file(self) -> File:
        """Return the values as structs, and make the checks that types do not express."""
        file: File = self.struct(File, self._plain, ())
        if file.log.level not in LEVELS:
            self.wrong(("log", "level"), f"{file.log.level!r} is no log level", f"one of {', '.join(LEVELS)}")
        if file.log.format not in FORMATS:
            self.wrong(("log", "format"), f"{file.log.format!r} is no log format", f"one of {', '.join(FORMATS)}")
        for name, address in msgspec.structs.asdict(file.listen).items():
            self._check_address(("listen", name), address)
        for name, text in msgspec.structs.asdict(file.webhooks).items():
            if not text:
                self.wrong(("webhooks", name), "empty", "a name")
        self._check_certificates(file.webhooks.certificates, ("webhooks", "certificates"))
        self._check(_moment, file.request_timeout, ("requestTimeout",), "a duration such as 10s, of at most 30s")
        if not file.leader.lease:
            self.wrong(("leader", "lease"), "empty", "the name of a Lease")
        reported = {path for path, _, _ in self.flaws}
        for number, rule in enumerate(file.drain.rules):
            if (path := ("drain", "rules", str(number))) not in reported:
                self._check_rule(rule, path)
        return file

    def _check_rule(self, rule: RuleBlock, path: Path) -> None:
        self._check_word(rule.action.lower(), POD_ACTIONS, (*path, "action"))
        self._check(selector.parse, rule.selector, (*path, "selector"), "a label selector such as app=db")
        for number, policy in enumerate(rule.restart_policies):
            self._check_word(policy, RESTART_POLICIES, (*path, "restartPolicies", str(number)))

    def _check_certificates(self, text: str, path: Path) -> None:
        if text in CERTIFICATES or "/" in text:
            return
        import difflib

        near = difflib.get_close_matches(text, CERTIFICATES, 1)
        ways = f"{', '.join(CERTIFICATES)}, or a directory with a slash in it, such as ./{text}"
        self.wrong(path, f"{text!r} is not known here", f"did you mean {near[0]}? else {ways}" if near else ways)

    def _check_word(self, word: str, known: Sequence[str], path: Path) -> None:
        if word not in known:
            self.wrong(path, f"{word!r} is not known here", f"one of {', '.join(known)}")

    def _check(self, check: Callable[[Any], object], value: Any, path: Path, right: str) -> None:
        try:
            check(value)
        except ValueError as error:
            self.wrong(path, str(error), right)

    def _check_address(self, path: Path, address: str) -> None:
        try:
            _ = address in OFF or split_address(address)
        except AddressError:
            self.wrong(path, f"{address!r} is not an address to listen on", 'HOST:PORT, ":PORT", or "0" for none')


def _annotation(kind: Any, name: str) -> Any:
    return next(field.type for field in msgspec.structs.fields(kind) if field.encode_name == name)


def _moment(text: str) -> None:
    if not timedelta() < duration.parse(text) <= LONGEST_REQUEST_FOR:
        raise ValueError(f"{text!r} is no time for a request")
