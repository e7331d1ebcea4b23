"""Distinguishes answers of 429 that ask for fewer requests from those that refuse a single request."""

from __future__ import annotations

# The beginning of the API server's message when an admission webhook refuses a request, with any code.
WEBHOOK = 'admission webhook "'


def is_throttling(message: str, cause: str, retry_after: float | None) -> bool:
    """Whether a 429 comes from the server's own limits (API Priority and Fairness), which all requests have to obey.

    Such an answer has a Retry-After and no cause. A disruption budget names itself as the cause. An admission webhook
    (KubeVirt answers 429 while it migrates a virtual machine) refuses this one request, so others need not wait.
    """
    return retry_after is not None and not cause and not message.startswith(WEBHOOK)
