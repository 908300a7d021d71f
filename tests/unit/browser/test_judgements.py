"""What was judged becomes the pairs that octavo tune dpo reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from octavo.browser import judgements
from octavo.browser.asked import Judged
from octavo.browser.judgements import Judgements
from octavo.config.parts import parts
from octavo.serving.errors import Refusal


def choice(chosen: str, rejected: str, prompt: Any = "Once", **more: Any) -> Judged:
    told = {
        "kind": "choice",
        "model": "runs/bard@7",
        "prompt": prompt,
        "chosen": chosen,
        "rejected": rejected,
    }
    return Judged.model_validate({**told, **more})


def thumb(answer: str, good: bool | None, prompt: Any = "Once") -> Judged:
    told = {"kind": "thumb", "model": "runs/bard", "prompt": prompt, "answer": answer, "good": good}
    return Judged.model_validate(told)


def pairs(found: Judgements) -> list[tuple[Any, str, str]]:
    lines = found.pairs_of("runs/bard").read_text("utf-8").splitlines()
    return [(row["prompt"], row["chosen"], row["rejected"]) for row in map(json.loads, lines)]


def test_choices_and_thumbs_become_pairs(tmp_path: Path) -> None:
    found = Judgements(tmp_path / "preferences")
    assert found.of("runs/bard").pairs == 0
    found.keep(choice("a", "b"))
    found.keep(choice("a", "b"))  # the same again
    found.keep(choice("c", "c"))  # nothing is preferred
    found.keep(thumb("d", True))
    found.keep(thumb("e", False))
    found.keep(thumb("f", False))
    kept = found.keep(thumb("x", True, "Twice"))
    assert pairs(found) == [("Once", "a", "b"), ("Once", "d", "e"), ("Once", "d", "f")]
    assert (kept.choices, kept.thumbs, kept.pairs) == (3, 4, 3) and kept.path.endswith("runs-bard.jsonl")
    found.keep(thumb("e", None))  # taken back
    found.keep(thumb("f", True))  # another opinion
    assert pairs(found) == [("Once", "a", "b")]
    assert Judgements(tmp_path / "preferences").of("runs/bard") == found.of("runs/bard")


def test_the_form_is_that_of_octavo_tune_dpo(tmp_path: Path) -> None:
    found, form = Judgements(tmp_path), parts("record")["preferences"]()
    talk = [
        {"role": "user", "content": "Hi."},
        {"role": "assistant", "content": "Yes?"},
        {"role": "user", "content": "Well."},
    ]
    found.keep(choice("Hello!", "What?", "Hi."))
    found.keep(choice("Good.", "Bad.", talk))
    for line in found.pairs_of("runs/bard").read_text("utf-8").splitlines():
        assert form.text(json.loads(line), "here", "text")


def test_a_damaged_journal_loses_that_line_alone(tmp_path: Path) -> None:
    found = Judgements(tmp_path)
    found.keep(choice("a", "b"))
    (journal,) = tmp_path.glob("*.journal.jsonl")
    with journal.open("a") as file:
        file.write('{"kind": "choice", "prompt"\n[]\n{"kind": "choice", "prompt": 5}\n')
    found.keep(choice("c", "d"))
    assert [chosen for _, chosen, _ in pairs(found)] == ["a", "c"]


def test_there_is_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Judgements(tmp_path)
    found.keep(choice("a", "b"))
    monkeypatch.setattr(judgements, "MOST_JOURNAL", 10)
    with pytest.raises(Refusal):
        found.keep(choice("c", "d"))


@pytest.mark.parametrize(
    "told",
    [
        {"kind": "choice", "chosen": "a"},
        {"kind": "thumb", "good": True},
        {"kind": "choice", "chosen": "a", "rejected": "b", "path": "/etc"},
        {"kind": "choice", "chosen": "a", "rejected": "x" * 200_000},
        {"kind": "other"},
    ],
)
def test_what_is_no_judgement(told: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        Judged.model_validate({"model": "m", "prompt": "p", **told})
