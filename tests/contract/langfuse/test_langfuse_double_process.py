"""The double as a process of its own."""

import json
import subprocess
import sys
import time

import httpx


def test_it_says_where_it_listens_and_ends_on_request():
    command = [sys.executable, "-m", "harness.testing.langfuse_server", "--port", "0", "--version", "4.61.2"]
    command += ["--merge-every", "0.02"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            line = json.loads(process.stdout.readline())
            health = httpx.get(f"{line['url']}/api/public/health").json()
            auth = (line["public_key"], line["secret_key"])
            span = {"traceId": "a" * 32, "spanId": "b" * 16, "name": "x", "startTimeUnixNano": "1"}
            body = {"resourceSpans": [{"scopeSpans": [{"spans": [span, span]}]}]}
            headers = {"x-langfuse-ingestion-version": "4"}
            httpx.post(f"{line['url']}/api/public/otel/v1/traces", json=body, headers=headers, auth=auth)
            end = time.monotonic() + 10
            while len(rows := httpx.get(f"{line['url']}/api/public/v2/observations", auth=auth).json()["data"]) != 1:
                assert time.monotonic() < end
        finally:
            process.terminate()
        assert process.wait(10) == 0
    assert health == {"status": "OK", "version": "4.61.2"}
    assert rows[0]["name"] == "x"
