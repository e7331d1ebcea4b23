"""Every reason that the running operator has is one that `explain` shows, which is another process and knows only what is stored."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from haulout.cluster.key import Key
from haulout.cluster.kinds import Kinds
from haulout.cluster.view import GRANT
from haulout.core.holds import Grant
from haulout.core.reason import Reason
from haulout.explain.kinds import kinds
from haulout.explain.node import Explanation, explain, explain_listed
from haulout.kernel.assemble import Assembly, assemble
from haulout.kernel.proofs import settle
from haulout.kernel.rooms import Subject
from haulout.plan.virtual import VirtualDriver
from tests.build.all_surfaces import AllSurfaces
from tests.build.workloads import budget, deployment

Seen = set[tuple[str, Key]]
# Reasons that `explain` may lack: docs/flaws.md says why.
ONLY_IN_MEMORY = {"pod-holds-up"}


def everything(*, shut: bool) -> AllSurfaces:
    """Four nodes that all surfaces want. `shut`: a PodDisruptionBudget lets none of them be emptied."""
    world = AllSurfaces(4)
    world.world.make(deployment("shut", replicas=4), budget("shut", minAvailable=4 if shut else 1))
    for name in ("n0", "n1"):
        world.maintain(name)
    for name in ("n1", "n2"):
        world.notice(name)
    for name in ("n0", "n3"):
        world.want_profile(name)
    world.roll()
    world.cordon("n2")
    return world


def of_operator(world: AllSurfaces) -> Seen:
    """Return the reasons of all decisions of the operator and of its arbiter, at this instant."""
    kernel, now = world.kernel, world.world.time.now()
    deciders = [decider for each in world.enabled for decider in each.declaration.deciders]
    subjects = [Subject(decider.name, key) for decider in deciders for key in kernel.store.keys("", decider.kind)]
    decided = [reason for subject in subjects for reason in kernel.loop.explain(subject, now).reasons]
    grants = [row for row in kernel.store.rows("", GRANT) if isinstance(row, Grant)]
    return {each for reason in (*decided, *(why for grant in grants for why in grant.reasons)) for each in _all(reason)}


def of_explain(world: AllSurfaces) -> Seen:
    """Return what `explain` shows of all nodes and of all objects that it can explain."""
    assembly = assemble(world.enabled, together=True)
    driver = VirtualDriver(assembly.kernel, world.world.objects, world.world.time, kinds=Kinds(assembly.kinds))
    for source in sorted(assembly.sources(), key=repr):
        driver.watch(source.kind, source.keep)
    settle(assembly.kernel, world.world.time.now())
    shown = [found for found in _explanations(world, assembly) if found is not None]
    return {each for found in shown for reason in found.reasons for each in _all(reason)}


def _explanations(world: AllSurfaces, assembly: Assembly) -> Iterator[Explanation | None]:
    kernel, now = assembly.kernel, world.world.time.now()
    declared = {each.declaration.name: each.declaration for each in assembly.enabled}
    for key in kernel.store.keys("", "Node"):
        yield explain(kernel, assembly.enabled, key, now)
    for surface, kind in {(name, kind.kind): (name, kind) for name, kind in kinds().values()}.values():
        objects = declared[surface].explains if surface in declared else {}
        for key in kernel.store.keys("", kind.kind) if kind.kind in objects else ():
            yield explain_listed(kernel, declared[surface], kind, key, now, assembly.enabled)


def _all(reason: Reason) -> Iterator[tuple[str, Key]]:
    yield reason.code, reason.subject
    for cause in reason.because:
        yield from _all(cause)


@pytest.mark.parametrize(
    ("shut", "codes"),
    [
        (False, {"package-running", "turn-taken", "budget-full", "ForeignMaintenance", "check-waits", "at-rest"}),
        (True, {"pdb-blocks", "pdb-strict", "budget-full", "unavailable", "NodeCordonedElsewhere", "not-wanted"}),
    ],
    ids=["nodes come and go", "nodes are stuck"],
)
def test_explain_shows_each_reason_of_the_operator(shut: bool, codes: set[str]) -> None:
    world, seen = everything(shut=shut), set[str]()
    for _ in range(8):
        world.run(5)
        world.driver.run(world.world.time.now())
        reasons = of_operator(world)
        seen |= {code for code, _ in reasons}
        lacking = {each for each in reasons - of_explain(world) if each[0] not in ONLY_IN_MEMORY}
        assert lacking == set()
    assert codes <= seen, "else this test would compare nothing"
