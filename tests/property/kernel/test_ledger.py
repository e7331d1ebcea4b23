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
from tests.build.examples import examples
from tests.build.rows import node
from tests.build.walk import Move, Walk, tapes

# Whose claims their own marks on the node show, and whose the ledger has to remember.
SHOWN, HIDDEN = ("notify", "packages"), ("profiles", "drain")
SURFACES = (*SHOWN, *HIDDEN)


def patched(row: NodeRow, edits: Iterable[Edit]) -> NodeRow:
    changed = apply_all(row, edits)
    assert isinstance(changed, NodeRow)
    return changed


class Book(Walk):
    """A walk with any number of holders in any order. A restart forgets everything except the node itself."""

    def __init__(self, tape: bytes) -> None:
        super().__init__(tape)
        self.node = node("a", cordoned=self.tape.pick((False, True)))
        # As the people left it when the first claim came; None: no claim stands.
        self.before: bool | None = None
        self.lifted = False

    def claims(self) -> set[str]:
        """Return the claims, read from the node alone, as after a restart."""
        written = ledger(self.node)
        marks = {surface for surface in SHOWN if surface in self.node.labels}
        return marks | {*(written.by if written else ())}

    def moves(self) -> Sequence[Move]:
        return [self.decide_and_die, self.claim, self.claim, self.release, self.person_cordons, self.person_uncordons]

    def edits_of_claim(self, surface: str) -> tuple[Edit, ...]:
        return claim(self.node, surface, is_visible=surface in SHOWN)

    def edits_of_release(self, surface: str) -> tuple[Edit, ...]:
        others = any(mark in self.node.labels for mark in SHOWN if mark != surface)
        return release(self.node, surface, others=others)

    def decide_and_die(self) -> None:
        """Decide and restart without writing, which must change nothing."""
        surface, known = self.tape.pick(SURFACES), msgspec.structs.replace(self.node)
        self.edits_of_claim(surface)
        self.edits_of_release(surface)
        assert self.node == known

    def claim(self) -> None:
        surface = self.tape.pick(SURFACES)
        if not self.claims():
            self.before, self.lifted = self.node.unschedulable, False
        self.node = patched(self.node, self.edits_of_claim(surface))
        self.lifted = False
        if surface in SHOWN:
            self.node = msgspec.structs.replace(self.node, labels={**self.node.labels, surface: ""})
        assert self.node.unschedulable
        assert self.edits_of_claim(surface) == (), "a claim that stands is written again"

    def release(self) -> None:
        surface = self.tape.pick(SURFACES)
        if surface not in self.claims():
            return
        known = self.node
        self.node = patched(known, self.edits_of_release(surface))
        kept = {mark: value for mark, value in self.node.labels.items() if mark != surface}
        self.node = msgspec.structs.replace(self.node, labels=kept)
        if self.claims():
            assert self.node.unschedulable == known.unschedulable, "the last claim has not gone yet"
        else:
            assert self.node.unschedulable == (bool(self.before) and not self.lifted), "not as it was before"
            assert ANNOTATION not in self.node.annotations
            self.before = None

    def person_cordons(self) -> None:
        self.node = msgspec.structs.replace(self.node, unschedulable=True)
        # A person who cordons a node again after uncordoning it wants the same as the claims.
        self.lifted = False

    def person_uncordons(self) -> None:
        self.lifted = bool(self.claims())
        self.node = msgspec.structs.replace(self.node, unschedulable=False)

    def check(self) -> None:
        standing = self.claims()
        assert (ledger(self.node) is not None) == bool(standing)
        assert self.node.unschedulable or not standing or self.lifted
        assert lifted_by_hand(self.node) == (bool(standing) and self.lifted)
        written = ledger(self.node)
        assert written is None or (written.before, {*written.by}) == (self.before, standing - {*SHOWN})

    def finish(self) -> None:
        for surface in SURFACES:
            if surface in self.claims():
                self.node = patched(self.node, self.edits_of_release(surface))
                self.node = msgspec.structs.replace(
                    self.node, labels={mark: "" for mark in self.node.labels if mark != surface}
                )
                self.check()
        assert ANNOTATION not in self.node.annotations


@settings(max_examples=examples(300), deadline=None, derandomize=True)
@given(tapes())
def test_the_last_claim_restores_what_a_person_had_set(tape: bytes) -> None:
    Book(tape).go()


@given(st.permutations(SURFACES), st.permutations(SURFACES))
@settings(max_examples=examples(60), deadline=None, derandomize=True)
def test_a_node_that_a_person_had_cordoned_stays_cordoned_whoever_comes_and_goes(
    come: list[str], go: list[str]
) -> None:
    row = node("a", cordoned=True)
    written: list[Edit] = []
    for surface in come:
        edits = claim(row, surface, is_visible=False)
        row, written = patched(row, edits), [*written, *edits]
    for surface in go:
        edits = release(row, surface, others=False)
        row, written = patched(row, edits), [*written, *edits]
    assert not [edit for edit in written if isinstance(edit, Cordon)]
    assert row == node("a", cordoned=True)


def test_the_first_claim_cordons_and_writes_the_ledger_in_one_patch() -> None:
    row = node("a")
    assert claim(row, "profiles", is_visible=False) == (
        Annotate(row.key, ANNOTATION, '{"before":false,"by":["profiles"]}'),
        Cordon(row.key, unschedulable=True),
    )


def test_a_claim_that_its_own_marks_show_has_no_entry() -> None:
    row = node("a")
    assert claim(row, "notify", is_visible=True) == (
        Annotate(row.key, ANNOTATION, '{"before":false,"by":[]}'),
        Cordon(row.key, unschedulable=True),
    )


def test_a_person_who_uncordons_in_the_middle_is_cordoned_again_only_by_a_claim() -> None:
    row = patched(node("a"), claim(node("a"), "profiles", is_visible=False))
    lifted = msgspec.structs.replace(row, unschedulable=False)
    assert lifted_by_hand(lifted)
    assert claim(lifted, "profiles", is_visible=False) == (Cordon(row.key, unschedulable=True),)
    assert patched(lifted, release(lifted, "profiles", others=False)) == node("a")


def test_a_person_who_uncordons_what_they_had_cordoned_is_not_overruled() -> None:
    row = patched(node("a", cordoned=True), claim(node("a", cordoned=True), "profiles", is_visible=False))
    lifted = msgspec.structs.replace(row, unschedulable=False)
    assert patched(lifted, release(lifted, "profiles", others=False)) == node("a")


def test_who_insists_uncordons_also_what_a_person_had_cordoned() -> None:
    row = patched(node("a", cordoned=True), claim(node("a", cordoned=True), "nm", is_visible=True))
    assert patched(row, release(row, "nm", others=False, restore=False)) == node("a")


def test_who_insists_waits_for_the_others_all_the_same() -> None:
    row = patched(node("a", cordoned=True), claim(node("a", cordoned=True), "profiles", is_visible=False))
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
    again = patched(row, claim(row, "profiles", is_visible=False))
    assert ledger(again) == Ledger(before=True, by=("profiles",))


def test_what_others_wrote_into_the_ledger_is_read_over() -> None:
    row = node("a", cordoned=True, annotations={ANNOTATION: '{"before":true,"by":["x"],"mine":{"a":"b"}}'})
    assert ledger(row) == Ledger(before=True, by=("x",))


TAINTED = (TAINT,)


@pytest.mark.parametrize("restore", [True, False])
def test_a_taint_of_ours_goes_with_the_cordon_whoever_lifts_it(restore: bool) -> None:
    both = patched(node("a"), claim(node("a"), "profiles", is_visible=False))
    both = patched(both, (*claim(both, "nm", is_visible=True, taint=True), SetTaint(both.key, TAINT, present=True)))
    assert claim(both, "nm", is_visible=True, taint=True) == ()
    left = patched(both, release(both, "nm", others=False, restore=restore))
    assert (left.unschedulable, left.taints) == (True, TAINTED), "it stays as long as the cordon does"
    assert patched(left, release(left, "profiles", others=False)) == node("a")
    lifted = msgspec.structs.replace(left, unschedulable=False)
    assert patched(lifted, release(lifted, "profiles", others=False)) == node("a")


def test_a_taint_of_ours_stays_with_the_cordon_of_a_person() -> None:
    row = patched(node("a", cordoned=True), claim(node("a", cordoned=True), "nm", is_visible=True, taint=True))
    row = patched(row, [SetTaint(row.key, TAINT, present=True)])
    after = patched(row, release(row, "nm", others=False))
    assert (after.unschedulable, after.taints) == (True, TAINTED)


def test_a_taint_that_was_there_is_for_its_controller_to_lift() -> None:
    row = msgspec.structs.replace(node("a"), taints=TAINTED)
    row = patched(row, claim(row, "nm", is_visible=True, taint=True))
    assert ledger(row) == Ledger(before=False)
    assert patched(row, release(row, "nm", others=False)).taints == TAINTED


def test_labels_are_remembered_as_the_first_claim_found_them() -> None:
    row = patched(
        node("a", labels={"x": "1"}), claim(node("a", labels={"x": "1"}), "s", is_visible=True, labels=("x", "y"))
    )
    assert ledger(row) == Ledger(before=False, labels={"x": "1", "y": None})
    changed = msgspec.structs.replace(row, labels={"x": "2"})
    assert claim(changed, "s", is_visible=True, labels=("x",)) == ()


def test_a_surface_that_lets_go_leaves_what_another_has_to_put_back() -> None:
    held = patched(
        node("a", labels={"keep": "person"}),
        claim(node("a", labels={"keep": "person"}), "x", is_visible=True, labels=["keep"]),
    )
    left = patched(held, release(held, "y", others=True))
    assert ledger(left) == Ledger(labels={"keep": "person"})
    gone = patched(held, release(held, "x", others=True, labels=["keep"]))
    assert ledger(gone) == Ledger()
