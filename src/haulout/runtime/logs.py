"""Log lines: fields, not sentences; JSON for machines or one readable line for people."""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import Any, TextIO

import msgspec

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def fields(record: logging.LogRecord) -> dict[str, Any]:
    """What was handed over as `extra`."""
    return {name: value for name, value in vars(record).items() if name not in _STANDARD}


def _instant(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "ts": _instant(record),
            "level": record.levelname.lower(),
            "logger": record.name.removeprefix("haulout."),
            "msg": record.getMessage(),
            **fields(record),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line, enc_hook=str).decode()


class ConsoleFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        extras = " ".join(f"{name}={_shown(value)}" for name, value in fields(record).items())
        logger = record.name.removeprefix("haulout.")
        line = f"{_instant(record)}\t{record.levelname}\t{logger}\t{record.getMessage()}\t{extras}".rstrip()
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def _shown(value: object) -> str:
    text = str(value)
    return repr(text) if " " in text or not text else text


def set_up_logs(style: str = "json", level: int = logging.INFO, stream: TextIO | None = None) -> None:
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if style == "json" else ConsoleFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    # The library's own lines say nothing that ours do not.
    logging.getLogger("aiohttp").setLevel(max(level, logging.WARNING))
    logging.getLogger("asyncio").setLevel(max(level, logging.WARNING))
