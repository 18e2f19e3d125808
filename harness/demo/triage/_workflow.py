"""The support desk: eight steps from a ticket to a reply."""

from __future__ import annotations

import json
from typing import Any, TypedDict

import harness
from harness.demo.triage import _prompts
from harness.demo.triage._data import Article, Customer, categories
from harness.demo.triage._model import answer_schema, ask, assistant, user
from harness.demo.triage._tools import Receipt, lookup_customer, search_kb, send_reply

_REPLY_TOKENS = 110
_SEARCH_TOOL = {
    "type": "function",
    "function": {
        "name": "search_kb",
        "description": "Search the help articles.",
        "parameters": {
            "type": "object",
            "properties": {"query": {"type": "string", "maxLength": 60}},
            "required": ["query"],
            "additionalProperties": False,
        },
    },
}


class Classified(TypedDict):
    """What a ticket is about."""

    category: str
    entities: list[str]


class Result(TypedDict):
    """What the desk made of a ticket."""

    category: str
    entities: list[str]
    reply: str
    verified: bool
    sent: Receipt


@harness.workflow("triage")
def triage(ticket: str, customer: str) -> Result:
    """Answer one ticket.

    Args:
        ticket: What the customer wrote.
        customer: Id of the customer, ``C-101`` say.

    Returns:
        Category, entities, the reply, whether the desk's own check passed it, and what became of it.
    """
    about = classify(ticket)
    who = lookup(customer)
    found = search(ticket)
    first = draft(ticket, who, found)
    remark = critique(ticket, first, found)
    reply = revise(ticket, first, remark, found)
    verified = verify(ticket, reply, found)
    sent = send(customer, reply)
    return {**about, "reply": reply, "verified": verified, "sent": sent}


@harness.step
def classify(ticket: str) -> Classified:
    """Category and entities of the ticket, by structured output."""
    examples = [
        turn
        for text, category, entities in _prompts.CLASSIFY_EXAMPLES
        for turn in (user(text), assistant(json.dumps({"category": category, "entities": entities})))
    ]
    wanted = answer_schema(
        "ticket",
        category={"type": "string", "enum": list(categories())},
        entities={"type": "array", "items": {"type": "string"}, "maxItems": 4},
    )
    reply = ask(
        _prompts.CLASSIFY.format(),
        [*examples, user(ticket)],
        temperature=0,
        max_tokens=80,
        response_format=wanted,
    )
    answer = _answered(reply)
    return {"category": str(answer.get("category", "")), "entities": [str(e) for e in answer.get("entities", ())]}


@harness.step(kind="job")
def lookup(customer: str) -> Customer | None:
    """What the shop knows of the customer."""
    return lookup_customer(customer)


@harness.step
def search(ticket: str) -> list[Article]:
    """Help articles for the ticket; the model says what to search for, by calling the tool."""
    reply = ask(
        _prompts.SEARCH.format(),
        [user(ticket)],
        temperature=0,
        max_tokens=48,
        tools=[_SEARCH_TOOL],
        tool_choice="required",
    )
    found = search_kb(_query(reply) or ticket)
    return found or search_kb(ticket)


@harness.step
def draft(ticket: str, customer: Customer | None, found: list[Article]) -> str:
    """A first reply."""
    orders = customer["orders"] if customer else []
    system = _prompts.DRAFT.format(
        facts=_facts(found),
        name=customer["name"] if customer else "unknown",
        orders=", ".join(f"{o['id']} ({o['product']}, {o['status']})" for o in orders) or "none",
    )
    return _text(ask(system, [user(ticket)], temperature=0.7, max_tokens=_REPLY_TOKENS))


@harness.step
def critique(ticket: str, reply: str, found: list[Article]) -> str:
    """What is to be better in the draft."""
    examples = [turn for text, remark in _prompts.CRITIQUE_EXAMPLES for turn in (user(text), assistant(remark))]
    question = user(f"Ticket: {ticket}\nFacts: {_facts(found[:1])}\nReply: {reply}")
    return _text(ask(_prompts.CRITIQUE.format(), [*examples, question], temperature=0, max_tokens=32))


@harness.step
def revise(ticket: str, reply: str, remark: str, found: list[Article]) -> str:
    """The reply, written again with the remark in mind."""
    turns = [user(ticket), assistant(reply), user(f"Remark: {remark}\nWrite the reply again.")]
    system = _prompts.REVISE.format(facts=_facts(found))
    return _text(ask(system, turns, temperature=0.3, seed=7, max_tokens=_REPLY_TOKENS))


@harness.step
def verify(ticket: str, reply: str, found: list[Article]) -> bool:
    """Whether the reply keeps to the facts, by the model's own word."""
    examples = [
        turn
        for text, good in _prompts.VERIFY_EXAMPLES
        for turn in (user(text), assistant(json.dumps({"supported": good})))
    ]
    question = user(f"Facts: {_facts(found)}\nTicket: {ticket}\nReply: {reply}")
    answer = ask(
        _prompts.VERIFY.format(),
        [*examples, question],
        temperature=0,
        max_tokens=12,
        response_format=answer_schema("check", supported={"type": "boolean"}),
    )
    return _answered(answer).get("supported") is True


@harness.step(kind="job")
def send(customer: str, reply: str) -> Receipt:
    """Hand the reply to the customer."""
    return send_reply(customer, reply, sent_at=harness.now().isoformat(timespec="seconds"))


def _facts(found: list[Article]) -> str:
    return "\n".join(f"- {article['text']}" for article in found) or "- none"


def _text(message: Any) -> str:
    return (message.content or "").strip()


def _answered(message: Any) -> dict[str, Any]:
    """The object that the model wrote; empty when it wrote none, for which the scores will tell."""
    try:
        answer = json.loads(message.content or "")
    except json.JSONDecodeError:
        return {}
    return answer if isinstance(answer, dict) else {}


def _query(message: Any) -> str:
    """What the model searches for; empty when its call cannot be read."""
    try:
        arguments = json.loads(message.tool_calls[0].function.arguments)
        return str(arguments["query"])
    except (TypeError, IndexError, KeyError, json.JSONDecodeError):
        return ""
