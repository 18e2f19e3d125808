"""Effect beside jitter: what the words rest on, and that they always come out the same."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.experiment import ControlTrial, effects, output_word
from harness.score import Score
from harness.statistics import further_draw


def control(number, value, *, equal=False):
    scores = () if value is None else (Score(name="s", value=value, evaluator="e"),)
    return ControlTrial(
        number=number, arm=f"control:{number}@draft", run="r", status="ok", output_hash=None, equal=equal,
        first_divergence=None, scores=scores,
    )  # fmt: skip


@pytest.fixture
def case(make_trial):
    def make(name, recorded, fork, controls, *, equal=False, group=None, number=0):
        one = make_trial(name)
        return replace(
            one,
            trial=number,
            group=group,
            scores=(Score(name="s", value=fork, evaluator="e"),),
            controls=tuple(control(k, value, equal=equal) for k, value in enumerate(controls, 1)),
            recorded_scores={"s": Score(name="s", value=recorded, evaluator="e")},
        )

    return make


def word(found):
    [row] = found
    [one] = row.cases
    return one.word


def test_a_fork_among_its_controls_is_within_jitter(case):
    [row] = effects([case("a", 0.5, 0.55, [0.45, 0.6, 0.5])])
    [one] = row.cases
    assert one.word == "within jitter"
    assert one.effect == pytest.approx(0.05)
    assert one.spread == pytest.approx(0.0763763, abs=1e-6)
    # t(0.975, 3) * s * sqrt(1 + 1/4), with s over recorded and controls.
    assert one.reach == pytest.approx(3.18244630528 * 0.0629153 * 1.25**0.5, abs=1e-6)


def test_a_fork_far_beyond_its_controls_is_not(case):
    assert word(effects([case("a", 0.5, 0.9, [0.49, 0.51, 0.5])])) == "beyond jitter"


def test_one_control_says_nothing_whatever_it_gave(case):
    [row] = effects([case("a", 0.5, 0.9, [0.5])])
    assert row.cases[0].word == "unknown"
    assert "K is too small: 1 scored control fork of 1" in row.cases[0].reason


def test_controls_without_a_score_do_not_count(case):
    assert word(effects([case("a", 0.5, 0.9, [0.5, None, None])])) == "unknown"


def test_equal_scores_of_other_outputs_leave_a_moved_one_to_chance(case):
    [row] = effects([case("a", True, False, [True] * 5)])
    assert row.cases[0].word == "unknown"
    assert "18 would tell" in row.cases[0].reason
    assert word(effects([case("a", True, False, [True] * 18)])) == "beyond jitter"


def test_equal_outputs_need_no_chance(case):
    assert word(effects([case("a", True, False, [True] * 2, equal=True)])) == "beyond jitter"
    assert word(effects([case("a", True, True, [True] * 2)])) == "within jitter"


def test_over_all_cases_the_fork_is_compared_with_its_controls(case):
    moved = [case(f"c{k}", 0.5, 0.8 + k / 100, [0.5 + k / 200, 0.48]) for k in range(8)]
    [row] = effects(moved)
    assert row.word == "beyond jitter"
    assert row.net.low > 0
    assert row.effect.value == pytest.approx(0.335)
    still = [case(f"c{k}", 0.5, 0.5 + (-1) ** k / 10, [0.45, 0.55]) for k in range(8)]
    assert effects(still)[0].word == "within jitter"
    assert effects(moved[:5])[0].word == "unknown"


def test_a_group_is_one_unit(case):
    moved = [case(f"c{k}", 0.5, 0.8 + k / 100, [0.5, 0.48], group="same") for k in range(8)]
    assert effects(moved)[0].word == "unknown"


def test_trials_of_a_case_are_averaged_with_their_own_controls(case):
    two = [case("a", 0.2, 0.3, [0.25, 0.15], number=0), case("a", 0.8, 0.9, [0.75, 0.85], number=1)]
    [row] = effects(two)
    [one] = row.cases
    assert (one.recorded, one.fork, one.effect) == pytest.approx((0.5, 0.6, 0.1))
    # The recordings lie far apart, which is no spread of the controls.
    assert one.spread == pytest.approx(0.0707107, abs=1e-6)


def test_without_controls_there_is_nothing_to_show(case):
    assert effects([replace(case("a", 0.5, 0.9, [0.5]), controls=())]) == ()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(0, 20), min_size=2, max_size=5), min_size=1, max_size=5), st.randoms())
def test_the_order_of_draws_and_trials_does_not_matter(groups, random):
    shuffled = [random.sample(group, len(group)) for group in groups]
    random.shuffle(shuffled)
    one, two = further_draw(groups), further_draw(shuffled)
    assert (one is None) == (two is None)
    if one is not None:
        assert one.high == pytest.approx(two.high)
        assert one.low == -one.high
        assert one.n == sum(map(len, groups))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 20), min_size=3, max_size=6), st.integers(1, 9), st.integers(-9, 9))
def test_another_scale_gives_another_reach_of_the_same_share(draws, factor, shift):
    one, two = further_draw([draws]), further_draw([[factor * draw + shift for draw in draws]])
    assert (one is None) == (two is None) == (len(set(draws)) == 1)
    if one is not None:
        assert two.high == pytest.approx(factor * one.high)


def test_the_reach_covers_what_it_says():
    """Of draws that all come from one place, a further one lies beyond the reach about 1 time in 20."""
    random = Random(4)
    beyond = 0
    for _ in range(2000):
        *draws, further = (random.gauss(3, 2) for _ in range(5))
        beyond += abs(further - sum(draws) / 4) > further_draw([draws]).high
    assert 0.035 < beyond / 2000 < 0.065


def test_a_group_without_draws_is_refused():
    with pytest.raises(ValueError, match="without draws"):
        further_draw([[1.0, 2.0], []])


@pytest.mark.parametrize(
    ("fork", "controls", "expected"),
    [
        (True, [True, False], "within jitter"),
        (False, [True, False], "within jitter"),
        (False, [True, True], "beyond jitter"),
        (False, [True], "unknown"),
        (None, [True, True], "unknown"),
    ],
)
def test_outputs_alone_say_what_they_can(fork, controls, expected):
    assert output_word(fork, [control(k, None, equal=one) for k, one in enumerate(controls)])[0] == expected


def test_the_border_lies_at_the_reach(case):
    draws = [0.45, 0.6, 0.5]
    [row] = effects([case("a", 0.5, 0.5, draws)])
    mean, reach = (0.5 + sum(draws)) / 4, row.cases[0].reach
    assert word(effects([case("a", 0.5, mean + 0.99 * reach, draws)])) == "within jitter"
    assert word(effects([case("a", 0.5, mean + 1.01 * reach, draws)])) == "beyond jitter"
    assert word(effects([case("a", 0.5, mean - 1.01 * reach, draws)])) == "beyond jitter"
