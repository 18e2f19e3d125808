"""What the standard ``OTEL_`` variables say about where spans go, and what may be in them."""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from harness.errors import UsageError

_TRACES_PATH: Final = "/v1/traces"
_LANGFUSE_PATHS: Final = ("/api/public/otel", "/api/public/otel/v1/traces")
_LANGFUSE_CLOUD: Final = "https://cloud.langfuse.com"
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""A header's name, RFC 9110 section 5.6.2."""
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_WITH_CONTENT = frozenset({"true", "span_only", "span_and_event"})
"""Words of the content variable that put messages into spans; ``event_only`` does not, and we send spans only."""
_SERVICE = "goldfork"
_SECONDS = 10.0
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, kw_only=True)
class OtelSettings:
    """Where spans go and what is in them.

    Source: the OpenTelemetry specification's environment variables (general SDK and OTLP exporter).
    """

    endpoint: str
    """Address that requests are posted to, path included."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Sent with every request; they may hold keys."""
    timeout: float = _SECONDS
    """Seconds to wait for an answer."""
    gzip: bool = False
    """Whether requests are compressed."""
    resource: Mapping[str, str] = field(default_factory=lambda: {"service.name": _SERVICE})
    """Attributes of the resource, ``service.name`` among them."""
    content: bool = False
    """Whether inputs, outputs and messages are in the spans."""
    certificate: str = ""
    """PEM file of who may vouch for the endpoint; empty for the usual authorities."""
    client_certificate: str = ""
    """PEM file that this client shows; empty for none."""
    client_key: str = ""
    """PEM file of its private key; empty where the certificate's file holds it."""
    skipped: str = ""
    """Why nothing is sent although an endpoint is set; empty when it is."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> OtelSettings | None:
        """What the variables say; ``None`` when no endpoint is set, or exporting is switched off.

        Args:
            environment: The process's by default.

        Raises:
            UsageError: A variable holds something that cannot be honoured.
        """
        values = {k: v.strip() for k, v in (os.environ if environment is None else environment).items() if v.strip()}
        off = values.get("OTEL_SDK_DISABLED", "").lower() == "true" or values.get("OTEL_TRACES_EXPORTER") == "none"
        endpoint = values.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
        if endpoint is None and "OTEL_EXPORTER_OTLP_ENDPOINT" in values:
            endpoint = values["OTEL_EXPORTER_OTLP_ENDPOINT"].rstrip("/") + _TRACES_PATH
        if off or endpoint is None:
            return None
        _check_protocol(values)
        _check_endpoint(endpoint)
        found = cls(
            endpoint=endpoint,
            headers=_headers(values),
            timeout=_timeout(values),
            gzip=_compressed(values),
            resource=_resource(values),
            content=values.get("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "").lower() in _WITH_CONTENT,
            **_files(values),
            skipped=_second_export(endpoint, values),
        )
        if endpoint.lower().startswith("https:") and (found.certificate or found.client_certificate):
            # Said now: later nobody may be looking.
            found.tls()
        return found

    @property
    def host(self) -> str:
        """Host and port, for people."""
        return urlsplit(self.endpoint).netloc

    def tls(self) -> ssl.SSLContext:
        """How an https endpoint is checked, and what is shown to it.

        Raises:
            UsageError: A file holds no certificate, or no key that fits and needs no password.
        """
        import httpx

        try:
            context = ssl.create_default_context(cafile=self.certificate) if self.certificate else None
        except (ssl.SSLError, OSError) as error:
            raise UsageError(f"{self.certificate!r} holds no certificate in PEM form: {_why(error)}") from error
        context = context or httpx.create_ssl_context()
        if self.client_certificate:
            try:
                # Without a password at hand OpenSSL would ask the terminal.
                context.load_cert_chain(self.client_certificate, self.client_key or None, password="")
            except (ssl.SSLError, OSError) as error:
                raise UsageError(
                    f"{self.client_certificate!r} and its key {self.client_key or self.client_certificate!r} are no "
                    f"certificate and key, in PEM form and without a password, that belong together: {_why(error)}"
                ) from error
        return context


def _check_protocol(values: Mapping[str, str]) -> None:
    name, value = _either(values, "PROTOCOL")
    if value and value not in {"http/json", "http/protobuf"}:
        raise UsageError(
            f"{name} asks for {value!r}, but goldfork sends OTLP over HTTP as JSON; set it to http/json and the "
            "endpoint to the collector's HTTP port (usually 4318)"
        )


def _check_endpoint(endpoint: str) -> None:
    try:
        parts = urlsplit(endpoint)
        known = parts.scheme in _PORTS and bool(parts.hostname) and parts.port != 0
    except ValueError:
        known, parts = False, urlsplit("")
    if not known:
        raise UsageError("the OTLP endpoint is no http or https address; give one such as http://localhost:4318")
    if parts.username or parts.password:
        raise UsageError(
            "the OTLP endpoint holds a user or password; leave it out and give an authorization header in "
            "OTEL_EXPORTER_OTLP_HEADERS"
        )


def _either(values: Mapping[str, str], what: str) -> tuple[str, str]:
    """The variable for traces, else the one for all signals, and its value; ``""`` when neither is set."""
    for name in (f"OTEL_EXPORTER_OTLP_TRACES_{what}", f"OTEL_EXPORTER_OTLP_{what}"):
        if name in values:
            return name, values[name]
    return f"OTEL_EXPORTER_OTLP_{what}", ""


def _headers(values: Mapping[str, str]) -> dict[str, str]:
    variable, text = _either(values, "HEADERS")
    found = _pairs(variable, text)
    for name, value in found.items():
        # A message must not repeat what may be a key.
        if not _NAME.fullmatch(name):
            raise UsageError(f"{variable} has an entry whose name is none of a header; write name=value,name=value")
        if _CONTROL.search(value) or not value.isascii():
            raise UsageError(f"the value of header {name!r} in {variable} holds characters that no header may have")
    return {name.lower(): value for name, value in found.items()}


def _pairs(variable: str, text: str) -> dict[str, str]:
    """``key=value,key=value``, percent-decoded, as in a W3C baggage header."""
    found: dict[str, str] = {}
    for entry in filter(None, map(str.strip, text.split(","))):
        name, equals, value = entry.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"{variable} is no list of name=value pairs; write name=value,name=value")
        try:
            found[unquote(name.strip(), errors="strict")] = unquote(value.strip(), errors="strict")
        except UnicodeDecodeError as error:
            raise UsageError(f"{variable} has a percent-encoded value that is no UTF-8; encode it again") from error
    return found


def _files(values: Mapping[str, str]) -> dict[str, str]:
    """The files for an https endpoint, each there."""
    found = {}
    for what in ("CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY"):
        variable, path = _either(values, what)
        if path and not Path(path).is_file():
            raise UsageError(f"{variable} names {path!r}, and there is no such file; correct the path or unset it")
        found[what.lower()] = path
    if found["client_key"] and not found["client_certificate"]:
        raise UsageError(
            "there is a client key and no client certificate for the OTLP endpoint; set "
            "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE as well"
        )
    return found


def _why(error: OSError) -> str:
    return getattr(error, "reason", "") or error.strerror or type(error).__name__


def _timeout(values: Mapping[str, str]) -> float:
    variable, text = _either(values, "TIMEOUT")
    if not text:
        return _SECONDS
    if not (text.isascii() and text.isdigit() and 0 < int(text[:12]) < 10**9):
        raise UsageError(f"{variable} is {text!r}; give a whole number of milliseconds, such as 10000")
    return int(text) / 1000


def _compressed(values: Mapping[str, str]) -> bool:
    variable, text = _either(values, "COMPRESSION")
    if text not in {"", "gzip", "none"}:
        raise UsageError(f"{variable} is {text!r}; give gzip or none")
    return text == "gzip"


def _resource(values: Mapping[str, str]) -> dict[str, str]:
    named = _pairs("OTEL_RESOURCE_ATTRIBUTES", values.get("OTEL_RESOURCE_ATTRIBUTES", ""))
    service = values.get("OTEL_SERVICE_NAME") or named.get("service.name") or _SERVICE
    return {**named, "service.name": service}


def _second_export(endpoint: str, values: Mapping[str, str]) -> str:
    """Why this would send to Langfuse what the mirror sends there already."""
    theirs = urlsplit(endpoint)
    project = values.get("LANGFUSE_BASE_URL") or values.get("LANGFUSE_HOST")
    if project is None and "LANGFUSE_PUBLIC_KEY" in values:
        project = _LANGFUSE_CLOUD
    same = project is not None and _origin(project) == _origin(endpoint)
    if not same and not theirs.path.rstrip("/").endswith(_LANGFUSE_PATHS):
        return ""
    return (
        f"the OTLP endpoint {theirs.netloc!r} is Langfuse's own, which the mirror feeds; nothing is sent there twice "
        "(unset OTEL_EXPORTER_OTLP_ENDPOINT, or point it at another collector)"
    )


def _origin(url: str) -> tuple[str, str | None, int | None]:
    try:
        parts = urlsplit(url)
        return parts.scheme, parts.hostname, parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return url, None, None
