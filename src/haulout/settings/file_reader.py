"""Converts a YAML tree to the typed blocks of `haulout.yaml`, and collects every problem with its place."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any

import msgspec

from haulout.base import duration, selector, yaml
from haulout.base.address import OFF, AddressError, split_address
from haulout.base.number import digits
from haulout.base.yaml import Node, Place, Scalar
from haulout.core.setting import Setting, split
from haulout.settings.blocks import File, RuleBlock, item_type, struct_in

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
FORMATS = ("json", "console")
# The longest time that the setting requestTimeout may have. The transport gives a request up after it, too.
LONGEST_REQUEST_FOR = timedelta(seconds=30)
CERTIFICATES = ("self", "cert-manager")
POD_ACTIONS = ("ignore", "wait", "evict", "delete", "block")
RESTART_POLICIES = ("Always", "OnFailure", "Never")


class FileReader:
    """A reader of one `haulout.yaml` that collects its problems. `origins`: the flag or variable that has set a path."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._places: dict[tuple[str, ...], Place] = {}
        self.origins: dict[tuple[str, ...], str] = {}
        self._problems: dict[tuple[str, ...], tuple[Place, str]] = {}

    def problems(self) -> list[str]:
        """Return the problems in the order of the file, after those of flags and variables."""
        found = sorted(self._problems.values(), key=lambda found: (found[0].line, found[0].column))
        return [text for _, text in found]

    def second_document(self, place: Place | None) -> None:
        if place is not None:
            text = (
                f"{self._source}:{place.line}:{place.column}: another document begins, and only the first one is read"
            )
            self._problems["---",] = (place, f"{text} (write everything above the ---, or take it away)")

    def block(self, kind: type[Any], node: Node | None, path: tuple[str, ...]) -> dict[str, Any]:
        if node is None or yaml.is_null(node):
            return {}
        self._places[path] = node.place
        if not isinstance(node, yaml.Mapping):
            self._wrong(path, "a map of settings belongs here", "write name: value")
            return {}
        fields = {field.encode_name: split(field.type)[0] for field in msgspec.structs.fields(kind)}
        plain: dict[str, Any] = {}
        for name, value in node.entries.items():
            inner = (*path, name)
            self._places[inner] = node.keys.get(name, value.place)
            if name in node.earlier:
                self._wrong(inner, f"stands in line {node.earlier[name].line} already", "keep one of them")
            if name not in fields:
                near = difflib.get_close_matches(name, fields, 1)
                right = f"did you mean {near[0]}?" if near else f"known are: {', '.join(fields)}"
                self._wrong(inner, "unknown setting", right)
            elif (item := item_type(fields[name])) is not None:
                plain[name] = self._sequence(item, value, inner)
            elif (struct := struct_in(fields[name])) is not None:
                plain[name] = self.block(struct, value, inner)
            elif not yaml.is_null(value):
                plain[name] = self._scalar(fields[name], value, inner)
        return plain

    def _sequence(self, item: Any, node: Node, path: tuple[str, ...]) -> list[Any]:
        if not isinstance(node, yaml.Sequence):
            self._wrong(path, "a list belongs here", "write - one entry a line, or [a, b]")
            return []
        places = [(each, (*path, str(number))) for number, each in enumerate(node.items)]
        self._places.update({inner: each.place for each, inner in places})
        if isinstance(item, type) and issubclass(item, msgspec.Struct):
            return [self.block(item, each, inner) for each, inner in places]
        return [self._scalar(item, each, inner) for each, inner in places]

    def made(self, plain: dict[str, Any]) -> File:
        """Return the values as structs, and make the checks that types do not express."""
        file: File = self._struct(File, plain, ())
        if file.log.level not in LEVELS:
            self._wrong(("log", "level"), f"{file.log.level!r} is no log level", f"one of {', '.join(LEVELS)}")
        if file.log.format not in FORMATS:
            self._wrong(("log", "format"), f"{file.log.format!r} is no log format", f"one of {', '.join(FORMATS)}")
        for name, address in msgspec.structs.asdict(file.listen).items():
            self._check_address(("listen", name), address)
        for name, text in msgspec.structs.asdict(file.webhooks).items():
            if not text:
                self._wrong(("webhooks", name), "empty", "a name")
        self._check_certificates(file.webhooks.certificates, ("webhooks", "certificates"))
        self._check(_moment, file.request_timeout, ("requestTimeout",), "a duration such as 10s, of at most 30s")
        if not file.leader.lease:
            self._wrong(("leader", "lease"), "empty", "the name of a Lease")
        for number, rule in enumerate(file.drain.rules):
            if (path := ("drain", "rules", str(number))) not in self._problems:
                self._check_rule(rule, path)
        return file

    def _check_rule(self, rule: RuleBlock, path: tuple[str, ...]) -> None:
        self._check_word(rule.action.lower(), POD_ACTIONS, (*path, "action"))
        self._check(selector.parse, rule.selector, (*path, "selector"), "a label selector such as app=db")
        for number, policy in enumerate(rule.restart_policies):
            self._check_word(policy, RESTART_POLICIES, (*path, "restartPolicies", str(number)))

    def _check_certificates(self, text: str, path: tuple[str, ...]) -> None:
        if text in CERTIFICATES or "/" in text:
            return
        near = difflib.get_close_matches(text, CERTIFICATES, 1)
        ways = f"{', '.join(CERTIFICATES)}, or a directory with a slash in it, such as ./{text}"
        self._wrong(path, f"{text!r} is not known here", f"did you mean {near[0]}? else {ways}" if near else ways)

    def _check_word(self, word: str, known: Sequence[str], path: tuple[str, ...]) -> None:
        if word not in known:
            self._wrong(path, f"{word!r} is not known here", f"one of {', '.join(known)}")

    def _check(self, check: Callable[[Any], object], value: Any, path: tuple[str, ...], right: str) -> None:
        try:
            check(value)
        except ValueError as error:
            self._wrong(path, str(error), right)

    def _check_address(self, path: tuple[str, ...], address: str) -> None:
        try:
            _ = address in OFF or split_address(address)
        except AddressError:
            self._wrong(path, f"{address!r} is not an address to listen on", 'HOST:PORT, ":PORT", or "0" for none')

    def _struct(self, kind: type[Any], plain: dict[str, Any], path: tuple[str, ...]) -> Any:
        values: dict[str, Any] = {}
        for field in msgspec.structs.fields(kind):
            inner = (*path, field.encode_name)
            if field.encode_name in plain:
                values[field.name] = self._value(field.type, plain[field.encode_name], inner)
            elif item_type(split(field.type)[0]) is None:
                # A default that fails its check marks a setting that has to be set, such as a namespace.
                self._check_setting(split(field.type)[1], field.default, inner)
        return kind(**values)

    def _value(self, annotation: Any, value: Any, path: tuple[str, ...]) -> Any:
        kind, setting = split(annotation)
        struct, item = struct_in(kind), item_type(kind)
        if item is not None:
            found = tuple(self._items(item, value, path))
            for number, each in enumerate(found):
                self._check_setting(setting, each, (*path, str(number)))
            return found
        if struct is not None:
            return self._struct(struct, value, path)
        made = self._typed(kind, value, path, setting)
        self._check_setting(setting, made, path)
        return made

    def _typed(self, kind: Any, value: Any, path: tuple[str, ...], setting: Setting) -> Any:
        if kind is int:
            return self._integer(value, path)
        if kind is timedelta:
            return self._duration(value, path, setting)
        if kind is bool and isinstance(value, str):
            if value.lower() not in ("true", "false"):
                self._wrong(path, f"{value!r} is neither true nor false", "true or false")
            return value.lower() == "true"
        return value

    def _check_setting(self, setting: Setting, value: Any, path: tuple[str, ...]) -> None:
        if setting.words:
            self._check_word(value, setting.words, path)
        if setting.check is not None:
            self._check(setting.check, value, path, setting.right)

    def _items(self, item: Any, value: Any, path: tuple[str, ...]) -> Iterator[Any]:
        """Yield the entries of a list. A text from a flag or the environment is a list with commas."""
        entries = [each.strip() for each in value.split(",") if each.strip()] if isinstance(value, str) else value
        for number, each in enumerate(entries):
            if isinstance(item, type) and issubclass(item, msgspec.Struct):
                if isinstance(each, dict):
                    yield self._struct(item, each, (*path, str(number)))
                else:
                    self._wrong(path, "rules can be given in the file alone", "write them there")
            else:
                yield each

    def _duration(self, value: str, path: tuple[str, ...], setting: Setting) -> timedelta:
        try:
            return duration.parse(value)
        except ValueError as error:
            self._wrong(path, str(error), setting.right)
            return timedelta()

    def _integer(self, value: Any, path: tuple[str, ...]) -> int:
        text = str(value)
        number = digits(text.removeprefix("-"))
        if number is None:
            self._wrong(path, f"{text!r} is not a whole number", "digits")
            return 0
        return -number if text.startswith("-") else number

    def _scalar(self, kind: Any, node: Node, path: tuple[str, ...]) -> Any:
        value = node.value if isinstance(node, Scalar) else None
        if kind is bool:
            if not isinstance(value, bool):
                self._wrong(path, "not a truth value", "true or false")
                return False
            return value
        if kind is int and (not isinstance(value, int | str) or isinstance(value, bool)):
            self._wrong(path, "not a whole number", "digits")
            return "0"
        if not isinstance(value, str | int) or isinstance(value, bool):
            self._wrong(path, "not a text", "a single value, in quotes where in doubt")
            return ""
        return str(value)

    def _wrong(self, path: tuple[str, ...], what: str, right: str) -> None:
        place, origin = self._places.get(path), self.origins.get(path)
        where = origin or (f"{self._source}:{place.line}:{place.column}" if place else self._source)
        text = ": ".join((where, ".".join(path), what) if path else (where, what))
        at = place if place and not origin else Place(0, 0)
        # Only the first problem of a setting is kept: a check of a malformed value would report it again.
        self._problems.setdefault(path, (at, f"{text} ({right})"))


def _moment(text: str) -> None:
    if not timedelta() < duration.parse(text) <= LONGEST_REQUEST_FOR:
        raise ValueError(f"{text!r} is no time for a request")
