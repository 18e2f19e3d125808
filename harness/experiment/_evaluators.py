"""Finding evaluators by name, and binding what they ask for by parameter name."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from importlib.metadata import entry_points
from typing import Any

from harness.dataset import EvaluatorSpec
from harness.errors import EvaluatorError
from harness.score import EvaluatorContext

GROUP = "goldfork.evaluators"
"""Entry point group under which packages publish evaluators."""
_OFFERED = tuple(field.name for field in fields(EvaluatorContext))


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedEvaluator:
    """An evaluator of a dataset, ready to be called."""

    name: str
    version: str
    step: str | None
    """Address or name of the step whose output it looks at; the run's output when ``None``."""
    asks: tuple[str, ...]
    """Names out of the context that it wants."""
    call: Callable[..., Any]
    subject: Any
    """The object itself, for ``summarize``."""

    @property
    def arm(self) -> str:
        """The arm of its own model calls on recorded outputs."""
        return f"evaluator:{self.name}@{self.version}"

    @property
    def sees_run(self) -> bool:
        """Whether it looks at more of the run than one output."""
        return "run" in self.asks or "step" in self.asks

    def arguments(self, context: EvaluatorContext) -> dict[str, Any]:
        """What it is called with."""
        return {name: getattr(context, name) for name in self.asks}


def load_evaluators(specs: tuple[EvaluatorSpec, ...]) -> tuple[LoadedEvaluator, ...]:
    """Load the evaluators that a dataset or a caller names.

    Args:
        specs: ``use`` is a published name (``classification``) or ``package.module:Name``.

    Raises:
        EvaluatorError: One is unknown, cannot be built from its options, or asks for a name that is not offered;
            or two have the same name.
    """
    names = [spec.name for spec in specs]
    for name in names:
        if names.count(name) > 1:
            raise EvaluatorError(f"two evaluators are named {name!r}; give each [[evaluators]] a name of its own")
    return tuple(_load(spec) for spec in specs)


def _load(spec: EvaluatorSpec) -> LoadedEvaluator:
    options = dict(spec.options)
    step = options.pop("step", None)
    if step is not None and not isinstance(step, str):
        raise EvaluatorError(f'evaluator {spec.name!r}: step is {step!r}; write a step\'s name, as in step = "draft"')
    subject = _build(spec, _find(spec), options)
    call = subject.evaluate if hasattr(subject, "evaluate") else subject
    if not callable(call):
        raise EvaluatorError(
            f"evaluator {spec.name!r}: {spec.use!r} is neither a function nor an object with an evaluate method"
        )
    return LoadedEvaluator(
        name=spec.name,
        version=str(getattr(subject, "version", "") or "1"),
        step=step,
        asks=_asks(spec, call),
        call=call,
        subject=subject,
    )


def _find(spec: EvaluatorSpec) -> Any:
    known = {point.name: point for point in entry_points(group=GROUP)}
    if spec.use in known:
        path = known[spec.use].value
    elif ":" in spec.use:
        path = spec.use
    else:
        listed = ", ".join(sorted(known)) or "none is installed"
        raise EvaluatorError(
            f"evaluator {spec.name!r}: there is no evaluator {spec.use!r}; "
            f"known are {listed}; your own is named package.module:Name"
        )
    module, _, attributes = path.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for attribute in attributes.split("."):
            found = getattr(found, attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise EvaluatorError(f"evaluator {spec.name!r}: cannot import {path!r}: {error}") from error
    return found


def _build(spec: EvaluatorSpec, found: Any, options: dict[str, Any]) -> Any:
    """An object of a class, a function with its options bound, or a ready object."""
    if inspect.isclass(found):
        parameters = inspect.signature(found).parameters
        if "name" in parameters:
            options.setdefault("name", spec.name)
        try:
            return found(**options)
        except (TypeError, ValueError) as error:
            raise EvaluatorError(
                f"evaluator {spec.name!r}: {spec.use!r} does not take these options: {_first_line(error)}"
            ) from error
    if not options:
        return found
    if not inspect.isroutine(found):
        raise EvaluatorError(f"evaluator {spec.name!r}: {spec.use!r} is a ready object and takes no options")
    unknown = sorted(set(options) - set(inspect.signature(found).parameters))
    if unknown:
        raise EvaluatorError(f"evaluator {spec.name!r}: {spec.use!r} has no option {unknown[0]!r}")
    bound = functools.partial(found, **options)
    functools.update_wrapper(bound, found)
    return bound


def _asks(spec: EvaluatorSpec, call: Callable[..., Any]) -> tuple[str, ...]:
    bound: Mapping[str, Any] = call.keywords if isinstance(call, functools.partial) else {}
    asks = []
    for name, parameter in _signature(call).parameters.items():
        if name in bound or parameter.kind is parameter.VAR_KEYWORD:
            continue
        if name in _OFFERED and parameter.kind is not parameter.POSITIONAL_ONLY:
            asks.append(name)
        elif parameter.default is parameter.empty:
            raise EvaluatorError(
                f"evaluator {spec.name!r} asks for {name!r}, which is not offered; "
                f"parameters are bound by name out of {', '.join(sorted(_OFFERED))}"
            )
    return tuple(asks)


def _signature(call: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(call.func if isinstance(call, functools.partial) else call)


def _first_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
