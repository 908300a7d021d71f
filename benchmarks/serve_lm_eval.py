"""lm-evaluation-harness asks `octavo serve`: a small task, and whether its scores are our own.

    python benchmarks/serve_lm_eval.py RUN --text FILE [--questions 60] [--lm-eval PYTHON] [--write]

Each question is a passage of FILE, which the run should not have learned, and four ways to go on: its own, and those of
three other passages. The model is `local-completions` with the server's tokenizer. Our own score comes from the model's
logits alone, in double precision. `--lm-eval`: a Python that has lm_eval; default: this one. `--write` puts the table
into results/serve_lm_eval.md.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import torch
import yaml

from common import finish, print_table
from octavo.run.run import Run
from serve_fuzz import served

CHOICES = 4
PASSAGE, REST = 120, 40
"""Characters."""
TASK = {
    "task": "octavo_passages",
    "dataset_path": "json",
    "test_split": "test",
    "output_type": "multiple_choice",
    "doc_to_text": "{{passage}}",
    "doc_to_choice": "{{choices}}",
    "doc_to_target": "{{answer}}",
    "target_delimiter": "",
    "metric_list": [{"metric": name, "aggregation": "mean"} for name in ("acc", "acc_norm")],
}


@dataclass(frozen=True)
class Question:
    """A passage and ways to go on."""

    passage: str
    choices: list[str]
    answer: int


def questions(text: str, count: int, seed: int = 1) -> list[Question]:
    """Passages from all over a text, that begin and break off between words."""
    draw = random.Random(seed)
    spaces = [at for at, letter in enumerate(text[: -PASSAGE - REST]) if letter == " "]
    pairs = []
    for begin in draw.sample(spaces, CHOICES * count):
        end = text.find(" ", begin + PASSAGE)
        pairs.append((text[begin + 1 : end], text[end : end + REST].rsplit(" ", 1)[0]))
    found = []
    for number in range(count):
        own, others = pairs[number], draw.sample([*pairs[:number], *pairs[number + 1 :]], CHOICES - 1)
        choices = [own[1], *(other[1] for other in others)]
        draw.shuffle(choices)
        found.append(Question(own[0], choices, choices.index(own[1])))
    return found


@torch.no_grad()
def own_scores(run: Run, asked: Sequence[Question]) -> list[list[float]]:
    """Log-probability of each choice after its passage."""
    found = []
    for question in asked:
        row = []
        for choice in question.choices:
            ids = run.tokenizer.encode(question.passage + choice).tolist()
            begin = len(run.tokenizer.encode(question.passage))
            logs = run.logits(ids)[0].double().log_softmax(dim=-1)
            row.append(sum(float(logs[at - 1, ids[at]]) for at in range(begin, len(ids))))
        found.append(row)
    return found


def their_scores(
    address: str, run: Path, asked: Sequence[Question], folder: Path, python: Path
) -> tuple[dict[str, float], list[list[float]]]:
    """Their metrics, and the log-probabilities that they found."""
    lines = [json.dumps(vars(question)) for question in asked]
    (folder / "questions.jsonl").write_text("\n".join(lines), encoding="utf-8")
    task = TASK | {"dataset_kwargs": {"data_files": {"test": str(folder / "questions.jsonl")}}}
    (folder / "task.yaml").write_text(yaml.safe_dump(task), encoding="utf-8")
    model = f"model={run.name},base_url={address}/v1/completions,tokenizer_backend=remote,num_concurrent=8"
    command = [python, "-m", "lm_eval", "--model", "local-completions", "--model_args", model]
    command += [
        "--tasks",
        TASK["task"],
        "--include_path",
        folder,
        "--log_samples",
        "--output_path",
        folder / "out",
    ]
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(folder / "hf")}
    subprocess.run(command, check=True, env={**os.environ, **offline}, stdout=subprocess.DEVNULL)
    (results,) = (folder / "out").rglob("results_*.json")
    (samples,) = (folder / "out").rglob("samples_*.jsonl")
    metrics = json.loads(results.read_text(encoding="utf-8"))["results"][TASK["task"]]
    rows = sorted(
        map(json.loads, samples.read_text(encoding="utf-8").splitlines()), key=lambda row: row["doc_id"]
    )
    values = [[float(one[0][0]) for one in row["resps"]] for row in rows]
    return {name: metrics[f"{name},none"] for name in ("acc", "acc_norm")}, values


def main() -> None:
    """Compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--questions", type=int, default=60)
    parser.add_argument("--lm-eval", type=Path, default=Path(sys.executable))
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    asked = questions(" ".join(given.text.read_text(encoding="utf-8").split()), given.questions)
    ours = own_scores(Run.open(given.run), asked)
    with tempfile.TemporaryDirectory() as place, served([given.run]) as address:
        metrics, theirs = their_scores(address, given.run, asked, Path(place), given.lm_eval)
    right = [
        max(range(CHOICES), key=row.__getitem__) == question.answer
        for row, question in zip(ours, asked, strict=True)
    ]
    pairs = zip(chain(*ours), chain(*theirs), strict=True)
    apart = max(abs(own - their) / abs(own) for own, their in pairs)
    rows = [
        {"score": "lm-evaluation-harness", "acc": f"{metrics['acc']:.4f}"},
        {"score": "our own", "acc": f"{sum(right) / len(right):.4f}"},
        {"score": "chance", "acc": f"{1 / CHOICES:.4f}"},
    ]
    print_table(rows)
    print(f"largest relative difference of a log-probability: {apart:.1e}")
    if given.write:
        table = "\n".join(f"| {row['score']} | {row['acc']} |" for row in rows)
        page = TEXT.format(table=table, given=given, apart=apart, values=CHOICES * len(asked))
        (Path(__file__).parent / "results" / "serve_lm_eval.md").write_text(page, encoding="utf-8")
    finish({"rows": rows, "largest_relative_difference": apart, "questions": len(asked)})


TEXT = """\
# lm-evaluation-harness on `octavo serve`

`python benchmarks/serve_lm_eval.py RUN --text FILE --questions {given.questions} --write`, with lm-eval's
`local-completions` and the server's own tokenizer: which of four pieces of text goes on from a passage?

| scored by | acc |
| --- | --- |
{table}

The log-probabilities of all {values} pieces agree with those that come from the model's logits, in double precision, to
a relative difference of {apart:.1e}.
"""

if __name__ == "__main__":
    main()
