"""octavo tune, as a user types it."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import yaml

from e2e.asking import refused
from e2e.forked import Octavo


def test_the_ceiling_of_the_storyteller_is_exact(octavo: Octavo, tmp_path: Path) -> None:
    plot = tmp_path / "ceiling.svg"
    ceiling = ("tune", "ceiling", "storyteller", "--reward", "ends-happily", "--plot", plot)
    done = octavo(*ceiling, "--json", patch="drawn")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    last = found["ceiling"]["points"][-1]
    assert found["exact"] and last["reward"] == 1.0 and math.isclose(last["kl"], math.log(18))
    assert [point["n"] for point in found["best_of_n"]["points"]] == [1, 2, 4, 8, 16, 32, 64]
    assert "<svg" in plot.read_text(encoding="utf-8")
    refused(octavo(*ceiling), "exists")


def test_the_ceiling_of_a_run_by_a_function_of_ones_own(
    octavo: Octavo, finished: Path, tmp_path: Path
) -> None:
    mine = tmp_path / "dogs.py"
    mine.write_text("def reward(prompt, text):\n    return 1 / text.count('o')\n")
    words = ("tune", "ceiling", finished, "--reward", mine, "--samples", "60", "--tokens", "30")
    done = octavo(*words)
    assert done.code == 0, done.err
    assert "runs here" in done.err and "ZeroDivisionError" in done.err
    assert "from 60 texts" in done.out and "best of 2" in done.out
    assert octavo(*words).out == done.out


def test_what_cannot_be_counted_or_is_no_reward_is_refused(octavo: Octavo, tmp_path: Path) -> None:
    refused(octavo("tune", "ceiling", "storyteller", "--reward", "pidgin"), "cannot be counted")
    drawn = octavo("tune", "ceiling", "storyteller", "--reward", "ends-happily", "--plot", tmp_path / "a.png")
    refused(drawn, "it is drawn as SVG")
    assert not (tmp_path / "a.png").exists()
    refused(octavo("tune", "ceiling", "storyteller", "--reward", "joy"), "is no reward")
    more = ("--reward", "ends-happily", "--samples", "9", "--seed", "3")
    refused(octavo("tune", "ceiling", "storyteller", *more), "--samples, --seed would change nothing")
    refused(octavo("tune", "ceiling", "nowhere", "--reward", "pidgin"), "nowhere")
    for seed in ("-1", str(2**64)):
        refused(octavo("tune", "ceiling", "storyteller", "--reward", "joy", "--seed", seed), "seed")


@pytest.mark.parametrize("name", ["2024", "007", "exp #2", "null", "{a", "été"])
def test_a_run_is_tuned_whatever_its_name_looks_like(octavo: Octavo, finished: Path, name: str) -> None:
    Path(octavo.folder / name).symlink_to(finished)
    rows = (
        json.dumps({"prompt": f"{who}?", "completion": "it."}) + "\n" for who in ("who", "a dog", "fox") * 9
    )
    (octavo.folder / "few.jsonl").write_text(
        "".join(rows) + json.dumps({"prompt": "cat?", "completion": "no."})
    )
    done = octavo("tune", "sft", name, "--text", "few.jsonl", "--dry-run")
    assert done.code == 0, done.err
    assert yaml.safe_load(done.out)["training"]["start_from"] == str(octavo.folder / name)


def test_a_dry_run_reads_the_prompts(octavo: Octavo, finished: Path) -> None:
    command = ("tune", "rl", finished, "--reward", "length", "--dry-run", "--prompts")
    refused(octavo(*command, "nowhere.txt"), "prompts", "nowhere.txt")
    (octavo.folder / "empty.txt").touch()
    refused(octavo(*command, "empty.txt"), "empty.txt")
    (octavo.folder / "asked.txt").write_text("the fox\nwho\n", encoding="utf-8")
    assert octavo(*command, "asked.txt").code == 0
