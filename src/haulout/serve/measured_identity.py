"""Exports when the webhooks' certificate expires as a metric, for an alert before the API server refuses it."""

from __future__ import annotations

from haulout.runtime.metrics import Metrics
from haulout.serve.certificate_end import certificate_end
from haulout.serve.tls import Pair, TakesCertificates

ENDS_AT = "haulout_webhook_certificate_end_timestamp_seconds"


class MeasuredIdentity:
    """A wrapper of a server's certificate that exports when it expires as a metric."""

    def __init__(self, identity: TakesCertificates, metrics: Metrics) -> None:
        self._identity = identity
        self._metrics = metrics

    @property
    def ready(self) -> bool:
        return self._identity.ready

    @property
    def certificate(self) -> bytes:
        return self._identity.certificate

    def use(self, pair: Pair) -> bool:
        is_news = self._identity.use(pair)
        if is_news:
            self._metrics.gauge(ENDS_AT, certificate_end(pair.certificate).timestamp())
        return is_news
