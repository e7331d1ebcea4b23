"""Combines the credentials of an endpoint into the headers and the certificate of a request."""

from __future__ import annotations

from typing import assert_never

from haulout.base.clock import Clock
from haulout.kube.auth import (
    AuthProof,
    AuthSource,
    Certificate,
    FileToken,
    Fixed,
    Header,
    Renewed,
    basic,
    bearer,
    impersonation_headers,
)
from haulout.kube.endpoint import (
    Basic,
    ClientCertificate,
    Credential,
    Endpoint,
    ExecPlugin,
    Oidc,
    StaticToken,
    TokenFile,
)
from haulout.kube.exec_plugin import PluginRun
from haulout.kube.oidc import Refresh
from haulout.kube.tls import CertPair


class Login:
    """All credentials of one endpoint, as one source of proofs, with the headers of its impersonation."""

    def __init__(self, endpoint: Endpoint, clock: Clock) -> None:
        self._sources = [_source(credential, clock, endpoint.name) for credential in endpoint.credentials]
        self._impersonation = impersonation_headers(endpoint.impersonate) if endpoint.impersonate else ()
        self.interactive = any(source.interactive for source in self._sources)

    async def proof(self) -> AuthProof:
        headers: tuple[Header, ...] = self._impersonation
        certificate: CertPair | None = None
        for source in self._sources:
            part = await source.proof()
            headers += part.headers
            certificate = certificate or part.certificate
        return AuthProof(headers, certificate)

    def forget(self, proof: AuthProof) -> bool:
        # A list, because `any` over a generator would stop at the first source that answers True. The others would keep
        # credentials that were refused.
        answers = [source.forget(proof) for source in self._sources]
        return any(answers)

    async def close(self) -> None:
        for source in self._sources:
            await source.close()


def _source(credential: Credential, clock: Clock, where: str) -> AuthSource:
    match credential:
        case StaticToken(token):
            return Fixed(AuthProof((bearer(token.text, where),)))
        case Basic():
            return Fixed(AuthProof((basic(credential, where),)))
        case TokenFile():
            return FileToken(credential, clock, where)
        case ClientCertificate():
            return Certificate(credential, clock, where)
        case ExecPlugin():
            run = PluginRun(credential, where)
            return Renewed(run, clock, interactive=run.interactive)
        case Oidc():
            refresh = Refresh(credential, where)
            return Renewed(refresh, clock, first=refresh.initial_tokens(), again=refresh.possible)
        case _:
            assert_never(credential)
