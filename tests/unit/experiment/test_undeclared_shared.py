"""One difference is said once, however many cases have it."""

from harness.experiment import shared_differences

LOOK = "the output of step 'look' has hash {}, recorded {} (first at $.n)"
MISS = "/chat/completions in step 'draft' is not recorded; the nearest is message '{}-b15b-7000': {}"


def test_sentences_that_differ_by_ids_hashes_and_requests_are_one():
    found = [
        ("ants", [LOOK.format("00112233", "44556677"), MISS.format("01a22fc4", "ants")]),
        ("bees", [LOOK.format("8899aabb", "ccddeeff"), MISS.format("01a22fc5", "bees, with arguments")]),
    ]
    rows = shared_differences(found, of=2)
    assert [str(row) for row in rows] == [f"in all 2 cases: {line}" for line in found[0][1]]


def test_other_steps_and_places_are_others_and_the_commonest_comes_first():
    found = [
        ("ants", [LOOK.format("00112233", "44556677")]),
        *((case, [LOOK.format("00112233", "44556677").replace("$.n", "$.m")]) for case in "bcdef"),
        ("bees", []),
    ]
    first, second = shared_differences(found, of=7)
    assert str(first).startswith("in 5 of 7 cases (b, c, d and 2 more): the output of step 'look'")
    assert str(second).startswith("in 1 of 7 cases (ants): ")


def test_a_case_with_several_trials_counts_once():
    [row] = shared_differences([("ants", ["x differs"]), ("ants", ["x differs"])], of=1)
    assert str(row) == "in case ants: x differs"
