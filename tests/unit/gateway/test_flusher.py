"""The flusher's thread: one per process, gone when idle, its own in a forked child."""

import os
import threading

from harness.gateway._flusher import Flusher


class Watched:
    def __init__(self) -> None:
        self.ticked = threading.Event()

    def tick(self) -> None:
        self.ticked.set()


def test_every_open_reply_is_ticked_until_it_is_discarded():
    flusher, first, second = Flusher(), Watched(), Watched()
    flusher.add(first)
    flusher.add(second)
    assert first.ticked.wait(10)
    assert second.ticked.wait(10)
    flusher.discard(first)
    flusher.discard(second)


def test_a_forked_child_has_a_thread_of_its_own():
    flusher, watched = Flusher(), Watched()
    flusher.add(watched)
    assert watched.ticked.wait(10)
    with flusher._wake:  # as if the thread had held the lock when the process was forked
        child = os.fork()
        if child == 0:
            mine = Watched()
            flusher.add(mine)
            os._exit(0 if mine.ticked.wait(10) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    flusher.discard(watched)
