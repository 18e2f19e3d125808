"""Bodies that are not JSON: forms by their parts, everything else by its bytes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from harness.canonical._json import content_hash

if TYPE_CHECKING:
    from email.message import Message

_MAX_BOUNDARY = 200


class Part(NamedTuple):
    """One part of a form."""

    name: str | None
    filename: str | None
    media_type: str | None
    digest: str


def form_parts(body: bytes, content_type: str) -> list[Part] | None:
    """The parts of a multipart body in order, or ``None`` when it is not well-formed."""
    head = _header(content_type)
    boundary = head.get_param("boundary")
    if not isinstance(boundary, str) or not 0 < len(boundary) <= _MAX_BOUNDARY:
        return None
    line = re.escape(b"--" + boundary.encode("utf-8", "surrogateescape"))
    pieces = re.split(rb"(?:\A|\r\n)" + line + rb"(--)?[ \t]*(?:\r\n|\Z)", body)
    # Text and end marks alternate: preamble, mark, part, mark, …, epilogue.
    marks, texts = pieces[1::2], pieces[2::2]
    if b"--" not in marks:
        return None
    closed = marks.index(b"--")
    parts = [_part(text) for text in texts[:closed]]
    return None if None in parts else [part for part in parts if part is not None]


def _part(text: bytes) -> Part | None:
    head, found, content = (b"\r\n" + text).partition(b"\r\n\r\n")
    if not found:
        return None
    fields: dict[str, str] = {}
    for line in head.decode("utf-8", "surrogateescape").split("\r\n"):
        name, _, value = line.partition(":")
        fields[name.strip().lower()] = value.strip()
    disposition = _header(fields.get("content-disposition", ""))
    media_type = fields.get("content-type")
    return Part(
        _parameter(disposition, "name"),
        _parameter(disposition, "filename"),
        media_type.lower() if media_type else None,
        content_hash(content),
    )


def _header(value: str) -> Message:
    # Imported here, since forms are rare and every process imports this module.
    from email.message import Message

    message = Message()
    message["content-type"] = re.sub(r"[\r\n]", " ", value)
    return message


def _parameter(header: Message, name: str) -> str | None:
    value = header.get_param(name)
    return value[2] if isinstance(value, tuple) else value
