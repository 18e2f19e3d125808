"""Prompts kept in Langfuse, as a source for ``harness.prompt`` and ``--set prompt:NAME=langfuse:…``."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from harness.errors import PromptError, UsageError
from harness.mirror._project import ONCE, Project
from harness.mirror._wire import Sent, ask
from harness.session import FetchedPrompt

if TYPE_CHECKING:
    from langfuse.api.prompts.types.prompt import Prompt

DEFAULT_LABEL: Final = "production"
"""The label that Langfuse itself follows when none is asked for."""
_ANSWER_SECONDS = 5.0
_PLACE = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")


class LangfusePrompts:
    """Text prompts of a Langfuse project; the ``langfuse`` entry of ``goldfork.prompt_sources``.

    Source of the protocol: ``harness.session.PromptSource``, and Langfuse's ``GET /api/public/v2/prompts/{name}``.
    """

    def __init__(self, project: Project | None = None) -> None:
        """The project to ask; by default the one that the ``LANGFUSE_`` variables name, read at each fetch."""
        self._project = project

    def fetch(self, ref: str) -> FetchedPrompt:
        """The version of a prompt that its label points at now.

        Args:
            ref: ``NAME@LABEL``, or ``NAME`` for the label ``production``; a name may hold slashes (folders).

        Raises:
            PromptError: The keys are missing or wrong, Langfuse cannot be reached, there is no such prompt or label,
                or it is a chat prompt.
        """
        name, at, label = ref.rpartition("@")
        name, label = (name, label) if at else (ref, DEFAULT_LABEL)
        if not name or not label:
            raise PromptError(f"prompt reference {ref!r} is not NAME@LABEL, as in triage-draft@production")
        found = self._get(name, label)
        if found.type != "text":
            raise PromptError(
                f"prompt {name!r} of label {label!r} is a chat prompt in Langfuse, a list of messages; "
                "Goldfork's prompts are one text each, so keep it as a text prompt there"
            )
        return FetchedPrompt(
            text=_template(found.prompt), name=found.name, version=found.version, label=label, source="langfuse"
        )

    def _get(self, name: str, label: str) -> Prompt:
        try:
            project = self._project or replace(Project.from_environment(), timeout=_ANSWER_SECONDS)
        except UsageError as error:
            raise PromptError(f"prompt {name!r} cannot be fetched from Langfuse: {error}") from error
        # A slash in the name is part of it, not of the path.
        path = quote(name, safe="")
        try:
            answer: Prompt | Sent = ask(
                lambda: project.api.prompts.get(path, label=label, request_options=ONCE), now=project.clock()
            )
        finally:
            if self._project is None:
                project.close()
        if not isinstance(answer, Sent):
            return answer
        if answer.status == 404:
            raise PromptError(
                f"Langfuse at {project.host} has no prompt {name!r} with the label {label!r}; check both there"
            )
        hint = "; check the keys" if answer.outcome == "denied" else ""
        raise PromptError(f"prompt {name!r} cannot be fetched from Langfuse at {project.host}: {answer.words}{hint}")


def _template(text: str) -> str:
    """Langfuse's ``{{name}}`` places as ``{name}``; every other brace is text, and doubled."""
    pieces: list[str] = []
    done = 0
    for place in _PLACE.finditer(text):
        pieces += (_literal(text[done : place.start()]), f"{{{place[1]}}}")
        done = place.end()
    return "".join([*pieces, _literal(text[done:])])


def _literal(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")
