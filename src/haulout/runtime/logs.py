"""Log lines: fields, not sentences; JSON for programs or one readable line for people."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, TextIO

import msgspec

from haulout.base.number import format_float
from haulout.base.url import without_secrets

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


# The attribute of a log record that holds fields with arbitrary names. As attributes of the record itself they could
# clash with existing ones (`name`, `args`), and the standard library would raise an error.
FOREIGN = "foreign_fields"


def foreign(fields: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Return the value of `extra` for log fields with arbitrary names."""
    return {FOREIGN: dict(fields)}


def fields(record: logging.LogRecord) -> dict[str, Any]:
    """Return the fields of a log record: everything that was passed as `extra`."""
    own = {name: value for name, value in vars(record).items() if name not in _STANDARD}
    foreign: dict[str, Any] = own.pop(FOREIGN, {})
    return own | foreign


def _utc(record: logging.LogRecord) -> datetime:
    return datetime.fromtimestamp(record.created, UTC).replace(tzinfo=None)


def _fine(record: logging.LogRecord) -> str:
    """Return the instant of a record like Go's RFC3339Nano, without zeros at the end of the fraction."""
    at = _utc(record)
    return f"{at.isoformat().rstrip('0')}Z" if at.microsecond else f"{at.isoformat()}Z"


# zap's names for the formats of an instant, and the formats.
TIMES: dict[str, Callable[[logging.LogRecord], str | float]] = {
    "iso8601": lambda record: f"{_utc(record).isoformat(timespec='milliseconds')}Z",
    "rfc3339": lambda record: f"{_utc(record).isoformat(timespec='seconds')}Z",
    "rfc3339nano": _fine,
    "epoch": lambda record: record.created,
    "millis": lambda record: record.created * 1000,
    "nano": lambda record: round(record.created * 1_000_000) * 1000,
}


class _Formatter(logging.Formatter):
    def __init__(self, times: str = "iso8601") -> None:
        super().__init__()
        self.instant = TIMES[times]


class JsonFormatter(_Formatter):
    """A formatter that writes a log record as one line of JSON, for log collectors."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "ts": self.instant(record),
            "level": record.levelname.lower(),
            "logger": record.name.removeprefix("haulout."),
            "msg": record.getMessage(),
        }
        # A field with the name of a standard key gets another name, so that it does not replace the key.
        line |= {f"{name}_" if name in line else name: value for name, value in fields(record).items()}
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        try:
            text = msgspec.json.encode(line, enc_hook=str).decode()
        except UnicodeEncodeError:
            # A text has a lone surrogate, from foreign bytes that are not UTF-8. Only json.dumps can escape it.
            text = json.dumps(line, default=str)
        return without_secrets(text)


class ConsoleFormatter(_Formatter):
    """A formatter that writes a log record as one line for people. A traceback follows on indented lines."""

    def format(self, record: logging.LogRecord) -> str:
        instant = self.instant(record)
        at = format_float(instant) if isinstance(instant, float) else instant
        extras = " ".join(f"{_printable(name)}={_value_text(value)}" for name, value in fields(record).items())
        logger = record.name.removeprefix("haulout.")
        line = f"{at}\t{record.levelname}\t{logger}\t{_printable(record.getMessage())}\t{extras}".rstrip()
        if not record.exc_info:
            return without_secrets(line)
        # Each line of a traceback is indented, so that none looks like a line of the log.
        trace = "\n".join(f"    {_printable(each)}" for each in self.formatException(record.exc_info).splitlines())
        return without_secrets(f"{line}\n{trace}")


def _value_text(value: object) -> str:
    text = str(value)
    return repr(text) if " " in text or not text else _printable(text)


def _printable(text: str) -> str:
    """Return the text with escapes for control and other invisible characters, so that one record is one line.

    Foreign names and messages must not be able to begin a new line or to control a terminal.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


# Libraries whose log lines repeat ours. At DEBUG, botocore and keystoneauth print whole requests with credentials.
LIBRARIES = ("aiohttp", "asyncio", "botocore", "keystoneauth", "openstack", "urllib3")


def set_up_logs(
    style: str = "json", level: int = logging.INFO, times: str = "iso8601", *, stream: TextIO | None = None
) -> None:
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter(times) if style == "json" else ConsoleFormatter(times))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name in LIBRARIES:
        logging.getLogger(name).setLevel(max(level, logging.WARNING))
    logging.getLogger("asyncio").addFilter(_is_news)


def _is_news(record: logging.LogRecord) -> bool:
    """Whether a line of the event loop says more than the request that failed.

    After the process was frozen, uvloop reads from TLS connections that are closed already, and logs a traceback for each.
    The requests on them report the broken connection themselves.
    """
    error = record.exc_info[1] if record.exc_info else None
    is_closed = isinstance(error, RuntimeError) and str(error).endswith("the handler is closed")
    return not (is_closed and record.getMessage().startswith("Fatal error on SSL protocol"))
