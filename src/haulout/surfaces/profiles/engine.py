"""One pass over one node: its profiles in the order of the label, each through the stages of a pass, on one draft."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial

import msgspec

from haulout.cluster.key import Key
from haulout.cluster.rows import NodeRow
from haulout.cluster.view import View
from haulout.core.edit import between
from haulout.core.holds import Claim
from haulout.surfaces.profiles.notifications import SHORTEST_FOR, Situation, recall
from haulout.surfaces.profiles.passes.entry import enter, settle
from haulout.surfaces.profiles.passes.judgement import judge
from haulout.surfaces.profiles.passes.notification import notify
from haulout.surfaces.profiles.passes.result import (
    AnyProfile,
    AnyStage,
    Chain,
    Config,
    Mode,
    ProfilePass,
    Result,
    fail,
)
from haulout.surfaces.profiles.passes.transition import FAILED as TRIGGER_FAILED
from haulout.surfaces.profiles.passes.transition import move
from haulout.surfaces.profiles.refusals import Refused
from haulout.surfaces.profiles.wire import NEVER, Entry, MaintenanceData, Stamp, State, known_state

# The stages of a pass, in order. Each takes the result of the one before. After a result with `ended`, no stage
# follows.
STAGES: tuple[Callable[[ProfilePass, Result], Result], ...] = (enter, notify, settle, judge, move)
NONE_SPENT: frozenset[Key] = frozenset()


class Pass(msgspec.Struct, frozen=True):
    """A pass over one node.

    `granted`: answers whether a claim is granted. If it always says no, the pass only shows what is claimed.
    `withheld`: the profiles whose changes the API server refuses, or which wait until another is tried alone.
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
        """Return the draft, the data and the results after all profiles.

        A profile that fails changes neither draft nor data.
        """
        entries, sent = dict(data.profiles), dict(data.notifications)
        stored, results = node, list[Result]()
        for name in names:
            if name not in self.config.profiles:
                continue
            profile, entry = self.config.profiles[name], entries[name]
            stage = _stage(profile, entry.current)
            if stage is None:
                result = _in_unknown_state(name, node, entry)
            else:
                result = self._profile(profile, stage, node, stored, entries, sent, names, results)
            if name in self.withheld:
                result = _withheld(result, node, entry, stage.enter if stage else (), self.withheld[name])
            node, entries[name] = result.node, result.entry
            sent |= result.sent
            if result.moved:
                new_stage = _stage(profile, result.next)
                # The notifications of the new state count as never sent. That is stored with the next write.
                if new_stage is not None and new_stage.notify:
                    sent = {**{each.name: NEVER for each in new_stage.notify}, **sent}
            results.append(result)
        return node, MaintenanceData(entries, sent), results

    def _profile(
        self,
        profile: AnyProfile,
        stage: AnyStage,
        node: NodeRow,
        stored: NodeRow,
        entries: Mapping[str, Entry],
        sent: Mapping[str, Stamp],
        names: tuple[str, ...],
        results: list[Result],
    ) -> Result:
        """Run the stages for one profile. `results`: those of the profiles before it."""
        entry = entries[profile.name]
        busy = self._is_busy(entries, names)
        notice: Situation | None = None
        if stage.notify:
            notice = Situation(
                view=self.view,
                now=self.now,
                stored=stored,
                node=node,
                profile=profile.name,
                entry=entry,
                last=max(entries, key=lambda known: entries[known].transition.at),
                sent=sent,
                in_maintenance=busy,
                pace_for=max(self.config.requeue, SHORTEST_FOR),
                others=partial(self._is_shared, {*names} - {profile.name}),
                under_way=frozenset(result.telling for result in results if result.waiting),
            )
            recall(stage.notify, notice)
        around = ProfilePass(
            profile=profile,
            stage=stage,
            entry=entry,
            config=self.config,
            view=self.view,
            now=self.now,
            mode=self.mode,
            granted=self.granted,
            notice=notice,
            busy=busy,
            spent=frozenset([write.target for result in results for write in result.writes]) if results else NONE_SPENT,
        )
        result = Result(profile.name, entry.current, entry.current, node, entry)
        for step in STAGES:
            result = step(around, result)
            if result.ended:
                break
        return result if result.node is node else msgspec.structs.replace(result, changes=between(node, result.node))

    def _is_busy(self, entries: Mapping[str, Entry], names: tuple[str, ...]) -> bool:
        """Whether a configured profile of the node is in maintenance."""
        for name, entry in entries.items():
            if entry.current == State.IN_MAINTENANCE and name in names and name in self.config.profiles:
                return True
        return False

    def _is_shared(self, profiles: set[str], instance: str) -> bool:
        """Whether one of these profiles uses the notification instance, in any of its states."""
        known = (self.config.profiles[name] for name in profiles if name in self.config.profiles)
        return any(each.name == instance for one in known for stage in one.stages.values() for each in stage.notify)


def _stage(profile: AnyProfile, name: str) -> AnyStage | None:
    """Return the configuration of a state of the profile; None if the state does not exist."""
    for state, stage in profile.stages.items():
        if state == name:
            return stage
    return None


def _in_unknown_state(profile: str, node: NodeRow, entry: Entry) -> Result:
    stuck = Result(profile, entry.current, entry.current, node, entry)
    try:
        known_state(entry.current)
    except ValueError as error:
        text = f"failed to create internal state from unknown label value: {error}"
        return fail(stuck, "Failed to apply current state", f"{text} (known: {', '.join(State)})")
    raise AssertionError(f"state {entry.current} has no stage in profile {profile}")


def _withheld(result: Result, node: NodeRow, entry: Entry, enter: Chain, refused: Refused | None) -> Result:
    """Return the result of a profile whose changes are withheld.

    The work of its triggers is left out, but the notifications that were delivered stay.
    """
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
    # Only the triggers of entering the state have run, not those of a transition.
    entered = entry.previous != entry.current and len(result.pulled) <= len(enter)
    prefix = result.failure or (f"Failed to enter state {result.state}" if entered else TRIGGER_FAILED)
    word = "instances" if result.pulled[1:] else "instance"
    error = f"Trigger {word} {', '.join(result.pulled)} failed: {refused.error}" if result.pulled else refused.error
    return fail(msgspec.structs.replace(stayed, times=refused.times), prefix, error)
