"""Which axes of a kernel are split over which mesh axes: no devices needed."""

from types import SimpleNamespace

import jax.numpy as jnp
import pytest
from jax.sharding import PartitionSpec as P

from jax_hipkittens import _partition
from jax_hipkittens._partition import Letters, Part, choose
from jax_hipkittens.ops.attention import kernel as attention
from jax_hipkittens.ops.attention.masks import NONE, Masks
from jax_hipkittens.ops.attention.scores import Operands, Scores
from jax_hipkittens.ops.gemm.kernel import Gemm

MESH = {"dp": 4, "tp": 2}
MATRICES = Letters(("amk", "akn"), ("amn",), "amnk")


def arg(shape, *spec):
    """An operand as custom_partitioning describes it."""
    return SimpleNamespace(shape=shape, sharding=SimpleNamespace(spec=P(*spec)))


@pytest.mark.parametrize(
    ("left", "right", "split"),
    [
        ((), (), {}),
        (("dp",), (), {"a": ("dp",)}),
        ((None, ("dp", "tp")), (), {"m": ("dp", "tp")}),
        # The second operand's own letter, and one that both have.
        (("dp",), (None, None, "tp"), {"a": ("dp",), "n": ("tp",)}),
        ((None, None, "tp"), (None, "dp"), {"k": ("tp",)}),
        # A mesh axis splits one letter alone: the first that has it.
        ((None, "tp"), (None, None, "tp"), {"m": ("tp",)}),
        ((None, ("dp", "tp")), (None, None, "tp"), {"m": ("dp", "tp")}),
        # The same letter split in two ways: as the first operand is.
        (("tp",), ("dp",), {"a": ("tp",)}),
    ],
)
def test_letters_are_split_as_operands_come(left, right, split):
    operands = arg((4, 8, 8), *left), arg((4, 8, 8), *right)
    assert choose(MATRICES, MESH, operands) == split


def test_parts_have_one_size():
    operands = arg((4, 6, 8), None, "dp"), arg((4, 8, 6), "tp", None, "tp")
    assert choose(MATRICES, MESH, operands) == {"a": ("tp",)}


def test_only_shardable_letters_are_split():
    letters = Letters(("mz", "_"), ("mz",), "m")
    operands = arg((8, 8), "dp", "tp"), arg((2,), "tp")
    assert choose(letters, MESH, operands) == {"m": ("dp",)}


def test_an_operand_without_a_spec_is_whole():
    operands = SimpleNamespace(shape=(4, 8, 8), sharding=None), arg((4, 8, 8), "dp")
    assert choose(MATRICES, MESH, operands) == {"a": ("dp",)}


@pytest.mark.parametrize(
    ("heads", "kv_heads", "query", "key", "split"),
    [
        (4, 2, "tp", "tp", {"n": ("tp",), "k": ("tp",)}),
        (4, 2, "tp", None, {"n": ("tp",), "k": ("tp",)}),
        (4, 2, None, "tp", {"n": ("tp",), "k": ("tp",)}),
        (8, 1, "tp", None, {"n": ("tp",)}),
        (8, 2, "dp", None, {"n": ("dp",)}),
        (8, 2, "dp", "tp", {"n": ("dp",)}),
        # Three heads over two devices: a device would need parts of groups.
        (6, 3, "tp", None, {}),
        (6, 6, "tp", "tp", {"n": ("tp",), "k": ("tp",)}),
        (4, 2, None, None, {}),
        (2, 1, None, "tp", {}),
    ],
)
def test_heads_are_split_with_those_that_they_share(heads, kv_heads, query, key, split):
    letters = Letters(("btn", "bsk"), ("btn",), "bnk", ("n", "k"))
    operands = (
        arg((4, 8, heads), None, None, query),
        arg((4, 8, kv_heads), None, None, key),
    )
    assert choose(letters, MESH, operands) == split


def test_one_head_that_all_share_has_no_letter():
    letters = Letters(("btn", "bs_"), ("btn",), "bnk", ("n", "k"))
    operands = arg((4, 8, 4), None, None, "tp"), arg((4, 8, 1))
    assert choose(letters, MESH, operands) == {"n": ("tp",)}


def test_what_lacks_a_split_letter_is_a_sum(monkeypatch):
    summed = []
    monkeypatch.setattr(
        _partition.jax.lax, "psum", lambda x, axes: summed.append(axes) or x
    )
    part = Part(MESH, {"m": ("dp",), "k": ("tp",)})
    x = jnp.ones(2, jnp.bfloat16)
    assert part.sum_missing(x, "mk").dtype == jnp.bfloat16 and summed == []
    assert part.sum_missing(x, "k").dtype == jnp.bfloat16 and summed == [("dp",)]
    # Heads tied to those they share: an array of either is whole.
    tied = Part(MESH, {"n": ("tp",), "k": ("tp",)}, ("n", "k"))
    tied.sum_missing(x, "n")
    tied.sum_missing(x, "k")
    assert len(summed) == 1
    tied.sum_missing(x, "z")
    assert len(summed) == 2


def test_counts_of_parts():
    part = Part(MESH, {"m": ("dp", "tp")})
    assert (part.count("m"), part.count("n"), part.place("n")) == (8, 1, 0)


def test_shardy_is_told_the_same_letters():
    letters = Letters(("am_", "a_n"), ("amn",), "amn")
    assert _partition._sharding_rule(letters) == "a m u0, a u1 n -> a m n"


def test_leading_axes_come_first_and_axes_of_size_one_are_nobodys():
    gemm = Gemm((True, True, False), True, 1, 1, 1, False, True, jnp.dtype("float32"))
    letters = gemm._letters([jnp.ones((3, 1, 4, 5)), jnp.ones((1, 2, 6, 5))])
    assert letters.operands == ("A_aq", "_Biq")
    assert letters.results == ("ABai",)
    assert letters.shardable == "ABaiq"


@pytest.mark.parametrize("layout", ["BTNH", "BNTH"])
def test_letters_of_attention(layout):
    scores = Scores(Masks(NONE, None), layout, None, 0.0)
    shape = {"query": (2, 8, 4, 16), "key": (2, 8, 2, 16), "value": (2, 8, 2, 16)}
    if layout == "BNTH":
        shape = {name: (b, h, t, d) for name, (b, t, h, d) in shape.items()}
    shape |= {"query_lengths": (2,), "key_lengths": (2,), "scale": (1,)}
    shape |= {"origin": (2, 4), "bias": (1, 4, 1, 8)}
    given = Operands(**{name: jnp.zeros(size) for name, size in shape.items()})
    present = tuple(x is not None for x in given)
    found = attention.Forward(present, True, scores)._letters(
        [x for x in given if x is not None]
    )
    q, k, v, out = ("Atnd", "Askd", "Aske", "Atne")
    if layout == "BNTH":
        q, k, v, out = ("Antd", "Aksd", "Akse", "Ante")
    assert found.operands == (q, k, v, "A", "A", "_", "A_", "_n_s")
    assert found.results == (out, "Ant")
    assert found.shardable == "Ank" and found.tied == ("n", "k")
