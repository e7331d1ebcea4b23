"""Objects that vanish without their finalizers: their nodes are released, or `explain` and `status` say what to do."""

from __future__ import annotations

import json

from haulout.core.act import NotPossible
from haulout.core.cordon import ANNOTATION
from haulout.core.declaration import Enabled
from haulout.embedded import NODES, Resource
from haulout.explain.fleet import Fleet, fleet_of
from haulout.surfaces.notify.surface import NOTIFY
from tests.build.all_surfaces import DEMO, NOTICE_TEXT, AllSurfaces
from tests.build.maintenances import MAINTENANCES
from tests.build.notices import HOME, NOTICES, options
from tests.build.skyhooks import SKYHOOKS

# Haulout does not return nodes: people do it.
WITHOUT_RETURNER = json.loads(NOTICE_TEXT)
del WITHOUT_RETURNER["operators"]["returner"]


LET_GO = "check that the work on it is over, then run: haulout let-go node/n0"
EXCLUDED = "remediation.medik8s.io/exclude-from-remediation"


def vanish(everything: AllSurfaces, resource: Resource, namespace: str, name: str) -> None:
    everything.world.objects.patch(resource, namespace, name, {"metadata": {"finalizers": None}})
    everything.world.objects.delete(resource, namespace, name)
    everything.run(100)


def status(everything: AllSurfaces) -> Fleet:
    declarations = [each.declaration for each in everything.enabled]
    return fleet_of(everything.kernel, declarations, (), "", everything.world.time.now())


def acts(everything: AllSurfaces) -> list[str]:
    return [cause.act for cause in status(everything).causes]


def until_cordoned(everything: AllSurfaces) -> None:
    for _ in range(40):
        everything.run(0.25)
        if everything.cordoned():
            return


def test_a_vanished_skyhook_gives_its_node_back() -> None:
    everything = AllSurfaces(count=1)
    everything.roll()
    until_cordoned(everything)
    assert everything.cordoned() == ["n0"]
    vanish(everything, SKYHOOKS, "", DEMO)
    assert (everything.cordoned(), everything.marks()) == ([], {})


def test_a_vanished_notice_gives_its_node_back() -> None:
    everything = AllSurfaces(count=1)
    everything.notice("n0")
    until_cordoned(everything)
    vanish(everything, NOTICES, HOME, "n0")
    assert everything.cordoned() == []


def test_without_a_returner_status_asks_for_the_node_of_a_vanished_notice() -> None:
    everything = AllSurfaces(count=1)
    notify = Enabled(NOTIFY, options(json.dumps(WITHOUT_RETURNER), alone=False))
    everything.enabled = (*everything.enabled[:-1], notify)
    everything.begin()
    everything.notice("n0")
    until_cordoned(everything)
    vanish(everything, NOTICES, HOME, "n0")
    assert everything.cordoned() == ["n0"]
    assert acts(everything) == everything.advice("n0") == [LET_GO]
    everything.let_go("n0")
    everything.run(5)
    assert (everything.cordoned(), everything.marks(), acts(everything), everything.advice("n0")) == ([], {}, [], [])


def test_a_person_may_uncordon_the_node_of_a_vanished_notice_and_the_ledger_goes() -> None:
    everything = AllSurfaces(count=1)
    notify = Enabled(NOTIFY, options(json.dumps(WITHOUT_RETURNER), alone=False))
    everything.enabled = (*everything.enabled[:-1], notify)
    everything.begin()
    everything.notice("n0")
    until_cordoned(everything)
    vanish(everything, NOTICES, HOME, "n0")
    everything.cordon("n0", cordoned=False)
    everything.run(5)
    assert (acts(everything), ANNOTATION in everything.node("n0")["metadata"].get("annotations", {})) == ([], False)


def test_status_asks_for_the_node_of_a_vanished_maintenance() -> None:
    everything = AllSurfaces(count=1)
    everything.maintain("n0")
    until_cordoned(everything)
    vanish(everything, MAINTENANCES, "", "n0")
    assert everything.cordoned() == ["n0"]
    assert acts(everything) == everything.advice("n0") == [LET_GO]
    everything.let_go("n0")
    everything.run(5)
    node = everything.node("n0")
    assert (everything.cordoned(), everything.marks(), acts(everything), everything.advice("n0")) == ([], {}, [], [])
    assert EXCLUDED not in node["metadata"]["labels"]


def test_the_taint_of_a_vanished_maintenance_is_named_after_a_person_has_uncordoned_the_node() -> None:
    everything = AllSurfaces(count=1)
    everything.maintain("n0")
    until_cordoned(everything)
    vanish(everything, MAINTENANCES, "", "n0")
    everything.cordon("n0", cordoned=False)
    everything.run(100)
    assert everything.advice("n0") == [LET_GO]
    everything.let_go("n0")
    everything.run(5)
    assert (everything.cordoned(), everything.marks(), everything.advice("n0")) == ([], {}, [])


def test_the_ledger_goes_when_a_person_ends_a_notice_by_uncordoning_its_node() -> None:
    everything = AllSurfaces(count=1)
    everything.notice("n0")
    until_cordoned(everything)
    everything.cordon("n0", cordoned=False)
    everything.run(100)
    assert ANNOTATION not in everything.node("n0")["metadata"].get("annotations", {})


def test_without_a_ledger_a_person_uncordons_the_node_of_a_vanished_skyhook() -> None:
    everything = AllSurfaces(count=1)
    everything.roll()
    until_cordoned(everything)
    everything.enabled, enabled = (), everything.enabled
    everything.begin()
    everything.world.change(NODES, "n0", {"metadata": {"annotations": {ANNOTATION: None}}})
    vanish(everything, SKYHOOKS, "", DEMO)
    everything.enabled = enabled
    everything.begin()
    everything.run(100)
    uncordon = "check that the work on it is over, then run: haulout uncordon n0"
    assert acts(everything) == everything.advice("n0") == [uncordon]
    everything.cordon("n0", cordoned=False)
    everything.run(5)
    assert (everything.cordoned(), everything.marks(), acts(everything), everything.advice("n0")) == ([], {}, [], [])


def test_nothing_is_let_go_while_a_notice_is_about_the_node() -> None:
    everything = AllSurfaces(count=1)
    everything.notice("n0")
    until_cordoned(everything)
    assert everything.let_go("n0") == NotPossible("node n0 is claimed: NotifyMaintenance fleet/n0 holds it")
