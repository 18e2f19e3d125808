"""Which of a fork's new answers may come out otherwise when the same is asked again."""

from __future__ import annotations

from collections.abc import Iterator

from harness.record import Recording

GENERATING = ("/chat/completions", "/responses", "/completions")
"""Ends of the endpoints that take a generation's parameters."""


def jitter(run: Recording) -> Iterator[str]:
    """One line for each call that was made anew at a temperature above 0, the provider's default included.

    Its difference from the recording is the change's only as far as control forks say so. What a recording answers is
    exact at any temperature.
    """
    steps = {step.id: step.address for step in run.steps}
    for message in run.messages:
        temperature = message.params.get("temperature")
        if message.cache_state != "live" or not message.endpoint.endswith(GENERATING) or temperature == 0:
            continue
        warmth = "none given" if temperature is None else str(temperature)
        where = steps.get(message.step_id or "", message.scope) or "the workflow itself"
        yield f"{where}: {message.model or message.endpoint} was called anew with temperature {warmth}"
