"""Similarity: the cosine of recorded embeddings, windows for long texts, guards beside it."""

from __future__ import annotations

import importlib.util
import math

import pytest

from evaluators._embedding import cosine, encode, mean, packaged_weights
from evaluators._windows import windows
from evaluators.similarity import Similarity
from harness.errors import EvaluatorError, RecordingMissing
from harness.gateway import record_local
from harness.score import Score
from harness.session import Mode, RecordedAnswers, RunPlan, planned
from harness.testing import MemorySink, Scripted, ScriptedServer

MODEL = "all-MiniLM-L6-v2"
INSTALLED = importlib.util.find_spec("sentence_transformers") is not None and packaged_weights(MODEL) is not None
VECTORS = {
    "We refund 500 EUR.": [1.0, 0.0, 0.0],
    "500 EUR will be refunded.": [4.0, 3.0, 0.0],
    "We refund 5000 EUR.": [0.99, 0.1, 0.0],
    "Hello.": [0.0, 0.0, 2.0],
}


def recording(vectors: dict[str, list[float]], model: str = MODEL) -> MemorySink:
    """What a machine with the model recorded."""
    sink = MemorySink()
    with planned(RunPlan(mode=Mode.LIVE, sink=sink, name="evaluator:similarity")):
        for text, vector in vectors.items():
            answer = {"object": "list", "model": model, "data": [{"index": 0, "embedding": vector}]}
            record_local("/embeddings", {"model": model, "input": text}, lambda answer=answer: answer)
    return sink


def scored(expected: object, got: object, *, vectors: dict[str, list[float]] | None = None, **options: object):
    sink = recording(VECTORS if vectors is None else vectors)
    plan = RunPlan(mode=Mode.REPLAY, sink=MemorySink(), resolver=RecordedAnswers(sink.recording()))
    with planned(plan):
        scores = Similarity(**options).evaluate({"reply": got}, {"reply": expected})
    return {score.name: score for score in scores}


def test_a_clone_scores_recorded_text_without_the_model():
    found = scored("We refund 500 EUR.", "500 EUR will be refunded.")["similarity"]
    assert found.value == pytest.approx(0.8)
    assert found.detail["guards"] == {}
    assert found.detail["windows"] == [1, 1]


def test_text_that_was_not_recorded_is_missed_in_replay():
    with pytest.raises(RecordingMissing):
        scored("We refund 500 EUR.", "Something new.")


def test_a_guard_outweighs_the_cosine():
    found = scored("We refund 500 EUR.", "We refund 5000 EUR.", threshold=0.7)
    assert found["similarity"].value > 0.99
    assert found["similarity.close"].value is False
    assert found["similarity.close"].reason == "numbers differ"
    assert found["similarity"].detail["guards"]["numbers"] == {"missing": ["500"], "extra": ["5000"]}


def test_the_threshold_decides_where_no_guard_does():
    near = scored("We refund 500 EUR.", "500 EUR will be refunded.", threshold=0.7)["similarity.close"]
    assert (near.value, near.reason) == (True, None)
    far = scored("We refund 500 EUR.", "500 EUR will be refunded.", threshold=0.9)["similarity.close"]
    assert (far.value, far.reason) == (False, "cosine 0.800 is below 0.9")


def test_equal_texts_need_no_model():
    assert scored("Any text.", "Any text.", vectors={"Hello.": [1.0]})["similarity"].value == 1.0


@pytest.mark.parametrize("output", [None, "", "  ", 3])
def test_an_output_without_text_scores_0_and_says_so(output):
    found = scored("Hello.", output, threshold=0.0)
    assert found["similarity"].value == 0.0
    assert found["similarity"].reason == "the output has no text at 'reply'"
    assert found["similarity.close"].value is False


def test_a_case_without_an_expected_text_is_skipped_and_another_type_is_an_error():
    assert {score.status for score in scored(None, "Hello.", threshold=0.5).values()} == {"skipped"}
    assert scored("  ", "Hello.")["similarity"].status == "skipped"
    with pytest.raises(EvaluatorError, match="dict at 'reply'"):
        scored({"text": "Hello."}, "Hello.")


def test_a_long_text_is_compared_whole_in_windows():
    long = "word " * 300
    first, second = windows(long)
    vectors = {first: [1.0, 0.0], second: [0.0, 1.0], "short": [1.0, 0.0]}
    found = scored(long, "short", vectors=vectors)["similarity"]
    assert found.detail["windows"] == [2, 1]
    assert found.detail["covered"] == [1.0, 0.0]
    weights = (200 / math.hypot(200, 100), 100 / math.hypot(200, 100))
    assert found.value == pytest.approx(weights[0])


def test_a_text_beyond_all_bounds_fails_and_is_not_cut():
    with pytest.raises(EvaluatorError, match="at most 100 are embedded"):
        scored("Hello.", "word " * 30_000)


def test_an_endpoint_is_asked_and_its_answer_replayed(monkeypatch):
    monkeypatch.setenv("EMBED_KEY", "key-of-the-embedder")

    def run(url: str) -> Score:
        evaluator = Similarity(model="e5", endpoint=url, key_env="EMBED_KEY")
        return evaluator.evaluate({"reply": "a b"}, {"reply": "c d"})[0]

    sink = MemorySink()
    with ScriptedServer() as server:
        with planned(RunPlan(mode=Mode.LIVE, sink=sink)):
            live = run(server.url)
        assert [request.json["input"] for request in server.requests] == ["c d", "a b"]
        assert server.requests[0].headers["authorization"] == "Bearer key-of-the-embedder"
    plan = RunPlan(mode=Mode.REPLAY, sink=MemorySink(), resolver=RecordedAnswers(sink.recording()))
    with planned(plan):
        assert run("http://127.0.0.1:9/v1") == live
    assert b"key-of-the-embedder" not in sink.dump()


def test_an_endpoint_that_answers_no_vector_is_an_error():
    body = {"object": "list", "model": "e5", "data": [{"object": "embedding", "index": 0, "embedding": []}]}
    with ScriptedServer(Scripted(body=body)) as server, planned(RunPlan(mode=Mode.LIVE, sink=MemorySink())):
        evaluator = Similarity(model="e5", endpoint=server.url)
        with pytest.raises((EvaluatorError, ValueError)):
            evaluator.evaluate({"reply": "a"}, {"reply": "b"})


def test_cosine():
    assert cosine([1, 0], [0, 2]) == 0.0
    assert cosine([1, 2], [2, 4]) == 1.0
    assert cosine([1, 0], [-3, 0]) == -1.0
    assert cosine([0, 0], [1, 0]) == 0.0
    with pytest.raises(EvaluatorError, match="2 and 3 numbers"):
        cosine([1, 0], [1, 0, 0])
    assert mean([[2.0, 0.0], [0.0, 1.0]], [3, 1]) == [3.0, 1.0]


@pytest.mark.skipif(INSTALLED, reason="sentence-transformers is installed")
def test_without_the_model_unrecorded_text_says_what_to_install():
    with (
        planned(RunPlan(mode=Mode.LIVE, sink=MemorySink())),
        pytest.raises(EvaluatorError, match=r"goldfork\[similarity"),
    ):
        Similarity().evaluate({"reply": "a"}, {"reply": "b"})


def test_only_known_models_have_packaged_weights():
    assert packaged_weights("no-such-model") is None
    assert packaged_weights("../" + MODEL) is None


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"threshold": 2}, "threshold"),
        ({"threshold": "0.8"}, "threshold"),
        ({"model": ""}, "model"),
        ({"endpoint": ""}, "endpoint"),
        ({"field": "a..b"}, "field"),
    ],
)
def test_a_bad_option_is_named(options, named):
    with pytest.raises(EvaluatorError, match=f"option '{named}'"):
        Similarity(**options)


TEXTS = [
    ("The refund was approved.", "Your refund has been accepted."),
    ("Where is my parcel?", "The weather is fine today."),
    ("A man is playing a guitar.", "A person plays an instrument."),
]


@pytest.mark.skipif(not INSTALLED, reason="needs sentence-transformers and packaged weights")
@pytest.mark.parametrize(("expected", "got"), TEXTS)
def test_the_cosine_equals_sentence_transformers(expected, got):
    from sentence_transformers import SentenceTransformer, util

    model = SentenceTransformer(str(packaged_weights(MODEL)), device="cpu")
    theirs = float(util.cos_sim(model.encode(expected), model.encode(got)))
    sink = MemorySink()
    with planned(RunPlan(mode=Mode.LIVE, sink=sink)):
        live = Similarity().evaluate({"reply": got}, {"reply": expected})[0]
    assert live.value == pytest.approx(theirs, abs=1e-6)
    plan = RunPlan(mode=Mode.REPLAY, sink=MemorySink(), resolver=RecordedAnswers(sink.recording()))
    with planned(plan):
        assert Similarity().evaluate({"reply": got}, {"reply": expected})[0] == live


@pytest.mark.skipif(not INSTALLED, reason="needs sentence-transformers and packaged weights")
def test_text_beyond_the_models_window_is_halved_and_not_cut():
    filler = "zq9x " * 200
    plain, tokens = encode(MODEL, filler)
    ending, more = encode(MODEL, filler + "The refund was approved by the bank on Monday. " * 5)
    assert tokens > 256
    assert more > tokens
    assert cosine(plain, ending) < 0.999
