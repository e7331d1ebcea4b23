"""Which answers of 429 ask for less traffic, and which are about one object."""

from __future__ import annotations

# How an API server begins what an admission webhook said, whatever code the webhook gave.
WEBHOOK = 'admission webhook "'


def is_throttling(message: str, cause: str, retry_after: float | None) -> bool:
    """Whether a 429 comes from the server's own limits (API Priority and Fairness), which all requests have to obey.

    Such an answer has a Retry-After and no cause. A disruption budget names itself as the cause. An admission webhook
    (KubeVirt answers 429 while it migrates a virtual machine) refuses this one request, and no other need wait for it.
    """
    return retry_after is not None and not cause and not message.startswith(WEBHOOK)
