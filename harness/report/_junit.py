"""JUnit XML for CI: one test case per case, and one per rule of the gate.

It agrees with the exit code: whenever that is not 0, something in here failed; and a gate that was only to be
reported fails nothing.
"""

from __future__ import annotations

from itertools import groupby
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from harness.report import _format as write
from harness.report._json import to_json
from harness.report.summary import CaseView, ProblemKind, ScoreRow, Summary

_ERRORS: frozenset[ProblemKind] = frozenset({"missing", "error"})
_FAILURES: frozenset[ProblemKind] = frozenset({"gate"})


def render_junit(summary: Summary) -> str:
    """The document as text."""
    root = Element("testsuites", _attributes(name="goldfork"))
    suite = SubElement(root, "testsuite", _attributes(name=f"{summary.dataset} v{summary.version}"))
    _properties(suite, summary)
    for view in summary.cases:
        _case(suite, view, summary)
    _gate(suite, summary)
    seconds = (summary.ended_at - summary.started_at).total_seconds()
    tests = suite.findall("testcase")
    for element in (root, suite):
        element.set("tests", str(len(tests)))
        for plural, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            element.set(plural, str(sum(test.find(tag) is not None for test in tests)))
        element.set("time", f"{seconds:.3f}")
    suite.set("timestamp", summary.started_at.strftime("%Y-%m-%dT%H:%M:%S"))
    indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(root, encoding="unicode")}\n'


def _attributes(**values: str) -> dict[str, str]:
    """XML cannot hold every character, not even as a reference; those are written as escapes."""
    return {name: write.visible(value) for name, value in values.items()}


def _properties(suite: Element, summary: Summary) -> None:
    data = to_json(summary)
    found = {name: data[name] for name in ("experiment", "dataset", "version", "mode", "verdict", "exit_code")}
    found |= {
        "digest": summary.digest,
        "target": summary.target,
        "outputs_equal": summary.outputs_equal,
        "provider_calls": summary.work.provider_calls,
    }
    for kind in ("tokens", "cost", "steps", "tools"):
        found |= {f"{kind}.{name}": value for name, value in data[kind].items()}
    for row in summary.scores:
        found |= _score(row)
    properties = SubElement(suite, "properties")
    for name, value in found.items():
        SubElement(properties, "property", _attributes(name=name, value="unknown" if value is None else str(value)))


def _score(row: ScoreRow) -> dict[str, object]:
    side = row.candidate
    found: dict[str, object] = {"value": side.value, "low": side.low, "high": side.high, "n": row.n}
    found |= {"missing": row.missing, "verdict": row.word, "difference": row.difference}
    return {f"score.{row.name}.{key}": value for key, value in found.items()}


def _case(suite: Element, view: CaseView, summary: Summary) -> None:
    test = SubElement(
        suite,
        "testcase",
        _attributes(classname=summary.dataset, name=view.case, time=f"{view.seconds:.3f}"),
    )
    for kinds, tag in ((_ERRORS, "error"), (_FAILURES, "failure")):
        found = [problem for problem in view.problems if problem.kind in kinds]
        if found and (tag == "error" or summary.exit_code != 0):
            first = found[0]
            message = f"{write.PROBLEMS[first.kind]}: {first.reason}"
            element = SubElement(test, tag, _attributes(message=write.one_line(message, 400), type=first.kind))
            element.text = write.visible("\n".join(f"trial {one.trial}: {one.reason}" for one in found))
            break
    scores = [
        f"{score.name}: {write.number(score.value) if score.status == 'scored' else score.status}"
        for trial in view.trials
        for score in trial.scores
    ]
    if scores:
        SubElement(test, "system-out").text = write.visible("\n".join(scores))


def _gate(suite: Element, summary: Summary) -> None:
    """One test per rule, and one for the verdict."""
    for name, checks in groupby(sorted(summary.checks, key=lambda one: one.name), key=lambda one: one.name):
        found = list(checks)
        test = SubElement(suite, "testcase", _attributes(classname=f"{summary.dataset}.gate", name=name, time="0"))
        failed = [check for check in found if not check.passed]
        if failed:
            reason = "; ".join(check.reason for check in failed)
            _result(test, summary, reason)
    test = SubElement(suite, "testcase", _attributes(classname=f"{summary.dataset}.gate", name="verdict", time="0"))
    if summary.exit_code != 0:
        _result(test, summary, f"{write.word(summary.verdict)}, exit code {summary.exit_code}: {summary.headline}")


def _result(test: Element, summary: Summary, reason: str) -> None:
    message = write.one_line(reason, 400)
    if summary.exit_code == 0:
        SubElement(test, "skipped", _attributes(message=f"failed, but only to be reported: {message}"))
    elif summary.exit_code in {1, 3}:
        SubElement(test, "failure", _attributes(message=message, type="gate"))
    else:
        SubElement(test, "error", _attributes(message=message, type="gate"))
