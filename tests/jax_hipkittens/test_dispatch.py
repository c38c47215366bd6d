"""The dispatcher: order, fallback, reasons."""

import logging

import jax
import jax.numpy as jnp
import pytest

from jax_hipkittens import _dispatch


def decline(x, strict=None):
    raise NotImplementedError(f"x up to 3, but received {x}")


def serve(x, strict=None):
    return x + 1


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch):
    monkeypatch.setattr(_dispatch, "_said", set())


def test_order():
    assert _dispatch.order("op", None) == ("hk", "xla")
    assert _dispatch.order("op", "xla") == ("xla",)
    assert _dispatch.order("op", ["xla", "hk"]) == ("xla", "hk")


def test_the_first_that_serves_runs(caplog):
    def unreached(x):
        raise AssertionError("the second implementation ran")

    assert _dispatch.run("op", None, {"hk": serve, "xla": unreached}, 4) == 5
    assert not caplog.records


def test_falls_back_and_says_so_once_per_reason(caplog):
    table = {"hk": decline, "xla": serve}
    for x in (4, 4, 5, 4):
        assert _dispatch.run("op", None, table, x) == x + 1
    assert _dispatch.run("other", ("hk", "xla"), table, 4) == 5
    assert [record.getMessage() for record in caplog.records] == [
        "op falls back to XLA: x up to 3, but received 4",
        "op falls back to XLA: x up to 3, but received 5",
        "other falls back to XLA: x up to 3, but received 4",
    ]
    assert {(r.name, r.levelno) for r in caplog.records} == {
        ("jax_hipkittens", logging.WARNING)
    }


def test_a_single_name_never_falls_back(caplog):
    with pytest.raises(
        NotImplementedError, match="^op: x up to 3, but received 4; implem"
    ):
        _dispatch.run("op", "hk", {"hk": decline, "xla": serve}, 4)
    assert not caplog.records


def test_if_all_decline_every_reason_is_given():
    def also(x):
        raise NotImplementedError("not today")

    with pytest.raises(
        NotImplementedError, match="^op: hk: x up to 3, but received 4; xla: not today"
    ):
        _dispatch.run("op", None, {"hk": decline, "xla": also}, 4)


def test_mistakes_are_not_fallen_back_from():
    def wrong(x, strict):
        raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        _dispatch.run("op", None, {"hk": wrong, "xla": serve}, 4)


@pytest.mark.parametrize("name", ["cuda", "", ("hk", "cuda"), 3])
def test_unknown_names(name):
    with pytest.raises(ValueError, match="^op: expected implementation to be one of"):
        _dispatch.run("op", name, {"hk": serve, "xla": serve}, 4)


def test_chooses_while_tracing():
    out = jax.jit(lambda x: _dispatch.run("op", None, {"hk": serve}, x))(jnp.ones(2))
    assert out.shape == (2,)


@pytest.mark.parametrize(
    ("implementation", "strict"), [("hk", True), (["hk"], True), (None, False)]
)
def test_says_whether_xla_may_replace_it(implementation, strict):
    table = {"hk": lambda strict: strict, "xla": lambda: None}
    assert _dispatch.run("op", implementation, table) is strict
