"""The arrays of an NPZ file, which is a zip of numpy's own format."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import numpy as np

from octavo.corpus.archives import reason
from octavo.errors import CorpusError


def read_arrays(path: Path, most: int = sys.maxsize) -> dict[str, np.ndarray]:
    """Every array by its name, none of objects.

    Args:
        most: bytes that one may have.

    Raises:
        CorpusError: the file cannot be read, is damaged or something else, or an array is too large.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            if any(one.file_size > most for one in archive.infolist()):
                raise CorpusError(f"{path} holds an array of more than {most:,} bytes.")
            return {one.filename.removesuffix(".npy"): _array(archive, one) for one in archive.infolist()}
    except CorpusError:
        raise
    except OSError as error:
        raise CorpusError(f"{path} cannot be read: {error.strerror or reason(error)}.") from error
    except Exception as error:  # whatever a damaged file leads the libraries to
        raise CorpusError(f"{path} is no NPZ file of plain arrays: {reason(error)}.") from error


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    with archive.open(member) as file:
        array = np.lib.format.read_array(file, allow_pickle=False)
        if file.read(1):  # to the end, where the zip has its checksum
            raise ValueError(f"{member.filename} has bytes after its array")
    if max(array.shape, default=0) > member.file_size:  # of cells without a byte there can be any number
        raise ValueError(f"{member.filename} says that it is of shape {array.shape}")
    return array
