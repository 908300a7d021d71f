"""Shipped specs are whole, wrong ones are refused with every problem, and a key is never repeated."""

from __future__ import annotations

from pathlib import Path

import pytest

from octavo.errors import ConfigError
from octavo.llm_corpus.prompts import Prompt
from octavo.llm_corpus.spec import check_spec, load_spec, spec_names, spec_yaml
from octavo.synthetic.vocabulary import vocabulary


@pytest.mark.parametrize("name", spec_names())
def test_shipped_specs_are_whole(name: str) -> None:
    spec = load_spec(name)
    assert spec.name == name
    assert spec.description
    for prompt in (spec.prompt, *spec.compare):
        assert "story" in Prompt(prompt, spec, frozenset(vocabulary())).first(3)[1]["content"]


def test_a_spec_survives_its_own_yaml(tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(spec_yaml(load_spec("pidgin", ["writers.model.model=x"])), encoding="utf-8")
    assert load_spec(path) == load_spec("pidgin", ["writers.model.model=x"])


def test_paths_are_taken_from_the_folder_of_the_spec(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("cat\n", encoding="utf-8")
    (tmp_path / "mine").mkdir()
    path = tmp_path / "spec.yaml"
    path.write_text(
        "name: x\nwriters: {a: storyteller}\nprompt: mine\ncompare: [mine, pidgin]\nrules: {vocabulary: words.txt}\n",
        encoding="utf-8",
    )
    spec = load_spec(path)
    assert spec.rules.vocabulary == str(tmp_path / "words.txt")
    assert spec.prompt == str(tmp_path / "mine") and spec.compare == (str(tmp_path / "mine"), "pidgin")


def test_every_problem_is_named_at_once() -> None:
    tree = {
        "name": "Not Good",
        "writers": {"a": {"kind": "endpoint", "base_url": "ftp://x", "model": "m", "modl": 1}},
        "rules": {"word": 3, "words": [9, 3], "cleaning": "pidgn"},
        "seeds": {},
    }
    with pytest.raises(ConfigError) as refused:
        check_spec(tree)
    said = str(refused.value)
    for part in ("name", "base_url", "writers.a.modl", "did you mean words", "fewest", "cleaning", "seeds"):
        assert part in said


@pytest.mark.parametrize(
    "change",
    [
        {"key_env": "sk-4f1c9d27"},
        {"base_url": "https://user:sk-4f1c9d27@api.example/v1"},
        {"base_url": "https://api.example/v1?key=sk-4f1c9d27"},
        {"key": "sk-4f1c9d27"},
        {"prices": "sk-4f1c9d27"},
        {"extra": {"messages": "sk-4f1c9d27"}},
    ],
)
def test_a_key_in_the_spec_is_refused_and_not_repeated(change: dict[str, object]) -> None:
    writer = {"kind": "endpoint", "base_url": "https://api.example/v1", "model": "m", **change}
    with pytest.raises(ConfigError) as refused:
        check_spec({"name": "x", "writers": {"a": writer}})
    assert "4f1c9d27" not in str(refused.value)
    assert "4f1c9d27" not in repr(refused.value.__cause__)


def test_pidgin_needs_a_closed_vocabulary() -> None:
    with pytest.raises(ConfigError, match="closed vocabulary"):
        load_spec("pidgin", ["rules.vocabulary=free"])


def test_a_wrong_name_has_a_neighbour() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'pidgin'"):
        load_spec("pidgn")
