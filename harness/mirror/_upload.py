"""Files that stand in texts as data URLs: uploaded beside the run when that is asked for."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Final

from harness.mirror._lane import CLOSED
from harness.mirror._wire import Sent

if TYPE_CHECKING:
    from harness.mirror._freeze import FrozenRun
    from harness.mirror._lane import Lane
    from harness.mirror._media import Media
    from harness.mirror._project import Project

_MEDIA: Final = "/api/public/media"
_UPLOADED: Final = re.compile(r"(?:(?:image|audio|video)/(?!.*(?:xml|json))[\w.+-]+|application/pdf)", re.ASCII)
"""Files are not redacted: whatever is text stays a note, the XML of a drawing included."""


class Uploads:
    """Uploads the files of a run: announce, put where the server says, report the outcome.

    Source of the protocol: Langfuse's media API. A file is known by its SHA-256, so that uploading it twice is nothing.
    """

    def __init__(self, project: Project, *, lane: Lane, clock: Callable[[], datetime]) -> None:
        self._project = project
        self._lane = lane
        self._clock = clock

    def upload(self, frozen: FrozenRun) -> Sent | None:
        """Upload what became notes when the run was frozen: images, sounds, films and PDFs.

        Returns:
            The answer that kept a file from being uploaded, ``CLOSED`` when the lane did; ``None`` when all are there.
        """
        places = {
            (media.span_id, media.field, media.sha256): media
            for media in frozen.media
            if _UPLOADED.fullmatch(media.content_type.lower())
        }
        for media in places.values():
            if not self._lane.ready:
                return CLOSED
            sent = self._one(frozen.trace_id, media)
            if sent.outcome != "accepted":
                return sent
        return None

    def _one(self, trace: str, media: Media) -> Sent:
        kind, sha = media.content_type.lower(), base64.b64encode(bytes.fromhex(media.sha256)).decode()
        about = {"traceId": trace, "observationId": media.span_id, "field": media.field}
        asked = {**about, "contentType": kind, "contentLength": len(media.data), "sha256Hash": sha}
        answer = self._project.exchange("POST", _MEDIA, asked)
        if isinstance(answer, Sent):
            # A kind of file that the server does not take is no reason to keep the run back: its note stays.
            return Sent(outcome="accepted") if answer.outcome == "refused" else answer
        url, id_ = answer.get("uploadUrl"), answer.get("mediaId")
        if not url or not id_:
            return Sent(outcome="accepted")
        # The address carries its own permission: our keys stay here.
        headers = {"content-type": kind, "x-amz-checksum-sha256": sha, "x-ms-blob-type": "BlockBlob"}
        put = self._project.put_away(str(url), media.data, headers=headers)
        if put.outcome in {"retry", "ambiguous"}:
            return put
        # What is too large for the place, or not let in there, is told to the server; the run goes on with its note.
        told = {
            "uploadedAt": self._clock().isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "uploadHttpStatus": put.status or 0,
        }
        outcome = self._project.exchange("PATCH", f"{_MEDIA}/{id_}", told)
        return outcome if isinstance(outcome, Sent) else Sent(outcome="accepted")
