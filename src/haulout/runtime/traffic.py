"""Counts requests by host, and forgets a host once no transport is connected with it any more."""

from __future__ import annotations

from collections import Counter
from urllib.parse import urlsplit

from haulout.kube.http import Answered
from haulout.runtime.metrics import Metrics

REQUESTS = "rest_client_requests_total"


class Traffic:
    """The requests of all transports of a process, under the metric that dashboards of the originals know."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        # How many transports lead to each host. The authors of kubeconfigs choose the hosts, and may choose the same
        # one often.
        self._open: Counter[str] = Counter()

    def opened(self, server: str) -> Answered:
        """Return what one more transport to this server reports its answers to."""
        self._open[urlsplit(server).netloc] += 1
        return self._answered

    def closed(self, server: str) -> None:
        host = urlsplit(server).netloc
        self._open[host] -= 1
        if self._open[host] <= 0:
            del self._open[host]
            self._metrics.forget(REQUESTS, host=host)

    def _answered(self, host: str, method: str, code: str) -> None:
        if host in self._open:
            self._metrics.add(REQUESTS, (("code", code), ("host", host), ("method", method)))
