"""The command line: a whole run, a killed one, and its errors."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from examples.flax_llama import train
from examples.flax_llama.checkpoint import RunFolder
from examples.flax_llama.config import UserError

SCRIPT = pathlib.Path(train.__file__)
QUICK = ["--compare-pairs", "0", "--sample-bytes", "0"]


def run_main(monkeypatch, *words):
    """The exit status of the command line, in this process."""
    monkeypatch.setattr(sys, "argv", ["train.py", *map(str, words)])
    return train.main()


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(
        "".join(f"{number} is {number:b} in binary\n" for number in range(999))
    )
    return path


def test_a_whole_run(monkeypatch, capsys, tmp_path, text, tiny_flags):
    folder = tmp_path / "run"
    flags = ["--data", text, "--out", folder, *tiny_flags]
    assert (
        run_main(
            monkeypatch,
            *flags,
            "--every",
            20,
            "--compare-pairs",
            2,
            "--sample-bytes",
            8,
        )
        == 0
    )
    printed = capsys.readouterr()
    assert "unigram entropy" in printed.out and "nats/byte" in printed.out
    assert "Compiling the training step (hk)" in printed.out
    assert "Compiling the training step (xla)" in printed.out
    assert "tokens/s, ratio" in printed.out
    assert "tokens/s" in printed.err  # the progress bar
    assert (folder / "loss.png").read_bytes().startswith(b"\x89PNG")
    lines = [json.loads(line) for line in losses_of(folder).read_text().splitlines()]
    training = [line["training"] for line in lines if "training" in line]
    validation = [line["step"] for line in lines if "validation" in line]
    assert len(training) == 40 and validation == [20, 40]
    assert sum(training[-5:]) < 0.8 * sum(training[:5])

    # The same folder again, and a checkpoint of another configuration.
    assert run_main(monkeypatch, *flags) == 1
    assert "holds a run already" in capsys.readouterr().err
    assert run_main(monkeypatch, "--resume", folder, "--dim", 64) == 1
    error = capsys.readouterr().err
    assert "another configuration: --dim 32 there, 64 asked for." in error
    text.write_text("Other text. " * 100)
    assert run_main(monkeypatch, "--resume", folder) == 1
    assert "not the one this run began with" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--data", "/nowhere"], "There is no file or folder at /nowhere."),
        (["--data", "{text}", "--length", 90000], "is too little"),
        (["--data", "{text}", "--heads", 3], "--heads must be a multiple"),
        (["--data", "{text}", "--prompt", ""], "--prompt may not be empty"),
        (["--resume", "/nowhere"], "There is no checkpoint to resume in /nowhere."),
    ],
)
def test_a_mistake_is_one_sentence(
    monkeypatch, capsys, tmp_path, text, words, sentence
):
    monkeypatch.chdir(tmp_path)
    words = [text if word == "{text}" else word for word in words]
    assert run_main(monkeypatch, *words) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: ") and error.count("\n") == 1
    assert sentence in error
    assert not (tmp_path / "runs").exists()


def test_what_hk_cannot_serve_is_said(monkeypatch, capsys, tmp_path, text, tiny_flags):
    flags = ["--data", text, "--out", tmp_path, *tiny_flags, "--head-dim", 512]
    assert run_main(monkeypatch, *flags) == 1
    error = capsys.readouterr().err
    assert "512" in error and "(--implementation xla runs without HK.)" in error


def test_an_interrupted_run_says_how_to_go_on(monkeypatch, capsys, tmp_path, text):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(train, "compiled_step", lambda *_: None)
    monkeypatch.setattr(train.Fit, "__call__", interrupt)
    assert run_main(monkeypatch, "--data", text, "--out", tmp_path) == 130
    assert f"--resume {tmp_path} continues" in capsys.readouterr().out


def test_a_run_without_a_checkpoint_begins_again(tmp_path):
    folder = RunFolder.create(tmp_path)
    folder.metrics.add(1, "training", 2.0)
    assert RunFolder.create(tmp_path).metrics.series("training") == []
    with pytest.raises(UserError, match="There is no checkpoint to resume"):
        RunFolder.open(tmp_path)


def test_help_names_every_group(monkeypatch, capsys):
    with pytest.raises(SystemExit, match="0"):
        run_main(monkeypatch, "--help")
    printed = capsys.readouterr().out
    for flag in ("--data", "--resume", "--implementation", "--steps", "--kv-heads"):
        assert flag in printed


def losses_of(folder):
    return folder / "losses.jsonl"


def start(*words):
    """The command line in a process of its own."""
    environment = dict(os.environ, PYTHONUNBUFFERED="1")
    return subprocess.Popen(
        [sys.executable, str(SCRIPT), *map(str, words)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(process):
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    return output


def steps_recorded(path):
    return path.read_text().count('"training"') if path.exists() else 0


def test_a_killed_run_goes_on_bit_for_bit(tmp_path, text, tiny_flags):
    flags = ["--data", text, *tiny_flags, "--steps", 400, "--every", 100, *QUICK]
    whole = start(*flags, "--out", tmp_path / "whole")

    folder = tmp_path / "killed"
    killed = start(*flags, "--out", folder)
    losses = losses_of(folder)
    while steps_recorded(losses) < 130 and killed.poll() is None:
        time.sleep(0.005)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert killed.returncode == -signal.SIGKILL
    done = steps_recorded(losses)
    assert 130 <= done < 400

    output = finish(start("--resume", folder, "--every", 100, *QUICK))
    assert "Steps 100 to 400" in output or done >= 200
    finish(whole)
    assert losses.read_bytes() == losses_of(tmp_path / "whole").read_bytes()
