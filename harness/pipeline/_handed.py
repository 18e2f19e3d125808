"""Values of ours that the application is given: each time one of its own, so that changing it reaches nobody else."""

from __future__ import annotations

import copy
from typing import Any

from harness.pipeline._codec import NotReusable
from harness.pipeline._snapshot import guarded

_CONTAINERS = (list, tuple, set)


def handed_over(value: Any) -> Any:
    """The value with containers of its own; what else it holds (a client, an object) is the very same."""
    if type(value) is dict:
        return {key: handed_over(item) for key, item in value.items()}
    if type(value) in _CONTAINERS:
        return type(value)(map(handed_over, value))
    return value


def another(value: Any) -> Any:
    """A copy as deep as can be; the very same where its class refuses to be copied."""
    try:
        return guarded(lambda: copy.deepcopy(value))
    except NotReusable:
        return handed_over(value)
