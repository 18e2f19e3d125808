"""Addresses that are none, servers that are none, senders that are gone."""

import subprocess
import sys

import pytest

from harness.errors import UsageError
from harness.mirror import Project, Sender
from harness.store import open_store
from harness.testing import Scripted, ScriptedServer
from harness.testing.langfuse_server import LangfuseServer


def project(url):
    return Project(public_key="pk", secret_key="sk", base_url=url)


@pytest.mark.parametrize(
    "url", ["ftp://x", "http://", "http://127.0.0.1:99999", "http://a b", "http://a\x7f", "http://[::1", "x"]
)
def test_an_address_that_is_none_is_refused_in_one_line(url):
    with pytest.raises(UsageError, match="LANGFUSE_BASE_URL is no http or https address"):
        project(url)


@pytest.mark.parametrize(
    "answer",
    [
        {"data": "x", "version": {"a": 1}, "meta": 7},
        {"data": [5], "version": "4.59.0", "meta": None},
        {"data": [], "version": "².³"},
        {"data": {"a": []}, "version": None},
    ],
)
def test_answers_of_an_unknown_shape_are_lived_with(answer, tmp_path):
    with (
        ScriptedServer(rule=lambda seen: Scripted(body=answer)) as server,
        open_store(f"sqlite:///{tmp_path}/s.db") as store,
    ):
        store.save("experiments", [{"id": "e"}])
        store.save("scores", [{"experiment": "e", "name": "n", "status": "scored", "value": 1}])
        sender = Sender(store, project(server.url.removesuffix("/v1")))
        assert sender.flush(0.5) is False
        sender.close()


def test_a_sender_that_was_killed_here_leaves_its_place_at_once(tmp_path):
    url = f"sqlite:///{tmp_path}/s.db"
    code = (
        "import os, sys\n"
        "from harness.mirror import Project, Sender\n"
        "from harness.store import open_store\n"
        "store = open_store(sys.argv[1])\n"
        "sender = Sender(store, Project(public_key='pk', secret_key='sk', base_url=sys.argv[2]))\n"
        "sender.run_once()\n"
        "os.kill(os.getpid(), 9)\n"
    )
    with LangfuseServer(keys=("pk", "sk")) as server, open_store(url) as store:
        killed = subprocess.run([sys.executable, "-c", code, url, server.url], check=False, timeout=60)
        assert killed.returncode == -9
        store.outbox.enter("run", ["00000000-0000-7000-8000-000000000001"])
        sender = Sender(store, project(server.url))
        assert sender.run_once().held
        sender.close()
