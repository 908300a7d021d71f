"""Samples as files: images as PNG, other records as lines of text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from octavo.generation.sampling import RECIPES, SamplingOptions
from octavo.run.run import Run
from octavo.tasks.records.pixels import PixelsConfig, numbers_of, png
from octavo.util.files import claim_folder, folder_aside, publish_folder, storage_errors

RECORDS = "records.txt"


def save_records(run: Run, prompt: str, count: int, folder: Path, options: SamplingOptions = RECIPES) -> int:
    """Write `count` samples into a new folder: records.txt, one a line where each is a line, and sample-N.png where the
    records are images. Returns how many were cut off before their end. Raises RunFolderError where it exists."""
    claim_folder(folder, "a set of samples", new=True)
    raster = run.config.corpus.raster() if isinstance(run.config.corpus, PixelsConfig) else None
    if raster is not None:
        options = replace(options, tokens=options.tokens or run.config.model.context)
    samples = run.samples(prompt, count=count, **options.given())
    records = [prompt + one.text for one in samples]
    between = "\n\n" if any("\n" in record for record in records) else "\n"
    files = {RECORDS: (between.join(records) + "\n").encode()}
    if raster is not None:
        pictures = (png(raster.grey(numbers_of(record))) for record in records)
        files |= {f"sample-{number}.png": picture for number, picture in enumerate(pictures, 1)}
    with storage_errors(folder), folder_aside(folder) as aside:
        for name, content in files.items():
            (aside / name).write_bytes(content)
        publish_folder(aside, folder)
    return 0 if run.tokenizer.end is None else sum(one.finish == "length" for one in samples)
