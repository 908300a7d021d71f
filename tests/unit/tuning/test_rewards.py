"""What each reward gives, what a failing one does, and how one is named."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from octavo.config import parts as own_parts
from octavo.config.parts import registered, restore
from octavo.errors import ConfigError, InputError
from octavo.synthetic.checker import first_fault
from octavo.synthetic.grammar import TOKEN
from octavo.synthetic.storyteller import Storyteller
from octavo.synthetic.wishes import Wish
from octavo.tuning.rewards.base import Reward, RewardHolder, judge
from octavo.tuning.rewards.checked import ArithmeticConfig, PidginConfig, SumConfig, WeightedReward
from octavo.tuning.rewards.named import named_reward
from octavo.tuning.rewards.wishes import WishesConfig
from octavo.util.processes import TOLD


@pytest.fixture
def as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    RewardHolder.model_validate({"reward": "pidgin"})
    before = registered()
    monkeypatch.setattr(own_parts, "_loaded", {})
    monkeypatch.setitem(TOLD, own_parts.VARIABLE, "[]")
    yield
    restore(before)


def made(options: object) -> Reward:
    return RewardHolder.model_validate({"reward": options}).reward.build()


@pytest.mark.parametrize(
    ("options", "prompt", "text", "value"),
    [
        ("arithmetic", "12+34=", "46\n", 1),
        ("arithmetic", "12+34=", "46", 1),
        ("arithmetic", "12+34=", "460", 0),
        ("arithmetic", "12+34=", "46.5", 0),
        ("arithmetic", "12+34=", "", 0),
        ("arithmetic", "12+34=", "it is 46", 0),
        ("arithmetic", "1+1=2\n9-12 = ", "-3", 1),
        ("arithmetic", "7*8=", "56 is right", 1),
        ("arithmetic", "7*8=", "56.", 1),
        ({"kind": "words", "must": ["Snail", "kite"], "never": ["pip"]}, "", "a snail sees Pip.", 1 / 3),
        ({"kind": "words", "never": ["pip"]}, "", "", 1),
        ({"kind": "length", "least": 2, "most": 3, "slack": 2}, "", "one, two. three four", 0.5),
        ({"kind": "length", "least": 2, "most": 3, "slack": 2}, "", "", 0),
        ("question", "ha?", "no.", 0),
        ("pidgin", "", "the end.", 0),
    ],
)
def test_what_a_text_is_worth(options: object, prompt: str, text: str, value: float) -> None:
    assert made(options).of(prompt, text) == pytest.approx(value)


def test_the_storyteller_writes_good_pidgin() -> None:
    pidgin = made("pidgin")
    assert {pidgin.of("", story.text) for story in Storyteller(2).stories(30)} == {1.0}
    assert pidgin.of("", "\n" + Storyteller(2).story(0).text + "\n") == 1.0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"kind": "words"}, "name a word"),
        ({"kind": "words", "must": ["two words"]}, "not one word"),
        ({"kind": "words", "must": ["a"], "never": ["A"]}, "stands in"),
        ({"kind": "length", "least": 9, "most": 3}, "no number of words"),
        ({"kind": "sum", "of": []}, "at least 1"),
        ({"kind": "product", "of": [{"reward": "question"}]}, "at least 2"),
        ("kindness", "arithmetic, ends-happily"),
        ("{", "not valid YAML"),
        (3, "is no reward"),
    ],
)
def test_what_is_no_reward_is_said(options: object, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        named_reward(str(options))


BOTH = [{"reward": "question"}, {"reward": {"kind": "words", "must": ["snail", "kite"]}}]


@pytest.mark.parametrize(("text", "value"), [("ha snail?", 0.5), ("ha snail kite?", 1), ("snail kite.", 0)])
def test_of_a_product_one_factor_of_0_is_all(text: str, value: float) -> None:
    reward = made({"kind": "product", "of": BOTH})
    assert reward.of("", text) == value
    automaton = reward.automaton()
    assert automaton is not None
    state = automaton.start
    for word in TOKEN.findall(text):
        state = automaton.step(state, automaton.sign(word))
    assert automaton.value(state) == value


def test_a_product_is_known_early_where_each_factor_is() -> None:
    wish, story = "tell of snail. end glad.", "snail run. snail ed. snail glad. the end."
    of = [{"reward": "wishes"}, {"reward": "pidgin"}]
    sizes = [0, 10, 19, len(story)]
    each = [made(one["reward"]).along(wish, story, sizes) for one in of]
    assert made({"kind": "product", "of": of}).along(wish, story, sizes) == [
        a * b for a, b in zip(*each, strict=True)
    ]
    assert made({"kind": "product", "of": of}).early and made({"kind": "sum", "of": [*of, *BOTH]}).early
    assert not made({"kind": "product", "of": [*of, *BOTH]}).early


class Moody(Reward):
    """Fails for some texts."""

    def of(self, prompt: str, text: str) -> float:
        if text == "raise":
            raise ZeroDivisionError
        return {"nan": math.nan, "inf": math.inf, "huge": -1e308}.get(text, 2.0)


def test_one_that_fails_in_one_of_a_thousand_stops_nothing_and_is_counted() -> None:
    judged = judge(Moody(), [("", "fine")] * 996 + [("", each) for each in ("raise", "nan", "inf", "huge")])
    assert int(judged.known.sum()) == 996 and set(judged.rewards[judged.known]) == {2.0}
    assert sum(judged.failed.values()) == 4 and judged.failed["gave -1e+308"] == 1
    assert any("ZeroDivisionError" in why and "line" in why for why in judged.failed)
    assert judged.failed["gave nan"] == judged.failed["gave inf"] == 1


def test_one_that_always_fails_is_an_error() -> None:
    with pytest.raises(InputError, match="each of 2 texts; at first it gave nan"):
        judge(Moody(), [("", "nan"), ("", "raise")])


@pytest.mark.usefixtures("as_before")
def test_a_function_of_a_file_is_a_reward_and_is_announced(tmp_path: Path) -> None:
    path = tmp_path / "vowels.py"
    path.write_text("def reward(prompt, text):\n    return sum(text.count(v) for v in 'aeiou')\n")
    for config in (
        WeightedReward,
        SumConfig,
    ):  # one holds the other, and both are in use before the file comes
        config.model_json_schema()
    config, (said,) = named_reward(str(path))
    assert config.kind == "vowels" and config.build().of("", "banana") == 3
    assert "runs here" in said and str(path) in said
    assert made({"kind": "sum", "of": [{"reward": "vowels", "weight": -2}]}).of("", "banana") == -6


@pytest.mark.usefixtures("as_before")
@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("none.py", "x = 1", "define reward"),
        ("pidgin.py", "def reward(prompt, text): return 1", "already"),
        ("broken.py", "def reward(", "SyntaxError"),
    ],
)
def test_a_file_without_a_reward_is_refused(tmp_path: Path, name: str, code: str, said: str) -> None:
    path = tmp_path / name
    path.write_text(code)
    with pytest.raises(ConfigError, match=said):
        named_reward(str(path))
    assert ("reward", path.stem) not in registered() or path.stem == "pidgin"


STORY = "once shy cat pip live with aunt near river. pip see snail. pip ed happy. now pip feel happy. the end. then pip"


@pytest.mark.parametrize(
    "wish", ["tell of snail. in river. end happy.", "tell of cat.", "in forest. end happy."]
)
def test_what_a_story_keeps_so_far_is_what_its_beginnings_keep(wish: str) -> None:
    sizes = list(range(len(STORY) + 1))
    found = WishesConfig().build().along(wish, STORY, sizes)
    assert found == [Wish.of(wish).kept(STORY[:size]) for size in sizes]


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("pip see snail. pip ed happy.", "happy"),  # a tense word needs a verb: known at the word
        ("pip see snail. pip see zebra and cat.", "zebra"),
        ("pip see snail. behind tree. pip see cat.", "tree."),  # no verb: known at the sentence's end
        ("pip see snail. pip ed", None),
    ],
)
def test_a_fault_is_where_it_is_first_known(text: str, wrong: str | None) -> None:
    assert first_fault(text) == (None if wrong is None else text.index(wrong) + len(wrong))


def test_pidgin_is_good_until_a_word_is_wrong() -> None:
    reward, end = PidginConfig().build(), STORY.index("ed happy.") + len("ed happy")
    found = reward.along("", STORY, [0, end - 1, end, len(STORY)])
    assert found == [1, 1, 0, 0] and reward.early
    both = SumConfig.model_validate(
        {"of": [{"reward": "pidgin", "weight": 0.5}, {"reward": "wishes"}, {"reward": "question"}]}
    ).build()
    assert both.along("tell of snail.", STORY, [0, len(STORY)]) == [0.5, 1] and both.early
    assert not ArithmeticConfig().build().early
