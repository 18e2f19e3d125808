"""Asking the REST API for a person who waits: a few patient tries, then one clear sentence."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

from harness.errors import GoldforkError
from harness.mirror._project import Project
from harness.mirror._wire import Sent, ask, backoff

T = TypeVar("T")

TRIES: Final = 5
"""How often one question is asked before the command gives up."""
MAX_PAUSE: Final = 60.0
"""Longest pause between two tries, in seconds, whatever the server asks for: a person is waiting."""


class Unanswered(GoldforkError):
    """Langfuse did not do what was asked of it.

    Attributes:
        status: HTTP status of the last answer; ``None`` when none came.
    """

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class Patient:
    """One project, asked with retries. Every question must be safe to repeat."""

    def __init__(self, project: Project, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self.project = project
        self._sleep = sleep

    def ask(self, what: str, call: Callable[[], T]) -> T:
        """The answer of one REST call.

        Args:
            what: The action for the error message, as in ``"item 'x' cannot be written"``.
            call: Makes the call with ``request_options=ONCE``.

        Raises:
            Unanswered: The server refuses it, or does not answer after ``TRIES`` tries.
        """
        tried = 1
        while isinstance(answer := ask(call, now=self.project.clock()), Sent):
            if answer.outcome in {"refused", "denied"} or tried == TRIES:
                raise Unanswered(
                    f"{what} at {self.project.host}: {answer.words}{_advice(answer)}", status=answer.status
                )
            self._sleep(min(backoff(tried, asked=answer.retry_after), MAX_PAUSE))
            tried += 1
        return answer


def _advice(answer: Sent) -> str:
    if answer.outcome == "denied":
        return "" if answer.status in {404, 409} else "; check the keys and the address"
    return "" if answer.outcome == "refused" else "; try again later"
