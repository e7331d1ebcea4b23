"""The act of the demo in which a package is rolled back, without an operator: how it shows the Skyhook's status."""

from __future__ import annotations

from haulout.demo.waves import NAME, PACKAGE, SKYHOOK, Waves
from haulout.embedded import World


async def test_played_again_it_does_not_end_with_the_halt_of_the_last_time() -> None:
    world = World()
    world.add_nodes(2, 1, {})
    waves = Waves(world)
    waves.begin()
    made = world.server.get(SKYHOOK, "", NAME)
    assert made is not None
    halt = {
        "generation": made["metadata"]["generation"],
        "wave": 2,
        "message": "halted: two failed",
        "rollback": "done",
    }
    world.server.patch(SKYHOOK, "", NAME, {"status": {"halt": halt}}, subresource="status")
    waves.picture(1.0)
    assert waves.is_over
    assert f"package {PACKAGE} 1.1.0: wave 2 failed its gate: two failed;" in waves.summary
    waves.begin()
    waves.picture(0.0)
    assert not waves.is_over
