"""A golden dataset in a Langfuse: compared first, written once, and brought back as staged cases."""

import json
from datetime import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.dataset import Case, GoldenDataset
from harness.errors import DatasetError
from harness.mirror import ONCE, DatasetPull, DatasetPush, Unanswered
from harness.mirror._ids import trace_id
from harness.mirror._items import generation_id, item_id, same, split_id

RUN = "0198c0de-0000-7000-8000-000000000001"


@pytest.fixture
def make(tmp_path):
    def make(name, *cases):
        dataset = GoldenDataset.create(tmp_path / name, target="desk:desk")
        for case in cases:
            dataset.put_case(case)
        if cases:
            dataset.snapshot(approve="Ada")
        return GoldenDataset.load(tmp_path / name)

    return make


def case(case_id, **fields):
    return Case(**{"id": case_id, "input": {"q": case_id}, "expected_output": f"answer to {case_id}", **fields})


def change(dataset, case_id, **fields):
    dataset.put_case(dataset.case(case_id).model_copy(update=fields))
    dataset.snapshot(approve="Ada")
    return GoldenDataset.load(dataset.path)


def push(dataset, project, sleep=lambda seconds: None):
    work = DatasetPush(dataset, project, sleep=sleep)
    plan = work.plan()
    return plan, work.write(plan)


def posts(server):
    return [request for request in server.requests if request.method == "POST"]


def actions(plan):
    return [(one.action, one.case) for one in plan.changes]


def api(project):
    return project.api.dataset_items


def test_case_016_item_ids_across_datasets_and_their_updates(make, project, server):
    """C-016, first half: equal items in two datasets, pushed twice, then one expectation changed."""
    content = {"input": {"q": "reset password"}, "expected_output": "link"}
    first = make("support-v1", case("reset", **content))
    second = make("support-v2", case("reset", **content))
    push(first, project)
    push(second, project)
    held = {item["datasetName"]: item for item in server.items()}
    assert sorted(held) == ["support-v1", "support-v2"]
    assert held["support-v1"]["id"] != held["support-v2"]["id"]
    assert all((item["input"], item["expectedOutput"]) == ({"q": "reset password"}, "link") for item in held.values())

    server.requests.clear()
    for dataset in (first, second):
        plan, _ = push(dataset, project)
        assert plan.empty
    assert posts(server) == []

    push(change(first, "reset", expected_output="mail"), project)
    after = {item["datasetName"]: item for item in server.items()}
    assert after["support-v1"]["expectedOutput"] == "mail"
    assert after["support-v1"]["id"] == held["support-v1"]["id"]
    assert after["support-v2"] == held["support-v2"]


def test_only_what_differs_is_written(make, project, server):
    dataset = make("desk", *(case(f"c{n:03}") for n in range(205)))
    plan, done = push(dataset, project)
    assert (len(plan.changes), done.written) == (205, 205)
    dataset = change(dataset, "c117", expected_output="other")
    server.requests.clear()
    plan, _ = push(dataset, project)
    assert actions(plan) == [("update", "c117")]
    assert plan.changes[0].fields == ("expected_output",)
    assert plan.unchanged == 204
    # The item, and the definition, which names the version.
    assert [request.path.rpartition("/")[2] for request in posts(server)] == ["datasets", "dataset-items"]


def test_an_item_says_all_that_a_case_says_and_where_it_came_from(make, project, server):
    told = case("c", tags=("late", "vip"), split="dev", group="g", metadata={"k": [1]}, provenance={"run": RUN})
    push(make("desk", told), project)
    (item,) = server.items()
    assert item["id"] == "goldfork:desk:c"
    assert item["metadata"] == {
        "k": [1],
        "goldfork": {"case": "c", "tags": ["late", "vip"], "split": "dev", "group": "g"},
    }
    assert item["sourceTraceId"] == trace_id(RUN)


def test_the_definition_is_whole_each_time_it_is_written(make, project, server):
    """A definition without its schema erases the schema that somebody set in Langfuse."""
    dataset = make("desk", case("c"))
    push(dataset, project)
    schema = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}
    project.api.datasets.create(name="desk", metadata={"owner": "Bea"}, input_schema=schema, request_options=ONCE)
    plan, _ = push(change(dataset, "c", expected_output="other"), project)
    assert plan.definition == ("metadata",)
    held = project.api.datasets.get("desk", request_options=ONCE)
    assert held.input_schema == schema
    assert held.metadata["owner"] == "Bea"
    assert held.metadata["goldfork"]["version"] == 2
    assert held.metadata["goldfork"]["target"] == "desk:desk"


def test_cases_that_are_gone_are_archived_and_may_come_back(make, project, server):
    dataset = make("desk", case("a"), case("b"))
    push(dataset, project)
    dataset.folder.remove("cases/b.json")
    dataset = GoldenDataset.load(dataset.path)
    dataset.snapshot()
    plan, done = push(GoldenDataset.load(dataset.path), project)
    assert actions(plan) == [("archive", "b")]
    assert [item["id"] for item in server.items()] == ["goldfork:desk:a"]
    assert list(done.items) == ["a"]
    dataset = GoldenDataset.load(dataset.path)
    dataset.put_case(case("b", expected_output=None))
    dataset.snapshot(approve="Ada")
    _, done = push(GoldenDataset.load(dataset.path), project)
    # Under its old id the server would have kept the old expectation in the place of the null.
    assert done.items["b"] == "goldfork:desk:b~2"
    assert {item["id"]: item["expectedOutput"] for item in server.items()}["goldfork:desk:b~2"] is None


def test_a_field_that_became_null_is_said_and_made_anew(make, project, server):
    dataset = make("desk", case("a"))
    push(dataset, project)
    dataset = change(dataset, "a", expected_output=None)
    plan, done = push(dataset, project)
    assert actions(plan) == [("replace", "a")]
    assert plan.changes[0].nulled == ("expected_output",)
    assert [(item["id"], item["expectedOutput"]) for item in server.items()] == [("goldfork:desk:a~2", None)]
    assert done.items == {"a": "goldfork:desk:a~2"}
    assert push(dataset, project)[0].empty
    # And again: a value, then null once more.
    dataset = change(dataset, "a", expected_output="back")
    assert actions(push(dataset, project)[0]) == [("update", "a")]
    _, done = push(change(dataset, "a", expected_output=None), project)
    assert done.items == {"a": "goldfork:desk:a~3"}
    assert len(server.items()) == 1


def test_a_push_killed_between_new_and_old_is_finished_by_the_next(make, project, server):
    dataset = make("desk", case("a"))
    push(dataset, project)
    dataset = change(dataset, "a", expected_output=None)
    work = DatasetPush(dataset, project)
    plan = work.plan()
    server.fault("401", when=lambda request: b"ARCHIVED" in request.body)
    with pytest.raises(Unanswered, match="cannot be archived.*check the keys"):
        work.write(plan)
    assert len(server.items()) == 2
    server.clear_faults()
    plan, done = push(dataset, project)
    assert actions(plan) == [("archive", "a")]
    assert [item["id"] for item in server.items()] == [done.items["a"]] == ["goldfork:desk:a~2"]


def test_items_made_by_people_are_left_alone(make, project, server):
    dataset = make("desk", case("a"))
    push(dataset, project)
    api(project).create(dataset_name="desk", id="by-hand", input={"q": 1}, request_options=ONCE)
    plan, _ = push(dataset, project)
    assert plan.empty
    assert plan.foreign == 1
    assert {item["id"] for item in server.items()} == {"goldfork:desk:a", "by-hand"}


def test_an_id_of_another_dataset_is_named(make, project, server):
    project.api.datasets.create(name="other", request_options=ONCE)
    api(project).create(dataset_name="other", id="goldfork:desk:a", input=1, request_options=ONCE)
    with pytest.raises(DatasetError, match="item 'goldfork:desk:a' of case 'a' belongs to another dataset"):
        push(make("desk", case("a")), project)


def test_nothing_personal_leaves_and_findings_name_their_place(make, project, server):
    secret = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD"
    dataset = make(
        "desk",
        case("a", input={"q": "write to ada@lovelace.org"}, metadata={"note": secret, "card": "4111 1111 1111 1111"}),
        case("b"),
    )
    plan, _ = push(dataset, project)
    found = {(one.file, one.path, one.kind) for one in plan.findings}
    assert ("cases/a.json", "$.input.q", "mail") in found
    assert ("cases/a.json", "$.metadata.card", "card") in found
    assert {path for _, path, _ in found} == {"$.input.q", "$.metadata.note", "$.metadata.card"}
    sent = b"".join(request.body for request in server.requests)
    for planted in (b"ada@lovelace", secret.encode(), b"4111 1111"):
        assert planted not in sent
    assert b"mail#1" in sent
    # Placeholders are counted by case, so that a new case before it leaves the item as it is.
    dataset.put_case(case("Z", input="bob@lovelace.org"))
    dataset.snapshot(approve="Ada")
    plan, _ = push(GoldenDataset.load(dataset.path), project)
    assert actions(plan) == [("create", "Z")]


def test_a_description_is_scanned_too(make, project, server):
    dataset = make("desk", case("a"))
    dataset.folder.write(
        "dataset.toml", b'description = "ask ada@lovelace.org"\n' + dataset.folder.read("dataset.toml")
    )
    GoldenDataset.load(dataset.path).snapshot()
    plan, _ = push(GoldenDataset.load(dataset.path), project)
    assert [(one.file, one.path, one.kind) for one in plan.findings] == [("dataset.toml", "$.description", "mail")]
    assert b"ada@lovelace" not in b"".join(request.body for request in server.requests)
    assert project.api.datasets.get("desk", request_options=ONCE).metadata["goldfork"]["digest"]


def test_the_key_that_items_need_is_not_taken_away(make, project, server):
    with pytest.raises(DatasetError, match="case 'a' has the metadata key 'goldfork'"):
        push(make("desk", case("a", metadata={"goldfork": 1})), project)


def test_the_time_at_which_the_content_is_current_is_the_servers(make, project, server):
    dataset = make("desk", case("a"), case("b"))
    _, done = push(dataset, project)
    push(change(dataset, "a", expected_output="later"), project)
    then = api(project).list(dataset_name="desk", version=done.at, request_options=ONCE).data
    assert {item.id: item.expected_output for item in then} == {
        "goldfork:desk:a": "answer to a",
        "goldfork:desk:b": "answer to b",
    }
    assert set(done.versions) == {"a", "b"}
    assert max(datetime.fromisoformat(at) for at in done.versions.values()) == done.at


def test_a_busy_server_is_asked_again_and_a_dead_one_ends_in_a_sentence(make, project, server):
    waited = []
    server.fault("429", times=2, retry_after=7)
    server.fault("500", times=1)
    push(make("desk", case("a")), project, sleep=waited.append)
    assert waited[:2] == [7.0, 7.0]
    assert len(server.items()) == 1
    server.fault("500")
    with pytest.raises(Unanswered, match=r"dataset 'new' cannot be read at 127.0.0.1:\d+: HTTP 500.*try again later"):
        push(make("new", case("a")), project, sleep=waited.append)


class TestPull:
    def test_what_people_changed_is_staged_and_never_approved(self, make, project, server):
        dataset = make("desk", case("a", tags=("t",)), case("b"))
        push(dataset, project)
        api(project).create(
            dataset_name="desk", id="goldfork:desk:a", expected_output="corrected", request_options=ONCE
        )
        work = DatasetPull(dataset, project)
        plan = work.plan()
        assert [(one.action, one.case, one.fields) for one in plan.items] == [("changed", "a", ("expected_output",))]
        assert plan.unchanged == 1
        assert dataset.staged == ()
        assert work.stage(plan) == []
        (staged,) = GoldenDataset.load(dataset.path).staged
        assert (staged.id, staged.expected_output, staged.tags) == ("a", "corrected", ("t",))
        assert staged.approver is None

    def test_a_pull_of_what_was_pushed_changes_nothing(self, make, project, server):
        mail = case("a", input={"q": "ada@lovelace.org"}, metadata={"x": None})
        dataset = make("desk", mail, case("b", expected_output=None))
        push(dataset, project)
        plan = DatasetPull(dataset, project).plan()
        assert (plan.items, plan.unchanged) == ((), 2)

    def test_a_case_keeps_its_own_words_where_the_item_has_placeholders(self, make, project, server):
        dataset = make("desk", case("a", input={"q": "ada@lovelace.org"}))
        push(dataset, project)
        api(project).create(dataset_name="desk", id="goldfork:desk:a", expected_output="new", request_options=ONCE)
        work = DatasetPull(dataset, project)
        work.stage(work.plan())
        (staged,) = dataset.staged
        assert staged.input == {"q": "ada@lovelace.org"}
        assert staged.expected_output == "new"
        changed = {"q": "⟦mail#1⟧", "more": "added there"}
        api(project).create(dataset_name="desk", id="goldfork:desk:a", input=changed, request_options=ONCE)
        work = DatasetPull(dataset, project)
        work.stage(work.plan())
        assert dataset.case("a").input == {"q": "ada@lovelace.org", "more": "added there"}

    def test_items_made_in_langfuse_become_cases_and_stay_the_same_items(self, make, project, server):
        dataset = make("desk", case("a"))
        push(dataset, project)
        for item in ("by-hand", "0f3a/ü..", "../../etc/passwd", "a", "con"):
            api(project).create(
                dataset_name="desk", id=item, input={"q": item}, metadata={"by": "Bea"}, request_options=ONCE
            )
        work = DatasetPull(dataset, project)
        plan = work.plan()
        problems = work.stage(plan)
        cases = {staged.input["q"]: staged for staged in dataset.staged}
        assert cases["by-hand"].id == "by-hand"
        # The item "a" is not our case "a".
        assert cases["a"].id.startswith("a-")
        assert dataset.case("a").expected_output == "answer to a"
        assert cases["../../etc/passwd"].id.startswith("etc-passwd-")
        assert len({one.id for one in cases.values()} | {one.case for one in plan.items}) == 5
        # A device name of some systems is no file name.
        assert [p.partition(":")[0] for p in problems] == ["item 'con'"]
        outside = [p for p in dataset.path.parent.rglob("*") if p.is_file() and not p.is_relative_to(dataset.path)]
        assert outside == []
        # Approved and pushed, they are the items they were.
        before = {item["id"] for item in server.items()}
        dataset.snapshot(approve="Ada")
        _, done = push(GoldenDataset.load(dataset.path), project)
        assert {item["id"] for item in server.items()} == before
        assert done.items["by-hand"] == "by-hand"
        assert push(GoldenDataset.load(dataset.path), project)[0].empty

    def test_pulling_twice_gives_the_same_ids(self, make, project, server):
        dataset = make("desk", case("a"))
        push(dataset, project)
        for item in ("x y", "x-y", "x/y"):
            api(project).create(dataset_name="desk", id=item, input=1, request_options=ONCE)
        first = {one.item: one.case for one in DatasetPull(dataset, project).plan().items}
        work = DatasetPull(dataset, project)
        work.stage(work.plan())
        assert len(set(first.values())) == 3
        assert DatasetPull(dataset, project).plan().items == ()

    def test_a_copied_case_gets_an_item_of_its_own(self, make, project, server):
        dataset = make("desk", case("a"))
        push(dataset, project)
        api(project).create(dataset_name="desk", id="by-hand", input={"q": 1}, request_options=ONCE)
        work = DatasetPull(dataset, project)
        work.stage(work.plan())
        dataset.put_case(dataset.case("by-hand").model_copy(update={"id": "by-hand-2"}))
        dataset.snapshot(approve="Ada")
        _, done = push(GoldenDataset.load(dataset.path), project)
        assert done.items == {"a": "goldfork:desk:a", "by-hand": "by-hand", "by-hand-2": "goldfork:desk:by-hand-2"}
        assert push(GoldenDataset.load(dataset.path), project)[0].empty

    def test_a_staged_case_keeps_its_item(self, make, project, server):
        """A pulled change waits for approval; a push meanwhile must not archive what it came from."""
        dataset = make("desk", case("a"), case("b"))
        push(dataset, project)
        dataset.put_case(dataset.case("b").model_copy(update={"approver": None}))
        dataset.snapshot()
        plan = DatasetPush(GoldenDataset.load(dataset.path), project).plan()
        assert plan.changes == ()

    def test_another_checkout_gets_the_cases_under_their_ids(self, make, project, server):
        told = case("a", tags=("t",), split="dev", group="g", metadata={"k": 1})
        push(make("desk", told), project)
        other = make("copy")
        work = DatasetPull(other, project, source="desk")
        work.stage(work.plan())
        (staged,) = other.staged
        wanted = {"id": "a", "tags": ("t",), "split": "dev", "group": "g", "metadata": {"k": 1}}
        assert {name: getattr(staged, name) for name in wanted} == wanted
        assert staged.input == told.input

    def test_recordings_stay_where_the_input_does(self, make, project, server):
        digest = "d" * 64
        dataset = make("desk", case("a"), case("b"))
        push(dataset, project)
        for one in ("a", "b"):
            ref = {"arm": "recorded", "trial": 0, "digest": digest}
            dataset.put_case(Case(**{**dataset.case(one).model_dump(), "recordings": (ref,)}))
        api(project).create(dataset_name="desk", id="goldfork:desk:a", expected_output="x", request_options=ONCE)
        api(project).create(dataset_name="desk", id="goldfork:desk:b", input={"q": "x"}, request_options=ONCE)
        work = DatasetPull(dataset, project)
        work.stage(work.plan())
        assert [len(one.recordings) for one in dataset.staged] == [1, 0]

    def test_items_that_are_gone_are_named_and_left(self, make, project, server):
        dataset = make("desk", case("a"), case("b"))
        _, done = push(dataset, project)
        api(project).create(dataset_name="desk", id=done.items["b"], status="ARCHIVED", request_options=ONCE)
        plan = DatasetPull(dataset, project).plan(done.items)
        assert plan.gone == ("b",)
        assert plan.items == ()

    @pytest.mark.parametrize(
        "metadata",
        [
            {"goldfork": {"tags": "notalist"}},
            {"goldfork": {"split": {"$ne": 1}}},
            {"goldfork": {"tags": [{}]}},
        ],
    )
    def test_hostile_metadata_is_refused_by_item(self, make, project, server, metadata):
        dataset = make("desk", case("a"))
        push(dataset, project)
        for item, told in (("bad", metadata), ("good", {"goldfork": "text"}), ("list", [1])):
            api(project).create(dataset_name="desk", id=item, input=1, metadata=told, request_options=ONCE)
        work = DatasetPull(dataset, project)
        problems = work.stage(work.plan())
        assert [p.partition(":")[0] for p in problems] == ["item 'bad'"]
        assert {one.id for one in dataset.staged} == {"good", "list"}

    def test_a_dataset_that_is_not_there_is_named(self, make, project):
        with pytest.raises(DatasetError, match="has no dataset 'nothing'; name another with --from"):
            DatasetPull(make("desk", case("a")), project, source="nothing")


def test_ids_stay_within_what_langfuse_takes_and_tell_everything_apart():
    long = "x" * 100
    assert item_id("d", "c") == "goldfork:d:c"
    assert len(generation_id(item_id(long, long), 999)) <= 255
    assert item_id("d" * 300, "a") != item_id("d" * 300, "b")
    assert len(item_id("d" * 300, "a")) <= 255
    assert "4111" not in item_id("desk", "4111111111111111")


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=12), st.integers(1, 999))
def test_a_generation_is_read_back_from_its_id(base, number):
    if split_id(base) == (base, 1):
        assert split_id(generation_id(base, number)) == (base, number)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**25), 10**25) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@given(VALUES)
def test_a_value_is_equal_to_what_a_server_with_doubles_makes_of_it(value):
    """Else each push would find a difference and mint a version."""
    as_javascript = json.loads(json.dumps(value), parse_int=lambda text: float(text) if len(text) > 15 else int(text))
    assert same(value, as_javascript)


@pytest.mark.parametrize(("one", "other"), [(True, 1), (0, False), (None, False), ("1", 1), ([], {}), ([1], [1, 2])])
def test_values_of_different_kinds_are_not_equal(one, other):
    assert not same(one, other)
