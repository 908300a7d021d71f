"""Nobody but the page changes anything, and nobody without the token sees anything."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from octavo.browser.guard import TICKET_SECONDS, Tickets
from unit.browser.conftest import TOKEN, Window, opened, write_run


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Window]:
    folder = tmp_path_factory.mktemp("work")
    write_run(folder / "runs" / "one")
    with opened(folder) as window:
        yield window


@pytest.fixture(scope="module")
def paths(window: Window) -> list[tuple[str, str]]:
    """Every path that there is, with its method."""
    routes = window.app.app.router.routes
    return [
        (route.path.replace("{name:path}", "one"), method) for route in routes for method in route.methods
    ]


def test_no_path_answers_without_the_token(window: Window, paths: list[tuple[str, str]]) -> None:
    assert len(paths) > 15
    with httpx2.Client(base_url=window.origin, trust_env=False) as client:
        for path, method in paths:
            for headers in (
                {},
                {"authorization": "Bearer wrong"},
                {"authorization": f"Basic {TOKEN}"},
                {"authorization": f"Bearer {TOKEN}x"},
                {"cookie": f"token={TOKEN}"},
            ):
                answer = client.request(method, path, headers={**headers, "origin": window.origin})
                assert answer.status_code == 401 and TOKEN not in answer.text, (method, path)
            answer = client.request(method, f"{path}?token=wrong", headers={"origin": window.origin})
            assert answer.status_code == 401


def test_no_path_answers_a_page_from_elsewhere(window: Window, paths: list[tuple[str, str]]) -> None:
    with window.client() as client:
        for path, method in paths:
            for origin in (
                "http://evil.example",
                "null",
                "",
                f"http://localhost:{window.port}",
                "http://127.0.0.1",
            ):
                answer = client.request(method, path, headers={"origin": origin})
                assert answer.status_code == 403, (method, path, origin)
                assert not [name for name in answer.headers if name.startswith("access-control")]


def test_nothing_that_may_change_something_goes_without_an_origin(
    window: Window, paths: list[tuple[str, str]]
) -> None:
    told = {"authorization": f"Bearer {TOKEN}"}
    with httpx2.Client(base_url=window.origin, headers=told, trust_env=False) as client:
        changing = [(path, method) for path, method in paths if method not in ("GET", "HEAD")]
        assert len(changing) > 5
        for path, method in changing:
            assert client.request(method, path).status_code == 403
        assert client.get("/health").status_code == 200


def test_the_token_in_the_address_opens_the_page_and_starts_nothing(window: Window) -> None:
    with httpx2.Client(base_url=window.origin, trust_env=False) as client:
        page = client.get(f"/?token={TOKEN}")
        assert page.status_code == 200 and "default-src 'none'" in page.headers["content-security-policy"]
        assert page.headers["referrer-policy"] == "no-referrer"
        posted = client.post(
            f"/tokenize?token={TOKEN}", json={"content": "a"}, headers={"origin": window.origin}
        )
        assert posted.status_code == 401
        assert client.get("/?" + "a=1&" * 3000).status_code == 414


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "192.168.0.7", ""])
def test_only_the_names_of_this_machine_are_answered(window: Window, host: str) -> None:
    with window.client(host=host) as client:
        for path in (f"/?token={TOKEN}", "/health", "/nothing"):
            assert client.get(path).status_code == 403


def test_a_ticket_opens_the_page_once(window: Window) -> None:
    with window.client() as client:
        ticket = client.get("/api/ticket").json()["ticket"]
    with httpx2.Client(base_url=window.origin, trust_env=False) as client:
        assert client.get(f"/?ticket={ticket}x").status_code == 401
        assert client.get(f"/?ticket={ticket}", headers={"host": "evil.example"}).status_code == 403
        first = client.get(f"/?ticket={ticket}")
        assert first.status_code == 303 and first.headers["location"] == f"/?token={TOKEN}"
        assert client.get(f"/?ticket={ticket}").status_code == 401


def test_a_page_in_a_frame_is_told_no_token_and_reaches_nothing(window: Window) -> None:
    report = window.folder / "runs" / "one" / "report"
    report.mkdir(exist_ok=True)
    (report / "index.html").write_text("<script>1</script>")
    asked = {"run": "runs/one", "which": "report"}
    with window.client() as client:
        ticket = client.get("/api/ticket").json()["ticket"]
    with httpx2.Client(base_url=window.origin, trust_env=False) as client:
        assert client.get("/api/metrics", params={**asked, "ticket": ticket}).status_code == 401
        page = client.get("/api/page", params={**asked, "ticket": ticket})
        policy = page.headers["content-security-policy"]
        assert page.text == "<script>1</script>" and policy.startswith("sandbox allow-scripts;")
        assert "default-src 'none'" in policy and "allow-same-origin" not in policy
        assert client.get("/api/page", params={**asked, "ticket": ticket}).status_code == 401


def test_a_ticket_grows_old(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("octavo.browser.guard.time.monotonic", lambda: now[0])
    tickets = Tickets()
    old = tickets.new()
    now[0] += TICKET_SECONDS + 1
    assert not tickets.use(old) and not tickets.use("")
    assert tickets.use(tickets.new())


def test_names_of_runs_lead_nowhere_else(window: Window, tmp_path: Path) -> None:
    (window.folder / "secret.txt").write_text("secret")
    with window.client() as client:
        for run in (
            "../secret.txt",
            "runs/../..",
            "/etc",
            "runs/one/../../secret.txt",
            "runs/none",
            "\0",
            "a" * 3000,
        ):
            for path in ("/api/metrics", "/api/log", "/api/sample", "/api/page"):
                answer = client.get(path, params={"run": run, "step": "1", "which": "report"})
                assert answer.status_code in (404, 414) and "secret" not in answer.text
        for step in ("-1", "1.5", "../1", "9" * 20, ""):
            assert client.get("/api/sample", params={"run": "runs/one", "step": step}).status_code == 400
