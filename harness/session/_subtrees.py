"""What stands below each step of a recording, found without going through all of it each time."""

from __future__ import annotations

from collections import defaultdict

from harness.record import MessageRecord, Recording, StepRecord, VolatileRecord

Row = StepRecord | MessageRecord


class Subtrees:
    """An index of one recording."""

    def __init__(self, recording: Recording) -> None:
        self._children: defaultdict[str, list[Row]] = defaultdict(list)
        for step in recording.steps:
            if step.parent_id is not None:
                self._children[step.parent_id].append(step)
        for message in recording.messages:
            if message.step_id is not None:
                self._children[message.step_id].append(message)
        self._drawn: defaultdict[str | None, list[tuple[int, VolatileRecord]]] = defaultdict(list)
        for place, value in enumerate(recording.volatile):
            self._drawn[value.step_id].append((place, value))

    def below(self, step: StepRecord) -> list[Row]:
        """Steps, tools and messages inside a step, in order of start."""
        found: list[Row] = []
        todo = [step.id]
        while todo:
            for row in self._children.get(todo.pop(), ()):
                found.append(row)
                if isinstance(row, StepRecord):
                    todo.append(row.id)
        return sorted(found, key=lambda row: row.seq)

    def drawn(self, steps: set[str], scope: str) -> list[tuple[int, VolatileRecord]]:
        """Declared values drawn in these steps, with their place among all; without a step, those of the scope."""
        # The scope alone would take over what other visits drew; it stands in where no step was recorded.
        loose = [entry for entry in self._drawn.get(None, ()) if f"{entry[1].scope}/".startswith(f"{scope}/")]
        return sorted([*loose, *(entry for step in steps for entry in self._drawn.get(step, ()))], key=lambda e: e[0])
