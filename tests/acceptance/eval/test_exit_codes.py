"""C-030: what the exit code says, of the real command in a process of its own."""

import json
import signal

import pytest

NEGATIVE = '[gate]\nthresholds = { mild = 0.5 }\n[[evaluators]]\nname = "mild"\nuse = "toy_evaluators:mild"\n'
STRICTER = '[gate]\nthresholds = { right = 0.9 }\n[[evaluators]]\nname = "right"\nuse = "toy_evaluators:right"\n'


@pytest.fixture
def half_right(toy):
    """A third of the answers is wrong, as recorded, and the gate wants nine in ten."""
    case = toy.path / "toyset" / "cases" / "bees.json"
    case.write_text(case.read_text().replace("reply to", "answer to"))
    toy.manifest(STRICTER)
    return toy


def test_all_pass_is_zero(toy, tools):
    assert tools.finish(toy.start("eval", "toyset")).code == 0


def test_below_the_threshold_is_one(half_right):
    done = half_right("eval", "toyset", "--json", "-o", "junit.xml")
    assert (done.code, done.json["exit_code"], done.json["verdict"]) == (1, 1, "regressed")
    assert "<failure" in (half_right.path / "junit.xml").read_text()


def test_report_only_forgives_low_scores_and_no_errors(half_right):
    assert half_right("eval", "toyset", "--report-only").code == 0
    half_right.edit("toy.py", "return text.strip().lower()", "raise RuntimeError('always')")
    assert half_right("eval", "toyset", "--report-only").code == 4


def test_every_item_errored_passes_no_negative_check(toy):
    toy.manifest(NEGATIVE)
    assert toy("eval", "toyset").code == 0
    toy.edit("toy.py", "return text.strip().lower()", "raise RuntimeError('always')")
    done = toy("eval", "toyset", "--json")
    assert (done.code, done.json["verdict"]) == (4, "not_measurable")
    assert done.json["scores"]["mild"]["value"] is None
    assert done.json["scores"]["mild"]["missing"] == 3


def test_a_provider_that_always_errors_is_not_measurable(toy, server):
    server.script(*({"error": {"message": "no"}} for _ in range(3)))
    toy.manifest(NEGATIVE)
    done = toy("eval", "toyset", "--mode", "live", "--json", TOY_URL="http://127.0.0.1:9/v1")
    assert (done.code, done.json["outputs_equal"]) == (4, 0)


def test_ctrl_c_after_3_of_10_keeps_3_results(twenty, stalling, tools):
    """130; three results kept, state interrupted, their aggregate shown as partial."""
    server = stalling(quick=3)
    cases = [word for k in range(10) for word in ("--case", f"case{k:02}")]
    process = twenty.start(
        "eval", "toyset", "--mode", "live", *cases, "--json", "-o", "partial.txt",
        TOY_URL=server.url, GOLDFORK_CONCURRENCY="1",
    )  # fmt: skip
    tools.signalled(process, signal.SIGINT, when=lambda: server.calls == 4)
    done = tools.finish(process)
    assert done.code == 130, done.err
    assert (done.json["trials"], done.json["exit_code"]) == (3, 130)
    assert done.json["scores"]["right"] == {**done.json["scores"]["right"], "value": 1.0, "n": 3}
    assert "Traceback" not in done.err
    (line,) = [json.loads(line) for line in twenty("experiment", "list", "--json").out.splitlines()]
    assert (line["status"], line["exit_code"]) == ("interrupted", 130)
    report = " ".join((twenty.path / "partial.txt").read_text().split())
    assert "interrupted after 3 of 10 trials" in report
    server.release()
    resumed = twenty("eval", "toyset", "--resume", "latest", "--json", TOY_URL=server.url)
    assert (resumed.code, resumed.json["trials"], resumed.json["outputs_equal"]) == (0, 10, 10)
    assert server.calls == 11


def test_ctrl_c_twice_ends_at_once_and_leaves_the_store_whole(twenty, stalling, tools):
    server = stalling(quick=3)
    process = twenty.start("eval", "toyset", "--mode", "live", TOY_URL=server.url, GOLDFORK_CONCURRENCY="1")
    tools.signalled(process, signal.SIGINT, when=lambda: server.calls == 4)
    process.send_signal(signal.SIGINT)
    assert tools.finish(process).code in {130, -signal.SIGINT}
    server.release()
    resumed = twenty("eval", "toyset", "--resume", "latest", "--json", TOY_URL=server.url)
    assert (resumed.code, resumed.json["outputs_equal"]) == (0, 20)
