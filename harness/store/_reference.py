"""The table reference in docs/schema.md, made from the tables themselves."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from sqlalchemy import Column
from sqlalchemy.dialects import postgresql, sqlite

from harness.store import _eval_tables, _tables
from harness.store._columns import Table

_HEAD = """# The store's tables

<!-- Made by `python -m harness.store._reference > docs/schema.md`; a test keeps it up to date. -->

The schema is public: query it, join it with your own tables, build on it. The same tables stand in SQLite and in
PostgreSQL, as SQLModel classes in `harness.store._tables` and `harness.store._eval_tables`; Alembic revisions
in `harness/store/migrations` make them.

| value | on SQLite | on PostgreSQL |
|---|---|---|
| UUID | 16 bytes: `hex(id)`, `x'0190…'` | `uuid` |
| hash, key | 32 bytes; a key `v1:…`: 0x03, 0x01, 32 bytes; any other: 0x01 and its text | `bytea`, the same |
| time | `2026-11-30T21:27:45.123456Z`, sorts as text | `timestamptz` |
| money | decimal text | `numeric` |
| JSON | ASCII text | `text`; cast it to `jsonb` where it holds no `\\u0000` |
| text | NUL, lone surrogates and U+001A stand as U+001A and four hex digits | the same |

Order by `seq`, never by a time. Null is unknown, never zero.

The view `llm_cache` (`exact_key, semantic_key, message_id, run_id, occurrence, endpoint, model, started_at`) lists the
live answers in `messages` by key.
"""


def schema_reference() -> str:
    """The whole page, as Markdown."""
    return "\n".join((_HEAD, *_sections()))


def _sections() -> Iterator[str]:
    for module in (_tables, _eval_tables):
        classes = (kind for _, kind in inspect.getmembers(module, inspect.isclass))
        found = [kind for kind in classes if issubclass(kind, Table) and kind.__module__ == module.__name__]
        for kind in sorted(found, key=lambda kind: inspect.getsourcelines(kind)[1]):
            yield _section(kind)


def _section(kind: type[Table]) -> str:
    table = Table.metadata.tables[str(kind.__tablename__)]
    lines = [f"## {table.name}", "", inspect.getdoc(kind) or "", "", "| column | type | |", "|---|---|---|"]
    for column in table.columns:
        text = (kind.model_fields[column.name].description or "").replace("|", "\\|")
        lines.append(f"| `{column.name}` | {_type(column)} | {text} |")
    indexes = sorted(f"`{', '.join(column.name for column in index.columns)}`" for index in table.indexes)
    if indexes:
        lines += ["", f"Indexes: {'; '.join(indexes)}."]
    return "\n".join((*lines, ""))


def _type(column: Column[object]) -> str:
    names = [column.type.compile(dialect=dialect.dialect()).lower() for dialect in (sqlite, postgresql)]
    kind = names[0] if names[0] == names[1] else " / ".join(names)
    if column.primary_key:
        return f"{kind}, key"
    return f"{kind}, null" if column.nullable else kind


if __name__ == "__main__":
    print(schema_reference(), end="")
