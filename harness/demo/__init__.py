"""The demo: a support desk for an invented company, and how its golden dataset is recorded."""

from harness.demo._record import record_fork, record_runs, record_scores, shorter_draft, unrecorded

__all__ = ["record_fork", "record_runs", "record_scores", "shorter_draft", "unrecorded"]
