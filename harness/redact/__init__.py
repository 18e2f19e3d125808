"""Finds personal data and secrets in text, replaces them consistently, and keeps credentials off the disk."""

from harness.redact._credentials import scrub_secrets, secret_forms, secret_headers
from harness.redact._scan import Finding, Kind, scan
from harness.redact._values import Redactor, scan_value

__all__ = ["Finding", "Kind", "Redactor", "scan", "scan_value", "scrub_secrets", "secret_forms", "secret_headers"]
