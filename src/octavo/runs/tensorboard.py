"""TensorBoard event files on request; metrics.jsonl stays the record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from octavo.errors import MissingExtra


def writer() -> Any:
    """What writes event files. Raises MissingExtra."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise MissingExtra("tensorboard", "tensorboard", "logging.tensorboard") from error
    return SummaryWriter


class TensorBoard:
    """Writes every number of a metrics row as a scalar named event/key."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer

    @classmethod
    def open(cls, folder: Path) -> TensorBoard:
        """Event files in `folder`/tensorboard; raises MissingExtra."""
        return cls(writer()(str(folder / "tensorboard")))

    def write(self, row: dict[str, Any]) -> None:
        """One row."""
        for key, value in row.items():
            if isinstance(value, int | float) and not isinstance(value, bool) and key != "step":
                self._writer.add_scalar(f"{row['event']}/{key}", value, row["step"])
        self._writer.flush()
