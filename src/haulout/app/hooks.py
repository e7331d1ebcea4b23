"""Calls the web servers of recipes, which carry out maintenances and validations, and asks them for their progress."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from urllib.parse import urljoin, urlsplit

import msgspec

from haulout.app.announcements import read_secret, signature
from haulout.clients.peers import PeerError, ask, decode_answer, without
from haulout.kube.allowed_addresses import Reach, is_local
from haulout.kube.errors import one_line
from haulout.kube.writer import Writer
from haulout.runtime.probes import ProbeFailed
from haulout.runtime.sender import SendFailed
from haulout.surfaces.notify.options import Options
from haulout.surfaces.notify.recipes.hooks import (
    ACCEPTED,
    FAILURE,
    PENDING,
    SUCCESS,
    HookAnswer,
    HookCall,
    StatusQuestion,
)
from haulout.surfaces.notify.recipes.recipe import Recipe

LONGEST_ANSWER, LONGEST_URL = 64 * 1024, 2048
AGAIN = (408, 429)
ELSEWHERE = "the statusURL leads to this computer or its link"


class _ServerAnswer(msgspec.Struct, frozen=True, rename="camel"):
    result: str = ""
    message: str = ""
    status_url: str = msgspec.field(default="", name="statusURL")


class Hooks:
    """A client for the web servers of recipes. For each call it reads the credentials from Secrets in our namespace."""

    def __init__(self, writer: Writer, options: Callable[[], Options]) -> None:
        self._writer = writer
        self._options = options

    async def call(self, wanted: HookCall) -> HookAnswer:
        """Send a call and return the server's answer. Raises SendFailed if the call has to be repeated."""
        recipe = self._recipe(wanted.role, wanted.recipe)
        headers = {"Content-Type": "application/json", "Idempotency-Key": wanted.key, **await self._token(recipe)}
        if recipe.hmac_secret is not None:
            key = await self._secret(recipe.hmac_secret.name, recipe.hmac_secret.key)
            headers["X-Signature-256"] = signature(key, wanted.body)
        return await self._ask(recipe, "POST", recipe.url, headers, wanted.body)

    async def status(self, question: StatusQuestion) -> HookAnswer:
        """Ask for the progress of an earlier call. Raises ProbeFailed if the server gives no answer."""
        try:
            recipe = self._recipe(question.role, question.recipe)
            url = urljoin(recipe.url, question.url)
            if _origin(url) == _origin(recipe.url):
                return await self._ask(recipe, "GET", url, await self._token(recipe), None)
            # Another server than that of the recipe must not get the token. Its address is checked, because the
            # recipe's server could name one that only our pod can reach.
            return await self._ask(recipe, "GET", url, {}, None, await _elsewhere(recipe, url))
        except SendFailed as error:
            raise ProbeFailed(str(error)) from None
        except ValueError:
            raise ProbeFailed("the statusURL is not a URL") from None

    def _recipe(self, role: str, name: str) -> Recipe:
        operators = self._options().operators
        recipes = operators.runner.recipes if role == "runner" else operators.validator.recipes
        found = next((recipe for recipe in recipes if recipe.name == name), None)
        if found is None:
            raise SendFailed(f"there is no recipe {name} any more")
        return found

    async def _token(self, recipe: Recipe) -> dict[str, str]:
        if recipe.token_secret is None:
            return {}
        token = await self._secret(recipe.token_secret.name, recipe.token_secret.key)
        return {"Authorization": f"Bearer {token.decode(errors='replace').strip()}"}

    async def _secret(self, name: str, key: str) -> bytes:
        return await read_secret(self._writer, self._options().namespace, name, key)

    async def _ask(
        self,
        recipe: Recipe,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | None,
        reach: Reach | None = None,
    ) -> HookAnswer:
        within = max(recipe.request_timeout.total_seconds(), 1.0)
        try:
            async with ask(
                f"{method} failed",
                method,
                url,
                within=within,
                headers=headers,
                data=body,
                reach=reach,
                ca_file=recipe.ca_file,
            ) as reply:
                answer = await reply.read(LONGEST_ANSWER)
        except PeerError as error:
            raise SendFailed(str(error)) from None
        if reply.status in AGAIN or reply.status >= 500:
            raise SendFailed(f"{method} was answered with {reply.status}")
        return _read(reply.status, answer, headers.values())


async def _elsewhere(recipe: Recipe, url: str) -> Reach:
    """Return the addresses to which a status URL of another server may lead. Raises SendFailed if it breaks the rule."""
    scheme, host, _ = _origin(url)
    reach = Reach(loopback=await is_local(recipe.url), refusal=ELSEWHERE)
    if scheme != "https" and not recipe.url.startswith("http://"):
        raise SendFailed("the statusURL has no TLS")
    if not reach.allows_host(host or ""):
        raise SendFailed(ELSEWHERE)
    return reach


def _origin(url: str) -> tuple[str, str | None, int | None]:
    """Return scheme, host and port of a URL. Raises ValueError for a malformed one."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port


def _read(status: int, body: bytes, sent: Iterable[str]) -> HookAnswer:
    """Return what an answer means. `sent`: the headers of the request, which the message must not repeat."""
    if status >= 300:
        return HookAnswer(FAILURE, f"answered with {status}")
    try:
        answer = decode_answer("", body, _ServerAnswer) if body.strip() else _ServerAnswer()
    except PeerError:
        answer = _ServerAnswer()
    secrets = (word for header in sent for word in (header, header.removeprefix("Bearer ")))
    answer = msgspec.structs.replace(answer, message=one_line(without(answer.message, secrets)))
    if len(answer.status_url) > LONGEST_URL:
        return HookAnswer(FAILURE, f"the statusURL has more than {LONGEST_URL} characters")
    if answer.status_url and answer.result in (PENDING, ""):
        return HookAnswer(PENDING, answer.message, answer.status_url)
    if answer.result == PENDING:
        # Without a URL that we could ask, the server reports its result in the annotation.
        return HookAnswer(ACCEPTED, answer.message)
    if status != 202 and answer.result in (SUCCESS, FAILURE):
        return HookAnswer(answer.result, answer.message)
    return HookAnswer(ACCEPTED) if status == 202 else HookAnswer(FAILURE, "the answer names no result")
