"""Goldfork: record an LLM agent's runs, replay them for free, fork one step, and score what changed."""

__version__ = "0.1.0"
