"""Where a request goes, without the host: the endpoint, and the parts of head and query that change behaviour."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from urllib.parse import parse_qsl, unquote

_DEPLOYMENT = re.compile(r"^(?:/[^/]+)*?/deployments/(?P<name>[^/]+)(?P<rest>/.+)$")
_VERSION = re.compile(r"^(?:/[^/]+){0,4}?/v\d+[a-z0-9]*(?:/openai)?(?=/)")
_HEADS = frozenset(
    {"audio", "batches", "chat", "completions", "conversations", "embeddings", "files", "images", "messages"}
    | {"models", "moderations", "rerank", "responses", "score", "threads", "uploads", "vector_stores", "videos"}
)
_HEADERS = frozenset({"anthropic-beta", "anthropic-version", "openai-beta"})
_LISTS = frozenset({"anthropic-beta", "openai-beta"})
_CREDENTIALS = frozenset(
    {"access_token", "api-key", "api_key", "apikey", "auth", "authorization", "key", "sig", "signature", "token"}
)


@lru_cache(maxsize=1024)
def locate(path: str) -> tuple[str, str | None]:
    """The endpoint that a URL path names, and the deployment (a model) if the path names one.

    The endpoint is the path below the API root, which ends at the first version segment; without one, at the
    first segment that is known to begin an endpoint. So a proxy and a direct call share recordings.
    """
    path = "/" + "/".join(part for part in path.split("/") if part)
    deployed = _DEPLOYMENT.match(path)
    if deployed:
        return deployed["rest"], unquote(deployed["name"])
    root = _VERSION.match(path)
    if root:
        return path[root.end() :], None
    parts = path.split("/")
    for index, part in enumerate(parts):
        if part in _HEADS:
            return "/" + "/".join(parts[index:]), None
    return path, None


def behaviour(headers: Iterable[tuple[str, str]], query: str) -> dict[str, list[list[str]]]:
    """Headers and query that belong to a key: sorted, lower-cased names, no credentials; empty when there are none."""
    kept: dict[str, list[list[str]]] = {}
    named = sorted(
        [name, _listed(value) if name in _LISTS else value.strip()]
        for name, value in ((name.lower(), value) for name, value in headers)
        if name in _HEADERS
    )
    if named:
        kept["headers"] = named
    if query:
        pairs = sorted(
            [name, value]
            for name, value in parse_qsl(query.removeprefix("?"), keep_blank_values=True)
            if name.lower() not in _CREDENTIALS
        )
        if pairs:
            kept["query"] = pairs
    return kept


def _listed(value: str) -> str:
    return ",".join(sorted(part.strip() for part in value.split(",") if part.strip()))
