"""One pass over one node: its profiles in label order, each in its state, folded over one draft of the node."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import msgspec

from haulout.base.expression import Expression, conjuncts, evaluate
from haulout.base.url import without_secrets
from haulout.cluster.key import Key
from haulout.cluster.limits import Limit
from haulout.cluster.rows import NodeRow, Row, Value
from haulout.cluster.store import Listing
from haulout.cluster.view import MARK, NotListed, View
from haulout.core.action import Edit, Measure, Say, Send, Statement, Tell, Write
from haulout.core.cordon import ledger
from haulout.core.decision import earliest
from haulout.core.drain.options import PodRules
from haulout.core.drain.start_times import started
from haulout.core.edit import between
from haulout.core.holds import Claim, Want, node_priority
from haulout.plugins.api import Also, Check, CheckInput, Failed, Notifier, Pulled, Retry, Trigger, TriggerInput, Verdict
from haulout.surfaces.profiles.counts import FLEET, InMaintenance, unreadable
from haulout.surfaces.profiles.load import Configuration, Instance, Profile, Stage, Transition
from haulout.surfaces.profiles.notifications import SHORTEST_FOR, Situation, Skipped, needs_entering, recall, tell
from haulout.surfaces.profiles.refusals import Author, Refused
from haulout.surfaces.profiles.wire import NEVER, Entry, MaintenanceData, Stamp, State, known_state, stamp

SURFACE = "profiles"
REPORTER = "maintenance"
FAILURES = "maintenance_controller_transition_failure_count"
TURNS = "turns"
CHECK_FAILED = "At least one check plugin failed"
TRIGGER_FAILED = "At least one trigger plugin failed"
# A span may be negative, and then asking again without a pause would be an attack on whoever is asked.
SHORTEST_PACE_FOR = timedelta(milliseconds=100)


class Mode(msgspec.Struct, frozen=True):
    """How the profiles surface is served, beside its configuration file.

    `alone`: the drop-in, which knows no other surfaces. `rules`: what all drains do with certain pods.

    `counts`: the pods that maintenance moves are counted by their owners.
    """

    alone: bool = True
    rules: PodRules = PodRules()
    counts: bool = False


Config = Configuration[Check, Notifier, Trigger]
AnyProfile = Profile[Check, Notifier, Trigger]
Chain = tuple[Instance[Trigger], ...]


class Judged(msgspec.Struct, frozen=True):
    """A transition and what its checks said. `passed` does not count `limits`: those are asked of the arbiter.

    `known`: every check could say something. `turns`: what has been taken for it, and when.
    """

    number: int
    transition: Transition[Check, Trigger]
    verdicts: Mapping[str, Verdict]
    passed: bool
    allowed: bool
    error: str = ""
    known: bool = True
    limits: tuple[Limit, ...] = ()
    turns: Mapping[Key, datetime] = {}


class Result(msgspec.Struct, frozen=True):
    """What became of one profile in a pass. `writes` are to other objects, before the node is written.

    `sent`: when its notifications were delivered, to be stored; `telling`: the one that is not, and `waiting` why.
    `times`: how often what fails has been tried in vain. `pulled`: the triggers whose work is stored with this pass;
    `skipped`: the notifications that were not due, and why. `changes`: what it wants of the node besides its entry;
    `refused`: the server has not taken it.
    """

    profile: str
    state: str
    next: str
    node: NodeRow
    entry: Entry
    judged: tuple[Judged, ...] = ()
    claims: tuple[Claim, ...] = ()
    until: datetime | None = None
    moved: bool = False
    failure: str = ""
    error: str = ""
    writes: tuple[Write, ...] = ()
    marks: tuple[Row, ...] = ()
    says: tuple[Statement, ...] = ()
    sent: Mapping[str, Stamp] = {}
    sends: tuple[Send, ...] = ()
    telling: str = ""
    waiting: str = ""
    times: int = 0
    pulled: tuple[str, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    changes: tuple[Edit, ...] = ()
    refused: Refused | None = None


class Pulling(msgspec.Struct, frozen=True):
    """What a chain of triggers has come to. What it wrote elsewhere stands, even where it then failed.

    `refused`: the server has not taken what it wanted written elsewhere.
    """

    node: NodeRow
    writes: tuple[Write, ...] = ()
    trouble: Retry | Failed | None = None
    refused: Refused | None = None


class Pass(msgspec.Struct, frozen=True):
    """What a pass is made with. `granted` answers for claims: with a constant no, it shows what is claimed.

    `withheld`: the profiles whose changes the server does not take.
    """

    config: Config
    view: View
    now: datetime
    granted: Callable[[Claim], bool]
    mode: Mode = Mode()
    withheld: Mapping[str, Refused | None] = {}

    def run(
        self, node: NodeRow, data: MaintenanceData, names: tuple[str, ...]
    ) -> tuple[NodeRow, MaintenanceData, list[Result]]:
        """The draft, the data and the results after all profiles; a profile that fails changes nothing of either."""
        entries, sent = dict(data.profiles), dict(data.notifications)
        stored = node
        results: list[Result] = []
        for name in names:
            if name not in self.config.profiles:
                continue
            busy = any(
                entry.current == State.IN_MAINTENANCE
                for other, entry in entries.items()
                if other in names and other in self.config.profiles
            )
            spent = frozenset(write.target for result in results for write in result.writes)
            profile = self.config.profiles[name]
            given: Situation | None = None
            if (stage := _stage(profile, entries[name])) and stage.notify:
                given = Situation(
                    view=self.view,
                    now=self.now,
                    stored=stored,
                    node=node,
                    profile=name,
                    entry=entries[name],
                    last=max(entries, key=lambda known: entries[known].transition.at),
                    sent=sent,
                    in_maintenance=busy,
                    pace_for=max(self.config.requeue, SHORTEST_FOR),
                    others=partial(self._is_shared, {*names} - {name}),
                    under_way=frozenset(result.telling for result in results if result.waiting),
                )
            result = self._profile(profile, node, entries[name], given, busy=busy, spent=spent)
            if result.node is not node:
                result = msgspec.structs.replace(result, changes=between(node, result.node))
            if name in self.withheld:
                enter = stage.enter if stage else ()
                result = _withheld(result, node, entries[name], enter, self.withheld[name])
            node, entries[name] = result.node, result.entry
            sent |= result.sent
            if result.moved:
                # Considered from now on, and written with what is written anyhow.
                sent = {**{each.name: NEVER for each in profile.stages[State(result.next)].notify}, **sent}
            results.append(result)
        return node, MaintenanceData(entries, sent), results

    def _is_shared(self, profiles: set[str], instance: str) -> bool:
        """Whether one of these profiles notifies by the instance, in any of its states."""
        known = (self.config.profiles[name] for name in profiles if name in self.config.profiles)
        return any(each.name == instance for one in known for stage in one.stages.values() for each in stage.notify)

    def _profile(
        self,
        profile: AnyProfile,
        node: NodeRow,
        entry: Entry,
        given: Situation | None,
        *,
        busy: bool,
        spent: frozenset[Key],
    ) -> Result:
        try:
            state = known_state(entry.current)
        except ValueError as error:
            stuck = Result(profile.name, entry.current, entry.current, node, entry)
            text = f"failed to create internal state from unknown label value: {error}"
            return _failed(stuck, "Failed to apply current state", f"{text} (known: {', '.join(State)})")
        stage = profile.stages[state]
        result = Result(profile.name, state, state, node, entry)
        if given is not None:
            recall(stage.notify, given)
        if entry.previous != entry.current:
            entered = self._pull(stage.enter, node, profile.name, state, entry)
            result = msgspec.structs.replace(result, writes=entered.writes)
            if isinstance(entered.trouble, Retry):
                return msgspec.structs.replace(_again(result, entered.trouble), error=entered.trouble.reason)
            if isinstance(entered.trouble, Failed):
                result = _put_off(result, entered.refused)
                return _failed(result, f"Failed to enter state {state}", entered.trouble.reason)
            node = entered.node
        if given is not None:
            told = tell(stage.notify, msgspec.structs.replace(given, node=node))
            result = msgspec.structs.replace(
                result,
                sent=told.sent,
                sends=told.sends,
                telling=told.instance,
                waiting=told.waiting,
                times=told.failures,
                until=told.until,
                skipped=told.skipped,
            )
            if told.error:
                text = f"Notification instance {told.instance} failed: {told.error}"
                return _failed(result, "At least one notification plugin failed", text)
            if told.waiting:
                # One patch for what was done on entering and what was sent: nothing of it is stored before.
                return result
        if entry.previous != entry.current:
            # Stored even if what follows fails, so that neither entering nor telling is repeated.
            entry = Entry(entry.transition, state, state)
            result = msgspec.structs.replace(result, node=node, entry=entry, pulled=_names(stage.enter))
        judged = tuple(self._judge(number, each, result, busy=busy) for number, each in enumerate(stage.transitions))
        until = earliest(result.until, *(verdict.until for each in judged for verdict in each.verdicts.values()))
        result = msgspec.structs.replace(result, judged=judged, until=until, marks=_kept_turns(result, judged))
        errors = [each.error for each in judged if each.error]
        if errors:
            return _failed(result, CHECK_FAILED, f"had failed transition checks: {'; '.join(errors)}")
        if not all(each.known for each in judged):
            return result
        return self._move(profile, result, spent)

    def _judge(self, number: int, transition: Transition[Check, Trigger], result: Result, *, busy: bool) -> Judged:
        waitable = conjuncts(transition.check)
        turns = self._turns(result, number)
        verdicts: dict[str, Verdict] = {}
        failed: list[str] = []
        for instance in transition.checks:
            given = CheckInput(
                node=result.node,
                profile=result.profile,
                state=result.state,
                last_transition=result.entry.transition.at,
                now=self.now,
                view=self.view,
                in_maintenance=InMaintenance,
                unreadable=unreadable,
                may_wait=instance.name in waitable,
                pace_for=max(self.config.requeue, SHORTEST_PACE_FOR),
                fleet=FLEET,
                turns=turns,
                probe=instance.plugin.probe,
            )
            verdict = verdicts[instance.name] = self._heard(_verdict(instance, given), instance, result)
            if verdict.error:
                failed.append(instance.name)
        allowed = not (busy and transition.next == State.IN_MAINTENANCE)
        known = all(verdict.known for verdict in verdicts.values())
        if failed:
            error = f"failed check instances: {', '.join(failed)}"
            return Judged(number, transition, verdicts, False, allowed, error, known)
        if not known:
            return Judged(number, transition, verdicts, False, allowed, known=False)
        passed = evaluate(transition.check, {name: verdict.passed for name, verdict in verdicts.items()})
        limits = _needed(transition.check, verdicts) if passed else ()
        return Judged(number, transition, verdicts, passed, allowed, limits=limits, turns=turns)

    def _heard(self, verdict: Verdict, instance: Instance[Check], result: Result) -> Verdict:
        """A check that is refused what it wants of the API server fails."""
        if not verdict.prepare and verdict.take is None:
            return verdict
        author = _author(result.node, result.profile, instance)
        if refused := author.refusal(self.view, self.now):
            return Verdict(passed=False, until=refused.until, error=refused.refusal.message, times=refused.times)
        return msgspec.structs.replace(verdict, prepare=author.heard(verdict.prepare))

    def _turns(self, result: Result, number: int) -> Mapping[Key, datetime]:
        """What the last asking has taken for a transition that it then was not let make."""
        mark = self.view.recall(_turns_key(result, number), Value)
        return dict(mark.value) if mark is not None and isinstance(mark.value, tuple) else {}

    def _move(self, profile: AnyProfile, result: Result, spent: frozenset[Key]) -> Result:
        """Takes the first transition that passes and is allowed, if what it needs has been granted.

        `spent` is what other profiles of this node take in the same pass: one object serves only one of them.
        """
        claims: list[Claim] = []
        chosen: Transition[Check, Trigger] | None = None
        turns: tuple[Row, ...] = ()
        for each in result.judged:
            if not each.passed or not each.allowed:
                continue
            claim = _claim(result, each, profile.stages[each.transition.next].enter)
            if claim is not None:
                claims.append(claim)
            if claim is not None and not claim.begun and not self.granted(claim):
                continue
            taken = _taken(result, each, spent)
            if isinstance(taken, tuple):
                chosen = each.transition
                turns = _turns_mark(result, each.number, {**each.turns, **{write.target: self.now for write in taken}})
                result = msgspec.structs.replace(result, writes=(*result.writes, *taken))
                break
            result = msgspec.structs.replace(result, until=earliest(result.until, taken))
        result = msgspec.structs.replace(result, claims=tuple(claims))
        if chosen is None or chosen.next == result.state:
            return result
        pulled = self._pull(chosen.trigger, result.node, result.profile, result.state, result.entry)
        result = msgspec.structs.replace(result, writes=(*result.writes, *pulled.writes))
        if pulled.trouble is not None:
            if isinstance(pulled.trouble, Retry):
                result = _again(result, pulled.trouble)
                if pulled.trouble.only_stores:
                    return msgspec.structs.replace(result, marks=(*turns, *result.marks))
            return _failed(_put_off(result, pulled.refused), TRIGGER_FAILED, pulled.trouble.reason)
        target = profile.stages[chosen.next]
        # Where there is nothing to do on entering, having entered needs no patch of its own.
        previous = result.state if target.enter or needs_entering(target.notify) else chosen.next
        entry = Entry(stamp(self.now), chosen.next, previous)
        names = (*result.pulled, *_names(chosen.trigger))
        return msgspec.structs.replace(
            result, node=pulled.node, entry=entry, next=chosen.next, moved=True, pulled=names, marks=turns
        )

    def _pull(self, chain: Chain, node: NodeRow, profile: str, state: str, entry: Entry) -> Pulling:
        writes: tuple[Write, ...] = ()
        for instance in chain:
            given = TriggerInput(
                node, profile, state, self.now, self.view, self.mode.alone, entry.transition.at, self.mode.rules
            )
            pulled = _pulled(instance, given)
            if isinstance(pulled, Retry | Failed):
                reason = f"Trigger instance {instance.name} failed: {pulled.reason}"
                node = pulled.node if isinstance(pulled, Retry) else node
                return Pulling(node, writes, msgspec.structs.replace(pulled, reason=reason))
            if isinstance(pulled, Also):
                author = _author(node, profile, instance)
                if pulled.writes and (refused := author.refusal(self.view, self.now)):
                    reason = f"Trigger instance {instance.name} failed: {refused.refusal.message}"
                    return Pulling(node, writes, Failed(reason), refused)
                writes, pulled = (*writes, *author.heard(pulled.writes)), pulled.node
            node = pulled
        return Pulling(node, writes)


def _stage(profile: AnyProfile, entry: Entry) -> Stage[Check, Notifier, Trigger] | None:
    """What the profile does where it is; None in a state that there is not."""
    return next((stage for state, stage in profile.stages.items() if state == entry.current), None)


def _names(chain: Chain) -> tuple[str, ...]:
    return tuple(instance.name for instance in chain)


def _again(result: Result, trouble: Retry) -> Result:
    """What a trigger that is not finished has changed so far stands."""
    until = earliest(result.until, trouble.until)
    return msgspec.structs.replace(result, node=trouble.node, marks=trouble.marks, says=trouble.says, until=until)


def _put_off(result: Result, refused: Refused | None) -> Result:
    """What the server has refused is wanted again later, and counted each time."""
    if refused is None:
        return result
    return msgspec.structs.replace(result, until=earliest(result.until, refused.until), times=refused.times)


def _withheld(result: Result, node: NodeRow, entry: Entry, enter: Chain, refused: Refused | None) -> Result:
    """As if its triggers had not been pulled; what it has delivered stays delivered."""
    stayed = Result(
        profile=result.profile,
        state=result.state,
        next=result.state,
        node=node,
        entry=entry,
        judged=result.judged,
        claims=result.claims,
        until=result.until,
        marks=() if result.moved else result.marks,
        sent=result.sent,
        refused=refused,
    )
    if refused is None:
        return stayed
    # Nothing but what is done on entering has been pulled, all of it or not.
    entered = entry.previous != entry.current and len(result.pulled) <= len(enter)
    prefix = result.failure or (f"Failed to enter state {result.state}" if entered else TRIGGER_FAILED)
    word = "instances" if result.pulled[1:] else "instance"
    error = f"Trigger {word} {', '.join(result.pulled)} failed: {refused.error}" if result.pulled else refused.error
    return _failed(msgspec.structs.replace(stayed, times=refused.times), prefix, error)


def _verdict(instance: Instance[Check], given: CheckInput) -> Verdict:
    """Ask a check. What it says for people to read holds no secrets of its configuration from here on."""
    verdict = _judged(instance, given)
    if "://" not in verdict.error and not any("://" in str(value) for value in verdict.info.values()):
        return verdict
    info = {name: without_secrets(str(value)) if "://" in str(value) else value for name, value in verdict.info.items()}
    return msgspec.structs.replace(verdict, info=info, error=without_secrets(verdict.error))


def _judged(instance: Instance[Check], given: CheckInput) -> Verdict:
    try:
        return instance.plugin.judge(instance.config, given)
    except NotListed as off:
        if off.listing is Listing.WAITING:
            # For as long as it takes to be told: profiles that ask for nothing of it go on.
            return Verdict(passed=False, known=False, info={"reason": str(off)})
        return Verdict(passed=False, error=str(off))
    except Exception as error:  # noqa: BLE001 - a plugin with a bug fails its own profile, and no other
        return Verdict(passed=False, error=f"{type(error).__name__}: {error}")


def _turns_key(result: Result, number: int) -> Key:
    node = result.node.key
    return Key(node.cluster, MARK, TURNS, f"{node.name}/{result.profile}/{number}")


def _turns_mark(result: Result, number: int, turns: Mapping[Key, datetime]) -> tuple[Row, ...]:
    """Remembered until the node shows that the transition was made, which anybody's write to it can delay.

    Not across a restart, and not where its triggers fail: what was taken then runs out, as the original has it.
    """
    return (Value(key=_turns_key(result, number), value=tuple(turns.items())),) if turns else ()


def _kept_turns(result: Result, judged: tuple[Judged, ...]) -> tuple[Row, ...]:
    return tuple(row for each in judged if each.passed for row in _turns_mark(result, each.number, each.turns))


def _needed(check: Expression, verdicts: Mapping[str, Verdict]) -> tuple[Limit, ...]:
    """The limits of those checks without whose yes the expression does not hold; of two ways, those of the first.

    What many nodes have counted at the same time is room for one of them: it has to be taken, whatever the expression.
    """
    values = {name: verdict.passed for name, verdict in verdicts.items()}
    needed: set[str] = set()
    for name in reversed([name for name, verdict in verdicts.items() if verdict.limits and verdict.passed]):
        without = {**values, name: False}
        if evaluate(check, without):
            values = without
        else:
            needed.add(name)
    return tuple(limit for name, verdict in verdicts.items() if name in needed for limit in verdict.limits)


def _taken(result: Result, judged: Judged, spent: frozenset[Key]) -> tuple[Write, ...] | datetime | None:
    """What the checks of a chosen transition take for it, or when they can: None until this pass has been stored."""
    writes: list[Write] = []
    for instance in {each.name: each for each in judged.transition.checks}.values():
        take = judged.verdicts[instance.name].take
        taken = take() if take is not None else ()
        if isinstance(taken, datetime):
            return taken
        if any(write.target in spent for write in taken):
            return None
        writes += _author(result.node, result.profile, instance).heard(taken)
    return tuple(writes)


def _author(node: NodeRow, profile: str, instance: Instance[Any]) -> Author:
    return Author(node.key, profile, instance.name, instance.config)


def _pulled(instance: Instance[Trigger], given: TriggerInput) -> Pulled:
    try:
        return instance.plugin.pull(instance.config, given)
    except NotListed as off:
        if off.listing is Listing.WAITING:
            return Retry(str(off), given.node, only_stores=True)
        return Failed(str(off))
    except Exception as error:  # noqa: BLE001 - as above
        return Failed(f"{type(error).__name__}: {error}")


def _claim(result: Result, judged: Judged, enter: Chain) -> Claim | None:
    """What a transition needs besides its checks: the turn to work on the node, and room under its limits.

    `enter`: what is done in the state that it leads to, which the node then has to be had for.
    """
    entering = judged.transition.next == State.IN_MAINTENANCE
    wants = wanted_by((*judged.transition.trigger, *(enter if entering else ())))
    if not entering and not judged.limits and not wants:
        return None
    return Claim(
        node=result.node.key,
        owner=result.node.key,
        wants=wants | {Want.EXCLUSIVE} if entering or wants else frozenset(),
        limits=judged.limits,
        since=result.entry.transition.at,
        priority=node_priority(result.node),
        # A drain that has begun goes on, whoever else might come first by now.
        begun=Want.DRAIN in wants and result.profile in started(result.node),
        slot=slot_of(result, judged),
    )


def slot_of(result: Result, judged: Judged) -> str:
    """Names a wish: one profile may have several ways into the same state."""
    return f"profile {result.profile}, transition {judged.number + 1} to {judged.transition.next}"


def wanted_by(chain: Chain) -> frozenset[Want]:
    """What the triggers of a chain do to the node."""
    return frozenset(want for instance in chain for want in instance.plugin.wants(instance.config))


def standing_claim(node: NodeRow, profile: str, entry: Entry, enter: Chain) -> Claim:
    """A profile in maintenance works on the node, and has it cordoned if it made it so or is about to."""
    return Claim(
        node=node.key,
        owner=node.key,
        wants=frozenset({Want.EXCLUSIVE})
        | wanted_by(enter)
        | ({Want.CORDON} if is_cordoned_by_us(node) else frozenset()),
        since=entry.transition.at,
        priority=node_priority(node),
        begun=True,
        slot=f"profile {profile}",
    )


def is_cordoned_by_us(node: NodeRow) -> bool:
    stood = ledger(node)
    return stood is not None and SURFACE in stood.by


def _failed(result: Result, failure: str, error: str) -> Result:
    return msgspec.structs.replace(result, failure=failure, error=error)


def stored_statements(result: Result) -> tuple[Statement, ...]:
    """What is told of once it is stored: the work of triggers, and the move that they were pulled for."""
    key = result.node.key
    place = (("profile", result.profile), ("node", key.name))
    pulled = tuple(Say("Executed trigger instance", (("instance", name), *place)) for name in result.pulled)
    return (*pulled, *_moved(result)) if result.moved else pulled


def _moved(result: Result) -> tuple[Statement, ...]:
    key = result.node.key
    note = f"The node is now in the {result.next} state caused by profile {result.profile}"
    fields = (("state", result.next), ("profile", result.profile), ("node", key.name))
    return (
        Tell(key, "ChangedMaintenanceState", "ChangeMaintenanceState", note, REPORTER),
        Say("Moved node to next state", fields),
    )


def failure_statements(result: Result) -> tuple[Statement, ...]:
    key = result.node.key
    note = f"{result.failure} for profile {result.profile}: Will stay in {result.state} state"
    fields = [("state", result.state), ("profile", result.profile), ("node", key.name), ("error", result.error)]
    verdicts = {name: verdict for judged in result.judged for name, verdict in judged.verdicts.items()}
    fields += [(f"error of {name}", verdict.error) for name, verdict in verdicts.items() if verdict.error]
    # Told once for as long as it fails, but counted each time that the outside world is asked in vain.
    occasion = result.times + sum(verdict.times for verdict in verdicts.values())
    return (
        Tell(key, "ChangeMaintenanceStateFailed", "ChangeMaintenanceState", note, REPORTER),
        Measure(FAILURES, (("profile", result.profile),), occasion=occasion),
        Say(result.failure, tuple(fields), "error"),
    )
