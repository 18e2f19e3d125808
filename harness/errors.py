"""Everything Goldfork raises.

Two roots, because two kinds of failure need two kinds of handling::

    GoldforkError (Exception)            something was asked for that cannot be done
    ├── UsageError                       the request itself is wrong: option, setting, target, evaluator
    │   ├── TargetError                  the pipeline to run cannot be imported or called
    │   ├── PromptError                  a prompt's text cannot be had from its source
    │   └── EvaluatorError               an evaluator is unknown or wrongly configured
    ├── CanonicalError                   a value has no canonical form
    ├── DatasetError                     a golden dataset cannot be read, or does not match its version
    │   ├── DatasetMissing               there is no such dataset, case or recording
    │   └── DatasetEdited                files differ from the digest of their version
    ├── StoreOpenError                   the database cannot be opened
    │   └── SchemaTooNew                 the database was written by a newer Goldfork
    ├── ReadError                        the server that an import reads from does not answer
    └── ChangeError                      a fork's change is malformed or addresses nothing
        └── UndeclaredChange             something else differs from the recorded run as well

    GoldforkStop (BaseException)         the run must stop, whatever the application catches
    ├── RecordingMissing                 a replay asked for something that was never recorded
    │   └── RecordingExhausted           it was recorded, but all its recordings are used
    ├── ToolUndeclared                   a replay reached a tool that declares no determinism
    ├── SideEffectBlocked                a side effect without recording or stand-in, in a dry run
    ├── LiveCallForbidden                a model call without a provider key, or where none is allowed
    ├── StatefulFork                     a replayed response id would be sent to a live provider
    └── StoreError                       a reply could not be stored; it carries the reply

``GoldforkStop`` is not an ``Exception``, like ``KeyboardInterrupt``: SDKs retry and wrap every ``Exception``
that a transport raises, and agents answer it with a fallback; both would turn a missing recording into a
plausible but false result.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "CanonicalError",
    "ChangeError",
    "DatasetEdited",
    "DatasetError",
    "DatasetMissing",
    "EvaluatorError",
    "GoldforkError",
    "GoldforkStop",
    "LiveCallForbidden",
    "PromptError",
    "ReadError",
    "RecordingExhausted",
    "RecordingMissing",
    "SchemaTooNew",
    "SideEffectBlocked",
    "StatefulFork",
    "StoreError",
    "StoreOpenError",
    "TargetError",
    "ToolUndeclared",
    "UndeclaredChange",
    "UsageError",
]


class GoldforkError(Exception):
    """Something was asked for that cannot be done; the message says what, where and what to do."""


class UsageError(GoldforkError):
    """The request itself is wrong: an option, a setting, a name."""


class TargetError(UsageError):
    """The pipeline to run cannot be imported or called."""


class PromptError(UsageError):
    """A prompt's text cannot be had from its source, or is no text prompt."""


class EvaluatorError(UsageError):
    """An evaluator is unknown or wrongly configured."""


class CanonicalError(GoldforkError):
    """A value has no canonical form (NaN, a lone surrogate, an unsupported type)."""


class DatasetError(GoldforkError):
    """A golden dataset cannot be read or written."""


class DatasetMissing(DatasetError):
    """There is no such dataset, case or recording."""


class DatasetEdited(DatasetError):
    """Files differ from the digest that their version recorded."""


class StoreOpenError(GoldforkError):
    """The database cannot be opened."""


class SchemaTooNew(StoreOpenError):
    """The database was written by a newer Goldfork."""


class ReadError(GoldforkError):
    """The server that an import reads from does not answer, or not with what was asked for."""


class ChangeError(GoldforkError):
    """A fork's change is malformed or addresses nothing.

    ``outcome`` is that of the fork (``harness.replay.RunOutcome``) where only running it showed that the change alters
    nothing: what it called is in there, and was paid; ``None`` where nothing was run.
    """

    outcome: Any = None


class UndeclaredChange(ChangeError):
    """Something else than the declared change differs from the recorded run.

    ``undeclared`` holds a sentence for each such difference.
    """

    def __init__(self, message: str, *, undeclared: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.undeclared = undeclared


class GoldforkStop(BaseException):
    """The run must stop, whatever the application's own handlers catch."""


class RecordingMissing(GoldforkStop):
    """A replay asked for something that was never recorded."""


class RecordingExhausted(RecordingMissing):
    """The request was recorded, but every recording of it has been used."""


class ToolUndeclared(GoldforkStop):
    """A replay reached a tool that declares no determinism."""


class SideEffectBlocked(GoldforkStop):
    """A side effect with neither recorded result nor stand-in was reached in a dry run."""


class LiveCallForbidden(GoldforkStop):
    """A model call was needed where none may be made."""


class StatefulFork(GoldforkStop):
    """A response id from a recording would have been sent to a live provider."""


class StoreError(GoldforkStop):
    """A record could not be stored.

    Attributes:
        reply: What the provider had answered, so that it is not lost; ``None`` when there was none.
    """

    def __init__(self, message: str, *, reply: Any = None) -> None:
        super().__init__(message)
        self.reply = reply
