import json

import pytest

from jax_hipkittens.bench import cases, memory, plot, report


def case(**changes):
    found = next(iter(cases.all_cases()))
    return cases.dataclasses.replace(
        found, work=4e9, target=cases.Target(xla=3.0, torch=1.5), **changes
    )


TIMES = {"hk": [0.1, 0.1, 0.2], "xla": [0.4, 0.4, 0.4], "torch": [0.1, 0.1]}


def test_a_result():
    result = report.result_of(case(), "jax.nn", TIMES)
    assert result.seconds == {"hk": 0.1, "xla": 0.4, "torch": 0.1}
    assert result.speedup == {"xla": 4.0, "torch": 1.0}
    assert result.rate("hk") == pytest.approx(40.0)


def test_the_table_marks_missed_targets():
    line = report.table([report.result_of(case(), "jax.nn", TIMES)]).splitlines()[1]
    assert "40.0 GFLOP/s" in line
    assert "4.00x of 3.00 " in line
    assert "1.00x of 1.50!" in line


def test_the_table_without_pytorch():
    times = {name: TIMES[name] for name in ("hk", "xla")}
    line = report.table([report.result_of(case(), "jax.nn", times)]).splitlines()[1]
    assert line.split()[-2:] == ["-", "-"]


@pytest.mark.parametrize("measured, word", [(100.0, "below"), (300.0, "ABOVE")])
def test_memory_lines(measured, word):
    text = report.memory_lines(memory.Memory(16384, measured, 1.0, 9000.0))
    assert f"{measured} MiB ({word} the limit of 256)" in text
    assert "9000.0 MiB" in text


def test_files(tmp_path):
    results = [
        report.result_of(case(), "jax.nn", TIMES),
        report.result_of(case(unit="GB/s"), "reference", {"hk": [0.1], "xla": [0.2]}),
    ]
    found = memory.Memory(16384, 1.0, 2.0, 3.0)
    report.write_json(tmp_path / "b.json", results, found)
    content = json.loads((tmp_path / "b.json").read_text())
    assert content["cases"][0]["speedup"]["xla"] == 4.0
    assert content["memory"]["xla_planned"] == 3.0
    assert content["machine"]["threads"] >= 1
    plot.draw(tmp_path / "b.png", results, "title")
    assert (tmp_path / "b.png").read_bytes().startswith(b"\x89PNG")
