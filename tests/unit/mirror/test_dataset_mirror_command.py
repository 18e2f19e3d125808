"""``goldfork dataset push|pull`` and ``import labels`` as a person and as a machine use them."""

import json

import pytest
from typer.testing import CliRunner

from harness.cli._app import app
from harness.dataset import Case, GoldenDataset
from harness.errors import DatasetEdited, UsageError
from harness.mirror import ONCE, Project
from harness.mirror._ids import trace_id
from harness.pipeline import workflow
from harness.replay import live_run
from harness.session import process_store


@pytest.fixture
def home(environment, tmp_path, monkeypatch):
    """A project folder with a store of its own and the keys of a project."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("GOLDFORK_HOME", str(tmp_path / "state"))
    return tmp_path


@pytest.fixture
def dataset(home):
    made = GoldenDataset.create(home / "datasets" / "desk", target="desk:desk")
    for name in ("late", "lost"):
        made.put_case(Case(id=name, input={"q": name}, expected_output=f"about {name}"))
    made.snapshot(approve="Ada")
    return made


def goldfork(*arguments, code=0):
    result = CliRunner().invoke(app, list(arguments))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result.stdout


def machine(*arguments, code=0):
    (line,) = goldfork(*arguments, "--json", code=code).splitlines()
    return json.loads(line)


def write(server, **item):
    project = Project(public_key=server.public_key, secret_key=server.secret_key, base_url=server.url)
    project.api.dataset_items.create(dataset_name="desk", request_options=ONCE, **item)
    project.close()


def posts(server):
    return [request for request in server.requests if request.method == "POST"]


def test_a_dry_run_shows_the_difference_and_writes_nothing(dataset, server):
    text = goldfork("dataset", "push", "datasets/desk", "--dry-run")
    assert "dataset 'desk' is new in Langfuse" in text
    assert "dry run: 2 items would be written, 0 are equal" in text
    result = machine("dataset", "push", "desk", "--dry-run")
    assert [(one["action"], one["case"]) for one in result["changes"]] == [("create", "late"), ("create", "lost")]
    assert (result["dry_run"], result["exists"], result["written"], result["exit_code"]) == (True, False, 0, 0)
    assert posts(server) == []
    assert process_store().outbox.notes("dataset:desk") == {}


def test_a_push_writes_once_and_the_store_remembers_where(dataset, server):
    assert "2 items written, 0 were equal" in goldfork("dataset", "push", "datasets/desk")
    notes = process_store().outbox.notes("dataset:desk")
    items = {item["id"]: item for item in server.items()}
    assert notes["items"] == {"late": "goldfork:desk:late", "lost": "goldfork:desk:lost"}
    assert notes["dataset_id"] == items["goldfork:desk:late"]["datasetId"]
    assert (notes["version"], notes["digest"]) == (1, dataset.digest)
    server.requests.clear()
    assert "0 items written, 2 were equal" in goldfork("dataset", "push", "datasets/desk")
    assert posts(server) == []
    assert process_store().outbox.notes("dataset:desk") == notes


def test_the_remembered_time_never_goes_back_behind_an_archived_item(dataset, server):
    goldfork("dataset", "push", "datasets/desk")
    dataset.folder.remove("cases/lost.json")
    GoldenDataset.load(dataset.path).snapshot()
    goldfork("dataset", "push", "datasets/desk")
    after = process_store().outbox.notes("dataset:desk")
    goldfork("dataset", "push", "datasets/desk")
    assert process_store().outbox.notes("dataset:desk") == after
    assert list(after["items"]) == ["late"]


def test_findings_stop_a_push_until_they_are_accepted(dataset, server):
    dataset.put_case(Case(id="mail", input={"q": "ada@lovelace.org"}))
    dataset.snapshot(approve="Ada")
    text = goldfork("dataset", "push", "datasets/desk", code=2)
    assert "nothing was pushed: 1 mail; remove them" in text
    assert "cases/mail.json" in text
    assert "ada@lovelace" not in text
    result = machine("dataset", "push", "datasets/desk", code=2)
    assert result["findings"] == {
        "total": {"mail": 1},
        "places": [{"file": "cases/mail.json", "path": "$.input.q", "kind": "mail", "count": 1}],
    }
    assert result["exit_code"] == 2
    assert posts(server) == []
    assert machine("dataset", "push", "datasets/desk", "--accept-findings")["written"] == 3
    assert b"ada@lovelace" not in b"".join(request.body for request in server.requests)


def test_a_field_that_became_null_is_said_plainly(dataset, server):
    goldfork("dataset", "push", "datasets/desk")
    dataset.put_case(dataset.case("late").model_copy(update={"expected_output": None}))
    dataset.snapshot(approve="Ada")
    text = goldfork("dataset", "push", "datasets/desk")
    assert "case 'late': expected_output became null, which Langfuse does not take; item 'goldfork:desk:late'" in text
    assert process_store().outbox.notes("dataset:desk")["items"]["late"] == "goldfork:desk:late~2"


def test_only_a_frozen_version_is_pushed(dataset, server):
    dataset.put_case(dataset.case("late").model_copy(update={"expected_output": "edited"}))
    with pytest.raises(DatasetEdited):
        goldfork("dataset", "push", "datasets/desk")
    assert server.requests == []


def test_missing_keys_are_named(dataset, monkeypatch):
    monkeypatch.delenv("LANGFUSE_SECRET_KEY")
    with pytest.raises(UsageError, match="LANGFUSE_SECRET_KEY is not set"):
        goldfork("dataset", "push", "datasets/desk")


def test_a_pull_shows_then_stages(dataset, server):
    goldfork("dataset", "push", "datasets/desk")
    write(server, id="goldfork:desk:late", expected_output="corrected")
    write(server, id="by-hand\x1b[31m", input={"q": "new"})
    write(server, id="goldfork:desk:lost", status="ARCHIVED")
    text = goldfork("dataset", "pull", "datasets/desk", "--dry-run")
    assert "dry run: 2 cases would be staged" in text
    assert "case 'lost': its item is archived or deleted in Langfuse" in text
    assert "\x1b[31m" not in text
    assert dataset.staged == ()
    result = machine("dataset", "pull", "datasets/desk")
    changes = [(one["action"], one["fields"]) for one in result["changes"]]
    assert changes == [("new", []), ("changed", ["expected_output"])]
    assert (result["gone"], result["problems"], result["exit_code"]) == (["lost"], [], 0)
    assert len(GoldenDataset.load(dataset.path).staged) == 2


def test_an_item_that_is_no_case_is_exit_1_and_the_others_are_staged(dataset, server):
    goldfork("dataset", "push", "datasets/desk")
    write(server, id="bad", input=1, metadata={"goldfork": {"tags": 7}})
    write(server, id="good", input=1)
    result = machine("dataset", "pull", "datasets/desk", code=1)
    assert [problem.partition(":")[0] for problem in result["problems"]] == ["item 'bad'"]
    assert [case.id for case in GoldenDataset.load(dataset.path).staged] == ["good"]


def test_labels_come_back(home, server):
    @workflow("letters")
    def letters(text):
        return text

    run = live_run(letters, {"text": "hi"}, sink=process_store()).run
    process_store().flush()
    for trace in (trace_id(run.run.id), "f" * 32):
        server.annotate({"traceId": trace, "name": "tone", "value": 1, "dataType": "NUMERIC"}, author="u")
    server.annotate({"sessionId": "s", "name": "tone", "value": 1, "dataType": "NUMERIC"}, author="u")
    text = goldfork("import", "labels")
    assert "1 new labels, 0 changed, 0 unchanged" in text
    assert "1 left out: they are about runs or steps that this store does not hold" in text
    assert "1 left out: they are about a whole session or experiment" in text
    assert machine("import", "labels", "--since", "2026-01-01") == {
        "new": 0,
        "changed": 0,
        "unchanged": 1,
        "left_out": {"elsewhere": 1, "whole": 1},
    }
    (label,) = process_store().load("labels")
    assert label["run_id"] == run.run.id
    with pytest.raises(UsageError, match="--since 'yesterday' is no time"):
        goldfork("import", "labels", "--since", "yesterday")
