"""Prompts fetched from a Langfuse: what becomes of their text, and every way in which there is none."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langfuse.model import TextPromptClient

from harness.errors import PromptError
from harness.mirror import LangfusePrompts
from harness.mirror._prompts import _template
from harness.pipeline import prompt, workflow
from harness.replay import fork_run, live_run, replay_run
from harness.session import Change, FetchedPrompt


def publish(project, name, text, *labels):
    body = json.dumps(
        {"name": name, "type": "text" if isinstance(text, str) else "chat", "prompt": text, "labels": labels}
    )
    sent = project.post("/api/public/v2/prompts", body.encode(), headers={"content-type": "application/json"})
    assert sent.outcome == "accepted", sent.words


def test_the_version_that_the_label_points_at_is_fetched(project):
    publish(project, "triage-draft", "One {{ticket}}", "production")
    publish(project, "triage-draft", "Two {{ticket}}", "staging")
    source = LangfusePrompts(project)
    assert source.fetch("triage-draft@staging") == FetchedPrompt(
        text="Two {ticket}", name="triage-draft", version=2, label="staging", source="langfuse"
    )
    assert source.fetch("triage-draft@production").version == 1
    assert source.fetch("triage-draft").label == "production"


@pytest.mark.parametrize("name", ["desk/letters/draft", "a b?c#d", "mail@desk", "Entwürfe"])
def test_a_name_is_any_name(project, name):
    publish(project, name, "Hi", "production")
    assert LangfusePrompts(project).fetch(f"{name}@production").name == name


@pytest.mark.parametrize(
    ("there", "here"),
    [
        ("Dear {{who}},", "Dear {who},"),
        ("{{ who }}{{who}}", "{who}{who}"),
        ('Answer as {"reply": "{{reply}}"}', 'Answer as {{"reply": "{reply}"}}'),
        ("{single} and }{", "{{single}} and }}{{"),
        ("{{not a name}} {{a.b}} {{}} {{1}}", "{{{{not a name}}}} {{{{a.b}}}} {{{{}}}} {{{{1}}}}"),
        ("{{{who}}}", "{{{who}}}"),
        ("", ""),
    ],
)
def test_places_become_ours_and_every_other_brace_stays_text(there, here):
    assert _template(there) == here


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="{}ab_ .1\n", max_size=30))
def test_a_filled_in_prompt_reads_as_langfuse_fills_it_in(text):
    """The oracle is the SDK's own compile, with every place given."""
    import string

    template = _template(text)
    names = {field for _, field, _, _ in string.Formatter().parse(template) if field is not None}
    values = {name: f"<{name}>" for name in names}
    raw = type("Raw", (), {"name": "p", "version": 1, "config": {}, "labels": [], "tags": [], "commit_message": None})()
    raw.prompt, raw.type, raw.resolution_graph = text, "text", None
    assert template.format(**values) == TextPromptClient(raw).compile(**values)


def test_a_chat_prompt_is_refused_with_the_way_out(project):
    publish(project, "chat", [{"role": "system", "content": "Be brief."}], "production")
    with pytest.raises(PromptError, match="'chat' of label 'production' is a chat prompt.*keep it as a text prompt"):
        LangfusePrompts(project).fetch("chat@production")


def test_what_is_not_there_is_named(project, server):
    publish(project, "draft", "Hi", "staging")
    for ref in ("draft@production", "nothing@staging"):
        name, _, label = ref.partition("@")
        with pytest.raises(PromptError, match=f"has no prompt '{name}' with the label '{label}'"):
            LangfusePrompts(project).fetch(ref)


@pytest.mark.parametrize("ref", ["@production", "draft@"])
def test_a_reference_is_a_name_and_a_label(project, ref):
    with pytest.raises(PromptError, match="is not NAME@LABEL"):
        LangfusePrompts(project).fetch(ref)


@pytest.mark.parametrize("kind", ["500", "302", "down", "401", "cut-after"])
def test_no_fault_of_the_server_gives_a_text(project, server, kind):
    publish(project, "draft", "Hi", "production")
    server.fault(kind)
    with pytest.raises(PromptError, match="cannot be fetched from Langfuse") as caught:
        LangfusePrompts(project).fetch("draft@production")
    assert server.secret_key not in str(caught.value)


def test_missing_keys_are_named(monkeypatch):
    monkeypatch.delenv("LANGFUSE_PUBLIC_KEY", raising=False)
    monkeypatch.delenv("LANGFUSE_SECRET_KEY", raising=False)
    with pytest.raises(PromptError, match="LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY are not set"):
        LangfusePrompts().fetch("draft@production")


def test_a_pipeline_finds_langfuse_by_its_scheme(project, server, environment, request):
    name = request.node.name
    publish(project, name, "Dear {{who}}, {literal}", "production")
    text = prompt("draft", source=f"langfuse:{name}@production")

    @workflow("letters")
    def run(who):
        return text.format(who=who)

    outcome = live_run(run, {"who": "Ada"})
    assert outcome.output == "Dear Ada, {literal}"
    (row,) = (v for v in outcome.run.volatile if v.name == "prompt-source:draft")
    assert json.loads(row.value) == {
        "text": "Dear {who}, {{literal}}",
        "name": name,
        "version": 1,
        "label": "production",
        "source": "langfuse",
    }
    publish(project, name, "Changed {{who}}", "production")
    server.requests.clear()
    with server.refusing():
        assert replay_run(outcome.run, target=run).output == "Dear Ada, {literal}"
    fork = fork_run(outcome.run, target=run, change="prompt:draft=typed {who}", at="letters")
    assert fork.output == "typed Ada"
    assert server.requests == []


def test_a_change_takes_its_text_from_a_label(project, environment, request):
    name = request.node.name
    publish(project, name, "Better {{who}}", "candidate")
    change = Change.parse(f"prompt:draft=langfuse:{name}@candidate", at="draft")
    assert change.value == "Better {who}"
    assert change.origin == {"source": "langfuse", "name": name, "version": 1, "label": "candidate"}
    assert change.digest == Change.parse("prompt:draft=Better {who}", at="draft").digest
