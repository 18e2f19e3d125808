"""How far two texts are apart: by an embedder where one is set, else by their words, and always saying which."""

import pytest

from harness.replay import meaning_by
from harness.testing import ScriptedServer

BEFORE, AFTER = "a cat sat on the mat", "a dog sat on the mat"


def test_without_an_embedder_words_are_compared_and_this_is_said():
    found = meaning_by("")(BEFORE, AFTER)
    assert found.cosine is None
    assert found.lexical == pytest.approx(10 / 12)
    assert found.told == "in words: 83% shared (lexical, not meaning)"
    assert found.note == "no embedder is set (GOLDFORK_EMBEDDER)"


def test_an_endpoint_is_asked_and_named():
    with ScriptedServer() as server:
        found = meaning_by(f"tiny@{server.url}")(BEFORE, AFTER)
        assert [seen.json["model"] for seen in server.requests] == ["tiny", "tiny"]
    assert found.lexical is None
    assert -1 <= found.cosine <= 1
    assert found.told == f"in meaning: cosine {found.cosine:.3f} by tiny"


def test_long_texts_are_embedded_window_by_window():
    with ScriptedServer() as server:
        meaning_by(f"tiny@{server.url}")("word " * 1000, AFTER)
        texts = [seen.json["input"] for seen in server.requests]
    assert sum(len(text.split()) for text in texts[:-1]) == 1000
    assert len(texts) > 3


def test_one_that_does_not_answer_is_asked_once_and_words_are_compared():
    with ScriptedServer() as server:
        gone = server.url
    meaning = meaning_by(f"tiny@{gone}")
    for _ in range(2):
        found = meaning(BEFORE, AFTER)
        assert (found.cosine, found.lexical) == (None, pytest.approx(10 / 12))
        assert "embedder 'tiny' failed (embedding model 'tiny' did not answer" in found.note


def test_an_experiment_asks_no_endpoint():
    with ScriptedServer() as server:
        found = meaning_by(f"tiny@{server.url}", calls=False)(BEFORE, AFTER)
        assert server.requests == []
    assert "an experiment does not ask embedder 'tiny' at an endpoint" in found.note


def test_nothing_is_asked_where_calls_are_forbidden(monkeypatch):
    monkeypatch.setenv("GOLDFORK_FORBID_LIVE", "1")
    with ScriptedServer() as server:
        found = meaning_by(f"tiny@{server.url}")(BEFORE, AFTER)
        assert server.requests == []
    assert "GOLDFORK_FORBID_LIVE is set" in found.note


def test_a_local_model_that_is_not_there_is_said_to_be_missing():
    found = meaning_by("no/such-model")(BEFORE, AFTER)
    assert found.lexical == pytest.approx(10 / 12)
    assert "embedder 'no/such-model' failed" in found.note
