"""The invented company: its customers, its knowledge base, its rules."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any, TypedDict


class Order(TypedDict):
    """One order of a customer."""

    id: str
    product: str
    status: str
    ordered: str


class Customer(TypedDict):
    """A customer, with orders newest first."""

    id: str
    name: str
    plan: str
    orders: list[Order]


class Article(TypedDict):
    """One article of the knowledge base."""

    id: str
    title: str
    text: str
    keywords: str
    """Words that customers use for it."""


@cache
def customers() -> dict[str, Customer]:
    """All customers by id."""
    return {customer["id"]: customer for customer in _read("customers.json")}


@cache
def articles() -> tuple[Article, ...]:
    """The knowledge base."""
    return tuple(_read("knowledge_base.json"))


@cache
def categories() -> dict[str, str]:
    """The categories of tickets, each with what belongs to it."""
    return dict(_read("rules.json")["categories"])


@cache
def common_words() -> frozenset[str]:
    """Words that say nothing about what a text is about."""
    return frozenset(_read("rules.json")["common_words"])


def _read(name: str) -> Any:
    return json.loads(resources.files(__package__).joinpath("data", name).read_text(encoding="utf-8"))
