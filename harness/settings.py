"""The settings, a dozen at most: same name as environment variable, in ``[tool.goldfork]`` and as option."""

from __future__ import annotations

import os
import tomllib
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from harness.errors import UsageError

__all__ = ["Price", "Settings", "load_settings"]


class Price(BaseModel):
    """What a model costs per million tokens."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    input: Decimal
    output: Decimal
    cached: Decimal | None = None
    """Price of cached input tokens; the input price when absent."""
    currency: str = "USD"


class Settings(BaseSettings):
    """Read from ``GOLDFORK_*`` first, then from ``[tool.goldfork]`` in ``pyproject.toml``."""

    model_config = SettingsConfigDict(env_prefix="GOLDFORK_", extra="forbid", frozen=True)

    home: Path = Path(".goldfork")
    """Folder of the default database, logs and reports."""
    database_url: str = ""
    """SQLAlchemy URL of the store; empty means SQLite at ``<home>/goldfork.db``."""
    mode: Literal["live", "replay", "auto", "off"] = "live"
    """Mode of runs that nobody planned."""
    recording: str = ""
    """Recording that such runs are answered from: a case (``datasets/NAME:CASE``), a run id, a workflow's name."""
    on_store_error: Literal["warn", "raise"] = "warn"
    """Whether a live call whose record cannot be stored warns once or raises."""
    durability: Literal["full", "normal"] = "full"
    """``full`` survives power loss, ``normal`` the death of the process."""
    hosts: list[str] = Field(default_factory=list)
    """Further hosts that ``harness.install()`` taps."""
    datasets: Path = Path("datasets")
    """Folder of the golden datasets."""
    run_url: str = ""
    """Address of a run's page of your own, ``{run}`` standing for its id; shown in Langfuse beside the run."""
    embedder: str = ""
    """What measures how far two texts are apart in meaning, in diffs: a sentence-transformers model, or ``MODEL@URL``
    of an OpenAI-compatible endpoint. Without one their words are compared."""
    prices: dict[str, Price] = Field(default_factory=dict)
    """Price per model name; a model without one has unknown cost."""
    concurrency: int = Field(default=8, ge=1)
    """Trials that run at once."""

    @property
    def url(self) -> str:
        """The store's URL, the default filled in."""
        return self.database_url or f"sqlite:///{(self.home / 'goldfork.db').absolute()}"

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Environment over project file; no dotenv, no secrets folder."""
        del settings_cls, dotenv_settings, file_secret_settings
        return env_settings, init_settings


def load_settings(folder: Path | None = None) -> Settings:
    """The settings that hold in a folder: its environment, then the nearest ``pyproject.toml``.

    Raises:
        UsageError: A value has the wrong type, or a name is unknown.
    """
    environment = tuple(sorted((k, v) for k, v in os.environ.items() if k.startswith("GOLDFORK_")))
    return _load((folder or Path.cwd()).absolute(), environment)


@lru_cache(maxsize=8)
def _load(folder: Path, environment: tuple[tuple[str, str], ...]) -> Settings:
    del environment
    path, table = _project_table(folder)
    try:
        return Settings(**table)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        where = f"GOLDFORK_{name.upper()} or [tool.goldfork] in {path}" if path else f"GOLDFORK_{name.upper()}"
        raise UsageError(f"setting {name!r}: {first['msg']} (look at {where})") from error


def _project_table(folder: Path) -> tuple[Path | None, dict[str, Any]]:
    for parent in (folder, *folder.parents):
        path = parent / "pyproject.toml"
        if path.is_file():
            try:
                data = tomllib.loads(path.read_text(encoding="utf-8"))
            except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
                raise UsageError(f"{path} is not valid TOML: {error}") from error
            table: dict[str, Any] = data.get("tool", {}).get("goldfork", {})
            return path, table
    return None, {}
