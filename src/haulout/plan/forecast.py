"""Simulates the maintenance of a fleet, and records the states of each node over time and what it waited for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial

import msgspec

from haulout.cluster.key import Key, node_key
from haulout.cluster.kinds import Kinds
from haulout.cluster.project import Resource
from haulout.cluster.view import NotListed, View, ViewWith
from haulout.core.arbiter import NAME as ARBITER
from haulout.core.budgets.cover import UNAVAILABLE
from haulout.core.budgets.wire import KIND as BUDGET
from haulout.core.declaration import Enabled
from haulout.core.drain.causes import GOING
from haulout.core.holds import HOLDS_OF_NODE, Hold
from haulout.core.planned import (
    CHANGING,
    DRAINING,
    IN_MAINTENANCE,
    OPERATIONAL,
    REQUIRED,
    PlannedObjects,
    PodRun,
    as_new,
    no_runs,
    no_state,
)
from haulout.core.reason import NOT_WANTED, Reason
from haulout.core.reason import Course as ReasonCourse
from haulout.embedded import (
    NODES,
    ActorOptions,
    Actors,
    Change,
    Json,
    KubeletOptions,
    PodBehaviour,
    Server,
    VirtualTimers,
)
from haulout.embedded import Resource as WorldResource
from haulout.explain.codes import course_of
from haulout.kernel.assemble import assemble
from haulout.kernel.rooms import Subject
from haulout.kube.errors import ApiError
from haulout.model.meta import FIELD_MANAGER
from haulout.model.node import ManagedFields
from haulout.plan.courses import Choice, Course, Forecast, Span
from haulout.plan.virtual import VirtualDriver

# If several surfaces want a node, its state is the one with the greatest number here.
FURTHER = {"": -1, OPERATIONAL: 0, REQUIRED: 1, CHANGING: 2, DRAINING: 3, IN_MAINTENANCE: 4}
CORDONED = "cordoned"
# Reasons of a drain that end by themselves. A budget that allows no eviction at all blocks the node more than they do.
TRANSIENT = GOING | {"backing-off"}
UNKNOWN_CAUSE = "nothing that the plan knows of"
# Before the plan begins, nodes become ready within the first span, and pods are placed within the second.
READY_FOR = timedelta(seconds=10)
SETTLING_FOR = timedelta(minutes=5)
LOOK_AFTER_FOR = timedelta(seconds=1)
# The resource, namespace and name of an object.
Place = tuple[WorldResource, str, str]


class Done(msgspec.Struct, frozen=True):
    """A label that another program or a person sets on a node, some time after the node has entered a state.

    An empty value removes the label.
    """

    state: str
    after_for: timedelta
    label: str
    value: str


class Simulation:
    """The operator's own decisions on an embedded cluster in virtual time.

    `work_for`: how long the work of a maintenance takes. Its object is deleted that long after its node is ready for it.
    """

    def __init__(
        self,
        surfaces: Sequence[Enabled],
        objects: Sequence[tuple[WorldResource, Json]],
        *,
        begins_at: datetime,
        together: bool = False,
        quorum: bool = False,
        done: Iterable[Done] = (),
        work_for: timedelta = timedelta(hours=1),
        seed: int = 0,
        on_problem: Callable[[str], None] = lambda text: None,
        on_progress: Callable[[str, float | None], None] = lambda what, share: None,
    ) -> None:
        self._done = tuple(done)
        self._work_for = work_for
        self._begins_at = begins_at
        self._time = VirtualTimers(begins_at - SETTLING_FOR - READY_FOR)
        self._world = Server(self._time, seed=seed, brief=True)
        kubelet = KubeletOptions(behave=self._behave)
        actors = ActorOptions(seed=seed, heartbeats=False, brief=True, kubelet=kubelet)
        self._actors = Actors(self._world, self._time, actors)
        self._assembly = assemble(surfaces, together=together, quorum=quorum)
        self._kernel = self._assembly.kernel
        self._driver = VirtualDriver(self._kernel, self._world, self._time, kinds=Kinds(self._assembly.kinds))
        declarations = [each.declaration for each in surfaces]
        nodes = [obj for resource, obj in objects if resource == NODES]
        self._pod_runs = [each.planned_runs(nodes) for each in declarations if each.planned_runs is not no_runs]
        self._runs: dict[str, PodRun] = {}
        self._entering = {
            planned_resource(kind): partial(each.planned_object, kind.kind)
            for each in declarations
            for kind in each.kinds
        }
        self._spans: dict[str, list[Span]] = {}
        self._cordons: dict[str, list[Span]] = {}
        self._node_states = [
            each.declaration.node_state for each in surfaces if each.declaration.node_state is not no_state
        ]
        self._planned = dict(_planned(surfaces))
        self._kinds = {planned_resource(kind): kind.kind for each in surfaces for kind in each.declaration.kinds}
        self._choices: dict[str, Choice] = {}
        # For each object, since when it waits only for the end of the work.
        self._done_since: dict[Place, datetime] = {}
        # For each node and object: the state that the object gives to the node while it is schedulable, and while cordoned.
        self._standing: dict[str, dict[Place, tuple[str, str]]] = {}
        self._waiting: dict[str, datetime] = {}
        self._kept: Counter[str] = Counter()
        self._looked_at = begins_at
        self._because = ""
        self._looks = False
        self._on_progress = on_progress
        self._shown_at = begins_at
        on_progress(f"placing the pods of {len(objects)} objects", None)
        # Objects that ask for maintenance are created when the plan begins, all others before.
        later = [each for each in objects if each[0] in self._planned]
        # Nodes come first and become ready, so that no pod has to wait for one.
        for resource, obj in objects:
            if resource == NODES:
                self._create(resource, obj, on_problem)
        self._actors.start()
        self._time.run_for(READY_FOR)
        for resource, obj in objects:
            if resource != NODES and resource not in self._planned:
                self._create(resource, obj, on_problem)
        self._time.run_until(begins_at)
        self._world.subscribe(NODES, self._node_changed)
        for resource in {resource for resource, _ in later}:
            self._world.subscribe(resource, partial(self._object_changed, resource))
        for resource, obj in later:
            self._create(resource, obj, on_problem)

    def run(self, within: timedelta) -> Forecast:
        ends_at = self._begins_at + within
        for source in sorted(self._assembly.sources(), key=lambda source: source.kind):
            self._driver.watch(source.kind, source.keep)
        for obj in self._world.list(NODES):
            self._note_cordon(obj)
            self._note(obj)
        self._driver.run(ends_at, lambda: self._show_progress(within))
        self._account(ends_at)
        courses = [self._course(name, spans) for name, spans in sorted(self._spans.items())]
        self._account_stuck(courses, ends_at)
        kept = tuple((text, timedelta(seconds=seconds)) for text, seconds in self._kept.most_common())
        runs = tuple(self._runs[what] for what in sorted(self._runs))
        return Forecast(self._begins_at, ends_at, tuple(courses), kept, tuple(self._choices.values()), runs)

    def _show_progress(self, within: timedelta) -> bool:
        """Show how far the virtual clock has come. Return False, so that the simulation goes on."""
        now = self._time.now()
        if now != self._shown_at:
            self._shown_at = now
            passed = now - self._begins_at
            self._on_progress(f"day {passed.days + 1} of {-(-within // timedelta(days=1))}", passed / within)
        return False

    def _create(self, resource: WorldResource, obj: Json, on_problem: Callable[[str], None]) -> None:
        metadata = obj.get("metadata", {})
        place = metadata.get("namespace", ""), metadata.get("name", "")
        leaves = metadata.pop("deletionTimestamp", None) is not None
        entering, problem = self._entering.get(resource, partial(as_new, ""))(obj)
        if problem:
            on_problem(problem)
        try:
            body = {name: value for name, value in entering.items() if name != "status"}
            self._world.create(resource, body, manager=_cordon_manager(metadata))
            if entering.get("status"):
                self._world.patch(resource, *place, {"status": entering["status"]}, subresource="status")
            if leaves:
                self._world.delete(resource, *place)
        except ApiError as error:
            name = obj.get("metadata", {}).get("name", "")
            on_problem(f"{resource.plural} {name} is left out: {error}")

    def _node_changed(self, change: Change) -> None:
        old = change.old or {}
        if change.type != "DELETED" and (self._written(change.object), _is_cordoned(change.object)) != (
            self._written(old),
            _is_cordoned(old),
        ):
            self._note_cordon(change.object)
            self._note(change.object)

    def _note_cordon(self, node: Json) -> None:
        spans, now = self._cordons.setdefault(node["metadata"]["name"], []), self._time.now()
        is_known = bool(spans) and spans[-1].ends_at is None
        if is_known and not _is_cordoned(node):
            spans[-1] = msgspec.structs.replace(spans[-1], ends_at=now)
        elif not is_known and _is_cordoned(node):
            spans.append(Span(CORDONED, now))

    def _object_changed(self, resource: WorldResource, change: Change) -> None:
        planned, obj = self._planned[resource], change.object
        place = resource, obj["metadata"].get("namespace", ""), obj["metadata"]["name"]
        self._follow_work(place, change)
        self._note_choice(planned, obj)
        standing = self._standing.setdefault(planned.node(obj), {})
        states = (planned.state(obj, False), planned.state(obj, True))
        if change.type == "DELETED":
            standing.pop(place, None)
        elif standing.get(place) == states:
            return
        else:
            standing[place] = states
        node = self._world.get(NODES, "", planned.node(obj))
        if node is not None:
            self._note(node)

    def _follow_work(self, place: Place, change: Change) -> None:
        """Delete an object some time after its node is ready for the work, as the client would that does the work."""
        planned, obj = self._planned[place[0]], change.object
        if change.type == "DELETED" or not planned.is_done(obj):
            self._done_since.pop(place, None)
        elif place not in self._done_since:
            since = self._done_since[place] = self._time.now()
            self._time.at(since + (planned.work_for(obj) or self._work_for), lambda: self._end(place, since))

    def _end(self, place: Place, since: datetime) -> None:
        if self._done_since.get(place) == since and self._world.get(*place) is not None:
            self._world.delete(*place)

    def _note_choice(self, planned: PlannedObjects, obj: Json) -> None:
        """Record why a scheduler chose an object, the first time that it does."""
        metadata = obj["metadata"]
        place = f"{metadata.get('namespace', '')}/{metadata['name']}".removeprefix("/")
        if place not in self._choices and (pick := planned.pick(obj, self._kernel.store, self._time.now())):
            self._choices[place] = Choice(self._time.now(), place, planned.node(obj), pick)

    def _behave(self, pod: Json, behaviour: PodBehaviour) -> PodBehaviour:
        """Return how a simulated pod runs. A pod that does the work of a surface runs for as long as the work takes."""
        for resource, planned in self._planned.items():
            if place := planned.worker_of(pod):
                obj = self._world.get(resource, *place.split("/", 1))
                work_for = planned.work_for(obj) if obj is not None else None
                return msgspec.structs.replace(behaviour, exits_after=work_for or self._work_for)
        run = next(filter(None, (known(pod) for known in self._pod_runs)), None)
        if run is None:
            return behaviour
        self._runs[run.what] = run
        return behaviour.of_work(pod, run.runs_for, reboots=run.reboots)

    def _written(self, node: Json) -> str:
        """Return the furthest state that a surface has written on the Node itself; empty if none has."""
        return _furthest(state(node) for state in self._node_states)

    def _state_of(self, node: Json) -> str:
        standing = self._standing.get(node["metadata"]["name"], {}).values()
        return _furthest((self._written(node), *(states[_is_cordoned(node)] for states in standing)))

    def _note(self, node: Json) -> None:
        name, now, state = node["metadata"]["name"], self._time.now(), self._state_of(node)
        self._account(now)
        spans = self._spans.setdefault(name, [])
        if spans and spans[-1].state == (state or OPERATIONAL):
            return
        if not state and not spans:
            return
        state = state or OPERATIONAL
        if spans and spans[-1].begins_at == now == self._begins_at:
            # At the start an object and its status are two writes. Only the state after the second one counts.
            spans.pop()
        if spans:
            spans[-1] = msgspec.structs.replace(spans[-1], ends_at=now)
        spans.append(Span(state, now))
        for done in self._done:
            if done.state == state:
                self._time.at(now + done.after_for, lambda done=done: self._do(name, done))  # type: ignore[misc]
        if state == REQUIRED:
            self._waiting[name] = now
        else:
            self._waiting.pop(name, None)

    def _do(self, name: str, done: Done) -> None:
        if self._world.get(NODES, "", name) is not None:
            self._world.patch(NODES, "", name, {"metadata": {"labels": {done.label: done.value or None}}})

    def _account(self, now: datetime) -> None:
        """Add the time since the last change to the cause for which the first waiting node waits."""
        passed, self._looked_at = now - self._looked_at, now
        if self._waiting and self._because and passed > timedelta(0):
            self._kept[self._because] += int(passed.total_seconds() * len(self._waiting))
        if not self._looks:
            self._looks = True
            self._time.at(now + LOOK_AFTER_FOR, self._look)

    def _account_stuck(self, courses: Iterable[Course], ends_at: datetime) -> None:
        """Add the time that nodes have waited that do not return. Nodes that wait for their turn are counted already."""
        for course in courses:
            if course.waits_for and course.spans[-1].state != REQUIRED:
                self._kept[course.waits_for] += int((ends_at - course.spans[-1].begins_at).total_seconds())

    def _look(self) -> None:
        """Find out what the first waiting node waits for, after everything has happened at this instant."""
        self._looks = False
        first = min(self._waiting.items(), key=lambda each: (each[1], each[0]), default=("", None))[0]
        self._because = self._cause(first, _limits) if first else ""

    def _cause(self, name: str, ends: Callable[[Reason], list[Reason]]) -> str:
        """Return what a node waits for; empty if no decision says so. `ends`: where a chain of reasons ends."""
        try:
            view = self._asked_now(node_key(name))
            reasons = [reason for subject in self._subjects(name) for reason in self._reasons(subject, view)]
        except NotListed:
            return "the cluster"
        # A surface that wants nothing of the node says what it would take. That is not what the node waits for.
        wanted = [each for each in reasons if each.code != NOT_WANTED and course_of(each.code) is not ReasonCourse.IDLE]
        found = [end for reason in wanted for end in ends(reason)]
        # What goes on by itself does not keep the node, although it may come first.
        blocking = [end for end in found if course_of(end.code) is ReasonCourse.BLOCKED]
        return next((end.text for end in sorted(blocking or found, key=_is_transient)), "")

    def _subjects(self, name: str) -> Iterator[Subject]:
        """Yield the subjects whose decisions can say what the node waits for.

        First come those that wait with a claim, then other claims, objects about the node, and decisions about nodes.
        """
        rows = self._kernel.store.bucket(HOLDS_OF_NODE, "", node_key(name))
        for hold in sorted((row for row in rows if isinstance(row, Hold)), key=lambda hold: hold.claim.begun):
            yield Subject(hold.surface, hold.claim.owner)
        for resource, namespace, own in self._standing.get(name, {}):
            kind = self._kinds[resource]
            for each in self._assembly.enabled:
                if kind in each.declaration.explains:
                    yield Subject(each.declaration.explains[kind], Key("", kind, namespace, own))
        for each in self._assembly.enabled:
            if "Node" in each.declaration.explains:
                yield Subject(each.declaration.explains["Node"], node_key(name))

    def _asked_now(self, node: Key) -> View:
        """Return a view in which waiting claims on a node are refused for the reasons that hold now.

        A stored refusal may be old: while a claim waits for a full limit, the arbiter is not asked about it again.
        """
        store = self._kernel.store
        answers = self._kernel.loop.explain(Subject(ARBITER, node), self._time.now()).grants
        return ViewWith(store, {each.key: each for each in answers if not each.granted and store.row(each.key)})

    def _reasons(self, subject: Subject, view: View) -> tuple[Reason, ...]:
        return self._kernel.loop.explain(subject, self._time.now(), view).reasons

    def _course(self, name: str, spans: list[Span]) -> Course:
        stays = spans and spans[-1].state != OPERATIONAL
        cause = (self._cause(name, _named_roots) or UNKNOWN_CAUSE) if stays else ""
        return Course(name, tuple(spans), cause, tuple(self._cordons.get(name, ())))


def planned_resource(kind: Resource) -> WorldResource:
    """Return the resource of the embedded cluster for a kind that a surface declares."""
    group, _, version = kind.prefix.removeprefix("/apis/").partition("/")
    return WorldResource(group, version, kind.plural)


def _planned(surfaces: Iterable[Enabled]) -> Iterator[tuple[WorldResource, PlannedObjects]]:
    for each in surfaces:
        objects = each.declaration.planned_objects
        if objects is not None:
            kind = next(kind for kind in each.declaration.kinds if kind.kind == objects.kind)
            yield planned_resource(kind), objects


def _limits(reason: Reason) -> list[Reason]:
    """Return the reasons at the end of every chain, but a limit in place of the nodes that take its places.

    Each maintenance has other nodes before it, and all of them wait for the same limit.
    """
    deeper = [cause for cause in reason.because if cause.code != UNAVAILABLE]
    return [end for cause in deeper for end in _limits(cause)] if deeper else [reason]


def _named_roots(reason: Reason) -> list[Reason]:
    """Return the reasons at the end of every chain, those below a NodeDisruptionBudget with its name."""
    found: list[Reason] = []
    for end in reason.because:
        deeper = _named_roots(end)
        if reason.subject.kind == BUDGET and not end.because:
            deeper = [msgspec.structs.replace(end, text=f"budget {reason.subject.name}: {end.text}")]
        found += deeper
    return found or [reason]


def _is_transient(reason: Reason) -> bool:
    """Whether a reason of a drain ends by itself, such as an eviction that is under way."""
    return reason.code in TRANSIENT


def _furthest(states: Iterable[str]) -> str:
    return max(states, key=lambda state: FURTHER.get(state, 0), default="")


def _cordon_manager(metadata: Json) -> str:
    """Return the client that cordoned a node of the snapshot; a person, if there are several. Empty: it is not noted."""
    try:
        noted = msgspec.convert(metadata.get("managedFields") or [], tuple[ManagedFields, ...], strict=False)
    except msgspec.ValidationError:
        return ""
    managers = [each.manager for each in noted if each.fields.spec.unschedulable is not msgspec.UNSET]
    return next((name for name in managers if name != FIELD_MANAGER), next(iter(managers), ""))


def _is_cordoned(node: Json) -> bool:
    return bool((node.get("spec") or {}).get("unschedulable"))
