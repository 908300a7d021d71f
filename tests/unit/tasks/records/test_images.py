"""Images as records: files of every kind, what is wrong with them, orders of pixels, and PNG files again."""

from __future__ import annotations

import gzip
import io
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.errors import CorpusError, MissingExtra
from octavo.tasks.records.images import DigitsSource, ImagesSource, read_png
from octavo.tasks.records.pixels import Raster, _png, numbers_of, png, quantised, smallest_png, walk

IMAGES = np.random.default_rng(1).integers(0, 256, (4, 3, 5)).astype(np.uint8)


def idx(images: np.ndarray, *, magic: int = 0x803) -> bytes:
    head = b"".join(int(one).to_bytes(4, "big") for one in (magic, *images.shape))
    return head + images.tobytes()


def texts(path: Path, **options: object) -> list[str]:
    return ["".join(one.pieces) for one in ImagesSource(paths=path, **options).build().documents()]


EXPECTED = [" ".join(map(str, image.ravel().tolist())) for image in IMAGES]


@given(rows=st.integers(1, 33), columns=st.integers(1, 33))
def test_hilbert_s_order_has_an_exact_inverse(rows: int, columns: int) -> None:
    places = walk(rows, columns, "hilbert")
    assert np.array_equal(np.sort(places), np.arange(rows * columns))
    raster = Raster(rows, columns, 256, order="hilbert")
    image = np.arange(rows * columns).reshape(rows, columns)
    assert np.array_equal(image.ravel()[places], raster.sequence(image))
    back = np.empty(rows * columns, np.int64)
    back[places] = raster.sequence(image)
    assert np.array_equal(back.reshape(rows, columns), image)


@pytest.mark.parametrize("side", [1, 2, 4, 8, 32])
def test_hilbert_s_neighbours_are_neighbours_in_squares_of_powers_of_two(side: int) -> None:
    rows, columns = np.divmod(walk(side, side, "hilbert"), side)
    assert (np.abs(np.diff(rows)) + np.abs(np.diff(columns)) == 1).all()
    assert np.array_equal(walk(3, 4, "raster"), np.arange(12))


def test_levels() -> None:
    grey = np.array([0, 63, 64, 127, 128, 255], np.uint8)
    assert quantised(grey, levels=4, threshold=128).tolist() == [0, 0, 1, 1, 2, 3]
    assert quantised(grey, levels=256, threshold=128).tolist() == grey.tolist()
    assert quantised(grey, levels=2, threshold=64).tolist() == [0, 0, 1, 1, 1, 1]


def test_idx_npz_and_png_give_the_same(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="needs pillow, the extra 'images'")
    (tmp_path / "plain-idx3-ubyte").write_bytes(idx(IMAGES))
    (tmp_path / "packed.gz").write_bytes(gzip.compress(idx(IMAGES)))
    np.savez_compressed(tmp_path / "one.npz", images=IMAGES.astype(np.int64), labels=np.zeros(4))
    (tmp_path / "folder").mkdir()
    for number, one in enumerate(IMAGES):
        image.fromarray(one).save(tmp_path / "folder" / f"{number}.png")
    for name in ("plain-idx3-ubyte", "packed.gz", "one.npz", "folder"):
        assert texts(tmp_path / name) == EXPECTED, name
    named = [one.name for one in ImagesSource(paths=tmp_path / "packed.gz").build().documents()]
    assert named[1] == f"{tmp_path / 'packed.gz'}, image 2"
    raster = ImagesSource(paths=tmp_path / "folder", levels=7).raster()
    assert raster == Raster(3, 5, 7)


def test_sixteen_bits_and_what_is_transparent(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="needs pillow, the extra 'images'")
    image.fromarray(np.arange(0, 65536, 1024, dtype=np.uint16).reshape(8, 8)).save(tmp_path / "deep.png")
    ((_, deep),) = read_png(tmp_path / "deep.png")
    assert deep.ravel().tolist() == list(range(0, 256, 4))
    drawn = np.zeros((3, 3, 4), np.uint8)
    drawn[1, 1, 3] = 255
    image.fromarray(drawn).save(tmp_path / "drawn.png")
    ((_, seen),) = read_png(tmp_path / "drawn.png")
    assert seen[1, 1] == 0 and (seen.ravel() == 255).sum() == 8


def test_images_of_different_sizes_name_both_files(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", IMAGES)
    np.savez(tmp_path / "b.npz", IMAGES.transpose(0, 2, 1))
    source = ImagesSource(paths=(tmp_path / "a.npz", tmp_path / "b.npz")).build()
    with pytest.raises(CorpusError, match=r"b\.npz, image 1 has 5 × 3 pixels, and .*a\.npz, image 1 3 × 5"):
        list(source.documents())
    with pytest.raises(CorpusError, match=r"has 3 × 5 pixels, and the recipe 8 × 8"):
        texts(tmp_path / "a.npz", size=(8, 8))


def npz(**arrays: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a", idx(np.zeros((3, 1, 1), np.uint8), magic=0x801), "holds labels, not images"),
        ("a", b"GIF89a", "is no IDX file"),
        ("a", b"", "is no IDX file"),
        ("a", idx(IMAGES)[:-1], "ends within image 4 of 4"),
        ("a.gz", gzip.compress(idx(IMAGES), mtime=0)[:-20], "cannot be unpacked"),
        ("a.gz", gzip.compress(idx(IMAGES), mtime=0)[:-8] + bytes(8), "cannot be unpacked: CRC check failed"),
        ("a", idx(IMAGES) + b"1", "goes on after the 4 images"),
        ("a", idx(IMAGES[:0]), "holds no images"),
        ("a.npz", npz(images=IMAGES[:0]), "holds no images"),
        ("a", idx(np.zeros((1, 2000, 2000), np.uint8))[:99], "has 2,000 × 2,000 pixels"),
        ("a.npz", b"no archive", "is no NPZ file"),
        ("a.npz", npz(x=IMAGES, y=IMAGES), "has 2 arrays with three axes"),
        ("a.npz", npz(images=IMAGES / 2), "numbers of type float64"),
        ("a.npz", npz(images=np.full((2, 2, 2), 300)), "image 1 has the grey value 300"),
        ("a.npz", npz(images=np.array([None])), "is no NPZ file"),
        ("a.png", b"\x89PNG\r\n\x1a\nrubbish", "is no PNG file"),
    ],
)
def test_files_that_hold_no_images(name: str, content: bytes, words: str, tmp_path: Path) -> None:
    if name.endswith(".png"):
        pytest.importorskip("PIL", reason="needs pillow, the extra 'images'")
    (tmp_path / name).write_bytes(content)
    with pytest.raises(CorpusError, match=words) as caught:
        texts(tmp_path / name)
    assert str(tmp_path / name) in caught.value.what


def test_paths_that_give_nothing(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="holds no PNG files"):
        texts(tmp_path)
    with pytest.raises(CorpusError, match="does not exist"):
        texts(tmp_path / "nowhere")
    with pytest.raises(CorpusError, match="No images were given"):
        ImagesSource().build()
    assert ImagesSource(paths=tmp_path / "nowhere").raster() is None


def test_without_pillow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    (tmp_path / "a.png").write_bytes(png(IMAGES[0]))
    with pytest.raises(MissingExtra, match="pillow") as caught:
        texts(tmp_path)
    assert "octavo[images]" in str(caught.value.remedy)


def test_without_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(MissingExtra, match="scikit-learn"):
        list(DigitsSource().build().documents())


def test_digits() -> None:
    load = pytest.importorskip(
        "sklearn.datasets", reason="needs scikit-learn, the extra 'digits'"
    ).load_digits
    found = ["".join(one.pieces) for one in DigitsSource().build().documents()]
    assert len(found) == 1797 and found[5] == " ".join(
        map(str, load().images[5].astype(int).ravel().tolist())
    )


def test_a_picture_of_a_record(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="needs pillow, the extra 'images'")
    raster = Raster(3, 5, 256, order="hilbert")
    assert np.array_equal(raster.grey(raster.sequence(IMAGES[0])), IMAGES[0])
    assert np.array_equal(np.asarray(image.open(io.BytesIO(png(IMAGES[0])))), IMAGES[0])
    film = Raster(1, 2, 2, frames=2).grey([0, 1, 1])
    assert film.tolist() == [
        [0, 255, 128, 255, 128]
    ]  # a gap between the frames, and a pixel that is not there
    assert Raster(1, 2, 2).grey([5, 9, 1]).tolist() == [[255, 255]]
    assert numbers_of("1 x 22 -3 ² 4") == [1, 22, 4]


@pytest.mark.parametrize("levels", [2, 3, 17, 256])
def test_the_smallest_png_is_the_image(levels: int) -> None:
    opened = pytest.importorskip("PIL.Image", reason="needs pillow, the extra 'images'")
    random = np.random.default_rng(levels)
    smooth = (np.add.outer(np.arange(9), np.arange(13)) + random.integers(0, 2, (9, 13))) % levels
    image = smooth.astype(np.uint8)
    found = smallest_png(image, levels)
    depth = {2: 1, 3: 2, 17: 8, 256: 8}[levels]
    shown = np.asarray(opened.open(io.BytesIO(found)).convert("L"), int)
    assert found[24] == depth and np.array_equal(shown, image.astype(int) * 255 // (2**depth - 1))
    assert len(found) <= len(png(image))


@pytest.mark.parametrize("filtering", range(5))
def test_each_filter_of_png_can_be_undone(filtering: int) -> None:
    opened = pytest.importorskip("PIL.Image", reason="needs pillow, the extra 'images'")
    image = np.random.default_rng(1).integers(0, 256, (6, 7)).astype(np.uint8)
    written = _png(image, width=7, depth=8, filtering=filtering)
    assert np.array_equal(np.asarray(opened.open(io.BytesIO(written))), image)


def test_a_record_as_levels_again() -> None:
    raster = Raster(3, 5, 256, frames=2, order="hilbert")
    film = np.arange(30).astype(np.uint8).reshape(2, 3, 5)
    assert np.array_equal(raster.image(raster.sequence(film)), film.reshape(6, 5))


def test_other_pictures_in_a_folder_of_png_files_are_said_once(tmp_path: Path) -> None:
    for name in ("a.png", "b.PNG", "c.jpg", "deep/d.jpeg", ".hidden.jpg"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    said: list[str] = []
    source = ImagesSource(paths=(tmp_path,)).build(said.append)
    assert [[path.name for path in source._files()] for _ in range(2)] == [["a.png", "b.PNG"]] * 2
    assert said == ["left out, since only the PNG files of a folder are read: c.jpg, d.jpeg"]
