"""``goldfork init``: the files a newcomer needs for a first case."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from harness.cli._app import JsonOption, app, console, print_json
from harness.errors import UsageError

_SETTINGS = """
[tool.goldfork]
# Every setting is also an environment variable: GOLDFORK_MODE, GOLDFORK_DATABASE_URL, …
mode = "live"
"""


@app.command("init")
def init(
    folder: Annotated[Path, typer.Argument(help="The project's folder.")] = Path(),
    *,
    json: JsonOption = False,
) -> None:
    """Write an example agent, settings, .gitignore and a CI workflow; existing files are left alone.

    Next: python agent.py, then goldfork dataset add agent --to datasets/first. docs/quickstart.md goes on.
    """
    if not folder.is_dir():
        raise UsageError(f"{str(folder)!r} is not a folder; create it first")
    written = [
        *_new_file(folder / "agent.py", _template("agent.py.txt")),
        *_new_file(folder / ".github" / "workflows" / "goldfork.yml", _template("workflow.yml.txt")),
        *_added_line(folder / ".gitignore", ".goldfork/"),
        *_settings(folder / "pyproject.toml"),
    ]
    if json:
        print_json({"written": [str(path) for path in written]})
        return
    out = console()
    for path in written:
        out.print(f"wrote {path}", markup=False)
    out.print('next: python agent.py "My parcel is late."   (needs OPENAI_API_KEY, or OPENAI_BASE_URL)')
    out.print("then: goldfork dataset add agent --to datasets/first --target agent:agent --id parcel-late")


def _template(name: str) -> str:
    return (files("harness.cli") / "template" / name).read_text(encoding="utf-8")


def _new_file(path: Path, text: str) -> list[Path]:
    if path.exists():
        return []
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return [path]


def _added_line(path: Path, line: str) -> list[Path]:
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    if line in text.splitlines():
        return []
    path.write_text(f"{text.rstrip()}\n{line}\n".lstrip(), encoding="utf-8")
    return [path]


def _settings(path: Path) -> list[Path]:
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    if "[tool.goldfork]" in text:
        return []
    path.write_text(f"{text.rstrip()}\n{_SETTINGS}".lstrip(), encoding="utf-8")
    return [path]
