"""Every code block of docs/integrations/burr.md runs, in order, in an empty project."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("burr")

from harness.testing import ScriptedServer

PAGE = Path(__file__).parents[4] / "docs" / "integrations" / "burr.md"


@pytest.mark.slow
def test_the_page_is_true(tmp_path):
    text = PAGE.read_text(encoding="utf-8")
    files = re.findall(r"```python (\S+)\n(.*?)```", text, re.DOTALL)
    [commands] = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    assert [name for name, _ in files] == ["shop.py", "record.py", "targets.py", "again.py"]
    for name, code in files:
        (tmp_path / name).write_text(code)
    with ScriptedServer() as server:
        environment = {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(tmp_path),
            "OPENAI_BASE_URL": server.url,
            "OPENAI_API_KEY": "sk-test-0123456789",
            "NO_COLOR": "1",
            "COLUMNS": "120",
        }

        def run(*command, shell=False):
            done = subprocess.run(
                command[0] if shell else command,
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
                timeout=120,
                shell=shell,
            )
            assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
            return " ".join(done.stdout.split())

        run(sys.executable, "record.py")
        assert server.calls == 2
        replay, fork = commands.strip().splitlines()
        replayed = run(replay, shell=True)
        assert "no step differs" in replayed
        assert "0 spent" in replayed
        assert server.calls == 2
        forked = run(fork, shell=True)
        assert "research reused equal" in forked
        assert "draft run differs" in forked
        assert "send dry" in forked
        assert server.calls == 3
        run(sys.executable, "again.py")
        assert server.calls == 6
