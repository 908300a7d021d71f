"""Rich text (.rtf)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO, ClassVar, Literal

from octavo.config.parts import register
from octavo.corpus.documents import Report
from octavo.corpus.readers.base import DocumentConfig


@register("reader")
class RtfConfig(DocumentConfig):
    """Rich text; needs striprtf."""

    kind: Literal["rtf"] = "rtf"
    suffixes: ClassVar[tuple[str, ...]] = (".rtf",)
    label: ClassVar[str] = "a rich text (.rtf)"
    package: ClassVar[str | None] = "striprtf"

    @staticmethod
    def extract(file: BinaryIO, options: dict[str, Any], say: Report) -> Iterator[tuple[str, Iterator[str]]]:
        """The text; every paragraph ends with a line break there, so a blank line is put between."""
        from striprtf.striprtf import rtf_to_text

        # The format itself is ASCII; other characters are escapes, which the library decodes.
        text = rtf_to_text(file.read().decode("latin-1"), errors="replace")
        yield "", iter(["\n\n".join(line.strip() for line in text.splitlines() if line.strip())])
