"""K8 for the claims of a rollout: they do not depend on what is granted, and a refusal never takes one away (decision 80)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from hypothesis import given, settings
from hypothesis import strategies as st

from haulout.cluster.key import Key, node_key
from haulout.core.holds import Grant, grant_key, hold_key
from haulout.core.reason import Reason
from haulout.surfaces.packages.skyhook import claims
from haulout.surfaces.packages.surface import DECIDERS
from haulout.surfaces.packages.wire import skyhook_key
from tests.build.examples import examples
from tests.build.honesty import ask
from tests.build.skyhooks import Skyhooks, pkg
from tests.scenario.test_packages_together import BUDGETS, NOOP, together

NODES, COUNT = 14, 3
DEMO = skyhook_key("demo")
ROLLOUT = next(decider for decider in DECIDERS if decider.name == claims.ROLLOUT)
GRANTED, NO_ROOM, REFUSED = "granted", "no-room", "budget-full"
Answers = Mapping[str, str]
NAMES = sorted(f"n{number}" for number in range(NODES))


@cache
def shut() -> Skyhooks:
    """Return a world in which a rollout has everything before it, as a budget gives it no node."""
    ops = together(NODES)
    body = {"apiVersion": "haulout.dev/v1alpha1", "kind": "NodeDisruptionBudget", "metadata": {"name": "b"}}
    ops.world.objects.create(BUDGETS, {**body, "spec": {"selector": {}, "maxUnavailable": 0}})
    return ops.run(5).make("demo", {"base": pkg(interrupt=NOOP)}, interruptionBudget={"count": COUNT}).run(10)


@cache
def holds() -> dict[str, Key]:
    found = ask(ROLLOUT, shut().kernel.store, DEMO, shut().world.time.now()).claims
    return {claim.node.name: hold_key(claims.ROLLOUT, claim) for claim in found}


def claimed(answers: Answers) -> list[str]:
    """Return the nodes that are claimed, in order, where the arbiter has given these answers and no other."""
    store = shut().kernel.store
    for name, hold in holds().items():
        key = grant_key(hold)
        store.erase(key)
        answer = answers.get(name)
        if answer is not None:
            reasons = () if answer == GRANTED else (Reason(answer, node_key(name)),)
            store.write(Grant(key=key, hold=hold, granted=answer == GRANTED, reasons=reasons))
    return [claim.node.name for claim in ask(ROLLOUT, store, DEMO, shut().world.time.now()).claims]


ANSWERS = st.dictionaries(st.sampled_from(NAMES), st.sampled_from([GRANTED, NO_ROOM, REFUSED]))


def test_every_node_is_claimed_where_all_are_refused() -> None:
    assert sorted(holds()) == NAMES


@settings(max_examples=examples(60), deadline=None)
@given(ANSWERS, st.sets(st.sampled_from(NAMES)))
def test_claims_do_not_depend_on_what_is_granted(answers: Answers, others: set[str]) -> None:
    """Whether a node is granted, has no room yet or has no answer makes no difference to the claims."""
    refused = {name: answer for name, answer in answers.items() if answer == REFUSED}
    turned = {name: GRANTED if name in others else NO_ROOM for name in answers} | refused
    assert claimed(answers) == claimed(turned) == claimed(refused)


@settings(max_examples=examples(60), deadline=None)
@given(ANSWERS, st.sets(st.sampled_from(NAMES)))
def test_a_refusal_adds_claims_and_takes_none_away(answers: Answers, others: set[str]) -> None:
    before, after = claimed(answers), claimed({**answers, **dict.fromkeys(others, REFUSED)})
    assert set(before) <= set(after)


@settings(max_examples=examples(60), deadline=None)
@given(st.sets(st.sampled_from(NAMES)))
def test_as_many_nodes_are_claimed_as_could_be_picked_and_a_few_more(refused: set[str]) -> None:
    found = claimed(dict.fromkeys(refused, REFUSED))
    assert found == NAMES[: len(found)]
    assert len(set(found) - refused) == min(COUNT + claims.SPARE, NODES - len(refused))
