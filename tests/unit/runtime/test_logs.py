"""Log lines: fields, in JSON for machines and readable for people."""

from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from haulout.cluster.key import node_key
from haulout.runtime.logs import LIBRARIES, ConsoleFormatter, JsonFormatter, foreign, set_up_logs

CREATED = 1_767_225_600.25


def record(message: str = "moved", *, level: int = logging.INFO, **extra: Any) -> logging.LogRecord:
    made = logging.makeLogRecord({"name": "haulout.acts", "levelno": level, "levelname": logging.getLevelName(level)})
    made.msg, made.created = message, CREATED
    made.__dict__.update(extra)
    return made


def failure() -> Any:
    try:
        raise ValueError("broken")
    except ValueError:
        return sys.exc_info()


def test_json_has_the_instant_the_level_the_message_and_every_field() -> None:
    line = JsonFormatter().format(record(node="a", tries=3, key=node_key("b")))
    assert json.loads(line) == {
        "ts": "2026-01-01T00:00:00.250Z",
        "level": "info",
        "logger": "acts",
        "msg": "moved",
        "node": "a",
        "tries": 3,
        "key": ["", "Node", "", "b"],
    }


def test_json_writes_what_it_does_not_know_as_text() -> None:
    assert json.loads(JsonFormatter().format(record(error=ValueError("no"))))["error"] == "no"


def test_json_stays_one_line_whatever_happens() -> None:
    line = JsonFormatter().format(record("two\nlines", exc_info=failure()))
    assert "\n" not in line
    assert json.loads(line)["error"].endswith("ValueError: broken")


def test_half_a_character_of_others_loses_no_line() -> None:
    line = JsonFormatter().format(record("refused", error="550 \udcff"))
    assert json.loads(line)["error"] == "550 \udcff"


def test_people_read_one_line_with_the_fields_at_its_end() -> None:
    line = ConsoleFormatter().format(record(node="a", note="two words", empty=""))
    assert line == "2026-01-01T00:00:00.250Z\tINFO\tacts\tmoved\tnode=a note='two words' empty=''"


def test_people_get_the_trace_below_the_line() -> None:
    lines = ConsoleFormatter().format(record(level=logging.ERROR, exc_info=failure())).splitlines()
    assert lines[0] == "2026-01-01T00:00:00.250Z\tERROR\tacts\tmoved"
    assert lines[-1] == "    ValueError: broken"


@pytest.mark.parametrize(
    ("times", "machines", "people"),
    [
        ("iso8601", "2026-01-01T00:00:00.250Z", "2026-01-01T00:00:00.250Z"),
        ("rfc3339", "2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
        ("rfc3339nano", "2026-01-01T00:00:00.25Z", "2026-01-01T00:00:00.25Z"),
        ("epoch", CREATED, "1.76722560025e+09"),
        ("millis", 1_767_225_600_250.0, "1.76722560025e+12"),
        ("nano", 1_767_225_600_250_000_000, "1767225600250000000"),
    ],
)
def test_instants_are_written_as_zap_does(times: str, machines: str | float, people: str) -> None:
    assert json.loads(JsonFormatter(times).format(record()))["ts"] == machines
    assert ConsoleFormatter(times).format(record()).split("\t")[0] == people


def test_a_whole_second_has_no_fraction() -> None:
    whole = record()
    whole.created = 1_767_225_600.0
    assert json.loads(JsonFormatter("rfc3339nano").format(whole))["ts"] == "2026-01-01T00:00:00Z"


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    loggers = [logging.getLogger(name) for name in ("", *LIBRARIES)]
    handlers, levels = loggers[0].handlers[:], [logger.level for logger in loggers]
    yield io.StringIO()
    loggers[0].handlers[:] = handlers
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


@pytest.mark.parametrize("style", ["json", "console"])
def test_set_up_once_or_twice_each_line_is_said_once(stream: io.StringIO, style: str) -> None:
    set_up_logs(style, stream=io.StringIO())
    set_up_logs(style, stream=stream)
    logging.getLogger("haulout.acts").info("said", extra={"node": "a"})
    logging.getLogger("haulout.acts").debug("not said")
    (line,) = stream.getvalue().splitlines()
    assert line.startswith("{") == (style == "json")


@pytest.mark.parametrize("library", ["asyncio", "botocore.endpoint", "keystoneauth.session", "urllib3.connectionpool"])
def test_libraries_are_heard_only_when_something_is_wrong(stream: io.StringIO, library: str) -> None:
    set_up_logs("console", logging.DEBUG, stream=stream)
    logging.getLogger(library).debug("sending a request with all of its headers")
    logging.getLogger(library).warning("took long")
    assert [line.split("\t")[3] for line in stream.getvalue().splitlines()] == ["took long"]


FORGED = "a\n2026-01-01T00:00:00.250Z\tINFO\tacts\tforged\r\x1b[31m\x85\u2028\x00"


@pytest.mark.parametrize("formatter", [ConsoleFormatter(), JsonFormatter()], ids=["console", "json"])
@pytest.mark.parametrize("spaces", ["", " "], ids=["", "with spaces"])
def test_what_others_have_written_is_no_line_of_its_own(formatter: logging.Formatter, spaces: str) -> None:
    text = formatter.format(record(f"of {FORGED}", node=FORGED + spaces, keys=[FORGED], **{"a\nb": 1}))
    # Of what Python takes for the end of a line, this is all that a reader of JSON lines does.
    assert "\n" not in text
    assert not any(character in text for character in "\x1b\x00\r")


def test_a_traceback_holds_no_line_that_looks_like_one_of_the_log() -> None:
    try:
        raise ValueError(FORGED)
    except ValueError:
        made = record("failed", exc_info=sys.exc_info())
    first, *rest = ConsoleFormatter().format(made).splitlines()
    assert "\tacts\tfailed" in first
    assert all(line.startswith("    ") for line in rest)
    assert "\n" not in JsonFormatter().format(made)


@pytest.mark.parametrize("formatter", [ConsoleFormatter(), JsonFormatter()], ids=["console", "json"])
def test_no_line_shows_the_login_of_an_address(formatter: logging.Formatter) -> None:
    try:
        raise ValueError("http://u:hunter2@a is away")
    except ValueError:
        made = record("asked http://u:hunter2@a", url="http://u:hunter2@b/?token=hunter2", exc_info=sys.exc_info())
    text = formatter.format(made)
    assert "hunter2" not in text
    assert "http://...@b/?token=..." in text


@pytest.mark.parametrize("name", ["name", "args", "message", "msg", "ts", "level"])
def test_a_field_may_have_any_name(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """The standard library refuses fields named as its own attributes, and a line keeps what it says of itself."""
    with caplog.at_level(logging.INFO):
        logging.getLogger("haulout.acts").info("moved", extra=foreign(((name, "x"), ("node", "a"))))
    (made,) = caplog.records
    line = json.loads(JsonFormatter().format(made))
    assert (line["logger"], line["msg"], line["level"], line["node"]) == ("acts", "moved", "info", "a")
    assert "x" in (line.get(name), line.get(f"{name}_"))
    assert "node=a" in ConsoleFormatter().format(made)


CLOSED = "unable to perform operation on <TCPTransport closed=True reading=False 0x561b1a2499f0>; the handler is closed"


@pytest.mark.parametrize(
    ("message", "error", "is_written"),
    [
        ("Fatal error on SSL protocol\nprotocol: <uvloop.loop.SSLProtocol>", RuntimeError(CLOSED), False),
        ("Fatal error on SSL protocol\nprotocol: <uvloop.loop.SSLProtocol>", RuntimeError("another"), True),
        ("Task exception was never retrieved", RuntimeError(CLOSED), True),
    ],
    ids=["a read of a closed connection", "another error of TLS", "another line"],
)
def test_reads_of_closed_tls_connections_leave_no_traceback(message: str, error: Exception, is_written: bool) -> None:
    stream = io.StringIO()
    set_up_logs(stream=stream)
    logging.getLogger("asyncio").error(message, exc_info=error)
    assert bool(stream.getvalue()) is is_written
