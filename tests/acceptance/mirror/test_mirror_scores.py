"""Scores at the other end: which run they belong to, and what older servers take (C-016, second half)."""

import pytest

from harness.testing.langfuse_server import LangfuseServer


def trials(fleet, store, outputs):
    """Three runs of one case, each a trial with its own score, and one score of the whole experiment."""
    for k, _ in enumerate(outputs):
        made, blobs = fleet.records(k)
        run = fleet.replace(made[0], experiment=fleet.EXPERIMENT, case="reset-password", trial=k)
        store.write(*made[1:], run, blobs=blobs).result()
    key = {"experiment": fleet.EXPERIMENT, "case": "reset-password", "arm": "recorded"}
    store.save(
        "experiments",
        [{"id": fleet.EXPERIMENT, "dataset": "support", "version": 1, "started_at": fleet.START, "status": "ok"}],
    )
    store.save(
        "trials",
        [{**key, "trial": k, "run_id": fleet.fixed_id("run", k), "status": "ok"} for k, _ in enumerate(outputs)],
    )
    scored = [
        {**key, "trial": k, "evaluator": "exact", "name": "exact", "status": "scored", "value": value == "link"}
        for k, value in enumerate(outputs)
    ]
    whole = {"experiment": fleet.EXPERIMENT, "evaluator": "exact", "name": "exact", "status": "scored", "value": 2 / 3}
    failed = {**key, "trial": 0, "evaluator": "judge", "name": "tone", "status": "failed", "reason": "no answer"}
    store.save("scores", [*scored, whole, failed])


@pytest.mark.parametrize("version", ["4.16.0", "4.59.0"])
def test_all_trials_of_one_case_are_visible_with_their_scores(fleet, store, clock, version):
    with LangfuseServer(version, clock=clock.unix) as server:
        trials(fleet, store, ["link", "mail", "link"])
        sender = fleet.Sender(store, fleet.project_of(server), clock=clock, sleep=clock.sleep)
        assert fleet.drive(sender, clock)
        scores = server.scores()
        of_runs = {score["traceId"]: score["value"] for score in scores if score["traceId"]}
        assert of_runs == {fleet.trace_id(fleet.fixed_id("run", k)): value for k, value in enumerate([1, 0, 1])}
        [whole] = [score for score in scores if not score["traceId"]]
        assert (whole["datasetRunId"], whole["value"], whole["dataType"]) == (fleet.EXPERIMENT, 2 / 3, "NUMERIC")
        assert len(scores) == 4
        roots = [row for row in server.observations() if row["parentObservationId"] is None]
        assert len(roots) == 3
        if version == "4.59.0":
            assert {score["timestamp"] for score in scores} == {int(fleet.START.timestamp() * 1000)}
        # Sent again they are the same scores.
        assert store.outbox.backfill(again=True) > 0
        assert fleet.drive(sender, clock, merge=server.merge)
        assert len(server.scores()) == 4
        sender.close()


def test_a_changed_value_replaces_the_old_one(fleet, store, server, sender, clock):
    trials(fleet, store, ["link"])
    assert fleet.drive(sender, clock)
    key = {"experiment": fleet.EXPERIMENT, "case": "reset-password", "arm": "recorded", "trial": 0}
    store.save("scores", [{**key, "evaluator": "exact", "name": "exact", "status": "scored", "value": False}])
    assert fleet.drive(sender, clock)
    [score] = [score for score in server.scores() if score["traceId"]]
    assert score["value"] == 0


def test_one_refused_score_in_a_list_ends_as_dead_and_the_others_are_there(fleet, store, server, sender, clock):
    fleet.fill(store, 12, scores=12)
    server.fault("207", when=lambda score: score["metadata"]["goldfork"]["case"] == "case-00007")
    assert fleet.drive(sender, clock)
    assert store.outbox.counts(("score",)) == {"pending": 0, "accepted": 0, "verified": 11, "dead": 1}
    assert len(server.scores()) == 11
    [entry] = store.outbox.entries(("score",), ("dead",), limit=10)
    assert "case-00007" in entry.id
    assert "Score was refused" in entry.error


def test_a_score_that_is_there_before_its_trial_waits_for_it(fleet, store, server, sender, clock):
    trials(fleet, store, ["link"])
    store.save("experiments", [{"id": fleet.EXPERIMENT, "status": "running"}])
    key = {"experiment": fleet.EXPERIMENT, "case": "late", "arm": "recorded", "trial": 0}
    store.save("scores", [{**key, "evaluator": "exact", "name": "exact", "status": "scored", "value": True}])
    for _ in range(5):
        sender.run_once()
        clock.sleep(120.0)
    assert [score["traceId"] for score in server.scores() if score["metadata"]["goldfork"]["case"] == "late"] == []
    assert sender.left == 1
    store.save("trials", [{**key, "run_id": fleet.fixed_id("run", 0), "status": "ok"}])
    assert fleet.drive(sender, clock)
    assert len([score for score in server.scores() if score["metadata"]["goldfork"]["case"] == "late"]) == 1
