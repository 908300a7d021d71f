"""The page in a real browser: what a reader does in it, what no text does to it, and where it cannot run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from octavo.explain.ablations import switched_off
from octavo.explain.explainer import Explanation, explained
from octavo.explain.page_model import as_packed
from octavo.tasks.records.symbols import SymbolTokenizer
from octavo.tokenizers import Tokenizer
from octavo.tokenizers.base import UnknownTextError, with_special
from octavo.tokenizers.byte import ByteTokenizer
from octavo.tokenizers.char import CharTokenizer
from octavo.tokenizers.config import BPE
from octavo.tokenizers.word import WordTokenizer
from unit.explain.conftest import READY
from unit.explain.subjects import TEXT, subject

pytestmark = pytest.mark.slow
AXE = Path(__file__).parents[3] / "web" / "node_modules" / "axe-core" / "axe.min.js"
HOSTILE = (
    "<script>alert(1)</script><img src=x onerror=alert(2)> שלום 🙂👩\u200d👧 \u202e\u0007\u0000 日本 \"a\" 'b' \\ "
    "--- 3.14 don't\n\n\tEnd…"
)

WORDS = ["script", "a", "alert", "<", ">", "don't", "3.14", "日本", "-"]
PICTURES = {
    "queries q": "q[",
    "keys k": "k[",
    "values v": "v[",
    "scores": "score[",
    "after mask": "weight[",
    "weighted sum": "out[",
}


@pytest.fixture(scope="module")
def one() -> Any:
    return subject(positions="rotary", kv_heads=2, text=TEXT * 4)


@pytest.fixture(scope="module")
def found(one: Any) -> Explanation:
    return explained(one, effort=1e9)


def shown(page: Any) -> list[str]:
    return page.locator(".ox-bars .ox-name").all_inner_texts()


def test_typing_shows_what_comes_next(open_page: Any, one: Any, found: Explanation) -> None:
    opened = open_page(found)
    page = opened.page
    page.fill("#ox-typed", "The dog")
    assert page.locator(".ox-token").all_inner_texts() == list("The␣dog")
    with torch.no_grad(), as_packed(one.model, "float16"):
        logits = one.model(torch.from_numpy(one.tokenizer.encode("The dog"))[None].long())[0, -1]
    best = [
        one.tokenizer.token_text(int(id)).replace(" ", "␣") for id in logits.argsort(descending=True)[:10]
    ]
    assert shown(page) == best
    page.locator(".ox-token").nth(2).click()
    assert "position 2" in page.locator(".ox-next").inner_text()
    assert len(opened.requests) == 1 and opened.requests[0].startswith("file:")  # the page itself
    assert opened.complaints == []


def test_writing_goes_on_with_the_text(open_page: Any, found: Explanation) -> None:
    page = open_page(found).page
    page.fill("#ox-typed", "The")
    page.get_by_role("button", name="Write 40 tokens").click()
    page.wait_for_selector("[data-speed]")
    page.wait_for_selector("#ox-typed:not([disabled])")
    text = page.input_value("#ox-typed")
    assert text.startswith("The") and len(text) == 43
    assert len(page.locator(".ox-token").all()) == 24  # the context
    page.get_by_role("button", name="First text").click()
    assert page.input_value("#ox-typed") == found.facts["text"]


def test_sampling_is_live(open_page: Any, found: Explanation) -> None:
    page = open_page(found).page
    page.get_by_label("temperature").fill("0")
    full = page.locator(".ox-bars .ox-full").evaluate_all("bars => bars.map(bar => bar.style.width)")
    assert full == ["100%"] + ["0%"] * 9
    page.get_by_label("temperature").fill("1")
    page.get_by_label("top-k").fill("3")
    full = page.locator(".ox-bars .ox-full").evaluate_all("bars => bars.map(bar => bar.style.width)")
    assert full[3:] == ["0%"] * 7 and full[2] != "0%"


@pytest.mark.parametrize("part", ["b0.h1", "b1.attention", "b0.feed_forward", "positions"])
def test_surgery_is_what_torch_makes_of_it(open_page: Any, one: Any, found: Explanation, part: str) -> None:
    page = open_page(found).page
    text = TEXT[:20]
    page.fill("#ox-typed", text)
    names = {"b0.h1": "Block 0, head 1", "b1.attention": "Block 1, attention", "positions": "positions"}
    label = names.get(part, "Block 0, feed-forward")
    page.locator("#ox-surgery").get_by_label(label, exact=True).uncheck()
    assert page.locator(".ox").get_attribute("data-off") == part
    with torch.no_grad(), as_packed(one.model, "float16"), switched_off(one.model, [part]):
        wanted = one.model(torch.from_numpy(one.tokenizer.encode(text))[None].long())[0].numpy()
    logits = page.evaluate("Array.from(octavo.engine.logits.subarray(0, 20 * octavo.facts.config.vocab))")
    assert np.abs(np.array(logits).reshape(20, -1) - wanted).max() < 1e-3
    assert label in page.locator(".ox-next .ox-warning").inner_text()
    page.get_by_role("button", name="Switch all on").click()
    assert page.locator(".ox").get_attribute("data-off") == ""


def number(text: str) -> float:
    return float(text.replace("−", "-"))


def test_one_number_is_the_sum_of_its_terms(open_page: Any, one: Any, found: Explanation) -> None:
    page = open_page(found).page
    page.fill("#ox-typed", TEXT[:10])
    for label, name in PICTURES.items():
        page.locator("#ox-head button.ox-picture", has=page.locator("canvas")).filter(
            has=page.locator(f'xpath=self::*[starts-with(@aria-label, "{label}")]')
        ).first.click(position={"x": 3, "y": 60})
        panel = page.locator(".ox-number")
        assert panel.locator("tr").count() >= 1
        assert panel.locator("code").first.inner_text().startswith(name)
        after = panel.locator(".ox-after").all_inner_texts()
        products = [number(cell) for cell in panel.locator("tr td:nth-child(3)").all_inner_texts()]
        if label in ("values v", "weighted sum"):
            assert sum(products) == pytest.approx(number(after[-1].removeprefix("= ")), abs=0.03)


@pytest.mark.parametrize(
    "tokenizer",
    [
        CharTokenizer("".join(sorted(set(HOSTILE))), documents=True, unknown=False),
        CharTokenizer(" <abc", documents=False, unknown=True),
        ByteTokenizer(documents=True, characters="ש日"),
        with_special(BPE(size=400).build(lambda: iter([TEXT + HOSTILE]), documents=True), ["<|user|>"]),
        WordTokenizer(WORDS, lowercase=True, lines="keep", unknown=True),
        SymbolTokenizer(300, documents=False),
        SymbolTokenizer(4, documents=True, names=("a", "b", "c", "<"), spaced=False),
    ],
    ids=["char", "char with unknown", "byte", "bpe", "word", "numbers", "alphabet"],
)
def test_every_tokenizer_makes_the_same_ids(open_page: Any, tokenizer: Tokenizer) -> None:
    texts = [HOSTILE, "Don't <script> 3.14 -- a  b\r\n\n c", "", "日本日 שלום"]
    if isinstance(tokenizer, SymbolTokenizer):
        texts = ["abca<" if tokenizer.names else "1 22 299\n7"]
    known = []
    for text in texts:
        try:
            known.append((text, tokenizer.encode(text).tolist()))
        except UnknownTextError:
            assert tokenizer.unknown is None
    first = next(text for text, ids in known if ids)
    page = open_page(explained(subject(tokenizer, text=first * 40), effort=0)).page
    for text, ids in known:
        assert page.evaluate("text => octavo.tokenizer.encode(text).ids", text) == ids
        assert page.evaluate("ids => octavo.tokenizer.decode(ids)", ids) == tokenizer.decode(ids)


def test_no_text_is_obeyed(open_page: Any) -> None:
    letters = CharTokenizer("".join(sorted(set(HOSTILE))), documents=False, unknown=False)
    opened = open_page(explained(subject(letters, text=HOSTILE * 12), effort=1e8))
    page = opened.page
    asked: list[str] = []
    page.on("dialog", lambda dialog: (asked.append(dialog.message), dialog.dismiss()))
    page.fill("#ox-typed", HOSTILE)
    page.fill("#ox-typed", HOSTILE + "\u2066ж")
    assert "“ж”" in page.locator(".ox-warning").first.inner_text()
    assert "U+2066" in page.locator(".ox-warning").first.inner_text()
    assert page.locator("#octavo-explain img, #octavo-explain script").count() == 0
    assert page.locator(".ox-token").count() == 24
    page.fill("#ox-typed", "")
    assert "nothing to read" in page.locator(".ox").inner_text()
    page.fill("#ox-typed", "a")
    assert page.locator(".ox-token").count() == 1
    assert asked == [] and opened.complaints == []


def test_the_paper_examples_are_those_of_the_reports(open_page: Any, found: Explanation) -> None:
    page = open_page(found).page
    for letter in "ce":
        page.locator(f"#ox-paper-{letter} summary").click()
    rows = {letter: page.locator(f"#ox-paper-{letter} table tr").all_inner_texts() for letter in "bce"}
    told = {letter: [" ".join(row.split()) for row in found] for letter, found in rows.items()}
    assert "0 0 0.5774 −∞" in told["b"] and "0.2645 0.2645 0.4711 0" in told["b"]
    assert "0.1866 0.2118 0.1440 0.0839 0.2004 0.0822 0.0910" in told["c"]
    assert "0.4714 0.5286 0 0 0 0 0" in told["c"] and "0.3804 0.4184 0.2011 0 0 0 0" in told["c"]
    assert "0.3675 0.6325 0" in told["e"] and "0.4328 0.2396 0.3275" in told["e"]


def test_the_tour_has_ten_stops_with_addresses(open_page: Any, found: Explanation) -> None:
    page = open_page(found, query="?stop=3").page
    assert "Stop 3 of 10" in page.locator(".ox-tour").inner_text()
    assert page.locator(".ox-here").get_attribute("id") == "ox-head"
    for _ in range(7):
        page.get_by_role("button", name="Next", exact=True).click()
    assert "Stop 10 of 10" in page.locator(".ox-tour").inner_text()
    assert page.evaluate("location.search") == "?stop=10"
    page.keyboard.press("Escape")
    assert page.locator(".ox-tour").count() == 0


def test_a_reload_stays_where_the_address_is(open_page: Any, found: Explanation) -> None:
    opened = open_page(found, query="?stop=3&lang=de")
    opened.page.reload()
    opened.page.wait_for_selector(READY)
    assert "Halt 3 von 10" in opened.page.locator(".ox-tour").inner_text()
    assert opened.page.input_value("#ox-typed") == found.facts["text"] and len(shown(opened.page)) == 10
    assert opened.complaints == []


def test_two_windows_do_not_know_each_other(open_page: Any, found: Explanation) -> None:
    first, second = open_page(found).page, open_page(found).page
    first.fill("#ox-typed", "The")
    assert second.input_value("#ox-typed") == found.facts["text"]


def test_print_leaves_out_what_is_pressed(open_page: Any, found: Explanation) -> None:
    page = open_page(found, query="?stop=1").page
    page.emulate_media(media="print")
    assert page.locator(".ox-tour").is_hidden() and page.locator(".ox-actions").first.is_hidden()
    assert page.locator(".ox-bars").first.is_visible()


def test_every_word_is_there_in_german(open_page: Any, found: Explanation) -> None:
    page = open_page(found, query="?stop=1&lang=de").page
    told = page.locator("#octavo-explain").inner_text()
    assert "Was als Nächstes kommt" in told and "Halt 1 von 10" in told
    for english in ("What comes next", "Switch", "Your text", "Nearest to", "without it"):
        assert english not in told
    assert not re.search(r"\{\w+\}", told)
    page.get_by_role("button", name="English").click()
    assert "What comes next" in page.locator("#octavo-explain").inner_text()
    assert not re.search(r"\{\w+\}", page.locator("#octavo-explain").inner_text())


def test_keys_move_through_a_picture(open_page: Any, found: Explanation) -> None:
    page = open_page(found).page
    picture = page.locator("#ox-scores button.ox-picture").nth(1)
    picture.focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    assert page.locator(".ox-number code").first.inner_text().endswith("t=2, s=1]")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 800, 1280])
def test_nothing_leaves_the_screen(open_page: Any, found: Explanation, width: int, scheme: str) -> None:
    page = open_page(found, viewport={"width": width, "height": 800}, color_scheme=scheme).page
    page.locator("#ox-paper summary").evaluate_all(
        "all => all.forEach((each) => (each.parentElement.open = true))"
    )
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(open_page: Any, found: Explanation, scheme: str) -> None:
    if not AXE.is_file():
        pytest.skip("axe-core is not installed: npm install in web/")
    page = open_page(found, query="?stop=2", color_scheme=scheme, bypass_csp=True).page
    page.locator("#ox-scores button.ox-picture").first.click(position={"x": 3, "y": 60})
    page.evaluate(AXE.read_text(encoding="utf-8"))
    violations = page.evaluate("async () => (await axe.run()).violations")
    serious = [
        (each["id"], [node["html"][:120] for node in each["nodes"]][:3])
        for each in violations
        if each["impact"] in ("serious", "critical")
    ]
    assert serious == [], serious


def test_without_javascript_it_says_so(open_page: Any, found: Explanation) -> None:
    page = open_page(found, java_script_enabled=False).page
    assert "needs JavaScript" in page.locator("#look-inside noscript").inner_text()


def test_without_webassembly_it_computes_all_the_same(open_page: Any, found: Explanation) -> None:
    opened = open_page(found, before="delete window.WebAssembly")
    assert opened.page.evaluate("octavo.engine.arena.native") is False
    assert "no WebAssembly" in opened.page.locator(".ox-top").inner_text()
    assert opened.complaints == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda page: page.replace('id="octavo-explain-weights">', 'id="octavo-explain-weights">AAAA'),
            "damaged",
        ),
        (
            lambda page: page.replace('"format": 1', '"format": 9').replace('"format":1', '"format":9'),
            "format 9",
        ),
    ],
)
def test_a_damaged_page_says_so(open_page: Any, found: Explanation, change: Any, said: str) -> None:
    page = found.page()
    assert change(page) != page
    alert = open_page(change(page)).page.get_by_role("alert").inner_text()
    assert said in alert and "Everything else stands" in alert


def test_an_old_browser_is_told(open_page: Any, found: Explanation) -> None:
    page = open_page(found, before="delete window.DecompressionStream").page
    assert "too old" in page.get_by_role("alert").inner_text()
