"""Content encodings undone, for views only: what is stored stays as received."""

from __future__ import annotations

import importlib
import zlib
from typing import Any, Protocol


class _Decoder(Protocol):
    def feed(self, data: bytes) -> bytes: ...


class _Identity:
    def feed(self, data: bytes) -> bytes:
        return data


class _Zlib:
    """gzip, and deflate with or without its header."""

    def __init__(self, bits: int) -> None:
        self._bits = bits
        self._inner = zlib.decompressobj(bits)
        self._first = True

    def feed(self, data: bytes) -> bytes:
        first, self._first = self._first, False
        try:
            return self._inner.decompress(data)
        except zlib.error:
            if not first or self._bits != zlib.MAX_WBITS:
                raise
            self._inner = zlib.decompressobj(-zlib.MAX_WBITS)
            return self._inner.decompress(data)


class _Foreign:
    """br and zstd, by whichever package is installed."""

    def __init__(self, module: str, maker: str, method: str, error: str) -> None:
        package = importlib.import_module(module)
        made: Any = getattr(package, maker)()
        if module == "zstandard":
            made = made.decompressobj()
        self._feed: Any = getattr(made, method)
        self._error: type[Exception] = getattr(package, error)

    def feed(self, data: bytes) -> bytes:
        try:
            return bytes(self._feed(data))
        except self._error as error:
            raise ValueError(str(error)) from error


_FOREIGN = {
    "br": (
        ("brotli", "Decompressor", "process", "error"),
        ("brotlicffi", "Decompressor", "decompress", "error"),
    ),
    "zstd": (
        ("compression.zstd", "ZstdDecompressor", "decompress", "ZstdError"),
        ("zstandard", "ZstdDecompressor", "decompress", "ZstdError"),
    ),
}


class BodyDecoder:
    """Undoes a ``content-encoding`` header, incrementally.

    Attributes:
        error: Why the body cannot be read, once it cannot; what was decoded before stays good.
    """

    def __init__(self, encoding: str) -> None:
        self.error: str | None = None
        names = [name.strip().lower() for name in encoding.split(",") if name.strip()]
        self._steps = [self._decoder(name) for name in reversed(names)]

    def feed(self, data: bytes) -> bytes:
        """Decode more bytes; nothing after an error."""
        if self.error is not None:
            return b""
        try:
            for step in self._steps:
                data = step.feed(data)
        except (zlib.error, ValueError, EOFError) as error:
            self.error = f"the body is not what its content-encoding says: {error}"
            return b""
        return data

    def _decoder(self, name: str) -> _Decoder:
        if name == "identity":
            return _Identity()
        if name in {"gzip", "x-gzip"}:
            return _Zlib(zlib.MAX_WBITS | 16)
        if name == "deflate":
            return _Zlib(zlib.MAX_WBITS)
        for choice in _FOREIGN.get(name, ()):
            try:
                return _Foreign(*choice)
            except ImportError:
                continue
        self.error = f"content-encoding {name!r} cannot be undone here"
        return _Identity()


def decode_body(body: bytes, encoding: str) -> tuple[bytes, str | None]:
    """The body without its content encoding, and what went wrong, if anything."""
    if not encoding:
        return body, None
    decoder = BodyDecoder(encoding)
    return decoder.feed(body), decoder.error
