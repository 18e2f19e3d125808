"""What a long conversation costs on disk."""

import hashlib
import json
import sqlite3
from dataclasses import replace

from harness.store import open_store


def _record(path, records, conversation, turns):
    """Record a conversation as production does; the size of the file after VACUUM, per number of turns."""
    sizes = {}
    url = f"sqlite:///{path}"
    run = records.run()
    with open_store(url, durability="normal") as store:
        store.write(run)
        step = records.step(run)
        store.write(step)
        for number in range(max(turns) + 1):
            if number in turns:
                store.flush()
                sizes[number] = _vacuumed(path)
            request, response, headers = conversation.turn(number)
            message = records.message(run, request, response, step_id=step.id, seq=number + 1)
            final = replace(message, exchanges=(replace(message.exchanges[0], headers=headers),))
            store.write(replace(final, status="running", exchanges=()), blobs=records.blobs(request))
            # A caller gets its reply after the commit, so that no two turns share a transaction.
            store.write(final, blobs=records.blobs(request, response)).result(30)
        store.write(records.done(run)).result(30)
        assert store.check().ok
    return sizes


def _vacuumed(path):
    copy = path.with_suffix(".copy")
    with sqlite3.connect(path) as connection:
        connection.execute("VACUUM INTO ?", (str(copy),))
    connection.close()
    size = copy.stat().st_size
    copy.unlink()
    return size


def test_a_conversation_takes_room_by_its_new_content_only(tmp_path, records, conversation):
    sizes = _record(tmp_path / "goldfork.db", records, conversation, {0, 50, 100, 200})
    assert sizes[200] - sizes[100] <= 2.1 * (sizes[100] - sizes[50])
    assert (sizes[200] - sizes[0]) / 200 <= 2048


def test_snapshots_of_a_growing_history_take_room_by_its_new_content_only(sqlite_url, records):
    sizes = []
    with open_store(sqlite_url, durability="normal") as store:
        run = records.run()
        history = []
        for number in range(80):
            history.append(
                {"role": "user", "content": f"turn {number}: " + hashlib.sha256(b"%d" % number).hexdigest() * 8}
            )
            snapshot = json.dumps({"history": history, "ticket": "parcel"}).encode()
            step = records.step(run, seq=number, input_hash=records.hash(snapshot))
            store.write(run, step, blobs=records.blobs(snapshot)).result(30)
            sizes.append(store.stats().stored_bytes)
        assert store.read(records.hash(snapshot)) == snapshot
        assert store.check().ok
    assert sizes[79] - sizes[39] <= 2.1 * (sizes[39] - sizes[19])
