"""The one-way copy of the store into Langfuse, made by a process of its own."""

from harness.mirror._datasets import DatasetPush, ItemChange, Pushed, PushPlan
from harness.mirror._freeze import FrozenRun, envelope, freeze_run, thaw
from harness.mirror._ids import span_id, trace_id
from harness.mirror._import import Imported, import_runs
from harness.mirror._items import Found
from harness.mirror._labels import Labelled, import_labels
from harness.mirror._otel_in import SpansImported, import_spans
from harness.mirror._otel_sender import OtelLane, OtelProgress
from harness.mirror._otel_settings import OtelSettings
from harness.mirror._patience import Unanswered
from harness.mirror._progress import Progress, Tally
from harness.mirror._project import ONCE, Project
from harness.mirror._prompts import LangfusePrompts
from harness.mirror._pull import DatasetPull, Pulled, PullPlan
from harness.mirror._read import FILTERS, Window
from harness.mirror._render import Context
from harness.mirror._sender import Sender
from harness.mirror._status import backfill, dead, retry, run_link, status
from harness.mirror._wire import Sent

__all__ = [
    "FILTERS",
    "ONCE",
    "Context",
    "DatasetPull",
    "DatasetPush",
    "Found",
    "FrozenRun",
    "Imported",
    "ItemChange",
    "Labelled",
    "LangfusePrompts",
    "OtelLane",
    "OtelProgress",
    "OtelSettings",
    "Progress",
    "Project",
    "PullPlan",
    "Pulled",
    "PushPlan",
    "Pushed",
    "Sender",
    "Sent",
    "SpansImported",
    "Tally",
    "Unanswered",
    "Window",
    "backfill",
    "dead",
    "envelope",
    "freeze_run",
    "import_labels",
    "import_runs",
    "import_spans",
    "retry",
    "run_link",
    "span_id",
    "status",
    "thaw",
    "trace_id",
]
