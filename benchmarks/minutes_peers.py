"""The one dial beside others in the same minutes on the same machine: bits per byte of the last twentieth of a text.

    git clone https://github.com/karpathy/nanoGPT
    python benchmarks/minutes_peers.py --texts a.txt b.txt --minutes 0.5 2 10 --out runs.jsonl \\
        --nanogpt nanoGPT --peers PYTHON --before CHECKOUT --paq8px PROGRAM
    python benchmarks/minutes_peers.py --out runs.jsonl --table results/minutes_peers.md

All learn from the first nine tenths and are judged by the last twentieth, by their own models. Texts are given without
Project Gutenberg's header and licence, which Octavo would leave out; `texts.py` makes ten that nothing was fitted on.

*octavo*: `octavo train --text TEXT --minutes N`, which keeps the last twentieth out of everything itself; as it is
promised, by counts that learn each token after it was scored, where they can; these read the nineteenth twentieth on
the way to the last. Its promises are those of a machine that has made none before.
*nanoGPT*, unmodified: its README's recipe for a CPU, with as many iterations as go into the minutes; it keeps the best
by its own estimates, which it makes on the last tenth, so that its figure is flattered if anything.
*Hugging Face's Trainer*: a GPT-2 of nanoGPT's shape, with its rate and as many steps as go into the minutes (PYTHON is
one that has transformers and accelerate).
*before*: the same command of another checkout of Octavo.
*n-grams with a cache*: the best Kneser–Ney order, mixed with counts of what has been read of the last twentieth so far;
order and share are chosen on the twentieth before it, which is counted then.
*zpaq -m5*, *paq8px -8*: context mixing, which learns while it reads: the size of the whole text, less that of its first
nineteen twentieths; `zpaq` chooses a model by size and content, and there is no figure where it took two. *Given
eighteen*, in the second table alone: the same without the nineteenth twentieth.

The steps of the two peers are timed first, which their minutes do not count. What is in the file is not done again, and
who is not named is left out.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import compressors
from common import finish, in_markdown, keep_row, machine, print_table, rows_in
from nanogpt_run import RECIPE, STEP, call, prepare, train
from octavo.auto.law import LIKELY
from octavo.ngram.kneser_ney import KneserNey

HERE = Path(__file__).resolve().parents[1]
SHARES = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3)
"""Of the cache, that are compared."""
HIGHEST, CACHED = 10, 5
"""Orders of counting, and of the cache."""
PROBE = 150
"""Steps that a peer is timed for, with those of nanoGPT's warm-up."""
AROUND = 6.0
"""Seconds of a peer's minutes in which it begins, evaluates and saves."""
ALIKE = 0.01
"""Share by which what is judged may differ in length, for the dial cuts at line breaks."""
Row = dict[str, Any]


def parts_of(text: str) -> tuple[str, str, str]:
    """What is learned from, what may be chosen on, what is judged by."""
    first, second = round(0.9 * len(text)), round(0.95 * len(text))
    return text[:first], text[first:second], text[second:]


def bits_per_byte(nats: float, text: str) -> float:
    """Of the whole text's nats."""
    return nats / math.log(2) / len(text.encode())


def octavo_in(text: Path, minutes: float, checkout: Path) -> Row:
    """The dial, of this checkout or another."""
    with tempfile.TemporaryDirectory(prefix="octavo-minutes-") as folder:
        began = time.monotonic()
        command = ["-m", "octavo", "train", "--text", str(text), "--minutes", f"{minutes:g}", "--out"]
        call([*command, str(Path(folder, "run"))], Path(folder), PYTHONPATH=str(checkout / "src"))
        seconds = time.monotonic() - began
        manifest = json.loads(Path(folder, "run", "manifest.json").read_text(encoding="utf-8"))
    look, judged = manifest["test_looks"][0], parts_of(text.read_text(encoding="utf-8"))[2]
    if abs(look["bytes"] - len(judged.encode())) > ALIKE * look["bytes"]:
        sys.exit(
            f"{text}: a part of it was left out (a licence?), so its last twentieth is not that of the others"
        )
    found = look.get("reading_on") or look
    promise = manifest["auto"]["promise"]
    promised = {"bits": promise["law_bits"], "within": LIKELY * promise["law_error"]}
    return {
        "bits": found["bits_per_byte"],
        "seconds": seconds,
        "as_saved": look["bits_per_byte"],
        "promised": promised,
        "parameters": promise["parameters"],
        "steps": promise["steps"],
    }


def nanogpt_in(text: Path, minutes: float, checkout: Path) -> Row:
    """nanoGPT's recipe, with as many iterations as there is time for."""
    with tempfile.TemporaryDirectory(prefix="nanogpt-") as folder:
        copy = Path(folder, "nanoGPT")
        shutil.copytree(checkout, copy, ignore=shutil.ignore_patterns(".git", "out*"))
        prepare(copy, text)
        probed = train(copy, {**RECIPE, "max_iters": PROBE, "lr_decay_iters": PROBE, "eval_interval": 10**6})
        each = float(np.median([float(ms) for number, _, ms in STEP.findall(probed) if int(number)])) / 1000
        steps = int((60 * minutes - AROUND) / each)
        began = time.monotonic()
        own = {"max_iters": steps, "lr_decay_iters": steps, "eval_interval": max(1, steps // 10)}
        train(copy, {**RECIPE, **own, "log_interval": 100})
        seconds = time.monotonic() - began
        printed = call([__file__, "--measure", str(copy), "--texts", str(text)], copy)
    judged = parts_of(text.read_text(encoding="utf-8"))[2]
    nats = json.loads(printed.splitlines()[-1])["nats"]
    return {"bits": bits_per_byte(nats, judged), "seconds": seconds, "steps": steps}


def measured_nanogpt(checkout: Path, text: Path) -> float:
    """Nats of the last twentieth with nanoGPT's own model, in a process of its own."""
    import torch

    sys.path.insert(0, str(checkout))
    from model import GPT, GPTConfig  # nanoGPT's

    saved = torch.load(checkout / "out-shakespeare-char" / "ckpt.pt", map_location="cpu", weights_only=True)
    model = GPT(GPTConfig(**saved["model_args"])).eval()
    model.load_state_dict(saved["model"])
    whole = text.read_text(encoding="utf-8")
    known = {character: number for number, character in enumerate(sorted(set(whole)))}
    ids = torch.tensor([known[character] for character in parts_of(whole)[2]])

    def nats(x: torch.Tensor, y: torch.Tensor) -> float:
        return model(x, y)[1].item() * y.numel()

    return in_blocks(ids, model.config.block_size, nats)


def in_blocks(ids: Any, context: int, nats: Any) -> float:
    """The nats of ids (N,) in blocks of one context side by side, each but the first scored once."""
    import torch

    whole = (len(ids) - 1) // context * context
    x, y = ids[:whole].view(-1, context), ids[1 : whole + 1].view(-1, context)
    pieces = [*zip(x.split(128), y.split(128), strict=True), (ids[whole:-1][None], ids[whole + 1 :][None])]
    with torch.no_grad():
        return sum(nats(x, y) for x, y in pieces if y.numel())


def huggingface_in(text: Path, minutes: float, python: str) -> Row:
    """Its Trainer, in a process and perhaps an interpreter of its own."""
    spec = json.dumps({"text": str(text), "seconds": 60 * minutes - AROUND})
    done = subprocess.run(
        [python, __file__, "--trainer", spec],
        capture_output=True,
        encoding="utf-8",
        check=False,
        env={**os.environ, "PYTHONWARNINGS": "ignore", "TOKENIZERS_PARALLELISM": "false"},
    )
    if done.returncode:
        sys.exit(f"Hugging Face's Trainer failed:\n{done.stderr[-3000:]}")
    found = json.loads(done.stdout.splitlines()[-1])
    judged = parts_of(text.read_text(encoding="utf-8"))[2]
    return {"bits": bits_per_byte(found.pop("nats"), judged), **found}


def trained_gpt2(
    ids: np.ndarray, *, vocabulary: int, seconds: float, timed: bool = False
) -> tuple[Any, float, int]:
    """A GPT-2 of nanoGPT's shape, from ids (N,) under Hugging Face's Trainer, with the seconds and steps that it took:
    as many steps as go into the `seconds`, which the steps that are `timed` first may count to."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

    learned = torch.from_numpy(ids.astype(np.int64))
    context, batch = RECIPE["block_size"], RECIPE["batch_size"]
    zero = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
    shape = {"n_positions": context, "n_embd": RECIPE["n_embd"], "n_layer": RECIPE["n_layer"]}
    config = GPT2Config(vocab_size=vocabulary, n_head=RECIPE["n_head"], **shape, **zero)

    class Windows(torch.utils.data.Dataset):  # type: ignore[type-arg]
        """Windows from random places; labels are the tokens themselves, which the model shifts."""

        def __init__(self, count: int) -> None:
            self.at = torch.randint(
                len(learned) - context, (count,), generator=torch.Generator().manual_seed(1)
            )

        def __len__(self) -> int:
            return len(self.at)

        def __getitem__(self, index: int) -> dict[str, Any]:
            window = learned[self.at[index] : self.at[index] + context]
            return {"input_ids": window, "labels": window}

    def trained(steps: int) -> tuple[Any, float]:
        torch.manual_seed(1)
        with tempfile.TemporaryDirectory() as folder:
            arguments = TrainingArguments(
                output_dir=folder,
                per_device_train_batch_size=batch,
                max_steps=steps,
                learning_rate=1e-3,
                warmup_steps=100,
                save_strategy="no",
                report_to=[],
                use_cpu=True,
                disable_tqdm=True,
                logging_strategy="no",
            )
            model = GPT2LMHeadModel(config)
            began = time.monotonic()
            Trainer(model=model, args=arguments, train_dataset=Windows(steps * batch)).train()
            return model.eval(), time.monotonic() - began

    probed = trained(PROBE)[1]
    steps = max(1, int((seconds - timed * probed) / (probed / PROBE)))
    return (*trained(steps), steps)


def trainer(spec: dict[str, Any]) -> dict[str, Any]:
    """The same of a text's first nine tenths, judged by its last twentieth."""
    import torch

    whole = Path(spec["text"]).read_text(encoding="utf-8")
    known = {character: number for number, character in enumerate(sorted(set(whole)))}
    learned, _, judged = (np.array([known[each] for each in part]) for part in parts_of(whole))
    model, seconds, steps = trained_gpt2(learned, vocabulary=len(known), seconds=spec["seconds"])

    def nats(x: torch.Tensor, y: torch.Tensor) -> float:
        return torch.nn.functional.cross_entropy(
            model(x).logits.flatten(0, 1), y.flatten(), reduction="sum"
        ).item()

    ids, context = torch.from_numpy(judged), RECIPE["block_size"] - 1  # no label after the last
    return {"nats": in_blocks(ids, context, nats), "seconds": seconds, "steps": steps}


class Cache:
    """Counts of what has been read so far, up to order `CACHED`, interpolated as by Witten and Bell (1991)."""

    def __init__(self, vocabulary: int) -> None:
        self.vocabulary = vocabulary
        self.read: list[int] = []
        self.counts: dict[tuple[int, ...], Counter[int]] = defaultdict(Counter)

    def probability(self, token: int) -> float:
        """Of the next token."""
        found = 1 / self.vocabulary
        for order in range(min(CACHED, len(self.read) + 1)):
            seen = self.counts.get(tuple(self.read[len(self.read) - order :]))
            if not seen:
                break
            total, kinds = seen.total(), len(seen)
            found = (seen[token] + kinds * found) / (total + kinds)
        return found

    def take(self, token: int) -> None:
        """The next token."""
        for order in range(min(CACHED, len(self.read) + 1)):
            self.counts[tuple(self.read[len(self.read) - order :])][token] += 1
        self.read.append(token)


def ngrams_of(text: Path) -> Row:
    """Counting with a cache."""
    whole, began = text.read_text(encoding="utf-8"), time.monotonic()
    known = {character: number for number, character in enumerate(sorted(set(whole)))}
    learned, chosen_on, judged = (
        np.array([known[each] for each in part], np.int32) for part in parts_of(whole)
    )
    size = len(known)
    orders = KneserNey(learned, vocab_size=size, highest=HIGHEST).losses(chosen_on)
    order = int(np.argmin(orders)) + 1

    def mixed(model: KneserNey, tokens: np.ndarray) -> list[float]:
        counted, cache = model.probabilities(tokens)[order - 1], Cache(size)
        cached = []
        for token in tokens.tolist():
            cached.append(cache.probability(token))
            cache.take(token)
        recent = np.array(cached[1:])
        return [-float(np.log((1 - share) * counted[1:] + share * recent).sum()) for share in SHARES]

    share = int(np.argmin(mixed(KneserNey(learned, vocab_size=size, highest=order), chosen_on)))
    counted = KneserNey(np.concatenate([learned, chosen_on]), vocab_size=size, highest=order)
    nats = mixed(counted, judged)[share]
    return {
        "bits": bits_per_byte(nats, parts_of(whole)[2]),
        "seconds": time.monotonic() - began,
        "order": order,
        "share": SHARES[share],
    }


def packed_by(text: Path, packed: compressors.Packed, eighteen: bool) -> Row:
    """A compressor that has read what came before, or all but the nineteenth twentieth of it."""
    whole, began = text.read_text(encoding="utf-8"), time.monotonic()
    learned, before, judged = (part.encode() for part in parts_of(whole))
    bits = compressors.bits_per_byte(learned if eighteen else learned + before, judged, packed)
    return {"bits": bits, "seconds": time.monotonic() - began}


def run_missing(text: Path, rows: list[Row], given: argparse.Namespace, here: dict[str, Any]) -> None:
    """What is missing of a text."""
    zpaq, paq8px = compressors.zpaq(), compressors.paq8px(given.paq8px)
    counting: dict[str, Callable[[], Row] | None] = {
        NGRAMS: lambda: ngrams_of(text),
        ZPAQ: zpaq and (lambda: packed_by(text, zpaq, False)),
        ZPAQ_EIGHTEEN: zpaq and (lambda: packed_by(text, zpaq, True)),
        PAQ8PX: paq8px and (lambda: packed_by(text, paq8px, False)),
        PAQ8PX_EIGHTEEN: paq8px and (lambda: packed_by(text, paq8px, True)),
    }
    runs: dict[str, Callable[[float], Row] | None] = {
        OCTAVO: lambda minutes: octavo_in(text, minutes, HERE),
        BEFORE: given.before and (lambda minutes: octavo_in(text, minutes, given.before.resolve())),
        TRAINER: given.peers and (lambda minutes: huggingface_in(text, minutes, given.peers)),
        NANOGPT: given.nanogpt and (lambda minutes: nanogpt_in(text, minutes, given.nanogpt.resolve())),
    }
    wanted: list[tuple[float | None, str, Callable[[], Row]]] = [
        (None, who, run) for who, run in counting.items() if run is not None
    ]
    for minutes in given.minutes:
        wanted += [(minutes, who, partial(run, minutes)) for who, run in runs.items() if run is not None]
    there = {(row["text"], row["minutes"], row["who"]) for row in rows}
    for minutes, who, run in wanted:
        if (text.stem, minutes, who) not in there:
            row = {"text": text.stem, "minutes": minutes, "who": who, "processor": here["processor"]}
            keep_row({**row, "torch": here["torch"], **run()}, rows, given.out)


def table(rows: Sequence[Row]) -> list[Row]:
    """A line for each text and time."""
    found = []
    for text, minutes in sorted({(row["text"], row["minutes"]) for row in rows if row["minutes"]}):
        bits = {
            row["who"]: row["bits"]
            for row in rows
            if row["text"] == text and row["minutes"] in (minutes, None)
        }
        found.append(
            {"text": text, "minutes": minutes}
            | {who: f"{bits[who]:.3f}" if bits.get(who) else "–" for who in COLUMNS}
        )
    return found


COLUMNS = OCTAVO, BEFORE, NGRAMS, ZPAQ, PAQ8PX, TRAINER, NANOGPT = (
    "octavo",
    "before",
    "n-grams with a cache",
    "zpaq -m5",
    "paq8px -8",
    "Hugging Face's Trainer",
    "nanoGPT",
)
ZPAQ_EIGHTEEN, PAQ8PX_EIGHTEEN = f"{ZPAQ}, given eighteen", f"{PAQ8PX}, given eighteen"
WHO = (*COLUMNS[:5], ZPAQ_EIGHTEEN, PAQ8PX_EIGHTEEN, *COLUMNS[5:])


def main() -> None:
    """What is missing, or the table; a JSON line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--texts", type=Path, nargs="+", default=[])
    parser.add_argument("--minutes", type=float, nargs="*", default=[2.0])
    parser.add_argument("--nanogpt", type=Path, help="a checkout of nanoGPT; it is not changed")
    parser.add_argument("--peers", help="a Python with transformers and accelerate")
    parser.add_argument("--before", type=Path, help="another checkout of Octavo")
    parser.add_argument("--paq8px", type=Path, help="its program")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--table", type=Path, help="write the page of what is there")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--trainer", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        print(json.dumps({"nats": measured_nanogpt(given.measure, given.texts[0])}))
        return
    if given.trainer:
        print(json.dumps(trainer(json.loads(given.trainer))))
        return
    if given.out is None:
        parser.error("--out is needed")
    rows: list[Row] = rows_in(given.out)
    here = machine()
    for text in given.texts:
        run_missing(text.resolve(), rows, given, here)
    found = table(rows)
    if found:
        print_table(found)
        if given.table:
            given.table.write_text(page(found, rows), encoding="utf-8")
    finish({"machine": here, "rows": found})


def page(found: Sequence[Row], rows: Sequence[Row]) -> str:
    """The page of results."""
    processors = ", ".join(dict.fromkeys(f"{row['processor']}, torch {row['torch']}" for row in rows))
    parts = [
        f"# The dial beside others in the same minutes\n\n{__doc__ or ''}",
        f"Two cores of {processors}; one run each, bits per byte.",
        in_markdown(found),
        "## What octavo has less than others\n",
        in_markdown(differences(rows)),
        "## What octavo promised\n",
        "Of the test part, before the first step; 80 of 100 should hold.\n",
        in_markdown(promises(rows)),
        "## Seconds taken\n",
        in_markdown(seconds_of(rows)),
    ]
    return "\n".join(part for part in parts if part)


def seconds_of(rows: Sequence[Row]) -> list[Row]:
    """How long each took that was given minutes."""
    taken: dict[tuple[float, str], list[float]] = defaultdict(list)
    for row in rows:
        if row["minutes"] is not None:
            taken[row["minutes"], row["who"]].append(row["seconds"])
    return [
        {"minutes": minutes, "who": who, "runs": len(all_of), "median": f"{np.median(all_of):.1f}"}
        | {"longest": f"{max(all_of):.1f}"}
        for (minutes, who), all_of in sorted(
            taken.items(), key=lambda each: (each[0][0], WHO.index(each[0][1]))
        )
    ]


def differences(rows: Sequence[Row]) -> list[Row]:
    """How many bits per byte octavo needs less than each of the others, a line for each time and other."""
    found = []
    for minutes in sorted({row["minutes"] for row in rows if row["minutes"]}):
        bits: dict[str, dict[str, float]] = defaultdict(dict)
        for row in rows:
            if row["minutes"] in (minutes, None) and row["bits"]:
                bits[row["who"]][row["text"]] = row["bits"]
        for who in WHO[1:]:
            less = [bits[who][text] - own for text, own in bits[OCTAVO].items() if text in bits[who]]
            if less:
                shown = {"median": np.median(less), "least": min(less), "most": max(less)}
                line: Row = {"minutes": minutes, "than": who, "texts": len(less)}
                found.append(line | {name: f"{each:+.3f}" for name, each in shown.items()})
    return found


def promises(rows: Sequence[Row]) -> list[Row]:
    """How many of octavo's promises held, and how far above them it came out, a line for each time."""
    off: dict[float, list[tuple[float, float]]] = defaultdict(list)
    for row in rows:
        if row["who"] == OCTAVO and row.get("promised"):
            off[row["minutes"]].append((row["bits"] - row["promised"]["bits"], row["promised"]["within"]))
    found = []
    for minutes, all_of in sorted(off.items()):
        above = [each for each, _ in all_of]
        held = sum(abs(each) <= within for each, within in all_of)
        shown = {
            "came out above, median": np.median(above),
            "mean": np.mean(above),
            "from": min(above),
            "to": max(above),
        }
        line: Row = {"minutes": minutes, "held": f"{held} of {len(all_of)}"}
        found.append(line | {name: f"{each:+.3f}" for name, each in shown.items()})
    return found


if __name__ == "__main__":
    main()
