"""Media: an upload address, the upload itself, its outcome."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.testing.langfuse_server._wire import Refusal, Reply, Request, iso, milliseconds, missing

UPLOADS = "/api/public/double-uploads/"
"""Where this server's presigned addresses lead."""
_EXPIRY_MS = 3_600_000


@dataclass(slots=True, kw_only=True)
class Medium:
    """One file."""

    id: str
    content_type: str
    length: int
    sha256: str
    """Base64."""
    body: bytes | None = None
    """As uploaded."""
    uploaded_at: int | None = None
    """Unix milliseconds, as the client reported it."""
    status: int | None = None
    """HTTP status the client saw at its upload."""


class Media:
    """The stored files and where they are used."""

    def __init__(self) -> None:
        self._media: dict[str, Medium] = {}
        self.links: list[dict[str, Any]] = []
        """Every request for an upload address, with ``mediaId``."""

    def all(self) -> list[Medium]:
        """Every file."""
        return list(self._media.values())

    def signed(self, request: Request) -> bool:
        """Whether the request uses an address handed out by ``address``."""
        medium = self._media.get(request.path.removeprefix(UPLOADS))
        return medium is not None and request.method in ("GET", "PUT") and request.one("signature") == medium.id[::-1]

    def address(self, given: Mapping[str, Any], base_url: str) -> dict[str, Any]:
        """Where to upload; nowhere if the file is known by its hash.

        Raises:
            Refusal: A field is missing or wrong (400).
        """
        sha256, length, kind = given.get("sha256Hash"), given.get("contentLength"), given.get("contentType")
        if not isinstance(sha256, str) or len(sha256) != 44 or not isinstance(length, int) or length <= 0:
            raise Refusal(400, "Invalid request data: sha256Hash and contentLength are required")
        if not isinstance(kind, str) or not given.get("field"):
            raise Refusal(400, "Invalid request data: contentType and field are required")
        media_id = sha256.replace("+", "-").replace("/", "_")[:22]
        medium = self._media.setdefault(media_id, Medium(id=media_id, content_type=kind, length=length, sha256=sha256))
        self.links.append({**given, "mediaId": media_id})
        url = None if medium.status in (200, 201) else self._url(medium, base_url)
        return {"mediaId": media_id, "uploadUrl": url}

    def upload(self, media_id: str, request: Request) -> Reply:
        """PUT to a presigned address.

        Raises:
            Refusal: The bytes are not those that were announced (400).
        """
        medium = self._found(media_id)
        digest = base64.b64encode(hashlib.sha256(request.raw).digest()).decode()
        if digest != medium.sha256 or len(request.raw) != medium.length:
            raise Refusal(400, "The uploaded bytes are not the announced ones")
        medium.body = request.raw
        return Reply(payload=b"")

    def outcome(self, media_id: str, given: Mapping[str, Any]) -> Reply:
        """PATCH with how the upload went."""
        medium = self._found(media_id)
        medium.uploaded_at = milliseconds(given.get("uploadedAt"), "uploadedAt")
        medium.status = given.get("uploadHttpStatus")
        return Reply(payload={})

    def view(self, media_id: str, base_url: str, *, now: int) -> dict[str, Any]:
        """GET of a file's record.

        Raises:
            Refusal: Unknown, or never uploaded (404).
        """
        medium = self._found(media_id)
        if medium.uploaded_at is None or medium.status not in (200, 201):
            raise missing("Media asset")
        return {
            "mediaId": medium.id,
            "contentType": medium.content_type,
            "contentLength": medium.length,
            "uploadedAt": iso(medium.uploaded_at),
            "url": self._url(medium, base_url),
            "urlExpiry": iso(now + _EXPIRY_MS),
        }

    def content(self, media_id: str) -> Reply:
        """GET of a presigned address: the bytes."""
        medium = self._found(media_id)
        if medium.body is None:
            raise missing("Media asset")
        return Reply(payload=medium.body, headers={"content-type": medium.content_type})

    def _found(self, media_id: str) -> Medium:
        if media_id not in self._media:
            raise missing("Media asset")
        return self._media[media_id]

    def _url(self, medium: Medium, base_url: str) -> str:
        return f"{base_url}{UPLOADS}{medium.id}?signature={medium.id[::-1]}"
