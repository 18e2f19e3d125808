"""Runs the revisions on the connection that the store hands over."""

from alembic import context

from harness.store import _eval_tables, _tables
from harness.store._columns import Table

__all__ = ["_eval_tables", "_tables"]

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Table.metadata,
    transactional_ddl=False,
)
context.run_migrations()
