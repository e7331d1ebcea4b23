"""aiohttp's connections to servers of others, which may be hostile."""

from __future__ import annotations

import functools
import re
from typing import Any, cast

import aiohttp
from aiohttp.client_proto import ResponseHandler

# The end of one answer's head and the beginning of the next answer. No JSON contains it.
_NEXT_ANSWER = re.compile(rb"\n\r?\nHTTP/1\.")
# More answers than any server sends at once.
MOST_ANSWERS = 16


class Receiver(ResponseHandler):
    """aiohttp's side of a connection to a foreign server, which ends if that sends many answers at once.

    aiohttp parses all that have arrived in one go, each for 30 us. A full buffer of interim answers (HTTP 100 to 199), or
    of empty ones, blocks the event loop for 80 ms.
    """

    def data_received(self, data: bytes) -> None:
        if len(_NEXT_ANSWER.findall(data)) > MOST_ANSWERS and self.transport is not None:
            self.transport.abort()
            return
        super().data_received(data)


class Connector(aiohttp.TCPConnector):
    """An aiohttp connector to servers that may be hostile."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        # There is no public way to choose the class.
        self._factory = functools.partial(cast("type[ResponseHandler]", Receiver), loop=self._loop)
