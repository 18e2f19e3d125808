"""One stored observation: what a span's attributes say, by the server's rules."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Final

from harness.testing.langfuse_server import _attributes as read
from harness.testing.langfuse_server._attributes import Origin

TYPES: Final = frozenset(
    {"generation", "embedding", "span", "agent", "tool", "chain", "retriever", "evaluator", "guardrail", "event"}
)
"""Words for the kind of an observation; matched in exactly this spelling."""
_LEVELS: Final = {
    "debug": "DEBUG",
    "default": "DEFAULT",
    "info": "DEFAULT",
    "warning": "WARNING",
    "warn": "WARNING",
    "error": "ERROR",
}
_ENVIRONMENT: Final = re.compile(r"(?!langfuse)[a-z0-9_-]{1,40}")


@dataclass(kw_only=True)
class Row:
    """A physical row. Nothing in it changes after it is stored."""

    trace_id: str
    span_id: str
    parent_id: str | None
    """As given, whether or not such a span exists."""
    name: str
    start: int
    """Unix milliseconds, floored."""
    end: int
    """Unix milliseconds; the start when the span had none."""
    status: Mapping[str, Any]
    attributes: Mapping[str, Any]
    origin: Origin
    created: int
    """Unix milliseconds of the request that brought it."""
    number: int = 0
    """Order of arrival in the table."""

    @property
    def key(self) -> tuple[str, str, int]:
        """What makes two rows one at the next merge."""
        return (self.trace_id, self.span_id, self.start)

    def copy(self) -> Row:
        """The same row once more."""
        return Row(**{each.name: getattr(self, each.name) for each in fields(self)})

    @cached_property
    def type(self) -> str:
        """In capitals."""
        word = self.attributes.get("langfuse.observation.type")
        if word is not None:
            return word.upper() if word in TYPES else "SPAN"
        if "langfuse.observation.model.name" in self.attributes:
            return "GENERATION"
        return "GENERATION" if any(key.startswith("gen_ai.") for key in self.attributes) else "SPAN"

    @property
    def is_root(self) -> bool:
        """Without a parent, or flagged by the SDK as the application's root."""
        return self.parent_id is None or read.flag(self.attributes.get("langfuse.internal.is_app_root"))

    @property
    def level(self) -> str:
        """In capitals; a failed status is an error."""
        word = self.attributes.get("langfuse.observation.level")
        if word is not None:
            return _LEVELS.get(str(word).lower(), "DEFAULT")
        return "ERROR" if self.status.get("code") in (2, "STATUS_CODE_ERROR") else "DEFAULT"

    @property
    def status_message(self) -> str | None:
        """From the attribute, else from the status."""
        return self._text("langfuse.observation.status_message") or self.status.get("message") or None

    @property
    def environment(self) -> str:
        """From the span, else from the resource; ``default`` for a name that is not allowed."""
        names = ("langfuse.environment", "deployment.environment.name", "deployment.environment")
        for place in (self.attributes, self.origin.resource):
            for name in names:
                if place.get(name):
                    found = str(place[name])
                    return found if _ENVIRONMENT.fullmatch(found) else "default"
        return "default"

    @property
    def user_id(self) -> str | None:
        """The end user."""
        return self._text("user.id", "langfuse.user.id")

    @property
    def session_id(self) -> str | None:
        """The session."""
        return self._text("session.id", "langfuse.session.id")

    @property
    def trace_name(self) -> str | None:
        """Given on this span, else the span's own name."""
        return self._text("langfuse.trace.name") or self.name or None

    @property
    def tags(self) -> list[str]:
        """From a list, a JSON list or comma-separated text."""
        return read.tags(self.attributes.get("langfuse.trace.tags"))

    @property
    def release(self) -> str | None:
        """From the span, else the resource."""
        return self._text("langfuse.release") or self._shared("langfuse.release")

    @property
    def version(self) -> str | None:
        """From the span, else the resource."""
        return self._text("langfuse.version") or self._shared("langfuse.version")

    @property
    def public(self) -> bool:
        """Whether the trace was shared."""
        return read.flag(self.attributes.get("langfuse.trace.public"))

    @property
    def input(self) -> str | None:
        """Opaque text."""
        return read.opaque(self.attributes, "langfuse.observation.input", "gen_ai.input.messages", "input.value")

    @property
    def output(self) -> str | None:
        """Opaque text."""
        return read.opaque(self.attributes, "langfuse.observation.output", "gen_ai.output.messages", "output.value")

    @property
    def model(self) -> str | None:
        """As the sender named it."""
        return self._text("langfuse.observation.model.name", "gen_ai.response.model", "gen_ai.request.model")

    @property
    def model_parameters(self) -> dict[str, Any]:
        """Temperature and the like."""
        return read.mapping(self.attributes.get("langfuse.observation.model.parameters"))

    @property
    def usage(self) -> dict[str, int]:
        """Units by bucket, ``total`` added; empty when one value was not a non-negative integer."""
        return read.usage(self.attributes)

    @property
    def cost(self) -> dict[str, float]:
        """USD by bucket, ``total`` added."""
        return read.cost(self.attributes.get("langfuse.observation.cost_details"))

    @property
    def completion_start(self) -> int | None:
        """Unix milliseconds of the first token."""
        return read.moment(self.attributes.get("langfuse.observation.completion_start_time"))

    @property
    def prompt(self) -> tuple[str, int] | None:
        """Name and version of the prompt used."""
        name = self._text("langfuse.observation.prompt.name")
        version = self.attributes.get("langfuse.observation.prompt.version")
        return (name, int(version)) if name and version is not None and str(version).isdigit() else None

    @property
    def metadata(self) -> dict[str, Any]:
        """Decoded, flattened and nested again; whole."""
        return read.metadata(self.attributes, self.origin)

    @property
    def experiment_id(self) -> str | None:
        """The experiment this span belongs to."""
        return self._text("langfuse.experiment.id")

    @property
    def is_item(self) -> bool:
        """Whether this is the row that stands for its experiment item."""
        return self.experiment_id is not None and self.span_id == self._text(
            "langfuse.experiment.item.root_observation_id"
        )

    def _text(self, *names: str) -> str | None:
        for name in names:
            value = self.attributes.get(name)
            if value is not None and value != "":
                return str(value)
        return None

    def _shared(self, name: str) -> str | None:
        value = self.origin.resource.get(name)
        return str(value) if value else None
