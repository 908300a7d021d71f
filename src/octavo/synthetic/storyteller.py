"""The built-in storyteller: a plan for small stories in pidgin, drawn with their exact probability.

Pidgin is lower case, with no plural and no person; tense is a word before the verb (`ing` now, `ed` past,
`will` future); a question starts with `ha` and ends with `?`; speech needs no quotes. `grammar` explains the
notation of the plan, and why a text's probability is known exactly. The universe's lists are rules of the plan.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from random import Random

from octavo.errors import InputError
from octavo.synthetic.grammar import Grammar
from octavo.synthetic.universe import UNIVERSE
from octavo.util.output import Output

PLAN: dict[str, tuple[str, ...]] = {
    "story": ("{opening} {plot} {closing} the end.",),
    # Who it is about.
    "opening": (
        "one {weather} {daytime}, {hero_trait} {kind=hero_kind} {hero=hero_name} ed {move} (to|past|around)"
        " {place}.",
        "in {season}, {hero_trait} {kind=hero_kind} {hero=hero_name} like to {pastime} (at|near) {place}.",
        "once {hero_trait} {kind=hero_kind} {hero=hero_name} live with {family} in {colour} house near"
        " {look} {place}.",
        "there ed be {hero_trait} {kind=hero_kind} in {colour} house near {look} {place}."
        " {kind} name be {hero=hero_name}.",
        "{hero=hero_name} be {hero_trait} {kind=hero_kind}."
        " {hero} live in {look} {colour} house with {family}.",
    ),
    "plot": (
        "{lost}",
        "{fruit_in_tree}",
        "{lesson}",
        "{errand}",
        "{newcomer}",
        "{builder}",
        "{lost_way}",
        "{birthday}",
    ),
    # How the friend comes in, asks, and is thanked.
    "who": ("{friend_trait} {friend_kind} {friend=friend_name}",),
    "somewhere": ("{over} {look} {spot}",),
    "next": ("then", "so", "soon", "later"),
    "worry": ("{hero} ed (sit|stand|wait|cry|sigh) {manner} {somewhere} and feel {sad}.",),
    "meeting": (
        "then {who} ed {move} {manner} from {place}.",
        "soon {hero} ed meet {who} {somewhere}.",
        "from {place}, {who} ed {move} over with {food} and {fruit}.",
        "{who} ing (rest|read|work|sing) {somewhere}.",
    ),
    "concern": (
        "{friend} ask {manner}, ha (you (need {toy}|want {taste} {fruit})|why you be {sad}), {hero}?",
    ),
    "thanks": (
        "{hero} {speak} {manner}, thank you, {friend}. take {taste} {fruit} and {colour} {toy}.",
        "now {hero} and {friend} feel {glad} and {pastime} {manner} {somewhere}.",
        "{friend} {speak} {manner}, you be {praise} friend. take my {colour} {toy}.",
    ),
    # What happens. Each begins in its own way.
    "lost": (
        "{hero} ed lose {look} {thing=toy}. {hero} ed look {over} {colour} {spot} and {somewhere}, but find"
        " only {stuff}. {worry} {meeting} {concern} {hero} {speak}, i ing look for my {thing}."
        " ha you see it {over} {spot}? {friend} {speak}, no, but i will (look|help)."
        " {next} {hero} and {friend} ed {move} {manner} to {look} {place}. {somewhere}, {friend} ed find it."
        " {thanks}",
    ),
    "fruit_in_tree": (
        "high in {look} tree, {hero} ed see {taste} {thing=fruit}. {hero} want to eat it with {food}."
        " {hero} ed (jump|climb|reach) {number} time, but ed fall on {stuff}."
        " {worry} {meeting} {concern} {hero} {speak}, i want to eat. ha you will (lift|carry|help|push) me?"
        " {friend} {speak}, yes, (sit on my back|hold my hand|we will shake tree)."
        " {next} {thing} ed drop {somewhere}. {hero} and {friend} ed share it and {food}. it taste {taste}."
        " {thanks}",
    ),
    "lesson": (
        "every {daytime}, {hero} ed dream to {wish=skill}."
        " {hero} ed try {number} time {somewhere}, but {mishap}."
        " {worry} {meeting} {hero} ask {manner}, ha you can {wish}?"
        " {friend} {speak}, yes, i learn it {learned}. ha you want to learn?"
        " {hero} {speak}, (yes, but i be {sad}|please teach me|i will try {manner})."
        " {next} {hero} and {friend} ed practice {number} (hour|day|week) in {look} {place}."
        " now {hero} can {wish}. {family} ed {cheer}. {thanks}",
    ),
    "mishap": ("{critter} ed (laugh|fly home)", "it be too hard", "{hero} ed fall on {stuff}"),
    "learned": ("every {daytime}", "with my {family}", "in {season}"),
    "cheer": ("watch {manner}", "say, {hero} be {praise}", "bring {food} and {fruit}"),
    "errand": (
        "{elder=family} {speak}, we have no {thing=food}. ha you will go to grocery store?"
        " {hero} {speak}, yes, i will bring it. {hero} ed {move} {manner} past {look} {place} and {look}"
        " {spot} to store. but {trouble}. {worry} {meeting} {concern} {hero} {speak}, i need {thing} for my"
        " {elder}. {friend} {speak}, (take my {number} coin|wash my {spot} and i will buy it)."
        " {next} {hero} ed {move} home with it and {fruit}. {elder} ed (hug {hero}|make {food}|feel {glad})."
        " {thanks}",
    ),
    "trouble": (
        "it be on high {spot}",
        "{hero} have no coin",
        "store ed close",
        "{critter} ed eat it",
    ),
    "newcomer": (
        "at school, {hero} be new and have no friend."
        " {number} child ing play with {look} {toy} and {colour} {toy}."
        " {worry} {meeting} {friend} have {look} {thing=toy}."
        " {friend} ask {manner}, ha you want to play with my {thing}?"
        " {hero} {speak}, (yes|please), i like it."
        " {next} {hero} and {friend} ed (hide|take|push|pull|hold) it {somewhere} and {move} to {place}."
        " {friend} ask, ha you will come tomorrow?"
        " {hero} {speak}, yes, i will bring {food} and {taste} {fruit}. {thanks}",
    ),
    "builder": (
        "with {colour} {stuff}, {hero} ed build {look} {thing=building} near {place}."
        " {family} {speak}, it be {praise}. but at night {storm} ed come and break it."
        " {worry} {meeting} {concern} {hero} {speak}, my {thing} ed fall. ha you can build?"
        " {friend} {speak}, yes, we will make it of {stuff}."
        " {next} {friend} ed (bring|carry|pull|push) {stuff} {manner} from {place}."
        " they ed work {number} (hour|day|week) {somewhere}. now it be {colour} and strong. {thanks}",
    ),
    "lost_way": (
        "soon {hero} ed follow {look} {critter} into forest."
        " {hero} ed {move} {somewhere} and {over} {colour} {spot}."
        " then it be (dark|cold|late) and {hero} know no way home."
        " {hero} {speak} {manner}, ha {family} be there? but only {storm} ed answer."
        " {worry} {meeting} {concern} {hero} {speak}, i want to go home."
        " {friend} {speak}, (hold my hand|follow me|watch my lamp), we will {move} {manner} past {place}."
        " {next} {hero} and {friend} ed {move} {number} hour and see {colour} house."
        " {family} ed (open door|give {food} to {friend}). {thanks}",
    ),
    "birthday": (
        "tomorrow be birthday of {elder=family}. {hero} want to give {look} {thing=gift}, but have only"
        " {colour} {stuff}. {worry} {meeting} {concern} {hero} ask {manner}, ha you can make {thing} with"
        " me? {friend} {speak}, yes, (bring|find|get) {stuff} and {look} {toy}."
        " {next} {hero} and {friend} ed {move} to {place}, find {number} {fruit} and (make|paint|build) it"
        " {somewhere}. then {hero} ed give it to {elder}. {elder} {speak} {manner}, i like it. {thanks}",
    ),
    # How it ends.
    "closing": (
        "that {daytime}, {hero} and {friend} ed {pastime} {manner} and eat {taste} {fruit} near {look}"
        " {place}.",
        "at home, {hero} ed tell {family} {manner} about {praise} friend {friend}.",
        "from that day, {hero} and {friend} ed {pastime} {manner} every {daytime}.",
        "{hero} ed sleep {manner} under {look} {colour} blanket and dream about {friend}.",
        "after that, {friend} ed invite {hero} to eat {food} and {taste} {fruit} in {season}.",
    ),
}
"""The stories' plan. At every choice the first word tells the options apart, so a text has one derivation."""


@dataclass(frozen=True)
class Story:
    """A story as one line of text.

    `log_probability` is that of the whole text under the storyteller, its end included, in nats. `words` counts
    what stands between spaces; `tokens` counts words and punctuation marks each as one, and the end as one.
    """

    text: str
    log_probability: float
    words: int
    tokens: int


@lru_cache(maxsize=1)
def story_grammar() -> Grammar:
    """The compiled plan, made when first asked for."""
    return Grammar({**UNIVERSE, **PLAN}, "story")


class Storyteller:
    """Writes stories: story `i` of a seed is a pure function of the seed and `i`.

    Args:
        seed: from 0 to 2⁶⁴ − 1.
    """

    def __init__(self, seed: int = 0) -> None:
        if not 0 <= seed < 1 << 64:
            what = f"The storyteller's seed is {seed}; it must be from 0 to 2**64 - 1."
            raise InputError(what, remedy="Use a whole number such as 0.")
        self.seed = seed
        self._grammar = story_grammar()
        self._random = Random()

    def story(self, i: int) -> Story:
        """Story number `i` (from 0)."""
        if not 0 <= i < 1 << 64:
            raise InputError(f"There is no story number {i}.", remedy="Count stories from 0.")
        self._random.seed(self.seed << 64 | i)
        text, log_probability = self._grammar.draw(self._random)
        words = text.count(" ") + 1
        marks = text.count(".") + text.count(",") + text.count("?")
        return Story(text, log_probability, words, words + marks + 1)

    def stories(self, n: int, start: int = 0) -> Iterator[Story]:
        """Stories `start` to `start + n - 1`, one after the other."""
        return map(self.story, range(start, start + n))

    def write(self, path: str | os.PathLike[str], n: int, start: int = 0, *, force: bool = False) -> None:
        """Write `n` stories to a new file, one a line; with `force`, over one that exists. Raises InputError."""
        with Output(Path(path), force=force).writing() as file:
            file.writelines(story.text + "\n" for story in self.stories(n, start))

    def log_probability(self, text: str) -> float:
        """Logarithm (nats) of the probability that a story is exactly `text`; −inf if it never is."
        " Slow: a search."""
        return self._grammar.log_probability(text)

    def log_probabilities(self, text: str) -> list[tuple[str, float]]:
        """Each token of a story with the logarithm (nats) of its probability after those before it."""
        return self._grammar.log_probabilities(text)


def entropy_rate() -> float:
    """Nats per token of all the stories there could be, exactly; a story's end is a token of its own."""
    grammar = story_grammar()
    return grammar.entropy() / (grammar.tokens() + 1)
