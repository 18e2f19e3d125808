"""What a pipeline is called with, taken from a recording or a case."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from harness.pipeline import NotReusable, plain, restore
from harness.record import Recording

Call = tuple[tuple[Any, ...], Mapping[str, Any]]


def recorded_input(recording: Recording) -> Any:
    """The arguments of a recorded run by parameter, as the values they were; as plain JSON values where that fails."""
    digest = recording.run.input_order or recording.run.input_hash
    if digest is None:
        return None
    data = recording.read(digest)
    try:
        return restore(data)
    except NotReusable:
        return plain(data)


def arguments(target: Callable[..., Any], inputs: Any) -> Call:
    """Positional and keyword arguments for an object with parameters, or for a single argument.

    The object may hold each parameter under its own name (what a recording holds, ``*args`` and ``**kwargs`` as a list
    and an object), or be the keyword arguments themselves.
    """
    if not isinstance(inputs, Mapping):
        return (inputs,), {}
    signature = inspect.signature(target)
    for args, kwargs in (_by_parameter(signature, inputs), ((), inputs)):
        try:
            signature.bind(*args, **kwargs)
        except TypeError:
            continue
        return args, dict(kwargs)
    return (inputs,), {}


def _by_parameter(signature: inspect.Signature, inputs: Mapping[str, Any]) -> Call:
    """The call in which every parameter has its value; the bare keyword arguments where there is none."""
    kinds = {name: parameter.kind for name, parameter in signature.parameters.items()}
    for name, value in inputs.items():
        kind = kinds.get(name)
        odd_list = kind is inspect.Parameter.VAR_POSITIONAL and not isinstance(value, list | tuple)
        odd_object = kind is inspect.Parameter.VAR_KEYWORD and not (
            isinstance(value, Mapping) and all(isinstance(key, str) for key in value)
        )
        if kind is None or odd_list or odd_object:
            return (), inputs
    bound = signature.bind_partial()
    bound.arguments.update(inputs)
    bound.apply_defaults()
    return bound.args, bound.kwargs
