"""The cordon ledger: cordoned from the first claim to the last, and afterwards as a person had set it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from haulout.cluster.rows import NodeRow
from haulout.core.action import Annotate, Cordon, Edit, SetTaint
from haulout.core.cordon import ANNOTATION, TAINT, Ledger, claim, ledger, lifted_by_hand, release
from haulout.core.edit import apply_all
from haulout.model.meta import FIELD_MANAGER
from tests.build.examples import examples
from tests.build.rows import node
from tests.build.walk import Move, Walk, tapes

# Whose claims their own marks on the node show, and whose the ledger has to remember.
SHOWN, HIDDEN = ("notify", "packages"), ("profiles", "drain")
SURFACES = (*SHOWN, *HIDDEN)


def patched(row: NodeRow, edits: Iterable[Edit], manager: str = FIELD_MANAGER) -> NodeRow:
    """Return the node after a patch. Like the API server, note the client that cordons it."""
    changed = apply_all(row, edits)
    assert isinstance(changed, NodeRow)
    if changed.unschedulable == row.unschedulable:
        return changed
    return msgspec.structs.replace(changed, cordon_managers=(manager,) if changed.unschedulable else ())


def by_hand(row: NodeRow, *, cordoned: bool) -> NodeRow:
    return patched(row, [Cordon(row.key, unschedulable=cordoned)], "kubectl")


class Book(Walk):
    """A walk with any number of holders in any order. A restart forgets everything except the node itself."""

    def __init__(self, tape: bytes) -> None:
        super().__init__(tape)
        # As the last person left the node.
        self.wanted = self.tape.pick((False, True))
        self.node = by_hand(node("a"), cordoned=self.wanted)

    def claims(self) -> set[str]:
        """Return the claims, read from the node alone, as after a restart."""
        written = ledger(self.node)
        return self.visible() | {*(written.by if written else ())}

    def visible(self) -> set[str]:
        return {surface for surface in SHOWN if surface in self.node.labels}

    def moves(self) -> Sequence[Move]:
        people = [self.person_cordons, self.person_uncordons]
        return [self.decide_and_die, self.claim, self.claim, self.release, self.vanish, *people]

    def edits_of_claim(self, surface: str) -> tuple[Edit, ...]:
        return claim(self.node, surface, is_visible=surface in SHOWN, is_held=bool(self.visible()))

    def edits_of_release(self, surface: str) -> tuple[Edit, ...]:
        return release(self.node, surface, others=bool(self.visible() - {surface}))

    def decide_and_die(self) -> None:
        """Decide and restart without writing, which must change nothing."""
        surface, known = self.tape.pick(SURFACES), msgspec.structs.replace(self.node)
        self.edits_of_claim(surface)
        self.edits_of_release(surface)
        assert self.node == known

    def claim(self) -> None:
        surface = self.tape.pick(SURFACES)
        self.node = patched(self.node, self.edits_of_claim(surface))
        if surface in SHOWN:
            self.node = msgspec.structs.replace(self.node, labels={**self.node.labels, surface: ""})
        assert self.node.unschedulable
        assert self.edits_of_claim(surface) == (), "a claim that stands is written again"

    def release(self) -> None:
        surface = self.tape.pick(SURFACES)
        if surface in self.claims():
            self.end(surface)

    def end(self, surface: str) -> None:
        known = self.node
        self.node = patched(known, self.edits_of_release(surface))
        self.forget(surface)
        if self.claims():
            assert self.node.unschedulable == known.unschedulable, "the last claim has not gone yet"
        else:
            assert self.node.unschedulable == self.wanted, "not as the last person left it"
            assert ANNOTATION not in self.node.annotations

    def forget(self, surface: str) -> None:
        kept = {mark: value for mark, value in self.node.labels.items() if mark != surface}
        self.node = msgspec.structs.replace(self.node, labels=kept)

    def vanish(self) -> None:
        """Take the marks of a claim away without its release, as when its object is restored from an older backup."""
        self.forget(self.tape.pick(SHOWN))

    def person_cordons(self) -> None:
        # Where the node is cordoned already, the request changes nothing, and leaves no trace.
        if not self.node.unschedulable:
            self.wanted, self.node = True, by_hand(self.node, cordoned=True)

    def person_uncordons(self) -> None:
        self.wanted, self.node = False, by_hand(self.node, cordoned=False)

    def check(self) -> None:
        if self.claims():
            assert ledger(self.node) is not None
        assert lifted_by_hand(self.node) == (ledger(self.node) is not None and not self.node.unschedulable)

    def finish(self) -> None:
        # Whatever was left behind: the next claim that comes and goes puts the node right.
        self.claim()
        for surface in SURFACES:
            if surface in self.claims():
                self.end(surface)
        assert ANNOTATION not in self.node.annotations
        assert self.node.unschedulable == self.wanted


@settings(max_examples=examples(300), deadline=None, derandomize=True)
@given(tapes())
def test_after_the_last_claim_the_node_is_as_the_last_person_left_it(tape: bytes) -> None:
    Book(tape).go()


@given(st.permutations(SURFACES), st.permutations(SURFACES))
@settings(max_examples=examples(60), deadline=None, derandomize=True)
def test_a_node_that_a_person_had_cordoned_stays_cordoned_whoever_comes_and_goes(
    come: list[str], go: list[str]
) -> None:
    row = node("a", cordoned=True)
    written: list[Edit] = []
    for surface in come:
        edits = claim(row, surface, is_visible=False, is_held=False)
        row, written = patched(row, edits), [*written, *edits]
    for surface in go:
        edits = release(row, surface, others=False)
        row, written = patched(row, edits), [*written, *edits]
    assert not [edit for edit in written if isinstance(edit, Cordon)]
    assert row == node("a", cordoned=True)


def test_the_first_claim_cordons_and_writes_the_ledger_in_one_patch() -> None:
    row = node("a")
    assert claim(row, "profiles", is_visible=False, is_held=False) == (
        Annotate(row.key, ANNOTATION, '{"before":false,"by":["profiles"]}'),
        Cordon(row.key, unschedulable=True),
    )


def test_a_claim_that_its_own_marks_show_has_no_entry() -> None:
    row = node("a")
    assert claim(row, "notify", is_visible=True, is_held=False) == (
        Annotate(row.key, ANNOTATION, '{"before":false,"by":[]}'),
        Cordon(row.key, unschedulable=True),
    )


def test_a_person_who_uncordons_in_the_middle_is_cordoned_again_only_by_a_claim() -> None:
    row = patched(node("a"), claim(node("a"), "profiles", is_visible=False, is_held=False))
    lifted = by_hand(row, cordoned=False)
    assert lifted_by_hand(lifted)
    assert claim(lifted, "profiles", is_visible=False, is_held=False) == (Cordon(row.key, unschedulable=True),)
    assert patched(lifted, release(lifted, "profiles", others=False)) == node("a")


def test_a_person_who_uncordons_what_they_had_cordoned_is_not_overruled() -> None:
    row = patched(
        node("a", cordoned=True), claim(node("a", cordoned=True), "profiles", is_visible=False, is_held=False)
    )
    lifted = by_hand(row, cordoned=False)
    assert patched(lifted, release(lifted, "profiles", others=False)) == node("a")


def test_who_insists_uncordons_also_what_a_person_had_cordoned() -> None:
    row = patched(node("a", cordoned=True), claim(node("a", cordoned=True), "nm", is_visible=True, is_held=False))
    assert patched(row, release(row, "nm", others=False, restore=False)) == node("a")


def test_who_insists_waits_for_the_others_all_the_same() -> None:
    row = patched(
        node("a", cordoned=True), claim(node("a", cordoned=True), "profiles", is_visible=False, is_held=False)
    )
    assert release(row, "nm", others=False, restore=False) == ()
    assert release(row, "nm", others=True, restore=False) == ()


def test_without_a_ledger_there_is_nothing_to_undo() -> None:
    assert release(node("a", cordoned=True), "profiles", others=False) == ()


@pytest.mark.parametrize(
    "text", ["", "{", "null", "7", '"x"', '{"before":"yes"}', '{"by":"profiles"}', '{"by":[1]}', "[" * 5000]
)
def test_a_ledger_that_cannot_be_read_uncordons_nothing(text: str) -> None:
    row = node("a", cordoned=True, annotations={ANNOTATION: text})
    assert ledger(row) is None
    after = patched(row, release(row, "profiles", others=False))
    assert after == node("a", cordoned=True)
    again = patched(row, claim(row, "profiles", is_visible=False, is_held=False))
    assert ledger(again) == Ledger(before=True, by=("profiles",))


def test_what_others_wrote_into_the_ledger_is_read_over() -> None:
    row = node("a", cordoned=True, annotations={ANNOTATION: '{"before":true,"by":["x"],"mine":{"a":"b"}}'})
    assert ledger(row) == Ledger(before=True, by=("x",))


TAINTED = (TAINT,)


@pytest.mark.parametrize("restore", [True, False])
def test_a_taint_of_ours_goes_with_the_cordon_whoever_lifts_it(restore: bool) -> None:
    both = patched(node("a"), claim(node("a"), "profiles", is_visible=False, is_held=False))
    both = patched(
        both, (*claim(both, "nm", is_visible=True, is_held=True, taint=True), SetTaint(both.key, TAINT, present=True))
    )
    assert claim(both, "nm", is_visible=True, is_held=True, taint=True) == ()
    left = patched(both, release(both, "nm", others=False, restore=restore))
    assert (left.unschedulable, left.taints) == (True, TAINTED), "it stays as long as the cordon does"
    assert patched(left, release(left, "profiles", others=False)) == node("a")
    lifted = by_hand(left, cordoned=False)
    assert patched(lifted, release(lifted, "profiles", others=False)) == node("a")


def test_a_taint_of_ours_stays_with_the_cordon_of_a_person() -> None:
    row = patched(
        node("a", cordoned=True), claim(node("a", cordoned=True), "nm", is_visible=True, is_held=False, taint=True)
    )
    row = patched(row, [SetTaint(row.key, TAINT, present=True)])
    after = patched(row, release(row, "nm", others=False))
    assert (after.unschedulable, after.taints) == (True, TAINTED)


def test_a_taint_that_was_there_is_for_its_controller_to_lift() -> None:
    row = msgspec.structs.replace(node("a"), taints=TAINTED)
    row = patched(row, claim(row, "nm", is_visible=True, is_held=False, taint=True))
    assert ledger(row) == Ledger(before=False)
    assert patched(row, release(row, "nm", others=False)).taints == TAINTED


def test_labels_are_remembered_as_the_first_claim_found_them() -> None:
    row = patched(
        node("a", labels={"x": "1"}),
        claim(node("a", labels={"x": "1"}), "s", is_visible=True, is_held=False, labels=("x", "y")),
    )
    assert ledger(row) == Ledger(before=False, labels={"x": "1", "y": None})
    changed = msgspec.structs.replace(row, labels={"x": "2"})
    assert claim(changed, "s", is_visible=True, is_held=True, labels=("x",)) == ()


def test_a_surface_that_lets_go_leaves_what_another_has_to_put_back() -> None:
    held = patched(
        node("a", labels={"keep": "person"}),
        claim(node("a", labels={"keep": "person"}), "x", is_visible=True, is_held=False, labels=["keep"]),
    )
    left = patched(held, release(held, "y", others=True))
    assert ledger(left) == Ledger(labels={"keep": "person"})
    gone = patched(held, release(held, "x", others=True, labels=["keep"]))
    assert ledger(gone) == Ledger()
