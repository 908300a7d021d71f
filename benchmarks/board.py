"""The five-minute board: two cores, five minutes by the clock, and a loss that decodes.

    python benchmarks/board.py enter octavo --text TEXT --out board/octavo
    python benchmarks/board.py enter nanogpt --text TEXT --out board/nanogpt --nanogpt CHECKOUT
    python benchmarks/board.py enter huggingface --text TEXT --out board/huggingface
    python benchmarks/board.py enter ngrams --text TEXT --out board/ngrams
    python benchmarks/board.py enter zpaq --text TEXT --out board/zpaq
    python benchmarks/board.py verify board/octavo
    python benchmarks/board.py table board/* --page results/board.md

An entry learns from the first nineteen twentieths of a text, and gets no more of it, in five minutes on two cores; one
that takes longer does not count. Then it writes the last twentieth with an arithmetic coder: the size of that file is
its bits per byte. `verify` gives it the file alone, and it must give the twentieth back. So four rules hold that no
figure shows: probabilities sum to one, they depend on nothing that follows, what is learned from was scored before, and
all is read once. `entry.json` has the SHA-256 of text, program, trained files and proof; those of a page stand in a
file beside it. Where another machine's predictions differ in their last bits nothing decodes there: enter again, and
compare.

*octavo*: `octavo train --minutes`, proved by `octavo eval --prove`. *nanogpt*: its README's recipe for a CPU,
unmodified, with as many iterations as go into the time. *huggingface*: GPT-2 of the same shape under Hugging Face's
Trainer (needs transformers and accelerate). *ngrams*: counts of up to eight characters (Witten and Bell 1991), which go
on being counted in the twentieth. *zpaq*: `zpaq -m5`, context mixing; its proof holds what it learned from, too, whose
size alone is taken off.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import shutil
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import compressors
from common import finish, load, machine, print_table
from minutes_peers import AROUND, PROBE, trained_gpt2
from nanogpt_run import RECIPE, STEP, prepare, train
from octavo.evaluation.arithmetic import decoded, encoded

HERE = Path(__file__).resolve()
CORES, MINUTES, LATE = 2, 5.0, 1.03
"""What an entry may use, and the share of its time beyond which it does not count."""
ORDER = 8
"""Characters that counting looks at, with the one that it predicts."""
Predict = Callable[[int | None], np.ndarray]


def parts(text: Path) -> tuple[bytes, bytes]:
    """What is learned from and what is judged by, cut at a character."""
    whole = text.read_text(encoding="utf-8")
    cut = round(0.95 * len(whole))
    return whole[:cut].encode(), whole[cut:].encode()


class Characters:
    """An alphabet, as an entry found it in what it learned from."""

    def __init__(self, learned: bytes) -> None:
        self.all = sorted(set(learned.decode()))
        self._known = {character: number for number, character in enumerate(self.all)}

    def ids(self, text: bytes) -> np.ndarray:
        """Of a text; ends the program where a character is new."""
        if new := set(text.decode()) - self._known.keys():
            sys.exit(f"the last twentieth has characters that the rest does not: {' '.join(sorted(new))}")
        return np.array([self._known[character] for character in text.decode()])

    def text(self, ids: np.ndarray) -> bytes:
        """From ids."""
        return "".join(self.all[id] for id in ids.tolist()).encode()


class Entry(ABC):
    """What can be entered. Its folder holds `learn.txt`, which it learns from, and what it trains."""

    def __init__(self, folder: Path, minutes: float, given: argparse.Namespace) -> None:
        self.folder, self.minutes, self.given = folder, minutes, given
        self.learn, self.proof = folder / "learn.txt", folder / "proof"

    @abstractmethod
    def train(self) -> None:
        """Learn, within the minutes."""

    @abstractmethod
    def write(self, judged: bytes) -> int:
        """Write the judged text as the proof; its size without what says which text it is."""

    @abstractmethod
    def read(self, characters: int) -> bytes:
        """Read the judged text, of so many characters, from the proof."""


class Predictor(Entry):
    """An entry that predicts characters, which the coder of `octavo eval --prove` writes and reads."""

    @abstractmethod
    def predict(self) -> Predict:
        """Give logits (V,) for what comes after each character, first before any (None)."""

    def write(self, judged: bytes) -> int:
        bits = encoded(Characters(self.learn.read_bytes()).ids(judged), self.predict())
        self.proof.write_bytes(bits)
        return len(bits)

    def read(self, characters: int) -> bytes:
        ids = decoded(self.proof.read_bytes(), characters, self.predict())
        return Characters(self.learn.read_bytes()).text(ids)


class Octavo(Entry):
    """The dial."""

    def train(self) -> None:
        """Keep nothing out for a test: the board has kept it out."""
        words = ["train", "--text", str(self.learn), "--minutes", f"{self.minutes:g}"]
        self._octavo(*words, "--out", str(self.folder / "run"), "test=0")

    def write(self, judged: bytes) -> int:
        """By its own command."""
        text = self.folder / "judged.txt"
        text.write_bytes(judged)
        printed = self._octavo(
            "eval", str(self.folder / "run"), "--text", str(text), "--prove", str(self.proof), "--json"
        )
        text.unlink()
        return int(json.loads(printed)["coded"])

    def read(self, characters: int) -> bytes:
        """By its own command."""
        self._octavo("eval", str(self.folder / "run"), "--decode", str(self.proof), "--json")
        out = self.proof.with_name("proof.txt")
        found = out.read_bytes()
        out.unlink()
        return found

    def _octavo(self, *words: str) -> str:
        """What a command prints. It finds the text where it stands, whatever the folder is called."""
        done = subprocess.run(
            [sys.executable, "-m", "octavo", *words],
            capture_output=True,
            encoding="utf-8",
            check=False,
            env={**os.environ, "PYTHONPATH": str(HERE.parents[1] / "src")},
        )
        if done.returncode:
            sys.exit(f"octavo {' '.join(words)} ended with {done.returncode}:\n{done.stderr[-3000:]}")
        return done.stdout


class Windows(Predictor):
    """A network that sees a window of characters: so many before each, at most."""

    @abstractmethod
    def network(self) -> tuple[Callable[[Any], Any], int]:
        """Give logits (1, T, V) of ids (1, T), and the longest T."""

    def predict(self) -> Predict:
        """The window is read anew for each character."""
        import torch

        network, context = self.network()
        size = len(Characters(self.learn.read_bytes()).all)
        window: list[int] = []

        def logits(before: int | None) -> np.ndarray:
            if before is None:
                return np.zeros(size, np.float32)
            window.append(before)
            del window[:-context]
            with torch.no_grad():
                return network(torch.tensor([window]))[0, -1].float().numpy()

        return logits


class NanoGPT(Windows):
    """Its README's recipe."""

    def train(self) -> None:
        """Steps are timed first, within the minutes."""
        began, copy = time.monotonic(), self.folder / "nanoGPT"
        shutil.copytree(self.given.nanogpt, copy, ignore=shutil.ignore_patterns(".git", "out*"))
        prepare(copy, self.learn)
        probed = train(copy, {**RECIPE, "max_iters": PROBE, "lr_decay_iters": PROBE, "eval_interval": 10**6})
        each = float(np.median([float(ms) for number, _, ms in STEP.findall(probed) if int(number)])) / 1000
        steps = max(PROBE, int((60 * self.minutes - AROUND - (time.monotonic() - began)) / each))
        own = {"max_iters": steps, "lr_decay_iters": steps, "eval_interval": max(1, steps // 10)}
        train(copy, {**RECIPE, **own, "log_interval": 100})

    def network(self) -> tuple[Callable[[Any], Any], int]:
        """Its own model, from the checkpoint that it kept."""
        import torch

        copy = self.folder / "nanoGPT"
        sys.path.insert(0, str(copy))
        from model import GPT, GPTConfig  # nanoGPT's

        kept = copy / "out-shakespeare-char" / "ckpt.pt"
        saved = torch.load(kept, map_location="cpu", weights_only=True)
        model = GPT(GPTConfig(**saved["model_args"])).eval()
        model.load_state_dict(saved["model"])
        return lambda ids: model(ids)[0], model.config.block_size


class HuggingFace(Windows):
    """GPT-2 under its Trainer."""

    def train(self) -> None:
        """Steps are timed first, within the minutes."""
        learned = self.learn.read_bytes()
        characters = Characters(learned)
        size, seconds = len(characters.all), 60 * self.minutes - 2 * AROUND
        model, _, _ = trained_gpt2(characters.ids(learned), vocabulary=size, seconds=seconds, timed=True)
        model.save_pretrained(self.folder / "model")

    def network(self) -> tuple[Callable[[Any], Any], int]:
        """As it was saved."""
        from transformers import GPT2LMHeadModel

        model = GPT2LMHeadModel.from_pretrained(self.folder / "model").eval()
        learned = model.config.n_positions - 1  # no label stands after the last position
        return lambda ids: model(ids).logits, learned


class NGrams(Predictor):
    """Counting, which needs no training: what it learned from is counted again whenever it predicts."""

    def train(self) -> None:
        """Nothing is kept."""

    def predict(self) -> Predict:
        """After each character, which is counted then."""
        characters = Characters(self.learn.read_bytes())
        size = len(characters.all)
        counts: dict[tuple[int, ...], Counter[int]] = defaultdict(Counter)
        read: list[int] = []

        def take(id: int) -> None:
            for order in range(min(ORDER, len(read) + 1)):
                counts[tuple(read[len(read) - order :])][id] += 1
            read.append(id)
            del read[:-ORDER]

        for id in characters.ids(self.learn.read_bytes()).tolist():
            take(id)

        def logits(before: int | None) -> np.ndarray:
            if before is not None:
                take(before)
            found = np.full(size, 1 / size)
            for order in range(min(ORDER, len(read) + 1)):
                if not (seen := counts.get(tuple(read[len(read) - order :]))):
                    break
                kinds, total = len(seen), seen.total()
                found *= kinds / (kinds + total)
                found[[*seen]] += np.array([*seen.values()]) / (kinds + total)
            return np.log(found).astype(np.float32)

        return logits


class Zpaq(Entry):
    """Context mixing, which needs no training: its proof is what it learned from and what is judged, as one archive."""

    def train(self) -> None:
        """Nothing is kept."""
        if compressors.zpaq() is None:
            sys.exit("zpaq is not installed (apt-get install zpaq)")

    def write(self, judged: bytes) -> int:
        """The size of the archive, less that of what it learned from alone."""
        packed = compressors.zpaq()
        assert packed is not None
        found = compressors.archives(self.learn.read_bytes(), judged, packed)
        if found is None:
            sys.exit(
                "zpaq took another model for both parts than for the first, which says nothing of the second"
            )
        first, both = found
        self.proof.write_bytes(both)
        return len(both) - len(first)

    def read(self, characters: int) -> bytes:
        """What comes after the part that it learned from."""
        return compressors.from_zpaq(self.proof.read_bytes())[self.learn.stat().st_size :]


ENTRIES: dict[str, type[Entry]] = {
    "octavo": Octavo,
    "nanogpt": NanoGPT,
    "huggingface": HuggingFace,
    "ngrams": NGrams,
    "zpaq": Zpaq,
}


def sha256(content: bytes) -> str:
    """In hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def files_of(folder: Path) -> dict[str, str]:
    """The hash of each file that an entry has trained."""
    own = {"entry.json", "learn.txt", "proof"}
    return {
        str(path.relative_to(folder)): sha256(path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink() and str(path.relative_to(folder)) not in own
    }


def enter(given: argparse.Namespace) -> dict[str, Any]:
    """Train an entry, prove it and say what came of it."""
    folder = given.out.resolve()
    folder.mkdir(parents=True)
    learned, judged = parts(given.text)
    (folder / "learn.txt").write_bytes(learned)
    entry = ENTRIES[given.who](folder, given.minutes, given)
    before, began = load(), time.monotonic()
    entry.train()
    seconds = time.monotonic() - began
    coded = entry.write(judged)
    said = {
        "who": given.who,
        "minutes": given.minutes,
        "cores": CORES,
        "seconds": round(seconds, 1),
        "in_time": seconds <= 60 * LATE * given.minutes,
        "bits_per_byte": 8 * coded / len(judged),
        "text": {"name": given.text.name, "sha256": sha256(given.text.read_bytes())},
        "judged": {"bytes": len(judged), "characters": len(judged.decode()), "sha256": sha256(judged)},
        "proof": sha256(entry.proof.read_bytes()),
        "program": sha256(HERE.read_bytes()),
        "files": files_of(folder),
        "load": before,
        "machine": machine(),
        "decoded": False,
    }
    keep(folder, said)
    return said


def verify(given: argparse.Namespace) -> dict[str, Any]:
    """Let an entry read its proof, and be sure that it gives the judged text."""
    folder = given.entry.resolve()
    said = json.loads((folder / "entry.json").read_text(encoding="utf-8"))
    entry = ENTRIES[said["who"]](folder, said["minutes"], given)
    if sha256(entry.proof.read_bytes()) != said["proof"]:
        sys.exit(f"{entry.proof} is not the file that was written")
    if changed := [name for name, hashed in files_of(folder).items() if said["files"].get(name) != hashed]:
        sys.exit(f"changed since it was entered: {', '.join(changed)}")
    found = entry.read(said["judged"]["characters"])
    if sha256(found) != said["judged"]["sha256"]:
        sys.exit(f"{given.entry}: the proof does not decode to the judged text here")
    said["decoded"] = True
    keep(folder, said)
    return said


def keep(folder: Path, said: dict[str, Any]) -> None:
    """Write what is known of an entry."""
    (folder / "entry.json").write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")


def entered(folders: list[Path]) -> list[dict[str, Any]]:
    """What is known of entries, the best first."""
    entries = [json.loads((folder / "entry.json").read_text(encoding="utf-8")) for folder in folders]
    return sorted(entries, key=lambda said: (said["text"]["name"], said["bits_per_byte"]))


def rows(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The board."""
    return [
        {
            "entry": said["who"],
            "text": said["text"]["name"],
            "bits per byte": round(said["bits_per_byte"], 4),
            "seconds": said["seconds"],
            "in time": "yes" if said["in_time"] else "no",
            "decoded": "yes" if said["decoded"] else "not yet",
            "processor": said["machine"]["processor"],
            "load before": said["load"],
            "proof": said["proof"][:12],
        }
        for said in entries
    ]


def page(found: list[dict[str, Any]]) -> str:
    """The board as a page."""
    heads = [*found[0]]
    body = "\n".join("| " + " | ".join(str(row[head]) for head in heads) + " |" for row in found)
    rules = (__doc__ or "").partition("\n\n    python")[2].partition("\n\n")[2]
    return f"# The five-minute board\n\n{rules}\n| {' | '.join(heads)} |\n|{' --- |' * len(heads)}\n{body}\n"


def main() -> None:
    """Enter, verify, or print the board; a JSON line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    one = verbs.add_parser("enter")
    one.add_argument("who", choices=[*ENTRIES])
    one.add_argument("--text", type=Path, required=True)
    one.add_argument("--out", type=Path, required=True, help="a new folder")
    one.add_argument("--minutes", type=float, default=MINUTES)
    one.add_argument("--nanogpt", type=Path, help="a checkout of nanoGPT; it is not changed")
    two = verbs.add_parser("verify")
    two.add_argument("entry", type=Path)
    three = verbs.add_parser("table")
    three.add_argument("entries", type=Path, nargs="+")
    three.add_argument("--page", type=Path, help="write the board as a page, and its entries beside it")
    given = parser.parse_args()
    if given.verb == "table":
        entries = entered(given.entries)
        found = rows(entries)
        print_table(found)
        if given.page:
            given.page.write_text(page(found), encoding="utf-8")
            lines = "".join(json.dumps(each) + "\n" for each in entries)
            given.page.with_suffix(".jsonl").write_text(lines, encoding="utf-8")
        finish({"rows": found})
        return
    if given.verb == "enter":
        if not given.minutes > 0 or not math.isfinite(given.minutes):
            parser.error("--minutes must be above 0")
        if given.who == "nanogpt" and given.nanogpt is None:
            parser.error("nanogpt needs --nanogpt")
        if given.out.exists():
            parser.error(f"{given.out} exists; --out must be a new folder")
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    said = enter(given) if given.verb == "enter" else verify(given)
    print_table(rows([said]))
    finish(said)


if __name__ == "__main__":
    main()
