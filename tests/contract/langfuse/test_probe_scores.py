"""Scores: their shape by version, their identity, their subjects."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

STAMP = "2026-11-30T10:00:00.000Z"


def read(target, **query):
    return target.get("v3/scores", fields="subject,details", **query)["data"]


@pytest.mark.parametrize(
    ("kind", "value", "seen"),
    [
        ("NUMERIC", 0.25, 0.25),
        ("CATEGORICAL", "good", "good"),
        ("BOOLEAN", 1, True),
        ("TEXT", "well said", "well said"),
    ],
)
def test_a_score_of_each_type_is_read_back(target, kind, value, seen):
    score_id, trace = uuid4().hex, target.trace()
    target.undo.append(lambda: target.http.delete(f"/api/public/scores/{score_id}"))
    response = target.score(
        id=score_id, name="probe", value=value, dataType=kind, traceId=trace, comment="why", timestamp=STAMP
    )
    assert response.status_code in (200, 202), response.text
    (score,) = target.wait(lambda: read(target, id=score_id))
    assert (score["name"], score["dataType"], score["value"], score["comment"]) == ("probe", kind, seen, "why")
    assert score["subject"] == {"kind": "trace", "id": trace}
    if target.takes_lists:
        assert score["timestamp"] == STAMP


def test_the_shape_follows_the_version(target):
    trace = target.trace()
    one = {"id": uuid4().hex, "name": "probe", "value": 1, "traceId": trace}
    target.undo.append(lambda: target.http.delete(f"/api/public/scores/{one['id']}"))
    if target.double or not target.takes_lists:
        wrong = one if target.takes_lists else [one]
        assert target.http.post("/api/public/scores", json=wrong).status_code == 400
    assert target.score(**one).status_code in (200, 202)
    target.wait(lambda: read(target, id=one["id"]))


@pytest.mark.parametrize(
    ("subject", "seen"),
    [
        ({"observationId": f"{1:016x}"}, {"kind": "observation", "id": f"{1:016x}"}),
        ({"sessionId": "probe-session"}, {"kind": "session", "id": "probe-session"}),
        ({"datasetRunId": "probe-experiment"}, {"kind": "experiment", "id": "probe-experiment"}),
    ],
)
def test_a_score_has_one_subject_which_need_not_exist(target, subject, seen):
    score_id = uuid4().hex
    if "observationId" in subject:
        trace = target.trace()
        subject, seen = {**subject, "traceId": trace}, {**seen, "traceId": trace}
    target.undo.append(lambda: target.http.delete(f"/api/public/scores/{score_id}"))
    assert target.score(id=score_id, name="probe", value=1, **subject).status_code in (200, 202)
    (score,) = target.wait(lambda: read(target, id=score_id))
    assert score["subject"] == seen


def test_the_same_score_again_is_one_score_with_the_last_value(target):
    score_id, trace = uuid4().hex, target.trace()
    target.undo.append(lambda: target.http.delete(f"/api/public/scores/{score_id}"))
    given = {"id": score_id, "name": "probe", "traceId": trace, "timestamp": STAMP}
    for value in (0.25, 0.25, 0.75):
        assert target.score(**given, value=value).status_code in (200, 202)
    (score,) = target.wait(lambda: read(target, id=score_id), lambda seen: len(seen) == 1 and seen[0]["value"] == 0.75)
    assert score["id"] == score_id


@pytest.mark.parametrize(
    "bad",
    [
        {"dataType": "BOOLEAN", "value": 0.5},
        {"dataType": "NUMERIC", "value": "much"},
        {"dataType": "TEXT", "value": "x" * 501},
    ],
)
def test_a_bad_score_is_refused_and_its_neighbours_are_taken(target, bad):
    trace, good = target.trace(), uuid4().hex
    target.undo.append(lambda: target.http.delete(f"/api/public/scores/{good}"))
    refused = {"id": uuid4().hex, "name": "probe", "traceId": trace, **bad}
    if not target.takes_lists:
        assert target.score(**refused).status_code == 400
        return
    taken = {"id": good, "name": "probe", "traceId": trace, "value": 1}
    response = target.http.post("/api/public/scores", json=[taken, refused])
    assert response.status_code == 207
    answer = response.json()
    assert (answer["accepted"], answer["rejected"], len(answer["errors"])) == (1, 1, 1)
    # Which one was refused is not said: a sender must look.
    assert set(answer["errors"][0]) == {"message"}
    assert [each["id"] for each in target.wait(lambda: read(target, traceId=trace))] == [good]


def test_scores_are_found_by_name_type_and_time_and_paged(target):
    trace, name = target.trace(), target.name("score")
    ids = [uuid4().hex for _ in range(5)]
    for each in ids:
        target.undo.append(lambda each=each: target.http.delete(f"/api/public/scores/{each}"))
        assert target.score(id=each, name=name, value=1, dataType="NUMERIC", traceId=trace).status_code in (200, 202)
    target.wait(lambda: read(target, name=name), lambda seen: len(seen) == 5)
    first = target.get("v3/scores", name=name, limit=3)
    rest = target.get("v3/scores", name=name, limit=3, cursor=first["meta"]["cursor"])
    assert {each["id"] for each in first["data"] + rest["data"]} == set(ids)
    assert not rest["meta"].get("cursor")
    assert read(target, name=name, dataType="categorical") == []
    later = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    assert read(target, name=name, fromTimestamp=later) == []
    assert target.http.get("/api/public/v3/scores", params={"fields": "everything"}).status_code == 400


def test_a_deleted_score_is_gone(target):
    score_id = uuid4().hex
    target.score(id=score_id, name="probe", value=1, traceId=target.trace())
    target.wait(lambda: read(target, id=score_id))
    assert target.http.delete(f"/api/public/scores/{score_id}").status_code in (200, 202)
    target.wait(lambda: read(target, id=score_id), lambda seen: not seen)
