"""Text as bytes: reading, splitting, windows for a step, and the unigram entropy."""

from __future__ import annotations

import hashlib
import pathlib
import sysconfig
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from examples.flax_llama.config import UserError

VOCABULARY = 256
# Put between files. Files with a NUL byte are taken for binary and left out.
SEPARATOR = b"\0"
VALIDATION_SHARE = 0.05


class Data(NamedTuple):
    """Byte tokens of the two splits, uint8[...]."""

    train: np.ndarray
    validation: np.ndarray

    def fingerprint(self) -> str:
        """A digest of both splits; a resumed run must have the same."""
        digest = hashlib.sha256(self.train.tobytes())
        digest.update(SEPARATOR + self.validation.tobytes())
        return digest.hexdigest()[:16]


def default_path() -> pathlib.Path:
    """The Python standard library's sources on this machine."""
    return pathlib.Path(sysconfig.get_paths()["stdlib"])


def load(path: pathlib.Path, length: int) -> Data:
    """Reads a text file, or all text files of a folder, and splits it.

    A folder is split by file, so that no file has a part in both splits; a file, and a
    folder whose files are too large for that, is cut at the share. `length` is the
    window T that either split must hold.
    Raises UserError when the path is missing or holds too little text.
    """
    if not path.exists():
        raise UserError(f"There is no file or folder at {path}.")
    if path.is_dir():
        data = _split_documents(dict(documents(path)))
    else:
        data = _cut(path.read_bytes())
    for name, split in data._asdict().items():
        if len(split) < length + 1:
            raise UserError(
                f"The text at {path} is too little: its {name} split has {len(split)}"
                f" bytes, and a window of --length {length} needs {length + 1}."
            )
    return data


def documents(folder: pathlib.Path) -> Iterator[tuple[str, bytes]]:
    """Relative name and text of each text file; not the standard library's tests."""
    python = folder == default_path()
    skipped = {"site-packages", "dist-packages", "test", "tests", "__pycache__"}
    for path in folder.rglob("*.py" if python else "*"):
        name = path.relative_to(folder)
        if not path.is_file() or (python and skipped.intersection(name.parts)):
            continue
        text = path.read_bytes()
        if SEPARATOR not in text:
            yield name.as_posix(), text


def _split_documents(documents: dict[str, bytes]) -> Data:
    """Gives files to validation while they fit, by the digests of their names."""
    names = sorted(documents, key=lambda name: hashlib.sha256(name.encode()).digest())
    room = VALIDATION_SHARE * sum(map(len, documents.values()))
    splits: tuple[list[bytes], list[bytes]] = [], []
    for name in names:
        text = documents[name]
        fits = len(text) <= room
        room -= len(text) if fits else 0
        splits[fits].append(text)
    train, validation = map(SEPARATOR.join, splits)
    return Data(_tokens(train), _tokens(validation)) if validation else _cut(train)


def _cut(text: bytes) -> Data:
    """The last share of the text for validation."""
    cut = len(text) - int(len(text) * VALIDATION_SHARE)
    return Data(_tokens(text[:cut]), _tokens(text[cut:]))


def _tokens(text: bytes) -> np.ndarray:
    return np.frombuffer(text, np.uint8)


def unigram_entropy(tokens: np.ndarray) -> float:
    """Entropy of the byte frequencies in nats per byte, -sum p log p.

    No model that ignores context can have a lower loss on these tokens.
    """
    counts = np.bincount(tokens, minlength=VOCABULARY)
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log(shares)).sum())


def training_batch(
    tokens: np.ndarray, seed: int, step: int, batch: int, length: int
) -> np.ndarray:
    """Windows int32[B, T+1] of a step: a function of (seed, step) and nothing else.

    That makes a resumed run see exactly what an unbroken one would.
    """
    random = np.random.default_rng((seed, step))
    return _windows(tokens, random.integers(0, len(tokens) - length, batch), length)


def validation_batches(
    tokens: np.ndarray, count: int, batch: int, length: int
) -> np.ndarray:
    """Fixed, evenly spaced windows int32[count, B, T+1]."""
    starts = np.linspace(0, len(tokens) - length - 1, count * batch).astype(np.int64)
    return _windows(tokens, starts, length).reshape(count, batch, length + 1)


def _windows(tokens: np.ndarray, starts: np.ndarray, length: int) -> np.ndarray:
    return tokens[starts[:, None] + np.arange(length + 1)].astype(np.int32)
