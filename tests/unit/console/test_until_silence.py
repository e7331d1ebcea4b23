"""Questions of a page to an API server that has gone."""

from __future__ import annotations

from typing import Any

import pytest

from haulout.acts.answers import Problem
from haulout.acts.prepare import Target
from haulout.console.acting import Acting
from haulout.console.callers import LOCAL, Caller, LocalDoor
from haulout.console.until_silence import ANSWER_WITHIN, UntilSilence
from haulout.kube.endpoint import Endpoint
from haulout.kube.errors import ConnectionFailed, RequestTimeout
from haulout.kube.transport import Reply
from haulout.serve.guard import User
from tests.build.clock import ManualClock
from tests.build.rows import START
from tests.unit.serve.test_guard import Reviews

HERE = Caller(User(), LOCAL)


class Gone(Reviews):
    """An API server that answers nothing. `within`: for how long each question has waited."""

    def __init__(self) -> None:
        super().__init__()
        self.within: list[float] = []

    async def request(self, method: str, path: str, **more: Any) -> Reply:
        self.within.append(more.get("timeout", 30.0))
        raise RequestTimeout("no answer")


async def test_after_one_question_without_an_answer_no_other_is_asked() -> None:
    gone = Gone()
    questions = UntilSilence(gone, lambda: False)
    with pytest.raises(RequestTimeout):
        await questions.request("GET", "/version", timeout=60)
    with pytest.raises(ConnectionFailed):
        await questions.request("GET", "/version")
    assert gone.within == [ANSWER_WITHIN]


async def test_an_api_server_that_is_known_to_be_silent_is_not_asked() -> None:
    gone, clock = Gone(), ManualClock(START)
    acting = Acting(gone, Endpoint(name="it", server="https://192.0.2.1"), clock, lambda: True)
    found = await acting.permissions(HERE)
    assert {each.allowed for each in found.values()} == {None}
    assert isinstance(await acting.offers(HERE, Target("Node", "", "a")), Problem)
    assert (await LocalDoor("s", gone, lambda: True).whoami()).user.username == ""
    assert gone.within == []


async def test_rights_that_no_answer_tells_about_are_unknown() -> None:
    gone, clock = Gone(), ManualClock(START)
    found = await Acting(gone, Endpoint(name="it", server="https://192.0.2.1"), clock).permissions(HERE)
    assert {each.allowed for each in found.values()} == {None}
    assert set(gone.within) == {ANSWER_WITHIN}
