"""JSON as it is read: what a program wrote down earlier is held against a shape before anybody looks into it.

A shape is mostly a `Record`: the keys that readers rely on, each with its type and bounds. Further keys are let
through. What is read stays plain data, in the file's own order.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import from_json

from octavo.errors import CheckpointError, OctavoError
from octavo.util.files import file_hash
from octavo.util.json_text import OPTIONAL as OPTIONAL
from octavo.util.json_text import json_text as json_text
from octavo.util.json_text import plain as plain

Count = Annotated[int, Field(ge=0, le=2**53)]
"""A number of things; no more than a double can count."""

Number = Annotated[float, Field(allow_inf_nan=False, ge=-1e100, le=1e100)]
"""A figure that can be compared, added, squared and drawn."""


class Record(BaseModel):
    """Base of all shapes: no conversions. Of fields with a default, the file need not have the key."""

    model_config = ConfigDict(extra="allow", strict=True, defer_build=True)

    only_set: ClassVar[bool] = True
    """See `json_text.plain`."""

    @classmethod
    def parse(cls, data: bytes | str) -> Self:
        """From JSON. Raises ValueError, which says in one line what about it is wrong."""
        try:
            return cls.model_validate_json(data)
        except ValidationError as error:
            raise ValueError(_in_one_line(error)) from None

    @classmethod
    def read(
        cls, path: Path, *, of: str = "the checkpoint", error: type[OctavoError] = CheckpointError
    ) -> Self:
        """That of a file; see `read_record`."""
        return _read(path, cls.parse, of, error)


def _in_one_line(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(map(str, first["loc"]))
    return f"{place}: {first['msg']}" if place else first["msg"]


def _read(path: Path, parse: Callable[[bytes], Any], of: str, error: type[OctavoError]) -> Any:
    try:
        return parse(path.read_bytes())
    except FileNotFoundError as cause:
        raise error(f"{path} is missing; {of} is incomplete.") from cause
    except (OSError, ValueError) as cause:
        raise error(f"{path} cannot be read ({cause}); {of} is damaged.") from cause


class FileRecord(Record):
    """A file as a manifest lists it."""

    bytes: Count = Field(validation_alias=AliasChoices("bytes", "size"))
    """`size` in older checkpoints."""
    sha256: str

    @classmethod
    def of(cls, path: Path, sha256: str | None = None) -> FileRecord:
        """The record of a file whose hash may be known already. Raises OSError."""
        return cls(bytes=path.stat().st_size, sha256=sha256 or file_hash(path))

    def difference(self, path: Path, *, contents: bool = True) -> str | None:
        """What about a file is not as it was recorded, to follow its name; None where it is the same. Without
        `contents` it is not read, and hashes are not compared. Raises OSError."""
        if not path.is_file():
            return "is missing"
        if (size := path.stat().st_size) != self.bytes:
            return f"has {size:,} bytes instead of {self.bytes:,}"
        if contents and file_hash(path) != self.sha256:
            return "has been altered (its SHA-256 differs)"
        return None


Shape = Any
"""A `Record`, or a type such as `dict[str, Count]`."""

AnyRecord: Shape = dict[str, Any]


@cache
def _checks(shape: Shape) -> TypeAdapter[Any]:
    return TypeAdapter(shape)


def parse_json(data: bytes | str, shape: Shape = AnyRecord) -> Any:
    """JSON as plain data. Raises ValueError, which says in one line what about it is wrong."""
    try:
        _checks(shape).validate_json(data, strict=True)
    except ValidationError as error:
        raise ValueError(_in_one_line(error)) from None
    return from_json(data)


def read_record(
    path: Path,
    shape: Shape = AnyRecord,
    *,
    of: str = "the checkpoint",
    error: type[OctavoError] = CheckpointError,
) -> dict[str, Any]:
    """The JSON object of a file that belongs to `of`. Raises `error` where it is missing, or not of the shape."""
    return _read(path, lambda data: parse_json(data, shape), of, error)


def read_rows(path: Path, shape: Shape = AnyRecord) -> list[dict[str, Any]]:
    """The lines of a file of JSON objects; none where there is no such file.

    Lines that are not of the shape are passed over: a kill may have cut the last one. Raises OSError.
    """
    rows = []
    for line in path.read_bytes().split(b"\n") if path.is_file() else ():
        try:
            rows.append(parse_json(line, shape))
        except ValueError:
            continue
    return rows
