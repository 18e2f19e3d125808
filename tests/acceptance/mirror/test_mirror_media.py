"""Images in a request: a note in the mirror, and the file beside it when that is asked for."""

import base64
import json
from dataclasses import replace

import pytest

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(200))


def with_image(fleet, store):
    made, blobs = fleet.records(0, steps=1)
    url = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
    content = [{"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": url}}]
    request = json.dumps({"model": "m-1", "messages": [{"role": "user", "content": content}]}).encode()
    message = replace(made[-1], request_hash=fleet.digest(request))
    store.write(*made[1:-1], message, made[0], blobs={**blobs, message.request_hash: request}).result()
    return message


def sent_bytes(server):
    return b"".join(seen.body for seen in server.requests if seen.path.endswith("otel/v1/traces"))


def uploaded(server):
    return [seen for seen in server.requests if seen.method == "PUT"]


def test_a_file_is_uploaded_once_when_asked_for(fleet, store, server, clock):
    message = with_image(fleet, store)
    project = fleet.project_of(server, clock=clock)
    sender = fleet.Sender(store, project, clock=clock, sleep=clock.sleep, upload_media=True)
    server.fault("500", times=1, when=lambda request: request.path == "/api/public/media")
    assert fleet.drive(sender, clock)
    [put] = uploaded(server)
    assert put.raw == PNG
    assert "authorization" not in put.headers
    asked = [json.loads(seen.body) for seen in server.requests if seen.path == "/api/public/media"]
    assert asked[-1]["traceId"] == fleet.trace_id(message.run_id)
    assert asked[-1]["observationId"] == fleet.span_id("message", message.id)
    assert asked[-1]["field"] == "input"
    assert base64.b64encode(PNG)[:40] not in sent_bytes(server)
    assert store.outbox.backfill(again=True) == 1
    assert fleet.drive(sender, clock, merge=server.merge)
    assert len(uploaded(server)) == 1
    sender.close()


@pytest.mark.parametrize(("fault", "status"), [("413", 413), ("401", 401)])
def test_a_file_that_its_place_refuses_keeps_no_run_back(fleet, store, server, clock, fault, status):
    with_image(fleet, store)
    project = fleet.project_of(server, clock=clock)
    sender = fleet.Sender(store, project, clock=clock, sleep=clock.sleep, upload_media=True)
    server.fault(fault, when=lambda request: request.method == "PUT")
    assert fleet.drive(sender, clock, hours=1.0)
    assert store.outbox.counts()["verified"] == 1
    assert len(uploaded(server)) == 1
    [medium] = server.media()
    assert medium.status == status
    assert "image/png" in sent_bytes(server).decode()
    sender.close()


def test_else_only_a_note_is_sent(fleet, store, server, sender, clock):
    with_image(fleet, store)
    assert fleet.drive(sender, clock)
    assert uploaded(server) == []
    assert base64.b64encode(PNG)[:40] not in sent_bytes(server)
    assert "image/png" in sent_bytes(server).decode()


@pytest.mark.parametrize("kind", ["text/csv", "application/json", "application/xml", "image/svg+xml", "text/html"])
def test_files_that_are_text_stay_notes_since_nothing_redacts_them(fleet, store, server, clock, kind):
    made, blobs = fleet.records(0, steps=1)
    url = f"data:{kind};base64,{base64.b64encode(b'mail jane.roe@example.org').decode()}"
    image = f"data:IMAGE/PNG;base64,{base64.b64encode(PNG).decode()}"
    content = [{"type": "text", "text": f"{url} {image}"}]
    request = json.dumps({"model": "m-1", "messages": [{"role": "user", "content": content}]}).encode()
    message = replace(made[-1], request_hash=fleet.digest(request))
    store.write(*made[1:-1], message, made[0], blobs={**blobs, message.request_hash: request}).result()
    sender = fleet.Sender(
        store, fleet.project_of(server, clock=clock), clock=clock, sleep=clock.sleep, upload_media=True
    )
    assert fleet.drive(sender, clock)
    assert [put.raw for put in uploaded(server)] == [PNG]
    sender.close()
