"""The two keys of a request: the exact one decides what answers it, the semantic one explains a miss."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from harness.canonical._endpoint import behaviour, locate
from harness.canonical._exact import ExactForm, exact_body
from harness.canonical._json import (
    RepeatedKeyError,
    canonical_json,
    content_hash,
    parse_for_key,
)
from harness.canonical._multipart import Part, form_parts
from harness.canonical._rules import RULES, UNKEYED, UNKEYED_SEMANTIC
from harness.canonical._semantic import SemanticForm
from harness.errors import CanonicalError

_NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class RequestKeys:
    """What a request is known by."""

    exact: str
    """``v1:`` and 64 hex digits; requests with one exact key have the same answer."""
    semantic: str
    """Like ``exact``, but equal for requests that mean the same to a model."""
    canonical: bytes
    """The canonical body behind the exact key."""
    endpoint: str
    """Path below the API root, e.g. ``/chat/completions``."""
    flags: tuple[str, ...] = ()
    """What is special: ``multipart``, ``bytes`` (other media types), ``repeated-key``, ``not-canonical`` (JSON that
    is keyed on its bytes), ``remote-url`` (content behind a URL may change)."""
    ids: tuple[str, ...] = ()
    """Provider-made ids that the semantic key renames, in order of first appearance."""


def preimage(method: str, path: str, canonical: bytes, *, extra: bytes = b"") -> bytes:
    """The bytes whose SHA-256 is a key.

    Args:
        method: HTTP method.
        path: The endpoint.
        canonical: The canonical body; it holds no line break.
        extra: Canonical JSON of headers and query that count, when there are any.
    """
    head = f"vcr1\n{method.upper()}\n{path}\n".encode()
    return head + canonical + (b"\n" + extra if extra else b"")


def request_keys(
    method: str,
    path: str,
    body: bytes,
    *,
    content_type: str = "application/json",
    headers: Iterable[tuple[str, str]] = (),
    query: str = "",
    volatile: Sequence[tuple[str, str]] = (),
    parents: Mapping[str, str] = _NOTHING,
) -> RequestKeys:
    """The keys of a request as it goes over the wire. Never raises: what has no canonical form is keyed on its bytes.

    Args:
        method: HTTP method.
        path: URL path, with or without API root and query; host and port never count.
        body: The bytes sent.
        content_type: The request's media type, parameters included.
        headers: Request headers; only those that change behaviour count.
        query: The URL's query.
        volatile: (name, text) of declared volatile values in order of their making; the i-th text of a name is
            replaced by ``⟦name#i⟧`` wherever it occurs in the body's text.
        parents: Output hash of each response id that ``previous_response_id`` may name; an unknown id stays itself.
    """
    path, _, tail = path.partition("?")
    endpoint, deployment = locate(path)
    counted = behaviour(headers, "&".join(part for part in (tail, query) if part))
    extra = canonical_json(counted) if counted else b""
    form = _Form(endpoint, volatile, parents)
    exact, semantic = form.read(body, content_type, deployment)
    exact_key = _key(preimage(method, endpoint, exact, extra=extra))
    return RequestKeys(
        exact_key,
        exact_key if semantic == exact else _key(preimage(method, endpoint, semantic, extra=extra)),
        exact,
        endpoint,
        tuple(form.flags),
        form.ids,
    )


def _key(data: bytes) -> str:
    return f"{RULES}:{content_hash(data)}"


class _Form:
    """Reads one body into its exact and semantic canonical bytes."""

    def __init__(self, endpoint: str, volatile: Sequence[tuple[str, str]], parents: Mapping[str, str]) -> None:
        self.flags: list[str] = []
        self.ids: tuple[str, ...] = ()
        self._unkeyed = UNKEYED.get(endpoint, frozenset())
        self._volatile = volatile
        self._parents = parents

    def read(self, body: bytes, content_type: str, deployment: str | None) -> tuple[bytes, bytes]:
        if not body:
            return b"", b""
        media_type = content_type.partition(";")[0].strip().lower()
        if media_type.startswith("multipart/"):
            parts = form_parts(body, content_type)
            if parts is not None:
                return self._multipart(parts)
        elif media_type in {"", "application/json"} or media_type.endswith("+json"):
            try:
                return self._json(body, deployment)
            except RepeatedKeyError:
                self.flags.append("repeated-key")
            except (CanonicalError, RecursionError):
                self.flags.append("not-canonical")
            return self._raw(body)
        self.flags.append("bytes")
        return self._raw(body)

    def _raw(self, body: bytes) -> tuple[bytes, bytes]:
        canonical = canonical_json({"⟦bytes⟧": content_hash(body)})
        return canonical, canonical

    def _json(self, body: bytes, deployment: str | None) -> tuple[bytes, bytes]:
        value = parse_for_key(body)
        if not isinstance(value, dict):
            canonical = canonical_json(ExactForm(self._volatile).value(value))
            return canonical, canonical
        kept = {name: item for name, item in value.items() if name not in self._unkeyed}
        kept, remote = exact_body(body, kept, self._volatile)
        if remote:
            self.flags.append("remote-url")
        if deployment is not None:
            kept["model"] = deployment
        exact = canonical_json(kept)
        meaning = SemanticForm(self._parents)
        semantic = canonical_json(meaning.body(kept))
        self.ids = meaning.ids
        return exact, semantic

    def _multipart(self, parts: Sequence[Part]) -> tuple[bytes, bytes]:
        self.flags.append("multipart")
        kept = [part for part in parts if part.filename is not None or part.name not in self._unkeyed]
        meant = [part for part in kept if part.filename is not None or part.name not in UNKEYED_SEMANTIC]
        return canonical_json({"⟦multipart⟧": kept}), canonical_json({"⟦multipart⟧": meant})
