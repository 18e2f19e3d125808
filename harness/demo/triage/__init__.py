"""The pipeline that the shipped golden dataset ``datasets/triage`` records and evaluates."""

from harness.demo.triage._workflow import triage

__all__ = ["triage"]
