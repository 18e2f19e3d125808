"""Alembic revisions of the store's schema, run when a database is opened."""
