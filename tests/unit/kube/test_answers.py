"""The parser of answers: framing, refusals, and bytes that arrive in any pieces."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haulout.kube.http1.answer import MOST_INTERIM, AnswerParser
from haulout.kube.http1.failures import WireError
from haulout.kube.http1.message import LONGEST_LINE

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


def parsed(*data: bytes, method: str = "GET") -> tuple[AnswerParser, bytes]:
    parser = AnswerParser(method)
    return parser, b"".join(piece for each in data for piece in parser.feed(each))


@pytest.mark.parametrize(
    "answer, body, keeps",
    [
        pytest.param(OK + b"Content-Length: 2\r\n\r\n{}", b"{}", True, id="length"),
        pytest.param(OK + b"Content-Length: 0\r\n\r\n", b"", True, id="empty"),
        pytest.param(CHUNKED + b"3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n", b"abc0123456789", True, id="chunked"),
        pytest.param(CHUNKED + b"1\r\na\r\n0\r\nExpires: x\r\n\r\n", b"a", True, id="trailer"),
        pytest.param(b"HTTP/1.1 204 No Content\r\n\r\n", b"", True, id="no-content"),
        pytest.param(b"HTTP/1.1 304\r\nContent-Length: 9\r\n\r\n", b"", True, id="not-modified"),
        pytest.param(OK + b"Connection: Close\r\nContent-Length: 1\r\n\r\na", b"a", False, id="close"),
        pytest.param(b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\na", b"a", False, id="old"),
        pytest.param(
            b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\na", b"a", True, id="old-kept"
        ),
        pytest.param(b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"Content-Length: 1\r\n\r\na", b"a", True, id="interim"),
        pytest.param(OK + b"Content-Length: 1\r\n\r\naHTTP/1.1 200 OK\r\n\r\n", b"a", False, id="one-too-many"),
        pytest.param(OK + b"Content-Length: 1\r\nContent-Length: 1\r\n\r\na", b"a", True, id="said-twice"),
    ],
)
class TestFraming:
    def test_at_once(self, answer: bytes, body: bytes, keeps: bool) -> None:
        parser, found = parsed(answer)
        assert (found, parser.is_done, parser.keeps_connection) == (body, True, keeps)

    def test_byte_by_byte(self, answer: bytes, body: bytes, keeps: bool) -> None:
        parser, found = parsed(*(bytes([each]) for each in answer))
        assert (found, parser.is_done, parser.keeps_connection) == (body, True, keeps)


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=8), st.lists(st.integers(1, 60), max_size=40))
def test_pieces_do_not_matter(chunks: list[bytes], cuts: list[int]) -> None:
    text = CHUNKED + b"".join(b"%x\r\n%b\r\n" % (len(each), each) for each in chunks) + b"0\r\n\r\n"
    pieces, rest = [], text
    for cut in cuts:
        pieces.append(rest[:cut])
        rest = rest[cut:]
    parser, found = parsed(*pieces, rest)
    assert (found, parser.is_done) == (b"".join(chunks), True)


@given(st.binary(max_size=200))
def test_garbage_is_an_error_or_the_beginning_of_an_answer(data: bytes) -> None:
    for begin in (b"", OK, CHUNKED):
        with contextlib.suppress(WireError):
            parsed(begin + data)


def test_body_until_the_connection_ends() -> None:
    parser, found = parsed(OK + b"\r\n", b"ab", b"c")
    assert (found, parser.is_done) == (b"abc", False)
    assert parser.end()
    assert not parser.keeps_connection


@pytest.mark.parametrize(
    "begun", [b"", b"HTTP/1.1 2", OK, CHUNKED, CHUNKED + b"5\r\nab", OK + b"Content-Length: 3\r\n\r\nab"]
)
def test_connection_that_ends_before_the_answer(begun: bytes) -> None:
    parser, _ = parsed(begun)
    assert not parser.end()


def test_answer_to_head_has_no_body() -> None:
    parser, found = parsed(OK + b"Content-Length: 10\r\n\r\n", method="HEAD")
    assert (found, parser.is_done) == (b"", True)


def test_headers_have_names_in_lower_case() -> None:
    parser, _ = parsed(OK + b"X-A: 1\r\nx-a:  2 \r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n")
    assert parser.headers == {"x-a": "1, 2", "retry-after": "7", "content-length": "0"}


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"SSH-2.0-OpenSSH", id="another-protocol"),
        pytest.param(b"HTTP/2 200 OK\r\n\r\n", id="another-version"),
        pytest.param(b"HTTP/1.1 20 OK\r\n\r\n", id="short-status"),
        pytest.param(b"HTTP/1.1 0x1 OK\r\n\r\n", id="status-that-is-no-number"),
        pytest.param(b"HTTP/1.1 101 Switching Protocols\r\n\r\n", id="another-protocol-from-now-on"),
        pytest.param(OK + b"no colon\r\n\r\n", id="no-colon"),
        pytest.param(OK + b"a b: c\r\n\r\n", id="name-with-a-space"),
        pytest.param(OK + b"A: b\r\n c\r\n\r\n", id="folded"),
        pytest.param(OK + b"Content-Length: -1\r\n\r\n", id="negative-length"),
        pytest.param(OK + b"Content-Length: +1\r\n\r\n", id="signed-length"),
        pytest.param(OK + b"Content-Length: 1_0\r\n\r\n", id="length-with-a-mark"),
        pytest.param(OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n", id="two-lengths"),
        pytest.param(OK + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", id="length-and-chunks"),
        pytest.param(OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n", id="other-coding"),
        pytest.param(CHUNKED + b"-1\r\n", id="negative-chunk"),
        pytest.param(CHUNKED + b"0x1\r\n", id="chunk-with-a-prefix"),
        pytest.param(CHUNKED + b"\r\n", id="chunk-without-a-size"),
        pytest.param(CHUNKED + b"1\r\nab\r\n", id="chunk-that-is-too-long"),
        pytest.param(b"HTTP/1.1 100 Continue\r\n\r\n" * (MOST_INTERIM + 1), id="many-interim-answers"),
    ],
)
def test_what_is_not_http(answer: bytes) -> None:
    with pytest.raises(WireError, match="the answer is not HTTP"):
        parsed(answer)


@pytest.mark.parametrize(
    "begun, repeat",
    [
        pytest.param(b"HTTP/1.1 200 ", b"O", id="status"),
        pytest.param(OK + b"A: ", b"b", id="value"),
        pytest.param(OK, b"A: b\r\n", id="number-of-headers"),
        pytest.param(CHUNKED + b"1;", b"x", id="extension"),
        pytest.param(CHUNKED + b"0\r\nA: ", b"b", id="trailer"),
    ],
)
def test_line_or_head_without_an_end(begun: bytes, repeat: bytes) -> None:
    with pytest.raises(WireError, match="a line of the answer is too long"):
        parsed(begun, *[repeat * 100] * (LONGEST_LINE // 20))
