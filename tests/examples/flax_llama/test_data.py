"""Text: the split, the windows of a step, and the unigram entropy."""

import hashlib

import numpy as np
import pytest

from examples.flax_llama import data
from examples.flax_llama.config import UserError


def write_files(folder, count, size=200):
    """Files of distinct, recognisable bytes, some in a subfolder."""
    texts = {}
    for index in range(count):
        name = f"part{index % 3}/file{index}.txt"
        digits = hashlib.sha256(name.encode()).hexdigest()
        texts[name] = (digits * size)[:size].encode()
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(texts[name])
    return texts


def test_a_folder_is_split_by_file(tmp_path):
    texts = write_files(tmp_path, 40)
    (tmp_path / "binary.bin").write_bytes(b"\0" * 10_000)
    splits = data.load(tmp_path, length=64)
    train = splits.train.tobytes().split(data.SEPARATOR)
    validation = splits.validation.tobytes().split(data.SEPARATOR)
    assert sorted(train + validation) == sorted(texts.values())
    assert len(validation) == 2  # 5 % of 40 files of equal size
    assert data.load(tmp_path, length=64).fingerprint() == splits.fingerprint()
    write_files(tmp_path, 41)
    assert data.load(tmp_path, length=64).fingerprint() != splits.fingerprint()


def test_a_file_is_cut_in_two(tmp_path):
    text = bytes(range(32, 127)) * 20
    path = tmp_path / "text.txt"
    path.write_bytes(text)
    splits = data.load(path, length=16)
    assert splits.train.tobytes() + splits.validation.tobytes() == text
    assert len(splits.validation) == len(text) * 5 // 100


def test_a_folder_of_few_large_files_is_cut(tmp_path):
    texts = sorted(write_files(tmp_path, 3, size=2000).values())
    splits = data.load(tmp_path, length=64)
    whole = splits.train.tobytes() + splits.validation.tobytes()
    assert sorted(whole.split(data.SEPARATOR)) == texts
    assert len(splits.validation) == len(whole) * 5 // 100


def test_the_default_is_this_pythons_library_without_its_tests():
    path = data.default_path()
    splits = data.load(path, length=512)
    assert len(splits.train) > 2_000_000
    assert 0.04 < len(splits.validation) / len(splits.train) < 0.06
    text = splits.train.tobytes() + splits.validation.tobytes()
    assert (path / "argparse.py").read_bytes() in text
    folders = {part for name, _ in data.documents(path) for part in name.split("/")}
    assert "json" in folders and not folders & {"site-packages", "test", "tests"}


def test_what_is_missing_or_too_little_is_said(tmp_path):
    with pytest.raises(UserError, match="There is no file or folder at .*nowhere"):
        data.load(tmp_path / "nowhere", length=8)
    with pytest.raises(UserError, match="its train split has 0 bytes"):
        data.load(tmp_path, length=8)
    path = tmp_path / "text.txt"
    path.write_bytes(b"abc" * 100)
    with pytest.raises(
        UserError, match="its validation split has 15 bytes.*--length 15 needs 16"
    ):
        data.load(path, length=15)
    assert len(data.load(path, length=14).validation) == 15


def test_entropy_in_nats():
    assert data.unigram_entropy(np.zeros(9, np.uint8)) == 0
    uniform = np.repeat(np.arange(8, dtype=np.uint8), 5)
    assert data.unigram_entropy(uniform) == pytest.approx(3 * np.log(2))
    skewed = np.array([1, 1, 1, 2], np.uint8)
    expected = -0.75 * np.log(0.75) - 0.25 * np.log(0.25)
    assert data.unigram_entropy(skewed) == pytest.approx(expected)


def test_a_step_decides_its_windows():
    tokens = np.arange(256, dtype=np.uint8)
    first = data.training_batch(tokens, seed=3, step=7, batch=50, length=9)
    again = data.training_batch(tokens, seed=3, step=7, batch=50, length=9)
    assert first.shape == (50, 10) and first.dtype == np.int32
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(np.diff(first), 1)  # consecutive bytes
    for seed, step in ((3, 8), (4, 7)):
        other = data.training_batch(tokens, seed, step, batch=50, length=9)
        assert (other != first).any()


def test_every_position_can_be_drawn():
    tokens = np.arange(12, dtype=np.uint8)
    windows = data.training_batch(tokens, seed=0, step=0, batch=500, length=9)
    assert set(windows[:, 0]) == {0, 1, 2}


def test_validation_windows_span_the_split():
    tokens = np.arange(200, dtype=np.uint8)
    windows = data.validation_batches(tokens, count=3, batch=2, length=9)
    assert windows.shape == (3, 2, 10)
    assert windows[0, 0, 0] == 0 and windows[-1, -1, -1] == 199
    np.testing.assert_array_equal(np.diff(windows), 1)
