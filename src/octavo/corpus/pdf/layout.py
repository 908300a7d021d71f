"""From the lines of a document's pages to its paragraphs in reading order.

Pure functions on lines with places, so that they can be tested without a PDF. The order of the content is kept
where it is one, since whoever wrote the file knew it; only a page whose content runs across two columns is sorted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

from octavo.corpus.pdf.lines import SOFT_HYPHEN, Line

_MARGIN_LINES = 3  # lines at the top and at the bottom of a page that may be running heads
_REPEATED = 2  # pages on which a head has to stand again
_COLUMN_LINES = 6  # lines that each column must have
_CELL = 4  # words that a table's cells have on average, at most
_ENDS = tuple(".!?:;…。！？؟۔")
_CLOSING = "\"'”’»)]“"
_BULLET = re.compile(r"[•‣▪◦●∙·*–—-]\s|\(?\d{1,3}[.)]\s|\[\d{1,3}\]\s")
_LEADER = re.compile(r"(?:\. ?){4}")
_NUMBER = re.compile(r"\d+")
_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_HYPHENS = ("-", "\u2010", SOFT_HYPHEN)
# After "Haupt-" at a line's end another word follows these, not with the same one.
_AND = {"und", "oder", "bzw.", "and", "or", "y", "o", "e", "et", "ou"}


def without_heads(pages: Sequence[list[Line]]) -> list[list[Line]]:
    """The pages without running heads and page numbers: lines at the edge, apart from the text, that stand in the
    same place on several pages with the same words but for numbers.
    """
    largest = 1.15 * _body_size(pages)  # a larger line is a heading, which may stand in one place as well
    edges = [[line for line in _edges(page) if line.size <= largest] for page in pages]
    found: Counter[tuple[str, int]] = Counter()
    for edge in edges:
        found.update({_place(line) for line in edge})
    heads = {place for place, count in found.items() if count >= _REPEATED}

    def is_head(line: Line) -> bool:
        text, y = _place(line)
        return any((text, y + near) in heads for near in (-1, 0, 1))

    kept = []
    for page, edge in zip(pages, edges, strict=True):
        gone = [line for line in edge if is_head(line)]
        kept.append([line for line in page if not any(line is head for head in gone)])
    return kept if any(kept) else list(pages)


def _place(line: Line) -> tuple[str, int]:
    return _NUMBER.sub("#", line.text), round(line.y0 / 4)


def _edges(page: list[Line]) -> list[Line]:
    """Lines near the page's ends with white space between them and the text."""
    edge: list[Line] = []
    for sign in (1, -1):
        ordered = sorted(page, key=lambda line: sign * line.y0)
        for number, line in enumerate(ordered[:_MARGIN_LINES]):
            rest = [o for o in ordered[number + 1 :] if min(o.y1, line.y1) - max(o.y0, line.y0) <= 0]
            if not rest:
                edge.append(line)
                continue
            space = min(max(o.y0 - line.y1, line.y0 - o.y1) for o in rest)
            if space > 0.5 * line.size:
                edge += [line]
    return edge


def in_order(lines: list[Line], pieces: list[Line]) -> list[Line]:
    """A page's lines as a person reads them; parts of one line become one."""
    if ordered := _by_columns(pieces):
        return _joined_parts(ordered)
    return _joined_parts(lines)


def _by_columns(pieces: list[Line]) -> list[Line] | None:
    """The lines of a two-column page whose content jumps from column to column; None for every other page."""
    if len(pieces) < 2 * _COLUMN_LINES:
        return None
    left, right = min(line.x0 for line in pieces), max(line.x1 for line in pieces)
    for step in range(12):  # from the middle outwards
        gutter = (left + right) / 2 + (-1) ** step * (step // 2 + step % 2) * (right - left) * 0.02
        sides = [0 if line.x1 <= gutter else 1 if line.x0 >= gutter else None for line in pieces]
        inside = [side for side in sides if side is not None]
        if min(inside.count(0), inside.count(1)) < _COLUMN_LINES or len(inside) < 0.8 * len(sides):
            continue
        width = sum(line.x1 - line.x0 for line, side in zip(pieces, sides, strict=True) if side is not None)
        full = width / len(inside) > 0.3 * (right - left)  # text, not the cells of a table
        jumps = sum(a != b for a, b in pairwise(inside))
        return _sorted(pieces, sides) if full and jumps > len(inside) / 3 else None
    return None


def _sorted(pieces: list[Line], sides: list[int | None]) -> list[Line]:
    """Bands between lines that cross the gutter, each with its left column before its right one."""
    ordered: list[Line] = []
    columns: tuple[list[Line], list[Line]] = ([], [])
    for line, side in sorted(zip(pieces, sides, strict=True), key=lambda pair: (-pair[0].y0, pair[0].x0)):
        if side is not None:
            columns[side].append(line)
            continue
        ordered += [*columns[0], *columns[1], line]
        columns = ([], [])
    return [*ordered, *columns[0], *columns[1]]


def _joined_parts(lines: Iterable[Line]) -> list[Line]:
    """Lines that pdfium cut at a raised letter or another font put together again."""
    done: list[Line] = []
    for line in lines:
        before = done[-1] if done else None
        overlap = min(before.y1, line.y1) - max(before.y0, line.y0) if before else 0
        if (
            before
            and overlap > 0.4 * min(before.y1 - before.y0, line.y1 - line.y0)
            and -0.2 * line.size <= line.x0 - before.x1 < _gap(before, line)
            and not before.text.endswith(SOFT_HYPHEN)
        ):
            space = " " if line.x0 - before.x1 > 0.12 * max(line.size, before.size) else ""
            size = before.size if before.x1 - before.x0 >= line.x1 - line.x0 else line.size
            done[-1] = Line(
                before.text + space + line.text,
                before.x0,
                min(before.y0, line.y0),
                line.x1,
                max(before.y1, line.y1),
                size,
                before.font,
                before.gaps + line.gaps,
            )
        else:
            done.append(line)
    return done


def _gap(before: Line, line: Line) -> float:
    return 1.2 * max(before.size, line.size)


def words_of(pages: Iterable[list[Line]]) -> set[str]:
    """Words of a document that do not touch the end of a line, small letters."""
    words: set[str] = set()
    for page in pages:
        for line in page:
            words.update(word.lower() for word in _WORD.findall(line.text)[:-1])
    return words


def paragraphs(pages: Iterable[list[Line]], words: set[str]) -> list[str]:
    """The text of the pages, in paragraphs that may span lines, columns and pages.

    Args:
        words: see `words_of`; they tell whether a word that is cut has a hyphen of its own.
    """
    pages = list(pages)
    body = _body_size(pages)
    done: list[str] = []
    before: tuple[list[Line], int] | None = None  # the last block of the text, and its last paragraph
    for page in pages:
        for block in _blocks(page):
            listed = _is_list(block) or _is_table(block)
            note = max(line.size for line in block) < 0.9 * body
            at = before[1] if before else -1
            for number, line in enumerate(block):
                if number:
                    goes_on = not listed and not _new_paragraph(block, number, done[at])
                else:
                    goes_on = before is not None and not note and _continues(before[0], block)
                if goes_on:
                    done[at] = _join(done[at], line.text, words)
                else:
                    done.append(line.text)
                    at = len(done) - 1
            if not note or before is None:  # a paragraph continues after the notes at the foot of its page
                before = (block, at)
    return [text.replace(SOFT_HYPHEN, "") for text in done]


def _body_size(pages: Sequence[list[Line]]) -> float:
    """The size that most letters of a document have."""
    sizes: Counter[float] = Counter()
    for page in pages:
        for line in page:
            sizes[round(line.size * 2) / 2] += len(line.text)
    return sizes.most_common(1)[0][0] if sizes else 0.0


def _is_list(block: list[Line]) -> bool:
    """Whether every line is a sentence of its own."""
    return len(block) > 3 and sum(_ended(line.text) for line in block) > 0.8 * len(block)


def _is_table(block: list[Line]) -> bool:
    """Whether the lines are rows of cells, with a few words in each."""
    rows = sum(line.gaps > 0 and len(line.text.split()) <= _CELL * (line.gaps + 1) for line in block)
    return len(block) > 1 and rows > 0.5 * len(block)


def _blocks(page: list[Line]) -> list[list[Line]]:
    """Runs of lines below each other, evenly spaced, in one size."""
    steps = sorted(a.y0 - b.y0 for a, b in pairwise(page) if 0 < a.y0 - b.y0 < 3 * b.size)
    usual = steps[len(steps) // 2] if steps else 0.0
    blocks: list[list[Line]] = []
    for line in page:
        last = blocks[-1][-1] if blocks else None
        if last is None or not (
            0 < last.y0 - line.y0 <= max(1.3 * usual if usual else 0, 1.25 * line.size)
            and min(last.x1, line.x1) > max(last.x0, line.x0)
            and 0.8 < last.size / line.size < 1.25
        ):
            blocks.append([])
        blocks[-1].append(line)
    return blocks


def _new_paragraph(block: list[Line], number: int, text: str) -> bool:
    line, last = block[number], block[number - 1]
    if last.text.endswith(SOFT_HYPHEN):
        return False
    if _LEADER.search(last.text):  # a line of a table of contents
        return True
    left, right = min(o.x0 for o in block), max(o.x1 for o in block)
    marked = bool(_BULLET.match(text))
    if _BULLET.match(line.text) and (_ended(last.text) or _short(last, line, right) or marked):
        return True
    if _short(last, line, right):
        return True
    following = block[number + 1] if number + 1 < len(block) else None
    indented = 0.5 * line.size < line.x0 - last.x0 < 6 * line.size and last.x0 - left < 0.5 * line.size
    returns = following is None or line.x0 - following.x0 > 0.5 * line.size
    return indented and returns and not marked and (_ended(last.text) or len(block) > 2)


def _short(last: Line, line: Line, right: float) -> bool:
    """Whether a line ended although the next word had room in it: its paragraph ends there."""
    first = line.text.split(" ", 1)[0]
    letter = (line.x1 - line.x0) / max(1, len(line.text))
    return right - last.x1 > 1.2 * letter * (len(first) + 1) + line.size


def _ended(text: str) -> bool:
    return text.rstrip(_CLOSING).endswith(_ENDS)


def _continues(before: list[Line], block: list[Line]) -> bool:
    """Whether a block continues the paragraph at the end of the column or page before."""
    last, first = before[-1], block[0]
    turned = first.y0 > last.y0 + last.size
    if not turned or not 0.8 < last.size / first.size < 1.25:
        return False
    if last.text.endswith(SOFT_HYPHEN):
        return True
    if _ended(last.text) or _BULLET.match(first.text):
        return False
    full = len(before) > 1 and not _short(last, first, max(line.x1 for line in before))
    return full and (first.text[:1].islower() or len(block) > 1)


def _join(text: str, line: str, words: set[str]) -> str:
    """Two lines of a paragraph as one; a word cut by a hyphen becomes whole."""
    if not text.endswith(_HYPHENS):
        return f"{text} {line}"
    sure = text.endswith(SOFT_HYPHEN)
    head = text[:-1]
    before = re.search(r"\S+\Z", head)
    after = line.split(" ", 1)[0]
    if before is None or not head[-1:].isalpha() or not after[:1].isalpha():
        return head + line if sure else (f"{text} {line}" if head.endswith(" ") else text + line)
    if after.rstrip(",.").lower() in _AND:
        return f"{head}- {line}"
    if after[:1].isupper() and not before[0].isupper() or "/" in before[0]:
        return f"{head}-{line}"
    start, end = _WORD.findall(before[0])[-1:], _WORD.match(after)
    if start and end:
        whole, kept = (start[0] + end[0]).lower(), f"{start[0]}-{end[0]}".lower()
        if kept in words and whole not in words:
            return f"{head}-{line}"
    return head + line
