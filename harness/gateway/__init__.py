"""The tap between a client and its provider: records model calls, or answers them from a recording."""

from harness.gateway._call import FORBID_LIVE, declared, is_declared
from harness.gateway._explain import Difference, differences, explain
from harness.gateway._install import install
from harness.gateway._local import record_local
from harness.gateway._price import cost_of, price_of, priced
from harness.gateway._rewrite import request_text, rewritten
from harness.gateway._wrap import wrap

__all__ = [
    "FORBID_LIVE",
    "Difference",
    "cost_of",
    "declared",
    "differences",
    "explain",
    "install",
    "is_declared",
    "price_of",
    "priced",
    "record_local",
    "request_text",
    "rewritten",
    "wrap",
]
