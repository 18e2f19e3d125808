"""A replay, a fork and a dry run write neither the threads nor the store of production."""

import asyncio
from typing import TypedDict

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

from harness.errors import UndeclaredChange
from harness.integrations.langgraph import target
from harness.integrations.langgraph._apart import Overlay
from harness.replay import fork_run, live_run, replay_run

THREAD = {"configurable": {"thread_id": "customer-7"}}


class State(TypedDict, total=False):
    count: int
    mark: str


def remember(state, *, store: BaseStore):
    found = store.get(("user",), "count")
    count = (found.value["count"] if found else 0) + 1
    store.put(("user",), "count", {"count": count})
    return {"count": store.get(("user",), "count").value["count"]}


def mark(state):
    return {"mark": "one"}


def compiled(node, **options):
    graph = StateGraph(State)
    graph.add_node("mark", mark)
    graph.add_node("work", node)
    graph.add_edge(START, "mark")
    graph.add_edge("mark", "work")
    graph.add_edge("work", END)
    return graph.compile(**options)


def count_of(store):
    return store.get(("user",), "count").value["count"]


def test_the_store_is_read_through_and_never_written():
    store = InMemoryStore()
    run = target(compiled(remember, store=store))
    parent = live_run(run, {"count": 0}, dry=False)
    assert (parent.output["count"], count_of(store)) == (1, 1)
    # What production remembers has gone on since: that is told, and nothing is written.
    again = replay_run(parent.run, target=run)
    assert (again.output["count"], again.diff.first_divergence, count_of(store)) == (2, "work", 1)
    with pytest.raises(UndeclaredChange):
        fork_run(parent.run, target=run, change='output={"mark": "two"}', at="mark")
    assert (live_run(run, {"count": 0}).output["count"], count_of(store)) == (2, 1)


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_the_threads_of_a_function_that_calls_a_graph_stay_as_they_are(is_async):
    saver = InMemorySaver()
    graph = compiled(lambda state: {"count": state["count"] + 1}, checkpointer=saver)

    def application(count):
        graph.invoke({"count": count}, THREAD)
        graph.update_state(THREAD, {"mark": "by hand"})
        # The thread of this very run is seen, whoever asks.
        return graph.get_state(THREAD).values

    async def asynchronous(count):
        await graph.ainvoke({"count": count}, THREAD)
        await graph.aupdate_state(THREAD, {"mark": "by hand"})
        return (await graph.aget_state(THREAD)).values

    run = target(asynchronous if is_async else application)
    parent = live_run(run, {"count": 1}, dry=False)
    before = len(list(saver.list(THREAD)))
    assert parent.output == {"count": 2, "mark": "by hand"}
    again = replay_run(parent.run, target=run)
    assert (again.status, again.output) == ("ok", parent.output)
    assert live_run(run, {"count": 5}).output == {"count": 6, "mark": "by hand"}
    assert len(list(saver.list(THREAD))) == before


def test_an_overlay_answers_as_a_store_that_was_written():
    real, alone = InMemoryStore(), InMemoryStore()
    for store in (real, alone):
        for number in range(4):
            store.put(("a", str(number % 2)), f"k{number}", {"n": number})
    over = Overlay(real)
    for store in (over, alone):
        store.put(("a", "0"), "k0", {"n": 10})
        store.delete(("a", "1"), "k1")
        store.put(("b",), "new", {"n": 7})

    def seen(store):
        found = {(item.namespace, item.key): item.value for item in store.search(())}
        return found, store.list_namespaces(), store.get(("a", "0"), "k0").value, store.get(("a", "1"), "k1")

    assert seen(over) == seen(alone)
    pages = [item.key for start in (0, 2) for item in over.search(("a",), limit=2, offset=start)]
    assert sorted(pages) == ["k0", "k2", "k3"]
    assert asyncio.run(over.aget(("b",), "new")).value == {"n": 7}
    assert real.get(("a", "0"), "k0").value == {"n": 0}
    assert real.get(("b",), "new") is None
