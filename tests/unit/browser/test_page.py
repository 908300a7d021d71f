"""The page in a real browser: from a dropped text to a model that one plays with, and what may happen on the way."""

from __future__ import annotations

import json
import re
import resource
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from octavo.browser import dropped
from octavo.browser.commands import JobCard, Jobs
from octavo.run.folder import RunFolder
from octavo.tokenizers.base import with_special
from octavo.tokenizers.chat import CHAT_TOKENS
from unit.browser.conftest import READY, TOKEN, Shown, Window, opened, until, write_run
from unit.serving.conftest import KNESER_NEY, saved, tokenizer_of

pytestmark = pytest.mark.slow
AXE = Path(__file__).parents[3] / "web" / "node_modules" / "axe-core" / "axe.min.js"
STRINGS = Path(__file__).parents[3] / "web" / "src" / "strings.ts"
PATIENCE = 300_000
"""Milliseconds that a training may take on a busy machine."""
TEXT = "The small bird sees a big tree, and the big tree sees the small bird. It sings. " * 300
QUICK = (
    *("model.layers=1", "model.width=16", "model.heads=2", "model.context=32", "training.batch=4"),
    *("sampling.every=10", "sampling.tokens=40", "report.explainer=false", "evaluation.every=10"),
)
"""What makes a training short; all else is as the page wished."""

Start = Callable[..., JobCard]
Show = Callable[..., Shown]


@pytest.fixture
def quickly(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Trainings that the page starts are small ones, with settings on top."""
    begin = Jobs.start

    def make(
        *settings: str, before: Callable[[], Any] = lambda: None, after: Callable[[], Any] = lambda: None
    ) -> None:
        def start(self: Jobs, kind: str, words: Sequence[str], about: Path) -> JobCard:
            if kind == "train":
                text, out = words[words.index("--text") + 1], words[words.index("--out") + 1]
                words = ["train", "quick", "--text", text, "--out", out, *QUICK, *settings]
            before()
            try:
                return begin(self, kind, words, about)
            finally:
                after()

        monkeypatch.setattr(Jobs, "start", start)

    return make


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Window]:
    """Models of every kind."""
    folder = tmp_path_factory.mktemp("played")
    saved(folder / "runs" / "char", tokenizer_of("char"))
    saved(folder / "runs" / "other", tokenizer_of("char"), seed=8)
    saved(folder / "runs" / "counts", tokenizer_of("char"), counts=KNESER_NEY)
    saved(folder / "runs" / "chat", with_special(tokenizer_of("char"), CHAT_TOKENS))
    with opened(folder) as window:
        yield window


@pytest.fixture
def book(tmp_path: Path) -> Path:
    path = tmp_path / "Book.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


@pytest.fixture
def work(tmp_path: Path, book: Path) -> Path:
    """A folder that holds one text, `book`."""
    folder = tmp_path / "work"
    (folder / "texts" / "book").mkdir(parents=True)
    shutil.copy(book, folder / "texts" / "book")
    return folder


def drop(page: Any, *files: Path) -> None:
    page.set_input_files("#oo-files", [str(file) for file in files])


def let_fall(page: Any, *paths: Path) -> None:
    """Drop files or folders onto the page, as a person does."""
    session = page.context.new_cdp_session(page)
    data = {"items": [], "files": [str(path) for path in paths], "dragOperationsMask": 1}
    for kind in ("dragEnter", "dragOver", "drop"):
        session.send("Input.dispatchDragEvent", {"type": kind, "x": 300, "y": 300, "data": data})


def tab_to(page: Any, what: Any) -> None:
    """Go on by the keyboard until something has the focus."""
    what.wait_for()
    for _ in range(150):
        page.keyboard.press("Tab")
        if what.evaluate("element => element === document.activeElement"):
            return
    raise AssertionError(f"no key leads to {what}")


def text_of(page: Any, pane: int = 0) -> str:
    page.wait_for_selector(f".oo-pane >> nth={pane}")
    until(page, f"document.querySelectorAll('.oo-pane')[{pane}].dataset.state === 'done'")
    return page.locator(".oo-tokens").nth(pane).inner_text()


def test_from_a_text_to_a_model_that_one_plays_with_by_the_keyboard_alone(
    tmp_path: Path, book: Path, show: Show, quickly: Callable[..., None]
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    quickly("training.steps=60")
    with opened(folder) as window:
        shown = show(window)
        page = shown.page

        def button(name: str, role: str = "button") -> Any:
            return page.get_by_role(role, name=name, exact=True)

        asked: list[Any] = []
        page.on("filechooser", lambda chooser: asked.append(chooser))  # a builtin cannot be listened with
        tab_to(page, button("Choose files"))
        page.keyboard.press("Enter")
        while not asked:
            page.wait_for_timeout(50)
        asked[0].set_files(str(book))
        page.wait_for_selector("#oo-read dl", timeout=PATIENCE)
        read = page.locator("#oo-read").inner_text()
        assert "small bird" in read and "24 kB" in read
        tab_to(page, page.get_by_label("Minutes", exact=True))
        for _ in range(3):  # from five minutes to one
            page.keyboard.press("ArrowLeft")
        page.wait_for_selector("#oo-minutes .oo-headline, #oo-minutes .oo-warning", timeout=PATIENCE)
        assert page.locator(".oo-promise b").inner_text() == "60 s"
        tab_to(page, page.get_by_label("Name of the run"))
        page.keyboard.press("Control+A")
        page.keyboard.type("My bird")
        shown_command = page.locator("#oo-minutes .oo-command code").inner_text()
        tab_to(page, button("Begin"))
        page.keyboard.press("Enter")
        page.wait_for_selector(".oo-job[data-job]")
        page.reload()  # in the middle
        page.wait_for_selector(READY)
        page.wait_for_selector("[data-run='runs/My-bird']", timeout=PATIENCE)
        page.wait_for_selector(".oo-job.oo-is-done", timeout=PATIENCE)
        assert "runs/My-bird" in shown_command and shown_command.startswith("octavo train --text ")
        assert "finished" in page.locator("[data-run='runs/My-bird']").inner_text()
        page.wait_for_selector(".oo-samples input[type=range]")
        tab_to(page, page.locator(".oo-job").get_by_role("link", name="Play with it"))
        page.keyboard.press("Enter")
        page.wait_for_selector("#oo-typed", timeout=PATIENCE)
        tab_to(page, page.locator("#oo-typed"))
        page.keyboard.press("Control+A")
        page.keyboard.type("The small")
        page.wait_for_selector(".oo-bars li", timeout=PATIENCE)
        tab_to(page, button("Write"))
        page.keyboard.press("Enter")
        assert text_of(page).startswith("The small") and len(text_of(page)) > 30
        tab_to(page, page.locator(".oo-tokens"))
        page.keyboard.press("ArrowRight")
        page.wait_for_selector(".oo-picked")
        assert shown.complaints == [] and shown.elsewhere == []


def test_a_folder_is_dropped(tmp_path: Path, book: Path, show: Show) -> None:
    folder, novels = tmp_path / "work", tmp_path / "Novels"
    folder.mkdir()
    (novels / "old" / "deep").mkdir(parents=True)
    for name in ("one.txt", "old/two.txt", "old/deep/three.txt", ".hidden", "empty.txt"):
        shutil.copy(book, novels / name)
    (novels / "empty.txt").write_text("")
    with opened(folder) as window:
        shown = show(window)
        let_fall(shown.page, novels)
        until(shown.page, "location.hash.includes('text=Novels')")
        let_fall(shown.page, book)
        until(shown.page, "location.hash.includes('text=Book')")
        assert shown.complaints == []
    texts = [path for path in (folder / "texts").rglob("*") if path.is_file()]
    wanted = ["Book/Book.txt", "Novels/old/deep/three.txt", "Novels/old/two.txt", "Novels/one.txt"]
    assert sorted(path.relative_to(folder / "texts").as_posix() for path in texts) == wanted
    assert all(path.read_text(encoding="utf-8") == TEXT for path in texts)


def test_a_tree_of_texts_comes_back_with_its_address(played: Window, show: Show) -> None:
    shown = show(played, "play?run=runs/counts&n=50")
    page = shown.page
    page.wait_for_selector("#oo-typed", timeout=PATIENCE)
    page.fill("#oo-typed", "the small")
    page.get_by_role("button", name="Write", exact=True).click()
    first = text_of(page)
    page.locator(".oo-tokens").focus()
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    assert page.locator(".oo-picked").count() == 1
    page.wait_for_selector(".oo-who")
    assert (
        "network" in page.locator(".oo-who").inner_text()
        and "counting" in page.locator(".oo-who").inner_text()
    )
    page.wait_for_selector(".oo-bars button")
    other = page.locator(".oo-bars li:not(.oo-was) button").first
    taken = other.locator(".oo-token-name").inner_text()
    other.click()
    until(page, "document.querySelectorAll('.oo-tree li').length === 2")
    second = text_of(page)
    assert second != first and second[:9] == first[:9] and taken
    page.get_by_role("button", name="Write on").click()
    until(page, "document.querySelectorAll('.oo-tree li').length === 3")
    third = text_of(page)
    assert third.startswith(second) and third != second
    page.locator(".oo-tree button").first.click()
    assert text_of(page) == first
    page.locator(".oo-tree button").nth(2).click()
    page.reload()
    page.wait_for_selector(READY)
    until(page, "document.querySelectorAll('.oo-tree li').length === 3")
    assert text_of(page) == third
    assert page.input_value("#oo-typed") == "the small"
    page.locator("label", has_text="Colour").locator("select").select_option("who")
    assert page.locator(".oo-t.oo-by").count() > 5
    assert shown.complaints == []


def test_controls_redraw_what_is_drawn_from(played: Window, show: Show) -> None:
    page = show(played, "play?run=runs/char").page
    page.wait_for_selector("#oo-typed", timeout=PATIENCE)
    page.fill("#oo-typed", "the s")
    page.wait_for_selector(".oo-bars li", timeout=PATIENCE)
    full = "bars => bars.map((bar) => bar.style.width)"
    before = page.locator(".oo-full").evaluate_all(full)
    page.get_by_label("temperature").fill("0")
    assert page.locator(".oo-full").evaluate_all(full) == ["100%"] + ["0%"] * 11 != before
    page.get_by_label("temperature").fill("1")
    page.get_by_label("top-k").fill("3")
    after = page.locator(".oo-full").evaluate_all(full)
    until(page, "location.hash.includes('b=the')")
    assert after[3:] == ["0%"] * 9 and after[2] != "0%"
    page.reload()
    page.wait_for_selector(".oo-bars li", timeout=PATIENCE)
    assert page.locator(".oo-full").evaluate_all(full) == after, "it stands in the address"


def test_two_models_on_one_prompt_and_a_choice(played: Window, show: Show) -> None:
    shown = show(played, "play?run=runs/char&other=runs/other&n=50", viewport={"width": 1500, "height": 900})
    page = shown.page
    until(page, "document.querySelectorAll('.oo-pane h2').length === 2")
    page.fill("#oo-typed", "the small")
    page.get_by_role("button", name="Write", exact=True).click()
    left, right = text_of(page, 0), text_of(page, 1)
    assert left != right and left.startswith("the small") and right.startswith("the small")
    page.locator("#oo-choice button").nth(1).click()
    page.wait_for_selector("#oo-judged[data-pairs='1']")
    (row,) = map(json.loads, (played.folder / "preferences" / "runs-char.jsonl").read_text().splitlines())
    assert row["prompt"] == "the small" and "the small" + row["chosen"] == right.replace("∅", "").replace(
        "↵", ""
    )
    command = page.locator("#oo-judged code").inner_text()
    assert command.startswith("octavo tune dpo ") and command.endswith("runs-char.jsonl")
    assert shown.complaints == []


def test_a_talk_with_other_answers_and_thumbs(played: Window, show: Show) -> None:
    shown = show(played, "play?run=runs/chat&mode=chat")
    page = shown.page
    page.wait_for_selector(".oo-say input", timeout=PATIENCE)
    page.fill(".oo-say input", "see a bird")
    page.keyboard.press("Enter")
    page.wait_for_selector(".oo-it[data-state=done]", timeout=PATIENCE)
    page.get_by_role("button", name="Another answer").click()
    until(page, "document.querySelector('.oo-it').innerText.includes('answer 2 of 2')")
    page.wait_for_selector(".oo-it[data-state=done]", timeout=PATIENCE)
    second = page.locator(".oo-it p").first.inner_text()
    page.get_by_role("button", name="Good", exact=True).click()
    page.wait_for_selector("#oo-judged")
    page.get_by_role("button", name="This one is best").click()
    page.reload()
    page.wait_for_selector(".oo-it[data-state=done]", timeout=PATIENCE)
    until(page, "document.querySelector('.oo-it').innerText.includes('answer 2 of 2')")
    page.wait_for_selector(".oo-it[data-state=done]", timeout=PATIENCE)
    assert page.locator(".oo-it p").first.inner_text() == second
    assert shown.complaints == []


def test_two_windows_see_the_same(work: Path, show: Show, quickly: Callable[..., None]) -> None:
    quickly("training.steps=100000", "training.passes=null")
    with opened(work) as window:
        first, second = show(window, "watch").page, show(window, "start").page
        job = json.loads(
            first.evaluate(
                """async (token) => await (await fetch('/api/start', { method: 'POST',
                headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
                body: JSON.stringify({ kind: 'train', text: 'book', minutes: 5, name: 'long' }) })).text()""",
                TOKEN,
            )
        )
        for page in (first, second):
            page.wait_for_selector(f".oo-job.oo-is-running[data-job='{job['id']}']", timeout=PATIENCE)
        first.wait_for_selector("[data-run='runs/long'][data-state=training]", timeout=PATIENCE)
        until(first, "octavo.things.get('run:runs/long').checkpoints.length > 0")
        second.locator(".oo-job").get_by_role("button", name="Stop").click()
        for page in (first, second):
            page.wait_for_selector(f".oo-job.oo-is-done[data-job='{job['id']}']", timeout=PATIENCE)
        first.wait_for_selector("[data-run='runs/long'][data-state=stopped]", timeout=PATIENCE)
        assert first.locator("#oo-about").get_by_role("button", name="Go on").is_visible()


def test_what_was_started_outlives_the_server_and_windows_find_it_again(
    work: Path, show: Show, quickly: Callable[..., None]
) -> None:
    quickly("training.steps=100000", "training.passes=null")
    with opened(work) as window:
        page = show(window, "start?text=book").page
        with window.client() as client:
            job = client.post(
                "/api/start", json={"kind": "train", "text": "book", "minutes": 5, "name": "long"}
            ).json()
        page.wait_for_selector(".oo-job.oo-is-running")
        page.goto(f"{window.address}#watch")
        until(page, "octavo.things.get('run:runs/long')?.metrics")
    page.wait_for_selector(".oo-banner", timeout=20_000)
    assert "The server is not there" in page.locator(".oo-banner").inner_text()
    size = (work / "runs" / "long" / "metrics.jsonl").stat().st_size
    threading.Event().wait(3)
    assert (work / "runs" / "long" / "metrics.jsonl").stat().st_size > size, "it goes on"
    with opened(work, window.port) as again:
        page.wait_for_selector(".oo[data-connection=here]", timeout=30_000)
        page.wait_for_selector(f".oo-job.oo-is-running[data-job='{job['id']}']", timeout=30_000)
        page.locator(".oo-job").get_by_role("button", name="Stop").click()
        page.wait_for_selector(".oo-job.oo-is-done", timeout=PATIENCE)
        assert again.origin == window.origin


def test_a_training_that_diverges_says_so(work: Path, show: Show, quickly: Callable[..., None]) -> None:
    quickly("training.steps=50", "training.optimizer={kind: sgd, learning_rate: 1.0e+30}")
    with opened(work) as window:
        page = show(window, "watch").page
        with window.client() as client:
            client.post("/api/start", json={"kind": "train", "text": "book", "minutes": 5})
        page.wait_for_selector(".oo-job.oo-is-wrong .oo-warning", timeout=PATIENCE)
        assert "diverged" in page.locator(".oo-job .oo-warning").inner_text()


def test_a_full_disk_is_said_of_a_training_and_of_a_text(
    book: Path, work: Path, show: Show, quickly: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)

    def bound() -> None:  # children may write no more than this into a file: to them the disk is full
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, usual[1]))

    quickly(
        "training.steps=20",
        "model.width=96",
        before=bound,
        after=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, usual),
    )
    with opened(work) as window:
        page = show(window, "start").page
        with window.client() as client:
            client.post("/api/start", json={"kind": "train", "text": "book", "minutes": 5})
        page.wait_for_selector(".oo-job.oo-is-wrong .oo-warning", timeout=PATIENCE)
        assert "disk is full" in page.locator(".oo-job .oo-warning").inner_text()
        monkeypatch.setattr(dropped, "KEPT_FREE", 2**60)
        drop(page, book)
        page.wait_for_selector("#oo-drop .oo-warning")
        assert "disk is full" in page.locator("#oo-drop .oo-warning").inner_text()
        page.get_by_role("button", name="Deutsch").click()
        assert "Platte ist voll" in page.locator("#oo-drop .oo-warning").inner_text()


def test_bad_input_is_said_in_words(tmp_path: Path, book: Path, show: Show) -> None:
    folder = tmp_path / "work"
    write_run(folder / "runs" / "gone")
    write_run(folder / "runs" / "stays")
    picture, empty = tmp_path / "picture.txt", tmp_path / "empty.txt"
    picture.write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\xff\xfe" * 90)
    empty.write_bytes(b"")
    with opened(folder) as window:
        shown = show(window)
        page = shown.page
        drop(page, empty)
        assert "empty.txt is empty" in page.locator("#oo-drop .oo-warning").inner_text()
        large = "Object.defineProperty(File.prototype, 'size', { get: () => 2 * 2 ** 30 })"
        page.evaluate(large)
        drop(page, book)
        said = page.locator("#oo-drop [role=alert]").inner_text()
        assert "Book.txt has 2.1 GB" in said and "octavo train --text Book.txt --minutes 5" in said
        page.reload()
        page.wait_for_selector(READY)
        drop(page, picture)
        page.wait_for_selector("#oo-read .oo-warning", timeout=PATIENCE)
        assert "PNG picture" in page.locator("#oo-read .oo-warning").inner_text()
        page.goto(f"{window.address}#watch?run=runs/gone&run=runs/stays")
        page.reload()
        page.wait_for_selector("[data-run='runs/gone']")
        shutil.rmtree(folder / "runs" / "gone")
        page.wait_for_selector(".oo-banner")
        assert "not there any more: gone" in page.locator(".oo-banner").inner_text()
        with RunFolder(folder / "runs" / "stays").lock():
            page.wait_for_selector("[data-run='runs/stays'][data-state=training]")
            assert "Another process writes this run" in page.locator("#oo-about").inner_text()
        page.goto(f"{window.address}#play?run=runs/none")
        page.wait_for_selector("[role=alert]")
        assert "not there any more" in page.locator("[role=alert]").inner_text()
        assert shown.complaints == []


def test_a_folder_without_runs_shows_the_way(tmp_path: Path, show: Show) -> None:
    with opened(tmp_path) as window:
        page = show(window, "watch").page
        for view in ("watch", "play", "inside", "away"):
            page.goto(f"{window.address}#{view}")
            page.get_by_role("link", name="Start one").click()
            page.wait_for_selector("#oo-drop")


def test_an_old_address_is_told(tmp_path: Path, show: Show) -> None:
    with opened(tmp_path) as window:
        page = show(window).page
        page.route("**/api/events", lambda route: route.fulfill(status=401, body="{}"))
        page.reload()
        page.wait_for_selector(".oo-banner")
        until(page, "document.querySelector('.oo-banner').innerText.includes('old one')")


def test_a_page_from_elsewhere_starts_and_stops_nothing(tmp_path: Path, browser: Any) -> None:
    """With the very token in its hands, for whatever reason it may have it."""
    folder, elsewhere = tmp_path / "work", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.mkdir()
    with opened(folder) as window:
        attack = """<form id=f method=post action="ORIGIN/api/start" enctype="text/plain" target=i>
        <input name='{"kind":"demo","x":"' value='"}'></form>
        <iframe name=i></iframe><img src="ORIGIN/api/start?token=TOKEN"><script>
        f.submit();
        const said = [], wish = { method: "POST", body: '{"kind":"demo"}' };
        const all = [{}, { authorization: "Bearer TOKEN" }, { "content-type": "text/plain" }];
        for (const mode of ["cors", "no-cors"]) for (const headers of all) {
          const asked = fetch("ORIGIN/api/start?token=TOKEN", { ...wish, mode, headers });
          said.push(asked.then((r) => r.type + r.status, () => "refused"));
        }
        said.push(fetch("ORIGIN/api/events?token=TOKEN").then((r) => r.text(), () => "refused"));
        window.done = Promise.all(said);
        </script>""".replace("ORIGIN", window.origin).replace("TOKEN", TOKEN)
        (elsewhere / "index.html").write_text(attack)
        handler = partial(SimpleHTTPRequestHandler, directory=str(elsewhere))
        with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            page = browser.new_page()
            page.goto(f"http://127.0.0.1:{server.server_port}/")
            said = page.evaluate("window.done")
            page.close()
            server.shutdown()
        assert set(said) <= {"refused", "opaque0"}
    assert not (folder / ".octavo").exists() and list(folder.iterdir()) == []


VIEWS = [
    "start",
    "watch?what=loss",
    "play?run=runs/counts&other=runs/char&p=the+small&w=_0__5_40_1___&v=_0__5_40_1___&token=12",
    "play?run=runs/chat&mode=chat",
    "inside",
    "away?lesson=14",
]


def ready(page: Any, view: str) -> None:
    page.wait_for_selector(READY)
    if "w=" in view:
        text_of(page, 1)
        page.wait_for_selector(".oo-bars li", timeout=PATIENCE)
    elif "chat" in view:
        page.wait_for_selector(".oo-say", timeout=PATIENCE)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("view", VIEWS)
def test_axe_finds_nothing_serious(played: Window, show: Show, view: str, scheme: str) -> None:
    if not AXE.is_file():
        pytest.skip("axe-core is not installed: npm install in web/")
    page = show(played, view, color_scheme=scheme, bypass_csp=True).page
    ready(page, view)
    page.evaluate(AXE.read_text(encoding="utf-8"))
    violations = page.evaluate("async () => (await axe.run()).violations")
    serious = [
        (each["id"], [node["html"][:160] for node in each["nodes"]][:3])
        for each in violations
        if each["impact"] in ("serious", "critical")
    ]
    assert serious == [], serious


@pytest.mark.parametrize("width", [360, 800, 1280, 2200])
def test_nothing_leaves_the_screen(played: Window, show: Show, width: int) -> None:
    page = show(played, "start", viewport={"width": width, "height": 800}).page
    for view in VIEWS:
        page.goto(f"{played.address}#{view}")
        page.reload()
        ready(page, view)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, view
        widths = page.locator("main section").evaluate_all("parts => parts.map((part) => part.offsetWidth)")
        assert min(widths, default=width) >= 240, "nothing is squeezed, either"


def test_the_whole_page_is_there_by_keyboard(played: Window, show: Show) -> None:
    page = show(played, "play?run=runs/char&n=50").page
    page.wait_for_selector("#oo-typed", timeout=PATIENCE)
    reached: set[str] = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        here = "(document.activeElement.id || document.activeElement.innerText || '').slice(0, 20)"
        reached.add(page.evaluate(here))
    told = " | ".join(reached)
    for wanted in ("To the content", "Watch", "oo-typed", "Write", "Lessons"):
        assert wanted in told, told
    page.focus("#oo-typed")
    page.keyboard.type("the")
    page.keyboard.press("Control+Enter")
    assert text_of(page).startswith("the")


def test_lessons_point_at_the_parts_of_the_page(played: Window, show: Show) -> None:
    shown = show(played, "start?lesson=1")
    page = shown.page
    assert page.locator(".oo-pointed").get_attribute("id") == "oo-drop"
    seen = []
    for number in range(1, 15):
        until(page, f"document.querySelector('.oo-lessons').innerText.includes('Lesson {number} of 14')")
        seen.append(page.locator(".oo-lessons h2").inner_text())
        if number < 14:
            page.locator(".oo-lessons").get_by_role("button", name="Next").click()
    assert len(set(seen)) == 14 and page.evaluate("location.hash").startswith("#away")
    page.reload()
    page.wait_for_selector(".oo-lessons")
    page.locator(".oo-lessons").focus()
    page.locator(".oo-lessons").get_by_role("button", name="Close").click()
    assert page.locator(".oo-lessons").count() == 0 and shown.complaints == []


def strings(name: str) -> list[str]:
    """The sentences of a language, as they stand in the file."""
    source = STRINGS.read_text(encoding="utf-8")
    part = source.partition(f"export const {name}")[2].partition("\n};")[0]
    return re.findall(r'"((?:[^"\\]|\\.)*)"', part)


def test_every_word_is_there_in_german(played: Window, show: Show) -> None:
    english = {
        each for each in strings("openEn") if len(each) > 14 and " " in each and "{" not in each
    } - set(strings("openDe"))
    assert len(english) > 100
    page = show(played, "start", locale="de-DE").page
    for view in VIEWS:
        page.goto(f"{played.address}#{view}")
        page.reload()
        ready(page, view)
        told = page.locator(".oo").inner_text()
        assert not re.search(r"\{\w+\}", told) and not [each for each in english if each in told], view
    page.get_by_role("button", name="English").click()
    until(page, "document.documentElement.lang === 'en'")
    page.reload()
    page.wait_for_selector(READY)
    until(page, "document.documentElement.lang === 'en'")


def test_a_hostile_text_is_a_text(tmp_path: Path, show: Show) -> None:
    hostile = "<script>alert(1)</script><img src=x onerror=alert(2)>\u202e\x07"
    run = write_run(tmp_path / "runs" / "<img src=x onerror=alert(3)>")
    (run / "config.yaml").write_text(f"description: {json.dumps(hostile)}\n", encoding="utf-8")
    (run / "samples").mkdir()
    (run / "samples" / "step-000020.txt").write_text(hostile)
    (run / "evaluation.json").write_text(json.dumps({"verdict": [hostile], "next": {"command": hostile}}))
    (run / "report").mkdir()
    (run / "report" / "index.html").write_text(
        "<script>parent.location = 'about:blank'; fetch('/api/events')</script>"
    )
    with opened(tmp_path) as window:
        shown = show(window, "watch")
        asked: list[str] = []
        shown.page.on("dialog", lambda dialog: (asked.append(dialog.message), dialog.dismiss()))
        shown.page.wait_for_selector(".oo-text")
        assert "<script>" in shown.page.locator(".oo-text").inner_text()
        assert shown.page.locator(".oo img, .oo script").count() == 0
        assert asked == [] and shown.complaints == [] and shown.elsewhere == []
