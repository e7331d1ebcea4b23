"""The profiles surface on a desk: a configuration, some nodes, and helpers to run and read them."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from datetime import datetime

import msgspec

from haulout.cluster.key import Key, node_key
from haulout.cluster.rows import NodeRow, Value
from haulout.cluster.view import CONFIG
from haulout.core.action import Measure, Say, Tell
from haulout.core.arbiter import Rules, arbiter
from haulout.kernel.requests import Change, Telling
from haulout.plugins.api import Check, Notifier, Trigger
from haulout.surfaces.profiles.load import Plugins, known_plugins, load
from haulout.surfaces.profiles.surface import DECIDER
from haulout.surfaces.profiles.wire import DATA_ANNOTATION, PROFILE_LABEL, STATE_LABEL, SURFACE, Entry, parse_data
from tests.build.desk import Cluster, Desk
from tests.build.rows import node

OPERATIONAL, REQUIRED, IN_MAINTENANCE = "operational", "maintenance-required", "in-maintenance"
# The checks a to d look for a label of that name; the triggers mark and clear set and remove one.
BASIC = """
intervals: {requeue: 30s}
instances:
  check:
  - {type: hasLabel, name: a, config: {key: a}}
  - {type: hasLabel, name: b, config: {key: b}}
  - {type: hasLabel, name: c, config: {key: c}}
  - {type: hasLabel, name: d, config: {key: d}}
"""
TRIGGERS = """
  trigger:
  - {type: alterLabel, name: mark, config: {key: marked, value: "yes"}}
  - {type: alterLabel, name: other, config: {key: other}}
  - {type: alterLabel, name: clear, config: {key: a, remove: true}}
"""


def config_text(profiles: str, *, checks: str = "", triggers: str = "", notify: str = "") -> str:
    parts = [textwrap.indent(textwrap.dedent(part).strip(), "  ") for part in (checks, triggers, notify)]
    return "\n".join(
        (
            BASIC.rstrip(),
            parts[0],
            TRIGGERS.strip("\n"),
            parts[1],
            "  notify:",
            parts[2],
            "profiles:",
            textwrap.dedent(profiles),
        )
    )


def plugins(*more: Check | Trigger) -> Plugins[Check, Notifier, Trigger]:
    """Return the built-in plugins and those of the test."""
    known = known_plugins()
    checks = {each.name: each for each in more if isinstance(each, Check)}
    triggers = {each.name: each for each in more if isinstance(each, Trigger)}
    return Plugins({**known.checks, **checks}, known.notifiers, {**known.triggers, **triggers})


def worker(
    name: str = "n",
    profiles: str = "p",
    data: str | None = None,
    *,
    annotations: Mapping[str, str] = {},
    labels: Mapping[str, str] = {},
    **more: str,
) -> NodeRow:
    """Return a node with profiles. Labels are named after the checks that look for them."""
    annotated = {**annotations, **({DATA_ANNOTATION: data} if data is not None else {})}
    attached = {PROFILE_LABEL: profiles} if profiles else {}
    return node(name, annotations=annotated, labels={**attached, **labels, **more})


class Profiles:
    def __init__(self, text: str | None, *nodes: NodeRow, more: tuple[Check | Trigger, ...] = ()) -> None:
        self.desk = Desk(DECIDER, arbiter(Rules((SURFACE,), turns=False)), world=Cluster(*nodes))
        self._plugins = plugins(*more)
        if text is not None:
            self.configure(text)
        self.desk.feed.list()

    def configure(self, text: str) -> None:
        config = load(text, self._plugins, source="maintenance.yaml", environment={})
        self.desk.store.write(Value(key=Key("", CONFIG, "", SURFACE), value=config))

    def break_config(self, why: str = "maintenance.yaml: broken") -> None:
        self.desk.store.write(Value(key=Key("", CONFIG, "", SURFACE), error=why))

    def settle(self) -> Profiles:
        """Run until nothing is left to happen. Time passes if something waits for it."""
        self.desk.settle()
        return self

    def step(self) -> Profiles:
        """Carry out what is to be written now, and no more."""
        self.desk.run()
        for request in list(self.desk.tray):
            self.desk.meet(request)
        return self

    def wait(self, seconds: float) -> Profiles:
        self.desk.wait(seconds)
        self.desk.watch()
        return self

    def label(self, name: str = "n", /, **labels: str | None) -> Profiles:
        self.desk.world.label(node_key(name), **labels)
        self.desk.watch()
        return self

    def annotate(self, text: str, name: str = "n") -> Profiles:
        row = self.row(name)
        self.desk.world.put(msgspec.structs.replace(row, annotations={**row.annotations, DATA_ANNOTATION: text}))
        self.desk.watch()
        return self

    def row(self, name: str = "n") -> NodeRow:
        row = self.desk.world.objects[node_key(name)]
        assert isinstance(row, NodeRow)
        return row

    def state(self, name: str = "n") -> str | None:
        return self.row(name).labels.get(STATE_LABEL)

    def entries(self, name: str = "n") -> dict[str, Entry]:
        return dict(parse_data(self.row(name).annotations[DATA_ANNOTATION]).profiles)

    def current(self, name: str = "n") -> dict[str, str]:
        return {profile: entry.current for profile, entry in self.entries(name).items()}

    def inside(self) -> list[str]:
        """Return the nodes in maintenance."""
        rows = self.desk.world.objects.values()
        return sorted(row.key.name for row in rows if row.labels.get(STATE_LABEL) == IN_MAINTENANCE)

    @property
    def now(self) -> datetime:
        return self.desk.now

    @property
    def writes(self) -> list[Change]:
        return [body for body in self.desk.world.writes if isinstance(body, Change)]

    @property
    def events(self) -> list[Tell]:
        return [body.tell for body in self.desk.said if isinstance(body, Telling)]

    @property
    def notes(self) -> list[str]:
        return [tell.note for tell in self.events]

    @property
    def counted(self) -> list[Measure]:
        return [body for body in self.desk.said if isinstance(body, Measure)]

    @property
    def lines(self) -> list[Say]:
        return [body for body in self.desk.said if isinstance(body, Say)]
