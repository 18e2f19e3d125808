"""Other frameworks' applications as runs and steps; each integration is imported by name and is an extra."""
