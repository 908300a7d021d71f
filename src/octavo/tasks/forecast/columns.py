"""What stands in a tokenizer's place where a position holds a row of numbers: the names of the columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn, Self

import numpy as np

from octavo.errors import TokenizerError
from octavo.tokenizers.base import StreamDecoder, Tokenizer


class Columns(Tokenizer):
    """Columns of numbers. They are saved and loaded as a tokenizer is, and no text becomes of them.

    Attributes:
        channels: names of what is predicted.
        covariates: names of what is known in advance; the last columns.
        rate: rows a second, if that is known.
    """

    kind = "columns"

    def __init__(
        self, *, channels: Sequence[str], covariates: Sequence[str] = (), rate: float | None = None
    ) -> None:
        super().__init__(vocab_size=len(channels) + len(covariates), start=None, end=None)
        self.channels, self.covariates, self.rate = tuple(channels), tuple(covariates), rate

    @property
    def marks(self) -> dict[str, Any]:
        return {"start_id": None, "end_id": None, "channels": len(self.channels)}

    def _refuse(self) -> NoReturn:
        raise TokenizerError(
            f"This run's model predicts numbers ({', '.join(self.channels[:5])}), not text.",
            remedy="octavo forecast RUN --text FILE",
        )

    def encode(self, text: str) -> np.ndarray:
        """Raises TokenizerError: there is no text."""
        self._refuse()

    def decoder(self) -> StreamDecoder:
        """Raises TokenizerError: there is no text."""
        self._refuse()

    def token_text(self, id: int) -> str:
        """The name of a column."""
        return (*self.channels, *self.covariates)[self._check(id)]

    def _data(self) -> dict[str, Any]:
        return {"channels": list(self.channels), "covariates": list(self.covariates), "rate": self.rate}

    @classmethod
    def _restore(cls, data: dict[str, Any], files: dict[str, bytes]) -> Self:
        channels, covariates = ([str(name) for name in data[key]] for key in ("channels", "covariates"))
        return cls(channels=channels, covariates=covariates, rate=data["rate"] and float(data["rate"]))
