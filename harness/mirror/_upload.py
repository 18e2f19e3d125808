"""Files that stand in texts as data URLs: uploaded beside the run when that is asked for."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Final

from harness.errors import DatasetError, StoreError
from harness.mirror._ids import span_id, trace_id
from harness.mirror._wire import Sent, by_error, by_status

if TYPE_CHECKING:
    from harness.mirror._freeze import FrozenRun
    from harness.mirror._project import Project
    from harness.record import Hash, Recording

_MEDIA: Final = "/api/public/media"
_DATA_URL = re.compile(rb"data:([A-Za-z0-9.+-]+/[A-Za-z0-9.+-]+);base64,([A-Za-z0-9+/=]+)")


class Uploads:
    """Uploads the files of a run: announce, put where the server says, report the outcome.

    Source of the protocol: Langfuse's media API. A file is known by its SHA-256, so that uploading it twice is nothing.
    """

    def __init__(self, project: Project, *, clock: Callable[[], datetime]) -> None:
        self._project = project
        self._clock = clock

    def upload(self, recording: Recording, frozen: FrozenRun) -> Sent | None:
        """Upload what became notes when the run was frozen.

        Returns:
            The answer that kept a file from being uploaded; ``None`` when all are there.
        """
        wanted = {media.sha256 for media in frozen.media}
        if not wanted:
            return None
        done: set[tuple[str, str, str]] = set()
        for span, field, content in _places(recording):
            for kind, data in _files(recording, content):
                digest = hashlib.sha256(data)
                place = (span, field, digest.hexdigest())
                if place[2] not in wanted or place in done:
                    continue
                done.add(place)
                about = {"traceId": trace_id(recording.run.id), "observationId": span, "field": field}
                sent = self._one(about, kind, data, digest.digest())
                if sent.outcome != "accepted":
                    return sent
        return None

    def _one(self, about: dict[str, str], kind: str, data: bytes, digest: bytes) -> Sent:
        sha = base64.b64encode(digest).decode()
        asked = {**about, "contentType": kind, "contentLength": len(data), "sha256Hash": sha}
        answer = self._project.exchange("POST", _MEDIA, asked)
        if isinstance(answer, Sent):
            # A kind of file that the server does not take is no reason to keep the run back: its note stays.
            return Sent(outcome="accepted") if answer.outcome == "refused" else answer
        url, media = answer.get("uploadUrl"), answer.get("mediaId")
        if not url or not media:
            return Sent(outcome="accepted")
        put = self._put(str(url), kind, data, sha)
        told = {
            "uploadedAt": self._clock().isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "uploadHttpStatus": put.status or 0,
        }
        if put.outcome == "accepted":
            outcome = self._project.exchange("PATCH", f"{_MEDIA}/{media}", told)
            return outcome if isinstance(outcome, Sent) else put
        return put

    def _put(self, url: str, kind: str, data: bytes, sha: str) -> Sent:
        """Put the bytes at the presigned address, which carries its own permission: our keys stay here."""
        import httpx

        headers = {"content-type": kind, "x-amz-checksum-sha256": sha, "x-ms-blob-type": "BlockBlob"}
        try:
            answer = httpx.put(url, content=data, headers=headers, timeout=self._project.timeout)
        except httpx.RequestError as error:
            return by_error(error)
        return by_status(answer.status_code, answer.headers, "", now=self._clock())


def _places(recording: Recording) -> Iterator[tuple[str, str, Hash]]:
    """Where content stands: observation, field, hash."""
    for step in recording.steps:
        span = span_id("step", step.id)
        yield from ((span, field, hash_) for field, hash_ in _named(step.input_hash, step.output_hash))
    for message in recording.messages:
        span = span_id("message", message.id)
        answer = message.answer.body_hash if message.answer else None
        yield from ((span, field, hash_) for field, hash_ in _named(message.request_hash, answer))


def _named(given: Hash | None, made: Hash | None) -> Iterator[tuple[str, Hash]]:
    if given is not None:
        yield "input", given
    if made is not None:
        yield "output", made


def _files(recording: Recording, content: Hash) -> Iterator[tuple[str, bytes]]:
    try:
        body = recording.read(content)
    except (DatasetError, StoreError):
        return
    # Some writers escape the slashes of JSON, which would tear a data URL apart.
    for kind, data in _DATA_URL.findall(body.replace(b"\\/", b"/")):
        try:
            yield kind.decode(), base64.b64decode(data, validate=True)
        except binascii.Error:
            continue
