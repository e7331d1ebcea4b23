"""Certificates from files that another program writes: read again whenever they change."""

from __future__ import annotations

import asyncio
import itertools
import logging
import ssl
from pathlib import Path
from typing import Never

from haulout.runtime.files import WatchedFile
from haulout.runtime.metrics import Metrics
from haulout.serve.tls import Pair, TakesCertificates

log = logging.getLogger("haulout.certificates")

LOOK_EVERY = 1.0
# Not every file system changes a file's times with every write. Each time after this many looks the file is read.
CLOSELY_EVERY = 10


class MountedCertificate:
    """A server certificate in mounted files, followed while the server runs.

    Certificate and key are replaced one after the other. Until they fit, the last pair stays in use.
    `in_use`: whether a usable pair has been found.
    """

    def __init__(self, identity: TakesCertificates, certificate: Path, key: Path, metrics: Metrics) -> None:
        self._identity = identity
        self._metrics = metrics
        self._name = str(certificate)
        self._certificate: bytes | OSError = b""
        self._key: bytes | OSError = b""
        self._is_news = False
        self.in_use = False
        metrics.count("certwatcher_read_certificate_errors_total", 0)
        self._files = (WatchedFile(certificate, self._certificate_is), WatchedFile(key, self._key_is))

    async def run(self) -> Never:
        for looks in itertools.count(1):
            self.look(closely=looks % CLOSELY_EVERY == 0)
            await asyncio.sleep(LOOK_EVERY)
        raise AssertionError

    def look(self, *, closely: bool = False) -> None:
        for file in self._files:
            file.look(closely=closely)
        if self._is_news:
            self._is_news = False
            self._take()

    def _take(self) -> None:
        self._metrics.count("certwatcher_read_certificate_total")
        try:
            for content in (self._certificate, self._key):
                if isinstance(content, OSError):
                    raise content
            assert isinstance(self._certificate, bytes)
            assert isinstance(self._key, bytes)
            self._identity.use(Pair(self._certificate, self._key))
            self.in_use = True
        except (OSError, ValueError) as error:
            self._metrics.count("certwatcher_read_certificate_errors_total")
            problem = error.reason if isinstance(error, ssl.SSLError) else str(error)
            log.error("certificate cannot be used", extra={"file": self._name, "error": problem})
        else:
            log.info("certificate loaded", extra={"file": self._name})

    def _certificate_is(self, content: bytes | OSError) -> None:
        self._certificate, self._is_news = content, True

    def _key_is(self, content: bytes | OSError) -> None:
        self._key, self._is_news = content, True
