"""Whether it is an API server that answers."""

from __future__ import annotations

import msgspec

from haulout.kube.errors import ApiError, Forbidden, KubeError
from haulout.kube.transport import Transport


class _Versions(msgspec.Struct, frozen=True):
    versions: tuple[str, ...] = ()


async def is_api_server(transport: Transport, *, within: float) -> bool:
    """Whether an API server answers. A balancer without servers answers 404, which must not pass for "none"."""
    try:
        reply = await transport.request("GET", "/api", timeout=within)
    except ApiError as error:
        # An API server may deny us discovery. Its refusal still shows that it is one.
        return isinstance(error, Forbidden) and error.status.reason == "Forbidden"
    except KubeError:
        return False
    try:
        return "v1" in msgspec.json.decode(reply.body, type=_Versions).versions
    except msgspec.DecodeError:
        return False
