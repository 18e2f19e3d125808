"""What an action declares, read from Burr's own objects: its tags, its code, what it reads."""

from __future__ import annotations

import functools
import inspect
from collections import OrderedDict
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Any, get_args

from burr.core.action import Action, FunctionBasedAction, FunctionBasedStreamingAction, Input, Result

from harness.errors import UsageError
from harness.pipeline.adapter import UNSET, StepSpec, ToolSpec, source_version
from harness.record import Determinism

_PLAIN = (Result, Input)
"""Burr's own actions that do nothing but pass values on."""
_INJECTED = ("__context", "__tracer")


class _Bound(inspect.BoundArguments):
    """Arguments by any name; state keys need not be identifiers."""

    def apply_defaults(self) -> None:
        """There are none."""


class _AnyNames(inspect.Signature):
    """Takes whatever it is given by name."""

    def bind(self, /, *args: Any, **kwargs: Any) -> inspect.BoundArguments:
        """The arguments as they are."""
        del args
        bound = _Bound(self, OrderedDict())
        # A snapshot takes a plain dict, which is what Python itself has here.
        bound.arguments = kwargs
        return bound


ANY_NAMES = _AnyNames()


def injected(name: str) -> bool:
    """Whether Burr itself hands an input in; a method's parameter carries its class's name in front."""
    return name.endswith(_INJECTED)


def step_spec(action: Action) -> StepSpec:
    """The action as a step."""
    return StepSpec(name=action.name, kind="agent", signature=ANY_NAMES, function=code(action))


def tool_spec(action: Action, stand_ins: Mapping[str, Any]) -> ToolSpec | None:
    """The action as a tool, where its tags say how it may be repeated.

    Raises:
        UsageError: A tag has a value that means nothing.
    """
    tags = dict(tag.split(":", 1) for tag in action.tags if ":" in tag)
    determinism = tags.get("determinism")
    if determinism is None:
        return None
    if determinism not in get_args(Determinism):
        known = ", ".join(get_args(Determinism))
        raise UsageError(f"action {action.name!r} has the tag determinism:{determinism}; write one of {known}")
    try:
        ttl = float(tags["ttl"]) if "ttl" in tags else None
    except ValueError as error:
        raise UsageError(
            f"action {action.name!r} has the tag ttl:{tags['ttl']}; write seconds, as in ttl:300"
        ) from error
    return ToolSpec(
        step=StepSpec(name=action.name, kind="tool", signature=ANY_NAMES),
        determinism=determinism,  # type: ignore[arg-type]  # checked to be one of them just above
        ttl=ttl,
        version=tags.get("version") or source_version(_written(action)),
        stand_in=stand_ins.get(action.name, UNSET),
    )


def code(action: Action) -> Callable[..., Any] | None:
    """Something to call that holds all the action's code and parameters; ``None`` where that cannot be told."""
    if isinstance(action, FunctionBasedAction | FunctionBasedStreamingAction):
        return functools.partial(action.fn, **action._bound_params)  # noqa: SLF001 - Burr shows them nowhere else
    if type(action) in _PLAIN:
        body: Callable[..., Any] = type(action).update
        return functools.partial(body, version("apache-burr"), tuple(action.reads), tuple(action.writes))
    if type(action).__module__.partition(".")[0] == "burr":
        return None
    for name in ("run_and_update", "stream_run", "run"):
        if name in {member for kind in type(action).__mro__ for member in vars(kind)}:
            return getattr(action, name)  # type: ignore[no-any-return]  # a bound method, the object with it
    return None


def _written(action: Action) -> Callable[..., Any]:
    """What the author wrote, the decorators' wrapping left out."""
    if isinstance(action, FunctionBasedAction | FunctionBasedStreamingAction):
        return action._originating_fn  # noqa: SLF001 - as above
    return type(action)


def module_of(action: Action) -> Callable[..., Any]:
    """The function or class whose package is the application's code."""
    return _written(action)
