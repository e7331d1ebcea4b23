"""shiftOpen: passes while Acme's shift calendar says that a shift is open."""

from __future__ import annotations

from haulout.plugins.api import CheckInput, Config, Verdict, check


class ShiftOpen(Config, frozen=True, kw_only=True):
    """The settings of a `shiftOpen` check. `url`: the address of the calendar."""

    url: str


@check("shiftOpen", ShiftOpen, probe="acme_haulout.calendar:open_shift")
def shift_open(config: ShiftOpen, inputs: CheckInput) -> Verdict:
    fact = inputs.ask(config.url)
    if fact.error:
        return Verdict(passed=False, error=fact.error, times=fact.failures)
    if fact.value is None:
        return Verdict(passed=False, known=False)
    return Verdict(passed=fact.value == "open", info={"shift": fact.value})
