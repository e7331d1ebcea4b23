"""Serves the page under `/static/`: the files of a directory if it exists, else a built-in page."""

from __future__ import annotations

import asyncio
import mimetypes
from http import HTTPStatus
from importlib import resources
from pathlib import Path

from haulout.serve.exchange import Request, Response, StreamResponse, not_found, redirect
from haulout.serve.http import Handler
from haulout.serve.web import PIECE, send_pieces

INDEX = "index.html"


# Files are read in threads, of which there are few and which other requests need, too.
FILES_AT_ONCE = 2


def static_route(folder: Path) -> Handler:
    turn = asyncio.Semaphore(FILES_AT_ONCE)

    async def answer(request: Request) -> StreamResponse:
        async with turn:
            found = await asyncio.to_thread(page_file, folder, request.match_info.get("path", ""))
        if isinstance(found, Response):
            return found
        length = found.stat().st_size
        response = StreamResponse()
        response.content_type = mimetypes.guess_type(found.name)[0] or "application/octet-stream"

        async def piece(start: int) -> bytes:
            async with turn:
                return await asyncio.to_thread(_read, found, start, min(PIECE, length - start))

        # aiohttp's FileResponse uses sendfile. If such a connection is aborted, asyncio logs tracebacks, and goes on with
        # a descriptor that may be another connection's by then.
        return await send_pieces(request, response, length, piece)

    return answer


def _read(path: Path, start: int, length: int) -> bytes:
    """Return a part of a file. Raises OSError if the file has become shorter."""
    with path.open("rb") as file:
        file.seek(start)
        content = file.read(length)
    if len(content) < length:
        raise OSError(f"{path} has become shorter")
    return content


def page_file(folder: Path, path: str) -> Path | Response:
    """Return the file for a URL path; for a directory its `index.html`. Raises Refused outside of the folder."""
    if not folder.is_dir():
        return _built_in(path)
    root = folder.resolve()
    wanted = (root / path).resolve()
    if wanted.is_dir():
        wanted /= INDEX
    if not wanted.is_relative_to(root) or not wanted.is_file():
        raise not_found()
    return wanted


def _built_in(path: str) -> Response:
    if path not in ("", INDEX):
        raise not_found()
    page = (resources.files("haulout") / "serve" / "static" / INDEX).read_bytes()
    return Response(body=page, content_type="text/html", charset="utf-8")


async def to_static(request: Request) -> StreamResponse:
    """Redirect every unknown path to the page."""
    if request.path == "/static":
        raise redirect(HTTPStatus.TEMPORARY_REDIRECT, "/static/")
    raise redirect(HTTPStatus.MOVED_PERMANENTLY, "/static")
