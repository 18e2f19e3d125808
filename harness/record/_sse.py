"""Server-sent events as the WHATWG standard reads them, from bytes cut anywhere."""

from __future__ import annotations

from dataclasses import dataclass

_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class SseEvent:
    """One dispatched event."""

    data: str
    event: str = ""
    """The ``event:`` field; empty when there was none."""


class SseParser:
    """An incremental parser; only CR, LF and CRLF end a line, and an event without data is none.

    Text is decoded line by line, so a character or a line end may be cut in half between two feeds.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._started = False
        self._after_cr = False
        self._event = ""
        self._data: list[str] = []

    def feed(self, data: bytes) -> list[SseEvent]:
        """Read more bytes and return the events they complete."""
        buffer = self._rest + data
        if not self._started:
            if len(buffer) < len(_BOM) and _BOM.startswith(buffer):
                self._rest = buffer
                return []
            self._started = True
            buffer = buffer.removeprefix(_BOM)
        lines, self._rest = self._split(buffer)
        return [event for line in lines if (event := self._line(line)) is not None]

    def _split(self, buffer: bytes) -> tuple[list[bytes], bytes]:
        """Complete lines and what is left; a LF right after a CR that ended a line belongs to that CR."""
        if self._after_cr and buffer:
            buffer = buffer.removeprefix(b"\n")
            self._after_cr = False
        if not buffer:
            return [], b""
        self._after_cr = buffer.endswith(b"\r")
        lines = buffer.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        return lines[:-1], lines[-1]

    def _line(self, line: bytes) -> SseEvent | None:
        if not line:
            return self._dispatch()
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value.decode("utf-8", "replace"))
        elif name == b"event":
            self._event = value.decode("utf-8", "replace")
        return None

    def _dispatch(self) -> SseEvent | None:
        data, event = "\n".join(self._data), self._event
        self._data, self._event = [], ""
        return SseEvent(data, event) if data else None
