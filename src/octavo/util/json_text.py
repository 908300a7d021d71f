"""JSON as it is written: results are dataclasses, whose fields are the keys; no NaN goes in."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

OPTIONAL = MappingProxyType({"optional": True})
"""Metadata of a dataclass's field: JSON has it only where it is not None."""


def plain(data: Any) -> Any:
    """A result as JSON values: of a dataclass its fields, of a config its settings, of a path its text."""
    if data is None or isinstance(data, (str, int, float)):
        return data
    if is_dataclass(data) and not isinstance(data, type):
        pairs = ((one, getattr(data, one.name)) for one in fields(data))
        return {
            one.name: plain(value)
            for one, value in pairs
            if value is not None or not one.metadata.get("optional")
        }
    if hasattr(data, "model_dump"):  # pydantic's; of a record, what its file had
        return data.model_dump(mode="json", exclude_unset=getattr(type(data), "only_set", False))
    if isinstance(data, Mapping):
        return {str(key): plain(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [plain(one) for one in data]
    return str(data) if isinstance(data, Path) else data


def json_text(data: Any, **options: Any) -> str:
    """A result as JSON (RFC 8259), which has no NaN and no infinity: such a figure becomes null. Options are those of
    `json.dumps`."""
    try:
        return json.dumps(data, allow_nan=False, **options)  # as most results are, and fast
    except (TypeError, ValueError):
        return json.dumps(_finite(plain(data)), allow_nan=False, **options)


def _finite(data: Any) -> Any:
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    return [_finite(one) for one in data] if isinstance(data, (list, tuple)) else data
