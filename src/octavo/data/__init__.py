"""Datasets: a corpus as token ids on disk, made once, split, and read back as batches that depend on (seed,
step) alone.
"""

from octavo.data.prepare import prepare, prepare_text
from octavo.data.store import Dataset, Split, open_dataset
from octavo.util.files import default_cache

__all__ = ["Dataset", "Split", "default_cache", "open_dataset", "prepare", "prepare_text"]
