"""Counts requests by host, and removes the counts of a host that no transport is connected to any more."""

from __future__ import annotations

from collections import Counter
from urllib.parse import urlsplit

from haulout.kube.http import Answered
from haulout.runtime.metrics import Metrics

REQUESTS = "rest_client_requests_total"


class Traffic:
    """The count of requests of all transports, under the name of client-go's metric, which dashboards use."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        # How many transports lead to each host. Several kubeconfigs may name the same host.
        self._open: Counter[str] = Counter()

    def opened(self, server: str) -> Answered:
        """Count one more transport to a server. Return the function to which it reports its answers."""
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
