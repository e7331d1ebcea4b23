"""Credential sources: what they present, when they read again, and what they never show."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import os
import stat
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme
from aiohttp import web

from haulout.kube.auth import AuthProof, Fetched, Renewed, impersonation_headers
from haulout.kube.endpoint import (
    Basic,
    ClientCertificate,
    ClusterInfo,
    Credential,
    Endpoint,
    ExecPlugin,
    Impersonation,
    Oidc,
    Secret,
    StaticToken,
    TokenFile,
)
from haulout.kube.errors import ConfigInvalid, ConnectionFailed, TooLarge
from haulout.kube.exec_plugin import PluginRun
from haulout.kube.login import Login
from haulout.kube.tls import CertPair
from tests.build.clock import ManualClock
from tests.build.server import serve, server_context

START = datetime(2026, 1, 1, tzinfo=UTC)
V1 = "client.authentication.k8s.io/v1"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


def login(clock: ManualClock, *credentials: Credential, impersonate: Impersonation | None = None) -> Login:
    return Login(Endpoint(name="home", server="https://x", credentials=credentials, impersonate=impersonate), clock)


def token(proof: AuthProof) -> str:
    return dict(proof.headers)["Authorization"].removeprefix("Bearer ")


def after(clock: ManualClock, seconds: float) -> None:
    clock.move_to(clock.now() + timedelta(seconds=seconds))


def replace(path: Path, content: str) -> None:
    """Replace a file by a new one, with a later modification time however fast the test runs."""
    before = path.stat().st_mtime_ns if path.exists() else 0
    beside = path.with_suffix(".new")
    beside.write_text(content)
    os.utime(beside, ns=(before + 10**9, before + 10**9))
    beside.rename(path)


def overwrite_unseen(path: Path, content: str) -> None:
    """Change the content of a file without a change of its stat, as some network mounts show it."""
    before = path.stat()
    path.write_text(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


class TestFixed:
    async def test_token(self, clock: ManualClock) -> None:
        source = login(clock, StaticToken(Secret(" t\n")))
        proof = await source.proof()
        assert proof == AuthProof((("Authorization", "Bearer t"),))
        assert not source.forget(proof)

    async def test_basic(self, clock: ManualClock) -> None:
        proof = await login(clock, Basic("jane", Secret("a:b"))).proof()
        assert proof.headers == (("Authorization", f"Basic {base64.b64encode(b'jane:a:b').decode()}"),)

    async def test_anonymous(self, clock: ManualClock) -> None:
        assert await login(clock).proof() == AuthProof()

    @pytest.mark.parametrize(
        "credential",
        [
            pytest.param(StaticToken(Secret("hush\r\nX: y")), id="line-break"),
            pytest.param(StaticToken(Secret("hush hush")), id="space"),
            pytest.param(StaticToken(Secret(" ")), id="empty"),
            pytest.param(Basic("a:b", Secret("hush")), id="colon-in-username"),
        ],
    )
    def test_what_no_header_can_carry(self, clock: ManualClock, credential: Credential) -> None:
        with pytest.raises(ConfigInvalid, match=r"^home: the ") as caught:
            login(clock, credential)
        assert "hush" not in str(caught.value)


class TestTokenFile:
    async def test_is_read_again_when_it_changed(self, clock: ManualClock, tmp_path: Path) -> None:
        path = tmp_path / "token"
        replace(path, "one\n")
        source = login(clock, TokenFile(path))
        assert token(await source.proof()) == "one"
        replace(path, "two\n")
        assert token(await source.proof()) == "two"

    async def test_is_read_again_each_minute(self, clock: ManualClock, tmp_path: Path) -> None:
        path = tmp_path / "token"
        replace(path, "one")
        source = login(clock, TokenFile(path))
        await source.proof()
        overwrite_unseen(path, "two")
        after(clock, 59)
        assert token(await source.proof()) == "one"
        after(clock, 1)
        assert token(await source.proof()) == "two"

    async def test_refused_is_read_again_at_once(self, clock: ManualClock, tmp_path: Path) -> None:
        path = tmp_path / "token"
        replace(path, "one")
        source = login(clock, TokenFile(path))
        proof = await source.proof()
        assert not source.forget(proof)
        overwrite_unseen(path, "two")
        assert source.forget(proof)
        assert token(await source.proof()) == "two"

    async def test_half_way_through_a_replacement_the_last_one_counts(self, clock: ManualClock, tmp_path: Path) -> None:
        path = tmp_path / "token"
        replace(path, "one")
        source = login(clock, TokenFile(path))
        await source.proof()
        replace(path, "")
        assert token(await source.proof()) == "one"
        path.unlink()
        assert token(await source.proof()) == "one"

    async def test_missing(self, clock: ManualClock, tmp_path: Path) -> None:
        source = login(clock, TokenFile(tmp_path / "none"))
        with pytest.raises(ConfigInvalid, match=r"^home: .*/none cannot be read: No such file or directory$"):
            await source.proof()

    async def test_empty(self, clock: ManualClock, tmp_path: Path) -> None:
        (tmp_path / "token").touch()
        with pytest.raises(ConfigInvalid, match=r"^home: .*/token is empty$"):
            await login(clock, TokenFile(tmp_path / "token")).proof()

    async def test_the_token_beside_it_counts_until_it_is_there(self, clock: ManualClock, tmp_path: Path) -> None:
        path = tmp_path / "token"
        source = login(clock, TokenFile(path, Secret("inline")))
        assert token(await source.proof()) == "inline"
        replace(path, "file")
        assert token(await source.proof()) == "file"


class TestCertificate:
    async def test_data(self, clock: ManualClock) -> None:
        proof = await login(clock, ClientCertificate(b"cert", Secret("key"))).proof()
        assert proof == AuthProof(certificate=CertPair(b"cert", b"key"))

    async def test_files_are_read_again_when_they_changed(self, clock: ManualClock, tmp_path: Path) -> None:
        certificate, key = tmp_path / "c", tmp_path / "k"
        replace(certificate, "c1")
        replace(key, "k1")
        source = login(clock, ClientCertificate(certificate, key))
        assert (await source.proof()).certificate == CertPair(b"c1", b"k1")
        replace(certificate, "c2")
        replace(key, "k2")
        assert (await source.proof()).certificate == CertPair(b"c2", b"k2")

    async def test_goes_together_with_a_token(self, clock: ManualClock) -> None:
        source = login(clock, StaticToken(Secret("t")), ClientCertificate(b"c", Secret("k")))
        assert await source.proof() == AuthProof((("Authorization", "Bearer t"),), CertPair(b"c", b"k"))


class TestImpersonation:
    def test_headers(self) -> None:
        extra = (("example.org/Tëam%", ("a", "b")),)
        assert impersonation_headers(Impersonation("jane doe", ("g", "h"), "u-1", extra)) == (
            ("Impersonate-User", "jane doe"),
            ("Impersonate-Uid", "u-1"),
            ("Impersonate-Group", "g"),
            ("Impersonate-Group", "h"),
            ("Impersonate-Extra-example.org%2FT%C3%ABam%25", "a"),
            ("Impersonate-Extra-example.org%2FT%C3%ABam%25", "b"),
        )

    def test_line_breaks_are_refused(self) -> None:
        with pytest.raises(ConfigInvalid, match="Impersonate-Group holds characters"):
            impersonation_headers(Impersonation("jane", ("g\r\nX: y",)))

    async def test_stands_beside_the_credential(self, clock: ManualClock) -> None:
        source = login(clock, StaticToken(Secret("t")), impersonate=Impersonation("jane"))
        assert (await source.proof()).headers == (("Impersonate-User", "jane"), ("Authorization", "Bearer t"))


class Fetcher:
    """A source of numbered tokens. Each fetch ends when its gate is opened."""

    def __init__(self, lifetime: float | None = None) -> None:
        self.count = 0
        self.started = asyncio.Event()
        self.gate = asyncio.Event()
        self.error: Exception | None = None
        self._lifetime = lifetime

    async def __call__(self) -> Fetched:
        self.count += 1
        self.started.set()
        await self.gate.wait()
        if self.error:
            raise self.error
        expires_at = START + timedelta(seconds=self._lifetime) if self._lifetime else None
        return Fetched(AuthProof((("Authorization", f"Bearer {self.count}"),)), expires_at)


class TestRenewed:
    async def test_all_who_wait_share_one_fetch(self, clock: ManualClock) -> None:
        fetcher = Fetcher()
        source = Renewed(fetcher, clock)
        waiting = [asyncio.create_task(source.proof()) for _ in range(5)]
        await asyncio.sleep(0)
        fetcher.gate.set()
        assert {token(proof) for proof in await asyncio.gather(*waiting)} == {"1"}
        assert fetcher.count == 1

    async def test_a_failure_is_shared_and_the_next_tries_again(self, clock: ManualClock) -> None:
        fetcher = Fetcher()
        fetcher.error = ConnectionFailed("no")
        source = Renewed(fetcher, clock)
        waiting = [asyncio.create_task(source.proof()) for _ in range(5)]
        await asyncio.sleep(0)
        fetcher.gate.set()
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert all(isinstance(result, ConnectionFailed) for result in results)
        fetcher.error = None
        assert token(await source.proof()) == "2"

    async def test_one_who_gives_up_does_not_end_the_fetch(self, clock: ManualClock) -> None:
        fetcher = Fetcher()
        source = Renewed(fetcher, clock)
        waiting = asyncio.create_task(source.proof())
        await fetcher.started.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        fetcher.gate.set()
        assert token(await source.proof()) == "1"

    async def test_is_renewed_ten_seconds_early(self, clock: ManualClock) -> None:
        fetcher = Fetcher(lifetime=60)
        fetcher.gate.set()
        source = Renewed(fetcher, clock)
        await source.proof()
        after(clock, 49)
        assert token(await source.proof()) == "1"
        after(clock, 1)
        assert token(await source.proof()) == "2"

    async def test_refused_is_fetched_again_but_not_for_an_older_one(self, clock: ManualClock) -> None:
        fetcher = Fetcher()
        fetcher.gate.set()
        source = Renewed(fetcher, clock)
        first = await source.proof()
        assert source.forget(first)
        assert token(await source.proof()) == "2"
        assert source.forget(first)
        assert token(await source.proof()) == "2"

    async def test_close_ends_the_fetch(self, clock: ManualClock) -> None:
        source = Renewed(Fetcher(), clock)
        waiting = asyncio.create_task(source.proof())
        await asyncio.sleep(0)
        await source.close()
        with pytest.raises(ConnectionFailed):
            await waiting


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], str]:
    """Write a Python program and return its path."""

    def write(body: str) -> str:
        path = tmp_path / "log-in"
        path.write_text(
            f"#!{sys.executable} -IS\nimport json, os, pathlib, sys\nhere = pathlib.Path(__file__).parent\n{body}\n"
        )
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return str(path)

    return write


def prints(status: str, api_version: str = V1) -> str:
    return f'print(json.dumps({{"kind": "ExecCredential", "apiVersion": "{api_version}", "status": {status}}}))'


COUNTED = """
count = len(list(here.glob("run-*"))) + 1
(here / f"run-{count}").touch()
"""


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        # Another process cannot set an event.
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def gone(pid: int) -> bool:
    try:
        return ") Z " in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return True


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class TestExecPlugin:
    async def test_runs_again_when_its_token_has_expired(
        self, clock: ManualClock, script: Callable[[str], str]
    ) -> None:
        status = '{"token": f"t{count}", "expirationTimestamp": f"2026-01-01T00:0{count}:00Z"}'
        source = login(clock, ExecPlugin(script(COUNTED + prints(status)), V1))
        assert token(await source.proof()) == "t1"
        after(clock, 49)
        assert token(await source.proof()) == "t1"
        after(clock, 2)
        assert token(await source.proof()) == "t2"

    async def test_runs_again_when_refused(self, clock: ManualClock, script: Callable[[str], str]) -> None:
        source = login(clock, ExecPlugin(script(COUNTED + prints('{"token": f"t{count}"}')), V1))
        proof = await source.proof()
        assert source.forget(proof)
        assert token(await source.proof()) == "t2"

    async def test_gives_client_certificates(self, clock: ManualClock, script: Callable[[str], str]) -> None:
        status = '{"clientCertificateData": "C", "clientKeyData": "K", "token": None, "expirationTimestamp": None}'
        source = login(clock, ExecPlugin(script(prints(status)), V1))
        assert await source.proof() == AuthProof(certificate=CertPair(b"C", b"K"))

    async def test_is_told_what_it_needs(
        self, clock: ManualClock, script: Callable[[str], str], tmp_path: Path
    ) -> None:
        (tmp_path / "ca").write_bytes(b"PEM")
        body = """
(here / "seen").write_text(json.dumps({
    "info": json.loads(os.environ["KUBERNETES_EXEC_INFO"]), "args": sys.argv[1:], "env": os.environ["FLAVOUR"],
    "stdin": sys.stdin.read(),
}))
"""
        cluster = ClusterInfo(
            "https://a:1", tmp_path / "ca", tls_server_name="n", compress=False, config={"audience": "x"}
        )
        beta = "client.authentication.k8s.io/v1beta1"
        plugin = ExecPlugin(
            script(body + prints('{"token": "t"}', beta)),
            beta,
            args=("a b",),
            env=(("FLAVOUR", Secret("mint")),),
            cluster=cluster,
        )
        await login(clock, plugin).proof()
        assert json.loads((tmp_path / "seen").read_text()) == {
            "args": ["a b"],
            "env": "mint",
            "stdin": "",
            "info": {
                "kind": "ExecCredential",
                "apiVersion": beta,
                "spec": {
                    "interactive": False,
                    "cluster": {
                        "server": "https://a:1",
                        "tls-server-name": "n",
                        "certificate-authority-data": base64.b64encode(b"PEM").decode(),
                        "disable-compression": True,
                        "config": {"audience": "x"},
                    },
                },
            },
        }

    @pytest.mark.parametrize(
        "body, message",
        [
            pytest.param(
                "print('hush')", "printed something else than an ExecCredential: JSON is malformed", id="text"
            ),
            pytest.param(prints('{"token": 5}'), "Expected `str | null`, got `int`", id="number-as-token"),
            pytest.param(prints("None"), "printed neither a token nor a client certificate", id="no-status"),
            pytest.param(prints('{"clientCertificateData": "C"}'), "without its key", id="half-a-pair"),
            pytest.param(prints('{"token": "hush hush"}'), "the token is empty or holds", id="token-with-space"),
            pytest.param(prints('{"token": "t", "expirationTimestamp": "tomorrow"}'), "RFC3339", id="no-timestamp"),
            pytest.param(
                prints('{"token": "hush"}', "client.authentication.k8s.io/v1beta1"),
                f'printed ExecCredential of "{V1}beta1" (ExecCredential of "{V1}" would be right)',
                id="other-version",
            ),
            pytest.param("print('{}')", 'printed no kind of ""', id="empty"),
        ],
    )
    async def test_nonsense_is_refused(
        self, clock: ManualClock, script: Callable[[str], str], body: str, message: str
    ) -> None:
        source = login(clock, ExecPlugin(script(body), V1))
        with pytest.raises(ConfigInvalid) as caught:
            await source.proof()
        text = str(caught.value)
        assert text.startswith('home: exec plugin "')
        assert message in text
        assert "hush" not in text
        assert "\n" not in text

    async def test_exit_code(self, clock: ManualClock, script: Callable[[str], str]) -> None:
        source = login(clock, ExecPlugin(script("sys.exit(3)"), V1))
        with pytest.raises(ConnectionFailed, match=r"failed with exit code 3$"):
            await source.proof()

    @pytest.mark.parametrize(
        "given", [{"args": ("a\0b",)}, {"env": (("a=b", Secret("hush")),)}], ids=["word", "variable"]
    )
    async def test_what_no_program_can_be_given(self, clock: ManualClock, given: dict[str, Any]) -> None:
        with pytest.raises(ConfigInvalid, match=r'^home: exec plugin "true" cannot be run: '):
            await login(clock, ExecPlugin("true", V1, **given)).proof()

    async def test_not_installed(self, clock: ManualClock, tmp_path: Path) -> None:
        plugin = ExecPlugin(str(tmp_path / "none"), V1, install_hint="get it\nfrom \x1b[1mexample.org")
        with pytest.raises(ConfigInvalid, match=r"No such file or directory \(get it from \[1mexample\.org\)$"):
            await login(clock, plugin).proof()

    async def test_hanging_has_an_end(self, script: Callable[[str], str]) -> None:
        run = PluginRun(ExecPlugin(script("import signal; signal.pause()"), V1), "home", limit=0.01)
        with pytest.raises(ConnectionFailed, match=r"did not end within 0\.01 s$"):
            await run()

    async def test_given_up_it_ends_with_its_children(self, script: Callable[[str], str], tmp_path: Path) -> None:
        body = """
import subprocess
child = subprocess.Popen(["sleep", "600"])
(here / "new").write_text(str(child.pid))
(here / "new").rename(here / "child")
child.wait()
"""
        run = asyncio.create_task(PluginRun(ExecPlugin(script(body), V1), "home")())
        await until((tmp_path / "child").exists)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        await until(lambda: gone(int((tmp_path / "child").read_text())))

    @pytest.mark.parametrize(
        "mode, interactive",
        [
            pytest.param("Never", False, id="never"),
            pytest.param("IfAvailable", True, id="if-available"),
            pytest.param("Always", True, id="always"),
        ],
    )
    async def test_on_a_terminal(
        self,
        clock: ManualClock,
        script: Callable[[str], str],
        monkeypatch: pytest.MonkeyPatch,
        mode: str,
        interactive: bool,
    ) -> None:
        monkeypatch.setattr(sys, "stdin", Terminal())
        body = 'info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])\n'
        plugin = ExecPlugin(
            script(body + prints('{"token": str(info["spec"]["interactive"])}')), V1, interactive_mode=mode
        )
        source = login(clock, plugin)
        assert source.interactive == interactive
        assert token(await source.proof()) == str(interactive)

    def test_always_interactive_needs_a_terminal(self, clock: ManualClock) -> None:
        with pytest.raises(ConfigInvalid, match=r'^home: exec plugin "x" wants to ask on a terminal'):
            login(clock, ExecPlugin("x", V1, interactive_mode="Always"))


def jwt(expires_at: datetime | None, name: str = "x") -> str:
    claims: dict[str, Any] = {"sub": name} | ({"exp": expires_at.timestamp()} if expires_at else {})
    return ".".join(
        base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in ({}, claims, {})
    )


class Issuer:
    """A small OpenID Connect issuer that hands out a new refresh token with each use."""

    def __init__(self) -> None:
        self.url = ""
        self.forms: list[dict[str, str]] = []
        self.status = 200
        self.answer: dict[str, Any] = {}
        self.methods: list[str] | None = None

    async def discovery(self, request: web.Request) -> web.Response:
        return web.json_response(
            {"token_endpoint": f"{self.url}/token", "token_endpoint_auth_methods_supported": self.methods}
        )

    async def token(self, request: web.Request) -> web.Response:
        form = {key: str(value) for key, value in (await request.post()).items()}
        self.forms.append(form | {"header": request.headers.get("Authorization", "")})
        return web.json_response(self.answer, status=self.status)


@asynccontextmanager
async def issuing(authority: trustme.CA, *before: Any) -> AsyncIterator[Issuer]:
    """Serve an issuer, also under `/elsewhere`. `before`: middlewares."""
    issuer = Issuer()
    app = web.Application(middlewares=before)
    for place in ("", "/elsewhere"):
        app.router.add_get(f"{place}/.well-known/openid-configuration", issuer.discovery)
        app.router.add_post(f"{place}/token", issuer.token)
    async with serve(app, server_context(authority)) as issuer.url:
        yield issuer


class TestOidc:
    def oidc(self, issuer: Issuer, authority: trustme.CA, **fields: Any) -> Oidc:
        ca = authority.cert_pem.bytes()
        return Oidc(issuer.url, "client", refresh_token=Secret("r1"), ca=ca, **fields)

    async def test_a_valid_id_token_is_used_as_it_is(self, clock: ManualClock) -> None:
        given = jwt(START + timedelta(minutes=5))
        source = login(clock, Oidc("https://nowhere.invalid", "client", id_token=Secret(given)))
        proof = await source.proof()
        assert token(proof) == given
        assert not source.forget(proof)

    async def test_expired_without_a_refresh_token(self, clock: ManualClock) -> None:
        source = login(clock, Oidc("https://nowhere.invalid", "client", id_token=Secret(jwt(START))))
        with pytest.raises(ConfigInvalid, match=r"no refresh-token \(log in again\)$"):
            await source.proof()

    async def test_refreshes_with_the_newest_refresh_token(self, clock: ManualClock) -> None:
        authority = trustme.CA()
        async with issuing(authority) as issuer:
            first = jwt(START + timedelta(minutes=5))
            issuer.answer = {"id_token": first, "refresh_token": "r2"}
            source = login(clock, self.oidc(issuer, authority, client_secret=Secret("s p")))
            assert token(await source.proof()) == first
            after(clock, 290)
            issuer.answer = {"id_token": (second := jwt(START + timedelta(minutes=10)))}
            assert token(await source.proof()) == second
        basic = f"Basic {base64.b64encode(b'client:s+p').decode()}"
        assert issuer.forms == [
            {"grant_type": "refresh_token", "refresh_token": "r1", "header": basic},
            {"grant_type": "refresh_token", "refresh_token": "r2", "header": basic},
        ]

    @pytest.mark.parametrize(
        "secret, expected",
        [
            pytest.param("", {"client_id": "client"}, id="public-client"),
            pytest.param("s", {"client_id": "client", "client_secret": "s"}, id="in-the-form"),
        ],
    )
    async def test_client_authentication_in_the_form(
        self, clock: ManualClock, secret: str, expected: dict[str, str]
    ) -> None:
        authority = trustme.CA()
        async with issuing(authority) as issuer:
            issuer.methods = ["client_secret_post"]
            issuer.answer = {"id_token": jwt(None)}
            await login(clock, self.oidc(issuer, authority, client_secret=Secret(secret))).proof()
        assert issuer.forms == [{"grant_type": "refresh_token", "refresh_token": "r1", "header": ""} | expected]

    @pytest.mark.parametrize(
        "status, answer, kind, message",
        [
            pytest.param(400, {"error": "hush"}, ConfigInvalid, "token answer: HTTP 400 (log in again", id="refused"),
            pytest.param(503, {}, ConnectionFailed, "token answer: HTTP 503", id="down"),
            pytest.param(200, {}, ConfigInvalid, "sent no id_token", id="no-id-token"),
            pytest.param(200, {"id_token": "hush"}, ConfigInvalid, "the id-token is not a JWT", id="no-jwt"),
            pytest.param(
                200,
                {"id_token": f"a.{base64.urlsafe_b64encode(b'[' * 20_000).decode()}.c"},
                ConfigInvalid,
                "the id-token is not a JWT",
                id="deep-jwt",
            ),
            pytest.param(200, {"x": "hush" * 2**19}, TooLarge, "longer than 1048576 bytes", id="too-long"),
            pytest.param(200, {"id_token": 5}, ConfigInvalid, "is not as OpenID Connect has it", id="wrong-type"),
        ],
    )
    async def test_what_an_issuer_may_do_wrong(
        self, clock: ManualClock, status: int, answer: dict[str, Any], kind: type[Exception], message: str
    ) -> None:
        authority = trustme.CA()
        async with issuing(authority) as issuer:
            issuer.status, issuer.answer = status, answer
            with pytest.raises(kind) as caught:
                await login(clock, self.oidc(issuer, authority)).proof()
        assert message in str(caught.value)
        assert "hush" not in str(caught.value)

    @pytest.mark.parametrize(
        ("path", "message"),
        [
            pytest.param("/.well-known/openid-configuration", "discovery document: HTTP 307", id="discovery"),
            pytest.param("/token", "token answer: HTTP 307", id="token"),
        ],
    )
    async def test_no_redirect_is_followed(self, clock: ManualClock, path: str, message: str) -> None:
        """The address of the token endpoint comes only from the configured server, and refresh tokens go only there."""
        authority, asked = trustme.CA(), list[str]()

        @web.middleware
        async def redirect(request: web.Request, handler: Any) -> web.StreamResponse:
            asked.append(request.path)
            if request.path == path:
                raise web.HTTPTemporaryRedirect(f"/elsewhere{path}")
            answer: web.StreamResponse = await handler(request)
            return answer

        async with issuing(authority, redirect) as issuer:
            issuer.answer = {"id_token": jwt(None)}
            with pytest.raises(ConfigInvalid, match=message):
                await login(clock, self.oidc(issuer, authority)).proof()
        assert asked[-1] == path
        assert issuer.forms == []

    async def test_unknown_authority(self, clock: ManualClock) -> None:
        async with issuing(trustme.CA()) as issuer:
            with pytest.raises(ConnectionFailed, match=r"the server's certificate is not trusted: "):
                await login(clock, self.oidc(issuer, trustme.CA())).proof()

    def test_tokens_do_not_go_in_the_clear(self, clock: ManualClock) -> None:
        with pytest.raises(ConfigInvalid, match=r"in the clear \(https:// would be right\)$"):
            login(clock, Oidc("http://issuer.example", "client"))


def test_no_proof_shows_itself() -> None:
    proof = AuthProof((("Authorization", "Bearer hush"),), CertPair(b"hush", b"hush"))
    assert "hush" not in repr(proof) + str(proof) + repr(proof.certificate) + repr(Fetched(proof))
