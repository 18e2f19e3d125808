"""What the support desk can do besides writing: one tool of each kind of determinism."""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import TypedDict

import harness
from harness.demo.triage._data import Article, Customer, articles, common_words, customers

_FOUND = 2


class Receipt(TypedDict):
    """What became of a reply."""

    status: str
    customer: str
    sent_at: str


@harness.tool(determinism="deterministic", version="1")
def lookup_customer(customer: str) -> Customer | None:
    """The customer of that id, ``None`` when there is none."""
    return customers().get(customer)


@harness.tool(determinism="time-bound", ttl=86_400, version="1")
def search_kb(query: str) -> list[Article]:
    """The two articles that share the rarest words with the query, best first; fewer when fewer share any."""
    documents = [
        Counter(words(f"{article['title']} {article['keywords']} {article['text']}")) for article in articles()
    ]
    spread = Counter(word for document in documents for word in document)

    def weight(document: Counter[str]) -> float:
        return sum(math.log(len(documents) / spread[word]) for word in set(words(query)) if word in document)

    ranked = sorted(zip(map(weight, documents), articles(), strict=True), key=lambda pair: -pair[0])
    return [article for score, article in ranked[:_FOUND] if score > 0]


def _not_sent(customer: str, reply: str, sent_at: str) -> Receipt:
    del reply
    return {"status": "not sent", "customer": customer, "sent_at": sent_at}


@harness.tool(determinism="side-effect", version="1", stand_in=_not_sent)
def send_reply(customer: str, reply: str, sent_at: str) -> Receipt:
    """Send the reply. The company is invented, so it goes nowhere; a real desk would queue an email here."""
    del reply
    return {"status": "sent", "customer": customer, "sent_at": sent_at}


def words(text: str) -> list[str]:
    """Lower-case words without the commonest ones; a plural s is dropped."""
    found = re.findall(r"[a-z0-9]+", text.lower())
    return [word.removesuffix("s") if len(word) > 3 else word for word in found if word not in common_words()]
