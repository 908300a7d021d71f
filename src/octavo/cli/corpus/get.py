"""octavo corpus get: a well-known text by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from octavo.cli.common import Json, print_json, print_table, show, show_text

if TYPE_CHECKING:
    from octavo.corpus.fetch.downloads import Fetched


def get_command(
    name: Annotated[str | None, Parameter(help="Which text; without one, all are listed.")] = None,
    *,
    allow_private: Annotated[
        bool, Parameter(help="Allow mirrors in a private network.", negative="")
    ] = False,
    accept_change: Annotated[
        bool,
        Parameter(help="Fetch again, and accept another edition than the one fetched before.", negative=""),
    ] = False,
    json: Json = False,
) -> int:
    """Fetch a well-known text into the user's cache, verified; or list what there is.

    A text whose SHA-256 is pinned must match it. For another, the hash is printed and kept at the first download, and
    later ones must agree. Mirrors: $OCTAVO_MIRRORS, or `mirrors:` in octavo/config.yaml of the user's settings.

    For example:

    octavo corpus get

    octavo corpus get tinyshakespeare

    octavo train --text corpus:tinyshakespeare
    """
    if name is None:
        return _list(json)
    from octavo.corpus.fetch.catalogue import Mirrors, user_mirrors
    from octavo.corpus.fetch.downloads import fetch
    from octavo.util.terminal import Console

    console = Console(quiet=json)
    own = user_mirrors()
    with console.working(f"fetching {name}", None):
        got = fetch(
            name,
            mirrors=Mirrors(own.bases, own.allow_private or allow_private),
            accept_change=accept_change,
            report=console.say,
            progress=console.read,
        )
    _show(got, json)
    return 0


def _show(got: Fetched, json: bool) -> None:
    if json:
        print_json(
            {
                "name": got.entry.name,
                "path": str(got.path),
                "bytes": got.bytes,
                "sha256": got.sha256,
                "pinned": got.pinned,
                "new": got.new,
                "licence": got.entry.licence,
                "address": got.entry.address,
            }
        )
        return
    show_text(f"{got.path}\n{got.bytes:,} bytes, SHA-256 {got.sha256}")
    show(
        "verified against the catalogue"
        if got.pinned
        else "not pinned: this hash is kept, and later downloads must agree"
    )
    show(f"licence: {got.entry.licence}\nuse it: --text corpus:{got.entry.name}")


def _list(json: bool) -> int:
    from octavo.corpus.fetch.catalogue import catalogue

    entries = list(catalogue().values())
    if json:
        here = [{**each.model_dump(), "here": each.path().is_file()} for each in entries]
        print_json(here)
        return 0
    rows = [
        [
            each.name,
            each.size,
            "pinned" if each.sha256 else "first use",
            "yes" if each.path().is_file() else "",
        ]
        for each in entries
    ]
    print_table(rows, head=["name", "size", "SHA-256", "here"])
    for each in entries:
        show(f"\n{each.name}: {each.title}\n    {each.address}\n    {each.licence}")
        if each.sha256:
            show(f"    SHA-256 {each.sha256}")
    return 0
