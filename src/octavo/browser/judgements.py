"""What was judged in the page: a journal of each run, and the pairs that follow from it, for `octavo tune dpo`.

preferences/RUN.journal.jsonl   every choice and every thumb, as they came
preferences/RUN.jsonl           {"prompt", "chosen", "rejected"}: each choice, and of one prompt each liked beside each
                                disliked text
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from octavo.browser.asked import Judged
from octavo.serving.errors import Refusal
from octavo.util.files import replace_text, storage_errors
from octavo.util.records import json_text, parse_json

MOST_JOURNAL = 32 * 2**20
Prompt = str | list[dict[str, str]]


@dataclass(frozen=True)
class Kept:
    """What there is of a run. `path`: the pairs, as a command would name them."""

    choices: int
    thumbs: int
    pairs: int
    path: str


class Judgements:
    """The judgements of a folder of work."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def pairs_of(self, run: str) -> Path:
        """The file of a run's pairs."""
        return self.folder / f"{run.replace('/', '-')}.jsonl"

    def keep(self, judged: Judged) -> Kept:
        """Note a judgement, and write the pairs anew. Raises Refusal, StorageError."""
        run = judged.model.partition("@")[0]
        journal = self._journal(run)
        if journal.is_file() and journal.stat().st_size > MOST_JOURNAL:
            raise Refusal(413, "So much was judged of this run already that no more is kept.")
        told = judged.model_dump(mode="json", exclude_none=True) | {"when": round(time.time(), 3)}
        with storage_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            with journal.open("a", encoding="utf-8") as file:
                file.write(json_text(told, ensure_ascii=False) + "\n")
            pairs = list(self._pairs(run))
            lines = (json_text(pair, ensure_ascii=False) for pair in pairs)
            replace_text(self.pairs_of(run), "".join(line + "\n" for line in lines))
        return self.of(run)

    def of(self, run: str) -> Kept:
        """How much was judged of a run."""
        rows = list(self._rows(run))
        thumbs = {(key(row["prompt"]), row["answer"]): row for row in rows if row.get("kind") == "thumb"}
        return Kept(
            choices=sum(row.get("kind") == "choice" for row in rows),
            thumbs=sum(row.get("good") is not None for row in thumbs.values()),
            pairs=sum(1 for _ in self._pairs(run)),
            path=str(self.pairs_of(run)),
        )

    def _journal(self, run: str) -> Path:
        return self.folder / f"{run.replace('/', '-')}.journal.jsonl"

    def _rows(self, run: str) -> Iterator[dict[str, Any]]:
        try:
            lines = self._journal(run).read_bytes().splitlines()
        except OSError:
            return
        for line in lines:
            try:
                row = parse_json(line)
                if isinstance(row.get("prompt"), (str, list)):
                    yield row
            except ValueError:
                continue

    def _pairs(self, run: str) -> Iterator[dict[str, Any]]:
        """Each once, in the order in which they came about."""
        thumbs: dict[str, dict[str, bool]] = {}
        prompts: dict[str, Prompt] = {}
        choices: list[tuple[str, str, str]] = []
        for row in self._rows(run):
            same = key(row["prompt"])
            prompts[same] = row["prompt"]
            if row.get("kind") == "choice":
                choices.append((same, str(row["chosen"]), str(row["rejected"])))
            elif isinstance(row.get("good"), bool):
                thumbs.setdefault(same, {})[str(row["answer"])] = row["good"]
            else:  # taken back
                thumbs.get(same, {}).pop(str(row.get("answer")), None)
        for same, answers in thumbs.items():
            good, bad = (
                [text for text, liked in answers.items() if liked is wanted] for wanted in (True, False)
            )
            choices += [(same, chosen, rejected) for chosen in good for rejected in bad]
        for same, chosen, rejected in dict.fromkeys(choices):
            if chosen != rejected:
                yield {"prompt": prompts[same], "chosen": chosen, "rejected": rejected}


def key(prompt: Prompt) -> str:
    """By which prompts are told apart."""
    return json_text(prompt, sort_keys=True)
