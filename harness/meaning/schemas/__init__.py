"""Schemas by what they accept: equal forms, documented rewrites, and an instance where two of them part."""

from harness.meaning.schemas.form import Dialect
from harness.meaning.schemas.judge import SchemaChange, apart, change

__all__ = ["Dialect", "SchemaChange", "apart", "change"]
