"""Prints a rolling maintenance with mishaps line by line. The output must not depend on the order of a hash table."""

from __future__ import annotations

from random import Random

from haulout.cluster.key import node_key
from haulout.core.arbiter import Rules, arbiter
from haulout.kernel.requests import Telling
from tests.build.desk import FATES, Cluster, Desk
from tests.build.rows import node
from tests.build.toy import roll

NODES = 24


def main() -> None:
    random = Random(7)
    deciders = (roll(5, "one", zone_most=2), roll(4, "two"), arbiter(Rules(("one", "two"))))
    names = [f"n{number:02}" for number in range(NODES)]
    random.shuffle(names)
    desk = Desk(*deciders, world=Cluster(*(node(name, zone=f"z{int(name[1:]) % 3}", want="yes") for name in names)))
    desk.begin()
    for _ in range(300):
        happening = random.randrange(6)
        if happening == 0:
            desk.world.label(node_key(random.choice(names)), note=str(random.randrange(3)), state=None)
        elif happening == 1:
            desk.wait(random.choice((0.001, 0.5, 3.0, 6.0)))
        elif happening == 2:
            desk.watch(random.randrange(1, 4))
        elif desk.tray:
            desk.meet(random.choice(desk.tray), random.choice(("200", "200", "200", *FATES)))
    desk.settle()
    for instant, body in desk.handed_out:
        print(instant.isoformat(), body)
    for said in desk.said:
        print(said.tell if isinstance(said, Telling) else said)


if __name__ == "__main__":
    main()
