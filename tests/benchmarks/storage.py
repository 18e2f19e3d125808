"""Bytes on disk for one growing conversation, beside vcrpy and whole requests in SQLite.

    python tests/benchmarks/storage.py [--quick]

Every turn sends everything said so far: a 2 KB system prompt, 10 tools and about 1.3 KB of new text a turn. The text
is the same on every run (fixed seed) and goes through a real client to a scripted provider.
"""

from __future__ import annotations

import itertools
import json
import random
import sqlite3
import tempfile
from collections.abc import Sequence
from contextlib import closing
from functools import lru_cache
from pathlib import Path
from typing import Any

import openai
import vcr
from measuring import heading, options, say, table

import harness
from harness.dataset import GoldenDataset
from harness.session import Mode, RunPlan, planned
from harness.store import open_store
from harness.testing import ScriptedServer
from harness.testing._scripted import Seen

SEED = 20261130
WORDS = 4000
NEW_TEXT = 650
"""Characters of a question and of an answer; together, with their envelopes, about 1.3 KB a turn."""
FULL = (50, 100, 200)
QUICK = (4, 8, 16)


@lru_cache
def _vocabulary() -> tuple[Sequence[str], Sequence[float]]:
    """Invented words, and how often each is used (Zipf)."""
    chance = random.Random(SEED)
    words = ["".join(chance.choices("etaoinshrdlucmfw", k=chance.randint(2, 10))) for _ in range(WORDS)]
    return words, list(itertools.accumulate(1 / rank for rank in range(1, WORDS + 1)))


def text(name: str, size: int) -> str:
    """Text of a size, the same for a name on every run."""
    words, weights = _vocabulary()
    chance = random.Random(f"{SEED}/{name}")
    return " ".join(chance.choices(words, cum_weights=weights, k=size))[:size]


def tool(number: int) -> dict[str, Any]:
    """The schema of one tool, some 0.6 KB."""
    fields = {
        f"field_{field}": {"type": "string", "description": text(f"tool {number} field {field}", 90)}
        for field in range(3)
    }
    return {
        "type": "function",
        "function": {
            "name": f"tool_{number}",
            "description": text(f"tool {number}", 120),
            "parameters": {"type": "object", "properties": fields, "required": list(fields)},
        },
    }


TOOLS = [tool(number) for number in range(10)]
SYSTEM = text("system", 2048)


def answer(seen: Seen) -> str:
    """The answer of a turn."""
    return text(f"answer {len(seen.json['messages']) // 2}", NEW_TEXT)


def converse(client: Any, turns: int) -> None:
    """The conversation: every request holds all that came before."""
    messages: list[dict[str, str]] = [{"role": "system", "content": SYSTEM}]
    for turn in range(1, turns + 1):
        messages.append({"role": "user", "content": text(f"question {turn}", NEW_TEXT)})
        reply = client.chat.completions.create(model="gpt-4.1", messages=messages, tools=TOOLS, temperature=0.2)
        messages.append({"role": "assistant", "content": reply.choices[0].message.content})


def client_of(url: str) -> Any:
    """The client that everybody calls with."""
    return openai.OpenAI(base_url=url, api_key="sk-test-0123456789", max_retries=0)


def vacuumed(file: Path) -> int:
    """The size of an SQLite file without free pages."""
    with closing(sqlite3.connect(file)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        database.execute("VACUUM")
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return file.stat().st_size


def payload(file: Path) -> int:
    """What rows and index entries of an SQLite file hold, without the rounding to pages; 0 if SQLite cannot tell."""
    with closing(sqlite3.connect(file)) as database:
        try:
            [(found,)] = database.execute("SELECT sum(payload) FROM dbstat").fetchall()
        except sqlite3.OperationalError:
            return 0
    return int(found)


def ours(folder: Path, url: str, turns: int) -> dict[str, int]:
    """The store's file, and the recording as a dataset's files."""
    file = folder / "store.db"
    with open_store(f"sqlite:///{file}", durability="normal") as store:
        client = harness.wrap(client_of(url))
        with planned(RunPlan(mode=Mode.LIVE, sink=store)) as runs, harness.workflow("conversation"):
            converse(client, turns)
        recording = store.recording(runs[0].id)
        assert recording is not None
        assert len(recording.messages) == turns
        dataset = GoldenDataset.create(folder / "growing", target="nothing:nothing")
        dataset.write_recording(recording)
    files = [path for path in (folder / "growing" / "recordings").iterdir() if path.is_file()]
    return {
        "harness store": vacuumed(file),
        "… rows and index entries alone, not rounded to pages": payload(file),
        "harness dataset recording": sum(path.stat().st_size for path in files),
        "… as allocated by the file system": sum(path.stat().st_blocks * 512 for path in files),
    }


def empty(folder: Path) -> int:
    """The size of a store that holds nothing."""
    file = folder / "empty.db"
    with open_store(f"sqlite:///{file}", durability="normal") as store:
        store.flush()
    return vacuumed(file)


def theirs(folder: Path, url: str, turns: int) -> dict[str, int]:
    """A vcrpy file."""
    file = folder / "vcr.yaml"
    with vcr.VCR(record_mode="all").use_cassette(str(file)):
        converse(client_of(url), turns)
    return {"vcrpy YAML": file.stat().st_size}


def naive(folder: Path, seen: Sequence[Seen]) -> dict[str, int]:
    """Whole requests as rows; and what there is to store."""
    file = folder / "naive.db"
    with closing(sqlite3.connect(file)) as database:
        database.execute("CREATE TABLE calls (id INTEGER PRIMARY KEY, request TEXT, response TEXT)")
        rows = [(one.body.decode(), json.dumps({"content": answer(one)})) for one in seen]
        database.executemany("INSERT INTO calls (request, response) VALUES (?, ?)", rows)
        database.commit()
    parts = {json.dumps(message) for one in seen for message in one.json["messages"]}
    parts |= {json.dumps(tool) for tool in TOOLS} | {answer(seen[-1])}
    return {
        "whole request JSON in SQLite rows": vacuumed(file),
        "*sum of the request bodies*": sum(len(one.body) for one in seen),
        "*unique content*": sum(map(len, parts)),
    }


def measured(turns: int) -> dict[str, int]:
    """Bytes by layout after a conversation."""
    with tempfile.TemporaryDirectory() as root, ScriptedServer(rule=answer) as server:
        folder = Path(root)
        found = {"*empty harness store*": empty(folder)} | ours(folder, server.url, turns)
        seen = list(server.requests)
        return found | theirs(folder, server.url, turns) | naive(folder, seen)


def main() -> None:
    """Measure and print."""
    given = options(__doc__ or "").parse_args()
    sizes = QUICK if given.quick else FULL
    found = [measured(turns) for turns in sizes]
    order = [
        "harness store",
        "… rows and index entries alone, not rounded to pages",
        "harness dataset recording",
        "… as allocated by the file system",
        "vcrpy YAML",
        "whole request JSON in SQLite rows",
        "*empty harness store*",
        "*sum of the request bodies*",
        "*unique content*",
    ]
    rows = []
    for name in order:
        b1, b2, b3 = (one[name] for one in found)
        base = found[0]["*empty harness store*"] if name == "harness store" else 0
        growth = f"{(b3 - b2) / (b2 - b1):.2f}" if b2 > b1 else "–"
        versus = f"{b3 / found[2]['harness store']:.1f}"
        each = f"{(b3 - base) / sizes[2]:,.0f}" if b3 > b1 else "–"
        rows.append([name, *(f"{one[name]:,}" for one in found), growth, each, versus])
    say(heading(["openai", "sqlalchemy", "vcrpy"], also={"SQLite": sqlite3.sqlite_version}))
    a, b, c = sizes
    columns = [f"bytes, {turns} turns" for turns in sizes]
    growth = f"(B{c}−B{b})/(B{b}−B{a})"
    say(table(["layout", *columns, growth, f"bytes a turn at {c}", "× harness store"], rows))


if __name__ == "__main__":
    main()
