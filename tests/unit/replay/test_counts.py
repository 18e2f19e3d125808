"""Counts and comparison of runs, on recordings made here and changed by hand."""

import contextlib
from dataclasses import replace
from decimal import Decimal

import pytest

from harness.errors import UsageError
from harness.pipeline import step, tool, workflow
from harness.record import Exchange, Usage
from harness.replay import Counts, count_attempts, live_run, replay_run
from harness.replay._counts import count
from harness.replay._diff import compare
from harness.testing import MemorySink

AWAY = "127.0.0.1:9"


def recorded(shop, **options):
    sink = MemorySink()
    live_run(shop.run, {"ticket": "Ada"}, sink=sink, **options)
    return sink.recording()


def with_messages(recording, **changes):
    return replace(recording, messages=tuple(replace(m, **changes) for m in recording.messages))


def away(recording):
    """The same messages, answered by a provider."""
    return with_messages(recording, provider=AWAY)


def test_live_calls_are_spent_and_recorded_ones_saved(shop):
    here = recorded(shop, dry=False)
    assert count(here).tools_called == 5
    live = away(here)
    assert (count(live).tokens_spent, count(live).tokens_saved) == (20, 0)
    saved = count(with_messages(live, cache_state="recorded"))
    assert (saved.tokens_spent, saved.tokens_saved) == (0, 20)
    unknown = with_messages(live, usage=Usage())
    assert (count(unknown).unknown_spent, count(unknown).unknown_saved) == (4, 0)
    assert count(with_messages(unknown, cache_state="recorded")).unknown_saved == 4


def test_requests_to_a_provider_are_counted_with_their_retries(shop):
    here = recorded(shop)
    assert (count(here).provider_calls, count(here).tokens_spent) == (0, 0)
    twice = with_messages(away(here), exchanges=(Exchange(status=503), Exchange(status=200)))
    assert count(twice).provider_calls == 8
    assert count(with_messages(twice, cache_state="recorded")).provider_calls == 0


def test_unknown_costs_are_unknown_and_known_ones_are_summed(shop):
    live = away(recorded(shop))
    assert (count(live).cost_spent, count(live).cost_saved) == (None, None)
    priced = with_messages(live, cost=Decimal("0.25"))
    assert (count(priced).cost_spent, count(priced).cost_saved) == (Decimal(1), None)
    partly = replace(priced, messages=(*priced.messages[:1], *live.messages[1:]))
    assert (count(partly).cost_spent, count(partly).unpriced_spent) == (Decimal("0.25"), 3)
    assert count(with_messages(partly, cache_state="recorded")).unpriced_saved == 3


def test_counts_start_at_nothing_and_add_up():
    assert set(vars_of(Counts()).values()) == {0, None, "USD"}
    one = Counts(steps_run=1, tokens_saved=5, cost_saved=Decimal(2), currency="EUR")
    two = Counts(steps_run=2, tools_dry=1, cost_saved=Decimal(3), currency="EUR")
    assert one + two == Counts(steps_run=3, tokens_saved=5, tools_dry=1, cost_saved=Decimal(5), currency="EUR")
    for known in (Counts(cost_spent=Decimal(1), currency="EUR"), Counts(cost_saved=Decimal(1), currency="EUR")):
        assert Counts() + known == known + Counts() == known


def test_costs_in_different_currencies_have_no_sum(shop):
    euros = Counts(cost_spent=Decimal(1), currency="EUR")
    with pytest.raises(UsageError):
        euros + Counts(cost_saved=Decimal(1), currency="USD")
    first, *rest = with_messages(away(recorded(shop)), cost=Decimal(1)).messages
    mixed = replace(recorded(shop), messages=(replace(first, currency="EUR"), *rest))
    with pytest.raises(UsageError):
        count(mixed)


def test_what_an_earlier_attempt_paid_for_is_spent_and_saves_nothing(shop):
    first = away(recorded(shop))
    again = tuple(replace(m, id=f"again {m.id}", cache_state="recorded", replay_of=m.id) for m in first.messages)
    second = replace(first, messages=again)
    total = count_attempts([[first], [second]])
    assert (total.tokens_spent, total.tokens_saved) == (20, 0)
    assert total.steps_run == count(second).steps_run
    assert count_attempts([[second]]).tokens_saved == 20


def vars_of(counts):
    return {name: getattr(counts, name) for name in counts.__slots__}


@pytest.fixture
def twice():
    """A workflow that calls one tool with the arguments in ``asked``."""
    asked, fails = ["a", "b"], []

    @tool(determinism="deterministic")
    def look(q):
        return q

    @step
    def risky():
        if fails:
            raise ValueError("no")

    @workflow("w")
    def run():
        with contextlib.suppress(ValueError):
            risky()
        return [look(q) for q in asked]

    return run, asked, fails


def test_tool_calls_are_compared_by_their_place_whatever_their_arguments(twice):
    run, asked, _ = twice
    parent = live_run(run, {}).run
    asked[1] = "c"
    diff = compare(live_run(run, {}, dry=False).run, parent)
    looks = [d for d in diff.steps if d.kind == "tool"]
    assert [(d.name, d.equal, d.state) for d in looks] == [("look", True, "called"), ("look", False, "called")]
    assert looks[1].parent_output_hash == parent.steps[-1].output_hash
    asked.append("d")
    assert len([d for d in compare(live_run(run, {}).run, parent).steps if d.kind == "tool"]) == 3


def test_a_step_that_now_fails_differs(twice):
    run, _, fails = twice
    parent = live_run(run, {}).run
    fails.append(True)
    diff = replay_run(parent, target=run).diff
    assert (diff.steps[0].address, diff.steps[0].equal) == ("risky", False)
    assert diff.first_divergence == "risky"


def test_without_a_parent_there_is_nothing_to_differ_from(twice):
    outcome = live_run(twice[0], {})
    assert (outcome.diff.first_divergence, outcome.diff.output_equal, outcome.diff.output) == (None, None, ())
    assert {d.parent_output_hash for d in outcome.diff.steps} == {None}
