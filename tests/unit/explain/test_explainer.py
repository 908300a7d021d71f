"""What a page holds, and what no page can."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import zlib
from html import unescape
from typing import Any

import numpy as np
import pytest
import torch

from octavo.config import Recipe
from octavo.errors import InputError
from octavo.explain import explainer, page_model
from octavo.explain.ablations import names_of_parts
from octavo.explain.explainer import Explanation, explained, floors
from octavo.explain.page_model import beyond_page, refuse_beyond, tokenizer_facts
from octavo.synthetic.grammar import Grammar
from octavo.synthetic.source import StorytellerSource
from octavo.synthetic.storyteller import Storyteller
from octavo.tokenizers.base import with_special
from octavo.tokenizers.char import CharTokenizer
from octavo.tokenizers.word import WordTokenizer
from unit.explain.subjects import LETTERS, TEXT, subject

GRAMMAR = Grammar(
    {
        "go": ["{who=name} see (the dog|a {thing}). {who} run."],
        "name": ["ann", "bob"],
        "thing": ["cat", "cow", "car"],
    },
    "go",
)
HOSTILE = "</script><script>alert(1)</script>\u2028\u202e\x00"


@pytest.fixture(scope="module")
def found() -> Explanation:
    letters = CharTokenizer("".join(sorted(set(LETTERS + HOSTILE))), documents=False, unknown=False)
    text = HOSTILE + TEXT * 6
    return explained(subject(with_special(letters, ["<|user|>"]), text=text, layers=1, heads=2), effort=1e9)


def held(page: str, name: str) -> str:
    (content,) = re.findall(rf'<script type="[^"]*" id="octavo-explain-{name}">(.*?)</script>', page, re.S)
    return content


def test_the_page_holds_the_facts_and_the_weights(found: Explanation) -> None:
    page = found.page()
    facts = json.loads(held(page, "facts"))
    assert facts == json.loads(json.dumps(found.facts))
    raw = zlib.decompress(base64.b64decode(held(page, "weights")))
    entry = next(one for one in facts["tensors"] if one["name"] == "norm.bias")
    np.testing.assert_array_equal(np.frombuffer(raw, np.float32, 32, entry["offset"]).shape, (32,))
    assert facts["measured"]["parts"].keys() == set(names_of_parts(subject(layers=1, heads=2).model))
    assert facts["measured"]["packing"]["low"] <= facts["measured"]["packing"]["mean"]


def test_no_text_ends_its_element_or_is_obeyed(found: Explanation) -> None:
    page = found.page()
    assert HOSTILE[:20] in found.facts["text"]
    assert page.count("</script>") == 3  # facts, weights, and the script
    assert "alert(1)</" not in page
    assert not re.search("[\x00-\x08\x0b-\x1f\u2028-\u202e]", page)


def test_the_policy_lets_the_one_script_run_and_nothing_else(found: Explanation) -> None:
    page = found.page()
    policy = unescape(re.findall(r'Content-Security-Policy" content="([^"]*)"', page)[0])
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.S)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}' 'wasm-unsafe-eval'" in policy
    assert policy.startswith("default-src 'none'")
    assert "unsafe-inline" not in policy.replace("style-src 'unsafe-inline'", "")
    assert page.index("Content-Security-Policy") < page.index("<script")


def test_no_asset_names_an_address() -> None:
    for name in ("explain.js", "explain.css"):
        text = explainer.asset(name)
        # Names of kinds of elements, which nobody asks for.
        assert not [each for each in re.findall(r"\w+://[^\s\"'`)]+", text) if "www.w3.org" not in each]


def test_special_tokens_are_named(found: Explanation) -> None:
    facts = found.facts["tokenizer"]
    assert facts["names"][facts["special"][0]] == "<|user|>"
    assert len(facts["names"]) == found.facts["config"]["vocab"]


def test_too_few_rows_are_not_measured() -> None:
    facts = explained(subject(layers=1, heads=2), effort=0).facts
    assert facts["measured"] is None and facts["heads"] == []


def test_weights_of_large_models_travel_as_int8(monkeypatch: pytest.MonkeyPatch) -> None:
    one = subject(layers=1, heads=2)
    assert explained(one, effort=0).facts["weights"] == "float16"
    monkeypatch.setattr(explainer, "LARGEST_FLOAT16", 100)
    assert explained(one, effort=0).facts["weights"] == "int8"
    assert explained(one, effort=0, weights="float32").facts["weights"] == "float32"


def test_the_model_is_as_it_was(found: Explanation) -> None:
    one = subject(layers=1, heads=2)
    before = {name: weight.detach().clone() for name, weight in one.model.named_parameters()}
    explained(one, weights="int8", effort=1e9)
    assert all(bool((before[name] == weight).all()) for name, weight in one.model.named_parameters())


def with_model(model: Any) -> Recipe:
    return Recipe().model_copy(update={"model": model})


@pytest.mark.parametrize(
    ("model", "named"),
    [
        ({"kind": "encoder-decoder"}, "encoder-decoder"),
        ({"input": "linear", "output": "gaussian"}, "linear"),
    ],
)
def test_other_models_are_refused(model: dict[str, Any], named: str) -> None:
    from octavo.config.parts import part

    kind = part("model", model.get("kind", "gpt"))
    with pytest.raises(InputError, match=named):
        refuse_beyond(with_model(kind.model_validate(model)), subject().tokenizer)


def test_parts_and_tokenizers_of_ones_own_are_named() -> None:
    config = Recipe().model
    own = config.norm.model_copy(update={"kind": "my-norm"})
    tokenizer = CharTokenizer("ab", documents=False, unknown=False)
    tokenizer.kind = "my-tokens"  # type: ignore[misc]
    (first, second) = beyond_page(with_model(config.model_copy(update={"norm": own})), tokenizer)
    assert "norm=my-norm" in first and "tokenizer=my-tokens" in second


def test_large_models_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_model, "LARGEST", 1000)
    with pytest.raises(InputError, match="1,000"):
        refuse_beyond(subject().recipe, subject().tokenizer)


def test_every_kind_of_tokenizer_is_told(tmp_path: Any) -> None:
    from octavo.tokenizers.config import BPE

    pairs = BPE(size=300).build(lambda: iter([TEXT]), documents=True)
    facts = tokenizer_facts(pairs)
    assert len(facts["bytes"]) == len(facts["names"]) == pairs.vocab_size
    left, right, made = facts["merges"][0]
    assert facts["bytes"][left] + facts["bytes"][right] == facts["bytes"][made]


# Each token of a story beside the best possible probability.


def test_tokens_of_a_grammar_have_the_probability_of_what_they_choose() -> None:
    found = GRAMMAR.log_probabilities("bob see a cow. bob run.")
    assert [token for token, _ in found] == ["bob", "see", "a", "cow", ".", "bob", "run", "."]
    assert [math.exp(log) for _, log in found] == pytest.approx([1 / 2, 1, 1 / 2, 1 / 3, 1, 1, 1, 1])
    with pytest.raises(ValueError, match="does not write"):
        GRAMMAR.log_probabilities("bob see a cow. ann run.")


@pytest.mark.parametrize("number", range(3))
def test_a_story_is_as_probable_as_its_tokens_together(number: int) -> None:
    story = Storyteller(3).story(number)
    found = StorytellerSource().best_guesses(story.text)
    assert len(found) == story.tokens - 1  # the end is certain
    assert sum(log for _, log in found) == pytest.approx(story.log_probability)


def test_floors_stand_beside_the_model() -> None:
    words = WordTokenizer(
        ["ann", "bob", "see", "the", "dog", "a", "cat", "cow", "car", "run", "."],
        lowercase=False,
        lines="fold",
        unknown=False,
    )
    one = subject(words, text="bob see a cow . ann run . " * 20, positions="rotary")
    texts = ["bob see a cow. bob run.", "cow see bob.", "ann see the dog. ann run. " * 9]
    (found,) = floors(
        one.model, words, texts, GRAMMAR.log_probabilities
    )  # the others are none of its, or too long
    assert found["tokens"] == ["bob", "see", "a", "cow", ".", "bob", "run", "."]
    assert found["best"][3] == pytest.approx(1 / 3, abs=1e-4)
    ids = torch.tensor([[0, *words.encode(texts[0]).tolist()]])
    with torch.no_grad():
        own = one.model(ids)[0].softmax(-1)
    np.testing.assert_allclose(found["model"], [own[t, ids[0, t + 1]] for t in range(8)], atol=1e-4)


def test_other_tokens_have_no_floor() -> None:
    one = subject()
    letters = CharTokenizer("".join(sorted(set("bob see a cow. run"))), documents=True, unknown=False)
    assert floors(one.model, letters, ["bob see a cow. bob run."], GRAMMAR.log_probabilities) == []
