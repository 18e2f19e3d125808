"""CPU per recorded and per replayed call, beside the bare openai SDK and vcrpy.

    python tests/benchmarks/calls.py [--quick]

A plain, synchronous chat completion with two messages against a loopback provider in another process.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from measuring import (
    Contender,
    Figures,
    Place,
    Rounds,
    heading,
    median_of,
    options,
    provider,
    race,
    say,
    spread_of,
    table,
)

MANY = 100
"""Calls in one run, or interactions in one file."""
SYSTEM = "You answer questions about parcels for a shop. Be short, be kind, and never promise a date. " * 3
QUESTION = "My parcel was to come on Monday and it is Thursday now. Where is it, and who pays for this? " * 4
BASE = "openai SDK, nothing recorded"


def asked(number: int | str) -> list[dict[str, str]]:
    """Two messages, 0.7 KB together."""
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": f"{number} {QUESTION}"}]


def client_of(url: str, **given: Any) -> Any:
    """The client that everybody calls with."""
    import openai

    return openai.OpenAI(base_url=url, api_key="sk-test-0123456789", max_retries=0, **given)


def ask(client: Any, numbers: Sequence[int | str]) -> None:
    """One call after the other."""
    for number in numbers:
        client.chat.completions.create(model="m", messages=asked(number))


def sdk(place: Place, *, calls: int) -> Rounds:
    """The bare SDK."""
    client = client_of(place.url)
    for turn in itertools.count():
        yield partial(ask, client, [f"{turn}.{number}" for number in range(calls)])


def sdk_canned(place: Place, *, calls: int) -> Rounds:
    """The bare SDK over a transport that has the answer ready: what no replay inside a transport can beat."""
    import httpx2

    from harness.testing._answers import chat_answer

    def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, json=chat_answer("x" * 480))

    client = client_of(place.url, http_client=httpx2.Client(transport=httpx2.MockTransport(answer)))
    yield from itertools.repeat(partial(ask, client, range(calls)))


def _harness(place: Place, durability: str) -> tuple[Any, Any]:
    """The wrapped client and a workflow that makes calls with it, as a user would write them."""
    os.environ["GOLDFORK_HOME"] = str(place.folder)
    os.environ["GOLDFORK_DURABILITY"] = durability
    import harness

    client = harness.wrap(client_of(place.url))

    @harness.workflow("bench")
    def bench(numbers: list[str]) -> None:
        ask(client, numbers)

    return client, bench


def recorded(place: Place, *, durability: str, runs: int, calls: int) -> Rounds:
    """Recorded by us; every request is new to the store."""
    _, bench = _harness(place, durability)

    def work(batches: list[list[str]]) -> None:
        for numbers in batches:
            bench(numbers)

    for turn in itertools.count():
        yield partial(work, [[f"{turn}.{run}.{number}" for number in range(calls)] for run in range(runs)])


def replayed(place: Place, *, durability: str, runs: int, calls: int) -> Rounds:
    """Answered from a recording in the store; the replay is recorded as well. Finding the recording is included."""
    _, bench = _harness(place, durability)
    import harness

    numbers = [str(number) for number in range(calls)]
    bench(numbers)
    [made] = harness.session.process_store().runs()

    def work() -> None:
        for _ in range(runs):
            with harness.recording(made.id):
                bench(numbers)

    yield from itertools.repeat(work)


def replayed_unkept(place: Place, *, runs: int, calls: int) -> Rounds:
    """``replay_run`` of a recording in the store, with its comparison of hashes; nothing is written."""
    _, bench = _harness(place, "normal")
    import harness

    bench([str(number) for number in range(calls)])
    [made] = harness.session.process_store().runs()

    def work() -> None:
        for _ in range(runs):
            outcome = harness.replay_run(made.id)
            assert outcome.status == "ok", outcome.error

    yield from itertools.repeat(work)


def _vcr(mode: str) -> Any:
    import vcr

    matched = ["method", "scheme", "host", "port", "path", "query", "body"]
    return vcr.VCR(record_mode=mode, match_on=matched)


def vcr_recorded(place: Place, *, files: int, calls: int) -> Rounds:
    """Recorded by vcrpy, a new file each; its file is written when the block ends, which is included."""
    tape = _vcr("all")
    client = client_of(place.url)

    def work(turn: int) -> None:
        for number in range(files):
            with tape.use_cassette(str(place.folder / f"{turn}.{number}.yaml")):
                ask(client, [f"{turn}.{number}.{call}" for call in range(calls)])

    for turn in itertools.count():
        yield partial(work, turn)
        for file in place.folder.glob("*.yaml"):
            file.unlink()


def _vcr_file(place: Place, client: Any, calls: int) -> str:
    file = str(Path(place.folder, "made.yaml"))
    with _vcr("once").use_cassette(file):
        ask(client, range(calls))
    return file


def vcr_replayed(place: Place, *, files: int, calls: int) -> Rounds:
    """Answered by vcrpy; reading its file is included."""
    client = client_of(place.url)
    file = _vcr_file(place, client, calls)
    tape = _vcr("none")

    def work() -> None:
        for _ in range(files):
            with tape.use_cassette(file):
                ask(client, range(calls))

    yield from itertools.repeat(work)


def vcr_open(place: Place, *, passes: int, calls: int) -> Rounds:
    """Answered by vcrpy from a file that stays open, its answers used again and again."""
    client = client_of(place.url)
    file = _vcr_file(place, client, calls)
    with _vcr("none").use_cassette(file, allow_playback_repeats=True):
        yield from itertools.repeat(partial(ask, client, list(range(calls)) * passes))


def contenders(many: int, ones: int) -> tuple[list[Contender], list[Contender]]:
    """Rows of the recording and of the replay table."""
    recording = [
        Contender(BASE, partial(sdk, calls=many), many),
        Contender(
            f"harness, durability full, {many} calls in a run",
            partial(recorded, durability="full", runs=1, calls=many),
            many,
        ),
        Contender(
            f"harness, durability normal, {many} calls in a run",
            partial(recorded, durability="normal", runs=1, calls=many),
            many,
        ),
        Contender(
            "harness, durability full, 1 call in a run", partial(recorded, durability="full", runs=ones, calls=1), ones
        ),
        Contender(
            "harness, durability normal, 1 call in a run",
            partial(recorded, durability="normal", runs=ones, calls=1),
            ones,
        ),
        Contender(f"vcrpy, {many} interactions in a file", partial(vcr_recorded, files=1, calls=many), many),
        Contender("vcrpy, 1 interaction in a file", partial(vcr_recorded, files=ones, calls=1), ones),
    ]
    replay = [
        Contender("openai SDK, answer ready in the transport (floor)", partial(sdk_canned, calls=many), many),
        Contender(
            f"harness, {many} recorded, replay kept, full",
            partial(replayed, durability="full", runs=1, calls=many),
            many,
        ),
        Contender(
            f"harness, {many} recorded, replay kept, normal",
            partial(replayed, durability="normal", runs=1, calls=many),
            many,
        ),
        Contender(
            f"harness, {many} recorded, `replay_run`, not kept", partial(replayed_unkept, runs=1, calls=many), many
        ),
        Contender(
            "harness, 1 recorded, replay kept, full", partial(replayed, durability="full", runs=ones, calls=1), ones
        ),
        Contender(
            "harness, 1 recorded, replay kept, normal", partial(replayed, durability="normal", runs=ones, calls=1), ones
        ),
        Contender("harness, 1 recorded, `replay_run`, not kept", partial(replayed_unkept, runs=ones, calls=1), ones),
        Contender(f"vcrpy, {many} recorded, file opened", partial(vcr_replayed, files=1, calls=many), many),
        Contender(f"vcrpy, {many} recorded, file already open", partial(vcr_open, passes=1, calls=many), many),
        Contender("vcrpy, 1 recorded, file opened", partial(vcr_replayed, files=ones, calls=1), ones),
        Contender("vcrpy, 1 recorded, file already open", partial(vcr_open, passes=ones, calls=1), ones),
    ]
    return recording, replay


def rows(group: Sequence[Contender], figures: dict[str, Figures]) -> list[list[str]]:
    """The lines of a table."""
    base = figures[BASE]
    return [
        [
            one.name,
            median_of(figures[one.name].cpu, scale=1e6),
            spread_of(figures[one.name].ratio(base)),
            median_of(figures[one.name].wall, scale=1e6),
        ]
        for one in group
    ]


def main() -> None:
    """Measure and print both tables."""
    given = options(__doc__ or "").parse_args()
    many, ones, rounds = (10, 3, 2) if given.quick else (MANY, 30, 9)
    recording, replay = contenders(many, ones)
    with provider() as url:
        figures = race([*recording, *replay], url=url, rounds=rounds)
    say(heading(["openai", "httpx2", "sqlalchemy", "vcrpy"]))
    columns = ["CPU µs/call", "× bare SDK (range)", "wall µs/call"]
    say(table([f"recorded, {rounds} rounds", *columns], rows(recording, figures)) + "\n")
    say(table([f"replayed, {rounds} rounds", *columns], rows([recording[0], *replay], figures)))


if __name__ == "__main__":
    main()
