"""Edit rates (K9), without the rest of the kernel: a subject that edits one object over and over has to wait."""

from __future__ import annotations

from haulout.cluster.store import Store
from haulout.core.decision import USUAL_EDITS
from haulout.kernel.edit_rates import RESTLESS_FOR, EditRates
from tests.build.rows import at, node
from tests.unit.kernel.wakes import A, B, subject


def edited(times: int, rates: EditRates, name: str = "a") -> EditRates:
    for number in range(times):
        rates.record(subject(name), A, "", at(number / 100))
    return rates


def test_the_twentieth_edit_within_ten_seconds_is_the_last() -> None:
    rates = edited(USUAL_EDITS - 1, EditRates(Store(), {}))
    assert rates.restless_until(subject(), A, "", at(1)) is None
    rates.record(subject(), A, "", at(1))
    assert rates.restless_until(subject(), A, "", at(1)) == at(0) + RESTLESS_FOR
    assert rates.restless_until(subject(), A, "", at(10)) is None


def test_other_subjects_other_objects_and_their_status_are_not_slowed() -> None:
    rates = edited(USUAL_EDITS, EditRates(Store(), {}))
    assert rates.restless_until(subject(decider="two"), A, "", at(1)) is None
    assert rates.restless_until(subject(), B, "", at(1)) is None
    assert rates.restless_until(subject(), A, "status", at(1)) is None


def test_a_change_of_the_subjects_own_object_is_a_reason_to_edit_another_again() -> None:
    store = Store()
    store.put(node("b"))
    rates = edited(USUAL_EDITS, EditRates(store, {}), "b")
    assert rates.restless_until(subject("b"), A, "", at(1)) is not None
    store.put(node("b", version=2, x="1"))
    assert rates.restless_until(subject("b"), A, "", at(1)) is None


def test_old_edits_are_forgotten() -> None:
    rates = edited(3, EditRates(Store(), {}))
    rates.record(subject(), B, "", at(5))
    rates.forget_old(at(11))
    assert rates.size() == 1
    rates.forget(subject())
    assert rates.size() == 0


def test_a_decider_that_says_so_may_edit_more_often() -> None:
    most = {subject().decider: USUAL_EDITS + 1}
    rates = edited(USUAL_EDITS, EditRates(Store(), most))
    assert rates.restless_until(subject(), A, "", at(1)) is None
    rates.record(subject(), A, "", at(1))
    assert rates.restless_until(subject(), A, "", at(1)) == at(0) + RESTLESS_FOR
