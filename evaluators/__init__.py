"""The shipped evaluators: plugins with no privilege over a user's own.

They are named in ``dataset.toml`` (``use = "classification"``) and found by entry point; nothing is imported here.
"""
