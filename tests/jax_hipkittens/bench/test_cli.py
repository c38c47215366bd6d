import dataclasses
import json

import pytest

from jax_hipkittens import __main__ as command
from jax_hipkittens.bench import cases


@pytest.fixture
def small_cases(monkeypatch):
    """The real norm cases on 64 rows."""
    found = [case for case in cases.all_cases() if case.op == "rms_norm"]
    inputs = cases.normal_inputs("bfloat16", (64, 2048), (2048,))
    small = [dataclasses.replace(case, inputs=inputs) for case in found]
    monkeypatch.setattr(cases, "all_cases", lambda: iter(small))


def test_bench(small_cases, tmp_path, capsys):
    json_path, plot_path = tmp_path / "bench.json", tmp_path / "bench.png"
    options = ["--op", "rms_norm", "--seconds", "0.05"]
    options += ["--json", str(json_path), "--plot", str(plot_path)]
    assert command.main(["bench", *options]) == 0
    out, err = capsys.readouterr()
    assert "8192 x 2048 bfloat16 fwd+bwd" in out and "GB/s" in out
    assert "2/2" in err  # the progress bar
    assert len(json.loads(json_path.read_text())["cases"]) == 2
    assert plot_path.stat().st_size > 0


def test_bench_of_an_unknown_op(capsys):
    with pytest.raises(SystemExit, match="2"):
        command.main(["bench", "--op", "conv"])
    assert "invalid choice: 'conv'" in capsys.readouterr().err


def test_static_figures(capsys):
    assert command.main(["bench", "--static"]) == 0
    out = capsys.readouterr().out
    assert "no GPU has run these kernels" in out
    assert "gemm on gfx950, by " in out and "gemm on gfx942, by " in out
