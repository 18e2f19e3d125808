"""The demo's company and its golden dataset fit together."""

import inspect
import re
from collections import Counter
from pathlib import Path

import pytest

from evaluators.judge import Judge
from harness.dataset import GoldenDataset
from harness.demo.triage import triage
from harness.demo.triage._data import articles, categories, customers
from harness.record import RECORDED
from harness.replay import code_version
from harness.testing.local_model import CODER_SHA256

DATASET = GoldenDataset.load(Path(__file__).parents[3] / "datasets" / "triage")
PRODUCTS = {"Dewbell", "Rillo", "Fernlight", "Greenroom Plus"}
every_case = pytest.mark.parametrize("case", DATASET.cases, ids=lambda case: case.id)


def judge_options():
    return next(spec.options for spec in DATASET.evaluators if spec.use == "judge")


def test_customers_articles_and_orders_have_distinct_ids():
    orders = [order["id"] for customer in customers().values() for order in customer["orders"]]
    assert len(orders) == len(set(orders))
    assert len({article["id"] for article in articles()}) == len(articles()) >= 20
    assert len(customers()) == 30


def test_the_set_has_three_splits_and_every_category_in_each():
    seen = Counter((case.split, case.expected_output["category"]) for case in DATASET.cases)
    assert len(DATASET.cases) >= 44
    assert {split for split, _ in seen} == {"train", "dev", "test"}
    assert {category for _, category in seen} == set(categories())
    assert all(seen[split, category] >= 2 for split in ("train", "dev", "test") for category in categories())


@every_case
def test_a_case_can_be_run_and_its_facts_hold(case):
    inspect.signature(triage).bind(**case.input)
    customer = customers()[case.input["customer"]]
    owned = {order["id"] for order in customer["orders"]}
    assert set(re.findall(r"QB-\d+", case.input["ticket"])) <= owned
    assert case.group in {article["id"] for article in articles()}


@every_case
def test_expected_entities_stand_in_the_ticket_and_none_is_forgotten(case):
    ticket = case.input["ticket"]
    named = set(re.findall(r"QB-\d+", ticket)) | {product for product in PRODUCTS if product in ticket}
    assert set(case.expected_output["entities"]) == named


@every_case
def test_a_case_is_recorded_with_the_code_that_is_here(case):
    recording = DATASET.recording(case.id)
    assert recording is not None
    assert recording.run.code_version == code_version(DATASET.code)
    assert [ref.arm for ref in case.recordings if ref.arm.startswith("fork:")]
    assert {message.model for message in recording.messages} == {"qwen2.5-coder-0.5b"}
    assert RECORDED in {ref.arm for ref in case.recordings}


def test_the_dataset_is_its_version():
    assert DATASET.verify() == ()
    assert DATASET.provenance["weights_sha256"] == CODER_SHA256


def test_labels_are_bound_to_the_judges_rubric():
    judge = Judge(**judge_options())
    labels = [case.labels["reply_judge"] for case in DATASET.cases if "reply_judge" in case.labels]
    assert len(labels) >= 30
    assert {label["rubric"] for label in labels} == {judge.rubric_version}
    assert len({label["value"] for label in labels}) == 2
