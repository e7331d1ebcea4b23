"""The reader of `maintenance.yaml`. It resolves plugins, instances and profiles by name (decision 0012)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from functools import cached_property
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from haulout.base import expression, yaml
from haulout.base.expression import CONSTANTS, Expression, Mention
from haulout.base.yaml import Node
from haulout.plugins.api import Check, Notifier, Trigger
from haulout.plugins.config import Block, Config, ConfigProblem, Context, GoDuration, examine
from haulout.plugins.document import open_document, splice_problems
from haulout.plugins.file_lint import Problem, line_of, similar
from haulout.plugins.load import load_plugins
from haulout.surfaces.profiles.schedules import SCHEDULES, Schedule
from haulout.surfaces.profiles.wire import DEFAULT_PROFILE, State


class Plugin(Protocol):
    """The part of a plugin that the loader needs. `takes_null`: it needs no configuration."""

    @property
    def config(self) -> type[Config]: ...

    @property
    def takes_null(self) -> bool: ...


P = TypeVar("P", bound=Plugin)
Ck = TypeVar("Ck", bound=Plugin)
Nt = TypeVar("Nt", bound=Plugin)
Tr = TypeVar("Tr", bound=Plugin)
_C = TypeVar("_C", bound=Config)
_I = TypeVar("_I")

_STATES = {str(state): state for state in State}


class Plugins(msgspec.Struct, Generic[Ck, Nt, Tr], frozen=True):
    """All plugins that `maintenance.yaml` may name, by their type names."""

    checks: Mapping[str, Ck]
    notifiers: Mapping[str, Nt]
    triggers: Mapping[str, Tr]


class Instance(msgspec.Struct, Generic[P], frozen=True):
    """A plugin with a configuration and a name."""

    name: str
    plugin: P
    config: Config


class Notification(Instance[P], Generic[P], frozen=True):
    """A notifier with a configuration and a name, and the schedule that says when it sends."""

    schedule: Schedule


class Transition(msgspec.Struct, Generic[Ck, Tr], frozen=True, dict=True):
    """One way out of a state: the check that has to pass, the triggers that then run, and the next state.

    `checks`: the check instances of the expression, in the order and as often as it mentions them.
    """

    check: Expression
    text: str
    checks: tuple[Instance[Ck], ...]
    trigger: tuple[Instance[Tr], ...]
    next: State

    @cached_property
    def waitable(self) -> frozenset[str]:
        """The names of the checks that may wait in the queue of a limit, because the transition requires them."""
        return expression.conjuncts(self.check)


class Stage(msgspec.Struct, Generic[Ck, Nt, Tr], frozen=True):
    """The configuration of one state of a profile.

    `enter`: the triggers to run when the state is entered.
    """

    enter: tuple[Instance[Tr], ...] = ()
    notify: tuple[Notification[Nt], ...] = ()
    transitions: tuple[Transition[Ck, Tr], ...] = ()


class Profile(msgspec.Struct, Generic[Ck, Nt, Tr], frozen=True):
    """A profile of `maintenance.yaml`: the configuration of each of the three states."""

    name: str
    stages: Mapping[State, Stage[Ck, Nt, Tr]]


class Configuration(msgspec.Struct, Generic[Ck, Nt, Tr], frozen=True):
    """The content of `maintenance.yaml`, with every name resolved.

    `requeue`: how often to repeat work that no watch triggers, such as a Prometheus query.
    `label_filter`: the labels of nodes that the dashboard shows.
    """

    requeue: timedelta
    checks: Mapping[str, Instance[Ck]]
    triggers: Mapping[str, Instance[Tr]]
    notifications: Mapping[str, Notification[Nt]]
    profiles: Mapping[str, Profile[Ck, Nt, Tr]]
    label_filter: tuple[str, ...]


def profile_names(options: Any) -> tuple[str, ...]:
    """Return the sorted names of the profiles in the surface's options."""
    return tuple(sorted(options.config.profiles))


def load_and_check(
    data: bytes | str, plugins: Plugins[Ck, Nt, Tr], *, source: str, environment: Mapping[str, str]
) -> tuple[Configuration[Ck, Nt, Tr] | ConfigProblem, list[Problem]]:
    """Return the results of `load` and of `problems` from one reading.

    A file of fifty profiles takes a tenth of a second.
    """
    loader = _Loader(plugins, source, environment)
    try:
        configuration = loader.configuration(data)
    except ConfigProblem as problem:
        return problem, [line_of(problem, source, is_error=True)]
    lines = [line_of(problem, source, is_error=True) for problem in loader.problems]
    lines += [line_of(problem, source, is_error=False) for problem in loader.warnings]
    lines.sort(key=lambda line: (line.place.line, line.place.column))
    return (loader.problems[0] if loader.problems else configuration), lines


def load(
    data: bytes | str, plugins: Plugins[Ck, Nt, Tr], *, source: str, environment: Mapping[str, str]
) -> Configuration[Ck, Nt, Tr]:
    """Return the configuration. Raises ConfigProblem with the problem that the original would find first."""
    configuration, _ = load_and_check(data, plugins, source=source, environment=environment)
    if isinstance(configuration, ConfigProblem):
        raise configuration
    return configuration


def problems(
    data: bytes | str, plugins: Plugins[Ck, Nt, Tr], *, source: str, environment: Mapping[str, str]
) -> list[Problem]:
    """Return all errors and warnings of the file, from top to bottom."""
    return load_and_check(data, plugins, source=source, environment=environment)[1]


class _Intervals(Config, frozen=True, kw_only=True):
    requeue: GoDuration


class _Instance(Config, frozen=True, kw_only=True):
    name: str = ""
    type: str = ""
    config: Block | None = None


class _Schedule(Config, frozen=True, kw_only=True):
    type: str = ""
    config: Block | None = None


class _Notification(Config, frozen=True, kw_only=True):
    name: str = ""
    type: str = ""
    schedule: _Schedule
    config: Block | None = None


class _Instances(Config, frozen=True, kw_only=True):
    check: tuple[_Instance, ...] = ()
    notify: tuple[_Notification, ...] = ()
    trigger: tuple[_Instance, ...] = ()


class _Transition(Config, frozen=True, kw_only=True):
    check: str
    next: str
    trigger: str = ""


class _Stage(Config, frozen=True, kw_only=True):
    enter: str = ""
    notify: str = ""
    transitions: tuple[_Transition, ...] = ()


class _Profile(Config, frozen=True, kw_only=True):
    name: str
    operational: _Stage
    required: _Stage = msgspec.field(name="maintenance-required")
    in_maintenance: _Stage = msgspec.field(name="in-maintenance")

    def stages(self) -> dict[State, _Stage]:
        return dict(zip(State, (self.operational, self.required, self.in_maintenance), strict=True))


class _Dashboard(Config, frozen=True, kw_only=True):
    label_filter: tuple[str, ...] = ()


class _File(Config, frozen=True, kw_only=True):
    intervals: _Intervals
    instances: _Instances
    profiles: tuple[_Profile, ...] = ()
    dashboard: _Dashboard


def written_file() -> type[Config]:
    """Return the struct that describes the whole file."""
    return _File


_Path = tuple[str, ...]


class _Loader(Generic[Ck, Nt, Tr]):
    """A reader of the file in the order of the original, which continues after an error.

    An instance that cannot be made is still known by name, so that profiles that use it are not reported as well.
    """

    def __init__(self, plugins: Plugins[Ck, Nt, Tr], source: str, environment: Mapping[str, str]) -> None:
        self._plugins = plugins
        self._source = source
        self._environment = environment
        self._context = Context()
        self._unread: set[_Path] = set()
        self._checks: dict[str, Instance[Ck] | None] = {}
        self._notifications: dict[str, Notification[Nt] | None] = {}
        self._triggers: dict[str, Instance[Tr] | None] = {}
        self.problems: list[ConfigProblem] = []
        self.warnings: list[ConfigProblem] = []

    def configuration(self, data: bytes | str) -> Configuration[Ck, Nt, Tr]:
        self._context = open_document(data, source=self._source, environment=self._environment)
        self.problems += splice_problems(self._context)
        file = self._examined(_File, self._context.document, ())
        self._unread = {problem.path for problem in self.problems}
        self._load_checks(file.instances.check)
        self._load_notifications(file.instances.notify)
        self._load_triggers(file.instances.trigger)
        profiles = {DEFAULT_PROFILE: Profile(DEFAULT_PROFILE, {state: Stage[Ck, Nt, Tr]() for state in State})}
        for number, profile in enumerate(file.profiles):
            path = ("profiles", str(number))
            self._note_second_profile(profile.name, file.profiles[:number], path)
            profiles[profile.name] = made = self._profile(profile, path)
            if word := self._word((*path, "name")):
                profiles[word] = msgspec.structs.replace(made, name=word)
        return Configuration(
            file.intervals.requeue,
            _made(self._checks),
            _made(self._triggers),
            _made(self._notifications),
            profiles,
            file.dashboard.label_filter,
        )

    def _load_checks(self, written: Iterable[_Instance]) -> None:
        for number, item in enumerate(written):
            path = ("instances", "check", str(number))
            name = self._word((*path, "name")) or item.name
            self._note_repetition(name, self._checks, path)
            self._checks[name] = self._instance(item, self._plugins.checks, "check", path)
            if name in CONSTANTS:
                what = f'"{name}" is a constant in check expressions, and the result of this check is ignored'
                self._warn(what, (*path, "name"), "give it another name")

    def _load_triggers(self, written: Iterable[_Instance]) -> None:
        for number, item in enumerate(written):
            path = ("instances", "trigger", str(number))
            self._note_repetition(item.name, self._triggers, path)
            self._triggers[item.name] = made = self._instance(item, self._plugins.triggers, "trigger", path)
            if word := self._word((*path, "name")):
                self._triggers[word] = made

    def _load_notifications(self, written: Iterable[_Notification]) -> None:
        for number, item in enumerate(written):
            path = ("instances", "notify", str(number))
            self._note_repetition(item.name, self._notifications, path)
            made = self._instance(item, self._plugins.notifiers, "notification", path)
            schedule = self._schedule(item.schedule, (*path, "schedule"))
            notification = Notification(made.name, made.plugin, made.config, schedule) if made and schedule else None
            self._notifications[item.name] = notification
            if word := self._word((*path, "name")):
                self._notifications[word] = notification

    def _instance(
        self, item: _Instance | _Notification, plugins: Mapping[str, P], word: str, path: _Path
    ) -> Instance[P] | None:
        plugin = plugins.get(item.type)
        if plugin is None:
            what = f'the requested {word} plugin type "{item.type}" is not known to the registry'
            self._wrong(what, (*path, "type"), similar(item.type, plugins))
            return None
        path = (*path, "config")
        if item.config is None and not plugin.takes_null:
            what = f"required 'object', but found 'any' in field '{'.'.join(path)}'"
            self._wrong(what, path, "a map of settings")
            return None
        return Instance(
            self._word((*path[:-1], "name")) or item.name, plugin, self._examined(plugin.config, item.config, path)
        )

    def _schedule(self, written: _Schedule, path: _Path) -> Schedule | None:
        if written.config is None:
            self._wrong(
                "a notification instance does not have a schedule assigned", path, "type and config, at least {}"
            )
            return None
        kind = SCHEDULES.get(written.type.lower())
        if kind is None:
            what = f"notification scheduler with name {written.type} is unknown"
            self._wrong(what, (*path, "type"), "periodic, scheduled or oneshot")
            return None
        return self._examined(kind, written.config, (*path, "config"))

    def _profile(self, written: _Profile, path: _Path) -> Profile[Ck, Nt, Tr]:
        stages = {state: self._stage(stage, (*path, state)) for state, stage in written.stages().items()}
        return Profile(written.name, stages)

    def _stage(self, written: _Stage, path: _Path) -> Stage[Ck, Nt, Tr]:
        notify = self._chain(written.notify, self._notifications, "notification", (*path, "notify"))
        enter = self._chain(written.enter, self._triggers, "trigger", (*path, "enter"))
        transitions = [
            self._transition(transition, (*path, "transitions", str(number)))
            for number, transition in enumerate(written.transitions)
        ]
        return Stage(enter, notify, tuple(made for made in transitions if made))

    def _transition(self, written: _Transition, path: _Path) -> Transition[Ck, Tr] | None:
        text = self._meant(written.check, self._checks, (*path, "check"))
        checks = self._found(expression.mentions(text), self._checks, "check", (*path, "check"))
        check = self._expression(text, (*path, "check"))
        trigger = self._chain(written.trigger, self._triggers, "trigger", (*path, "trigger"))
        following = _STATES.get(written.next)
        if following is None:
            self._wrong(f"'{written.next}' is not a valid NodeStateLabel", (*path, "next"), ", ".join(State))
        if check is None or following is None:
            return None
        return Transition(check, text, checks, trigger, following)

    def _expression(self, text: str, path: _Path) -> Expression | None:
        try:
            return expression.parse(text)
        except expression.ExpressionError as error:
            self._wrong(str(error), path)
            return None

    def _chain(self, text: str, known: Mapping[str, _I | None], word: str, path: _Path) -> tuple[_I, ...]:
        return self._found(expression.parse_chain(self._meant(text, known, path)), known, word, path)

    def _found(
        self, mentions: Iterable[Mention], known: Mapping[str, _I | None], word: str, path: _Path
    ) -> tuple[_I, ...]:
        found = []
        for mention in mentions:
            if mention.name not in known:
                what = f'the requested {word} instance "{mention.written}" is not known to the registry'
                self._wrong(what, path, similar(mention.name, known))
            elif instance := known[mention.name]:
                found.append(instance)
        return tuple(found)

    def _examined(self, kind: type[_C], block: Block | Node | None, path: _Path) -> _C:
        reading = examine(kind, block, self._context.at(*path))
        self.problems += reading.problems
        self.warnings += reading.warnings
        return reading.value

    def _meant(self, text: str, known: Mapping[str, object], path: _Path) -> str:
        word = self._word(path)
        return word if word and word in known else text

    def _word(self, path: _Path) -> str:
        """Return the word, such as `on`, that YAML reads as true or false, because its author may mean the word."""
        node = yaml.node_at(self._context.document, path)
        word = node.text if isinstance(node, yaml.Scalar) else ""
        return word if word.lower() not in {"true", "false"} else ""

    def _note_repetition(self, name: str, known: Mapping[str, object], path: _Path) -> None:
        if name and name in known:
            self._warn(f'replaces the earlier instance named "{name}"', (*path, "name"), "give it another name")

    def _note_second_profile(self, name: str, earlier: Iterable[_Profile], path: _Path) -> None:
        if name and any(profile.name == name for profile in earlier):
            self._warn(f'replaces the earlier profile named "{name}"', (*path, "name"), "give it another name")

    def _warn(self, what: str, path: _Path, right: str) -> None:
        place = yaml.place_of(self._context.document, path)
        self.warnings.append(ConfigProblem(what, right=right, path=path, place=place))

    def _wrong(self, what: str, path: _Path, right: str = "") -> None:
        """Record a problem.

        It is left out inside of a block that could not be read, where it only follows from that.
        """
        if any(path[:length] in self._unread for length in range(1, len(path) + 1)):
            return
        place = yaml.place_of(self._context.document, path)
        self.problems.append(ConfigProblem(what, right=right, path=path, place=place))


def _made(instances: Mapping[str, _I | None]) -> dict[str, _I]:
    return {name: instance for name, instance in instances.items() if instance is not None}


def known_plugins() -> Plugins[Check, Notifier, Trigger]:
    found = load_plugins()
    return Plugins(found.checks, found.notifiers, found.triggers)
