"""Who lives in the stories and what there is: a school with a playground, houses, a grocery store, a forest.

Each list is a rule of the storyteller's grammar, by the name that it has here. Every word stands in one list
only, so that a word says what it is.
"""

from __future__ import annotations


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


UNIVERSE: dict[str, tuple[str, ...]] = {
    # Heroes are young and have a wish; friends are grown and can help. They share no name, kind or trait.
    "hero_name": _words("pip mina tolo lulu nico bibi rosa timo kiki fifi momo lina sami yuki ravi zara"),
    "hero_kind": _words("bird cat mouse rabbit frog duck squirrel boy girl puppy lamb hedgehog"),
    "hero_trait": _words("small shy brave funny quiet quick young curious playful little cheerful dreamy"),
    "friend_name": _words(
        "bruno hugo ada otto greta ivan olga walter marta boris edna felix agnes oscar ruth alma"
    ),
    "friend_kind": _words("bear owl fox dog goat turtle horse cow badger teacher farmer baker"),
    "friend_trait": _words("kind old wise strong gentle tall clever patient friendly calm slow big"),
    "family": _words("mother father sister brother grandmother grandfather uncle aunt"),
    "critter": _words("butterfly bee snail beetle moth ladybug firefly spider"),
    # Where and when.
    "place": _words("school playground forest store garden river hill pond bridge field"),
    "spot": _words("tree bench bush rock table door bed gate chair fence box wall swing slide shelf log"),
    "over": _words("under behind near by"),
    "look": _words("tiny huge wooden dusty shiny crooked heavy pretty"),
    "manner": _words("slowly quickly quietly softly gently carefully calmly again"),
    "season": _words("spring summer autumn winter"),
    "weather": _words("sunny rainy windy cold warm cloudy snowy foggy"),
    "daytime": _words("morning day afternoon evening"),
    "speak": _words("say call whisper reply"),
    "number": _words("two three four five six seven"),
    # Things that are lost, wished for, bought, built with and given.
    "colour": _words("red blue green yellow white brown black pink"),
    "toy": _words("ball kite drum hat doll key book bag cup bell coat pencil shoe scarf lamp boat"),
    "fruit": _words("apple pear plum cherry nut berry peach fig"),
    "taste": _words("sweet ripe round fresh golden juicy"),
    "food": _words("bread milk cheese honey butter rice egg corn soup cake jam tea"),
    "stuff": _words("wood stone mud sand grass straw clay rope"),
    "building": _words("house tower nest raft wagon hut castle den"),
    "storm": _words("wind rain snow thunder wave storm"),
    "gift": _words("flower picture basket necklace blanket pie crown candle"),
    # What they do and how they feel.
    "skill": _words("swim sing dance read paint climb write skate cook count whistle juggle"),
    "pastime": _words("play draw rest laugh dig fish"),
    "move": _words("walk run hop march skip hurry wander crawl"),
    "sad": _words("sad worried afraid upset lonely nervous"),
    "glad": _words("happy proud merry glad thankful excited"),
    "praise": _words("good dear fine great lovely nice"),
}

VERBS = frozenset(
    UNIVERSE["skill"]
    + UNIVERSE["pastime"]
    + UNIVERSE["move"]
    + UNIVERSE["speak"]
    + _words(
        """
        be have live like want need dream lose look see find feel sit stand wait work cry sigh meet come ask
        answer know try fall jump reach push shake pull lift carry drop eat share taste learn practice watch
        follow get go give take bring buy wash help hug thank sleep make build break hold tell hide fly open
        close teach invite
        """
    )
)
"""Every word that can stand after a tense word or carry a sentence."""
