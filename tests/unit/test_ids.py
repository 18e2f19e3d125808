import time
import uuid

from harness.session import new_id


def test_ids_grow_and_carry_the_time():
    before = time.time_ns() // 1_000_000
    ids = [new_id() for _ in range(5000)]
    assert ids == sorted(set(ids))
    stamp = uuid.UUID(ids[-1]).int >> 80
    assert before <= stamp <= time.time_ns() // 1_000_000 + 1
    assert {uuid.UUID(one).version for one in ids} == {7}
