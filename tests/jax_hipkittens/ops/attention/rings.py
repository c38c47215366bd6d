"""Checks of ring attention on 8 devices, run in one process of their own.

``main`` prints one line of JSON: what became of each of ``CHECKS``, "right" or a
traceback.
"""

import functools
import json
import re
import traceback
from collections import Counter
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import jax_hipkittens as hk
from tests.jax_hipkittens import bits
from tests.jax_hipkittens.accuracy import assert_as_accurate
from tests.jax_hipkittens.ops.attention import cases
from tests.jax_hipkittens.ops.attention.cases import Case

COLLECTIVE = re.compile(
    r" (collective-permute|all-gather|all-reduce|reduce-scatter|all-to-all)"
    r"(?:-start)?\("
)


class Split(NamedTuple):
    """A case, and how it lies on the 8 devices."""

    case: Case
    dtype: str
    parts: int
    order: str = "contiguous"
    other: str = "batch_axes"  # what the other mesh axis splits


SPLITS = {
    "causal": Split(
        Case(batch=2, queries=48, keys=48, options=dict(is_causal=True)), "bfloat16", 4
    ),
    "causal zigzag": Split(
        Case(queries=48, keys=48, options=dict(is_causal=True)),
        *("float32", 4, "zigzag", "head_axes"),
    ),
    "all keys": Split(
        Case(queries=32, keys=64), "float32", 4, "contiguous", "head_axes"
    ),
    "causal window zigzag": Split(
        Case(4, 32, 32, options=dict(is_causal=True, local_window_size=(9, 0))),
        *("bfloat16", 2, "zigzag"),
    ),
    "window": Split(
        Case(4, 32, 32, kv_heads=1, options=dict(local_window_size=(4, 11))),
        *("float32", 2),
    ),
}


def mesh_of(parts, others=None):
    others = others or 8 // parts
    return jax.make_mesh(
        *((others, parts), ("other", "tokens")),
        axis_types=(AxisType.Auto,) * 2,
        devices=jax.devices()[: others * parts],
    )


def ring(split, implementation="hk", **more):
    """Attention of whole arrays that lie as ``split`` says."""
    return functools.partial(
        hk.ring_attention_sharded,
        mesh=mesh_of(split.parts),
        axis_name="tokens",
        order=split.order,
        implementation=implementation,
        **{split.other: "other"},
        **split.case.options,
        **more,
    )


def laid_out(split, inputs):
    """``inputs`` on the devices that need them."""
    heads = "other" if split.other == "head_axes" else None
    spec = PartitionSpec("other" if heads is None else None, "tokens", heads)
    return jax.device_put(inputs, NamedSharding(mesh_of(split.parts), spec))


@jax.jit(static_argnums=0)
def value_and_gradients(op, inputs):
    results, pullback = jax.vjp(op, *inputs[:3])
    return *results, *pullback((inputs.d_out, inputs.d_lse))


def check_values(split):
    """Forward and gradients, their bits, and how devices talk to each other."""
    inputs = cases.draw(split.case, split.dtype)
    op = ring(split, return_residual=True)
    given = laid_out(split, inputs)
    compiled = value_and_gradients.lower(op, given).compile()
    actual = compiled(given)
    bits.assert_same_bits(compiled(given), actual)
    xla = cases.run(split.case, "xla", inputs)
    exact = cases.exact(split.case, inputs)
    for each in zip(actual, xla, exact, cases.noise(split.case, inputs), strict=False):
        assert_as_accurate(*each)

    # Keys and values there; cotangents with them and home. In the loop of the steps
    # between first and last, too, if there are any.
    permutations = 2 + 4 + (2 + 4 if split.parts > 2 else 0)
    if split.order == "zigzag":  # Two halves of five arrays, there and back.
        permutations += 20
    found = Counter(COLLECTIVE.findall(compiled.as_text()))
    assert found == {"collective-permute": permutations}, found


def computations(text):
    """Of each computation of an HLO module: {instruction: (opcode, operands)}."""
    for body in re.findall(r"^[^\n]*\{\n(.*?)^\}", text, re.MULTILINE | re.DOTALL):
        found = {}
        for line in body.splitlines():
            parts = re.match(r"\s*(?:ROOT )?%?([\w.-]+) = .*? ([\w-]+)\((.*)", line)
            if parts:
                name, opcode, rest = parts.groups()
                found[name] = opcode, re.findall(r"%([\w.-]+)", rest)
        yield found


def check_overlap():
    """No block waits for a kernel of its step, and no kernel for a block under way."""
    split = next(iter(split for split in SPLITS.values() if split.parts == 4))
    inputs = cases.draw(split.case, split.dtype)
    op = ring(split, return_residual=True)
    compiled = value_and_gradients.lower(op, laid_out(split, inputs)).compile()
    loops = 0
    for body in computations(compiled.as_text()):

        @functools.cache
        def before(name, body=body):
            """The opcodes of all that an instruction depends on."""
            operands = [x for x in body.get(name, ("", []))[1] if x in body]
            return frozenset(body[x][0] for x in operands).union(*map(before, operands))

        opcodes = {opcode for opcode, _ in body.values()}
        if not {"custom-call", "collective-permute"} <= opcodes or "while" in opcodes:
            continue
        loops += 1
        for name, (opcode, _) in body.items():
            if opcode == "collective-permute":
                assert "custom-call" not in before(name), name
            if opcode == "custom-call":
                assert "collective-permute" not in before(name), name
    assert loops == 2  # Of the forward and the backward.


def check_rows_without_keys():
    """Queries beyond the window's last key, on devices whose blocks hide all keys."""
    options = dict(is_causal=True, local_window_size=(7, 0))
    split = Split(Case(4, 64, 32, options=options), "float32", 2)
    inputs = cases.draw(split.case, split.dtype)
    out, lse, *gradients = value_and_gradients(
        ring(split, return_residual=True), laid_out(split, inputs)
    )
    seen = split.case.visible().any(axis=-1)
    assert not seen.all() and seen.any()
    assert (np.asarray(out)[~seen] == 0).all()
    assert np.isneginf(np.asarray(lse)[~seen]).all()
    expected = cases.run(split.case, "hk", inputs)
    np.testing.assert_allclose(out, expected[0], rtol=1e-4, atol=1e-5)
    for x, y in zip(gradients, expected[2:], strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5)


def check_memory():
    """Of the gradient, that a device holds, over more and more devices."""
    case = Case(queries=1024, keys=1024, heads=2, kv_heads=1)
    inputs = cases.draw(case, "float32")
    sizes = []
    for parts in (2, 4, 8):
        mesh = mesh_of(parts, others=1)
        given = jax.device_put(
            inputs, NamedSharding(mesh, PartitionSpec(None, "tokens"))
        )
        op = functools.partial(
            hk.ring_attention_sharded,
            mesh=mesh,
            axis_name="tokens",
            is_causal=True,
            implementation="hk",
            return_residual=True,
        )
        compiled = value_and_gradients.lower(op, given).compile()
        memory = compiled.memory_analysis()
        kept = memory.argument_size_in_bytes + memory.output_size_in_bytes
        sizes.append((memory.temp_size_in_bytes, kept))
    temporary, whole = zip(*((x, x + kept) for x, kept in sizes), strict=True)
    assert temporary[0] > temporary[1] > temporary[2], sizes
    # Only more than two devices need a loop, whose state P = 2 does without.
    assert temporary[2] < 0.6 * min(temporary[:2]), sizes
    assert whole[1] < 0.7 * whole[0] and whole[2] < 0.6 * whole[1], sizes


SMALL = Split(
    Case(batch=1, queries=16, keys=16, kv_heads=2, dim=8, options={"is_causal": True}),
    *("float32", 2, "zigzag", "head_axes"),
)


def assert_both_agree(function):
    """``function(op, q, k, v)`` of the ring and of attention on one device."""
    inputs = cases.draw(SMALL.case._replace(heads=8, kv_heads=4), SMALL.dtype)[:3]
    whole = functools.partial(hk.attention, implementation="xla", **SMALL.case.options)
    actual, expected = (
        jax.jit(functools.partial(function, op))(*inputs) for op in (ring(SMALL), whole)
    )
    for x, y in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-3, atol=1e-4)


def loss(op, *operands, **options):
    return jnp.sum(jnp.sin(op(*operands, **options)))


def check_vmap():
    def mapped(op, query, key, value):
        gradients = jax.grad(functools.partial(loss, op), argnums=(0, 1, 2))
        queries = jnp.stack([query, 2 * query])
        return jax.vmap(gradients, in_axes=(0, None, None))(queries, key, value)

    assert_both_agree(mapped)


def check_forward_mode():
    def tangent(op, *operands):
        return jax.jvp(op, operands, operands)

    assert_both_agree(tangent)


def check_second_order():
    def twice(op, *operands):
        def slope(*operands):
            return jnp.sum(jax.grad(functools.partial(loss, op), 1)(*operands) ** 2)

        return jax.grad(slope, argnums=(0, 1, 2))(*operands)

    assert_both_agree(twice)


def check_scale():
    def of_scale(op, *operands):
        return jax.grad(lambda x: loss(op, *operands, scale=x))(jnp.float32(0.3))

    assert_both_agree(of_scale)


def check_unchecked_shard_map():
    """On blocks laid out by hand, two mesh axes as one ring, and check_vma=False."""
    mesh, spec = mesh_of(2), PartitionSpec(None, ("other", "tokens"))
    case = Case(queries=32, keys=32, dim=8, options={"is_causal": True})
    inputs = cases.draw(case, "float32")
    order = hk.zigzag_order(32, 8)

    def local(*blocks):
        return hk.ring_attention(
            *blocks,
            axis_name=("other", "tokens"),
            order="zigzag",
            implementation="hk",
            return_residual=True,
            **case.options,
        )

    def op(*operands):
        mapped = jax.shard_map(
            *(local,), mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False
        )
        results = mapped(*(x[:, order] for x in operands))
        return tuple(x[:, np.argsort(order)] for x in results)

    actual = value_and_gradients(op, inputs)
    for x, y in zip(actual, cases.run(case, "hk", inputs), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5)


CHECKS: dict[str, Any] = {
    **{name: functools.partial(check_values, split) for name, split in SPLITS.items()},
    "rows without keys": check_rows_without_keys,
    "overlap": check_overlap,
    "memory": check_memory,
    "vmap": check_vmap,
    "forward mode": check_forward_mode,
    "second order": check_second_order,
    "scale": check_scale,
    "unchecked shard_map": check_unchecked_shard_map,
}


def main():
    found = {}
    for name, check in CHECKS.items():
        try:
            with jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"):
                check()
            found[name] = "right"
        except Exception:
            found[name] = traceback.format_exc()
    print(json.dumps(found))
