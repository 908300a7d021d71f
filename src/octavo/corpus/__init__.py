"""Corpus: documents in, whatever they lie in. Text is streamed, so memory stays bounded whatever the size."""

from octavo.corpus.documents import Document, Report, Source

__all__ = ["Document", "Report", "Source"]
