"""Ops on eight devices, mesh dp4 x tp2: prints what failed, by the case's name.

Run in a process of its own, as the number of devices is fixed when JAX starts.
"""

import collections
import functools
import re
import traceback

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import jax_hipkittens as hk
from tests.jax_hipkittens import bits

COLLECTIVES = "all-reduce|all-gather|all-to-all|collective-permute|reduce-scatter"
NOTHING: dict[str, int] = {}
ANY = None


def mesh(kind=AxisType.Auto):
    return jax.make_mesh((4, 2), ("dp", "tp"), axis_types=(kind, kind))


@functools.cache
def draw(*shapes):
    """Standard normal f32 arrays."""
    rng = np.random.default_rng(len(shapes))
    return [rng.standard_normal(shape, np.float32) for shape in shapes]


def both(op):
    """The results of ``op`` and its pullback, as one function."""

    def run(operands, cotangents):
        results, pull = jax.vjp(op, *operands)
        return results, pull(cotangents)

    return run


def put(arrays, specs, on=None):
    on = on or mesh()
    return [
        jax.device_put(x, NamedSharding(on, P(*spec)))
        for x, spec in zip(arrays, specs, strict=True)
    ]


def collectives(compiled):
    found = re.findall(rf" ({COLLECTIVES})(?:-start)?\(", compiled.as_text())
    return dict(collections.Counter(found))


def close(actual, expected):
    for x, y in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        assert x.shape == y.shape and x.dtype == y.dtype
        np.testing.assert_allclose(x, y, rtol=2e-5, atol=2e-5 * np.abs(y).max())


@functools.cache
def unsharded(op, shapes, cotangent_shapes):
    arrays = draw(*shapes, *cotangent_shapes)
    operands, cotangents = arrays[: len(shapes)], arrays[len(shapes) :]
    return jax.jit(both(op))(operands, _one_or_tuple(cotangents))


def _one_or_tuple(values):
    return values[0] if len(values) == 1 else tuple(values)


def check(op, shapes, cotangent_shapes, specs, cotangent_specs, forward, total):
    """Sharded equals unsharded, by so many collectives; ``total`` is with gradients."""
    arrays = put(draw(*shapes, *cotangent_shapes), [*specs, *cotangent_specs])
    operands, cotangents = arrays[: len(shapes)], arrays[len(shapes) :]
    compiled = jax.jit(both(op)).lower(operands, _one_or_tuple(cotangents)).compile()
    found = compiled(operands, _one_or_tuple(cotangents))
    close(found, unsharded(op, tuple(shapes), tuple(cotangent_shapes)))
    if total is not ANY:
        assert collectives(compiled) == total, collectives(compiled)
    if forward is not ANY:
        only = collectives(jax.jit(op).lower(*operands).compile())
        assert only == forward, only


CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def family(name, function, **specs):
    for key, each in specs.items():
        CASES[f"{name}, {key}"] = functools.partial(function, *each)


# attention ----------------------------------------------------------------------------

Q, OUT, LSE = (8, 16, 4, 8), (8, 16, 4, 8), (8, 16, 4)
KV, ONE_KV, FOUR_KV = (8, 24, 2, 8), (8, 24, 1, 8), (8, 24, 4, 8)


def attention(q, k, v):
    return hk.attention(
        q, k, v, is_causal=True, return_residual=True, implementation="hk"
    )


def attend(q, kv, out, forward, total, kv_shape=KV):
    cotangent_specs = [out, out[:3]]
    specs = [q, kv, kv]
    shapes = [Q, kv_shape, kv_shape]
    check(attention, shapes, [OUT, LSE], specs, cotangent_specs, forward, total)


BATCH, HEADS, BOTH = ("dp",), (None, None, "tp"), ("dp", None, "tp")
family(
    "attention",
    attend,
    batch=(BATCH, BATCH, BATCH, NOTHING, NOTHING),
    heads=(HEADS, HEADS, HEADS, NOTHING, NOTHING),
    both=(BOTH, BOTH, BOTH, NOTHING, NOTHING),
    batch_on_both_axes=(*[(("dp", "tp"),)] * 3, NOTHING, NOTHING),
    sequence=(*[(None, "dp")] * 3, ANY, ANY),
    head_dim=(*[(None, None, None, "tp")] * 2, (), ANY, ANY),
    only_queries=(BOTH, (), BOTH, NOTHING, ANY),
    only_keys_and_values=((), BOTH, (), ANY, ANY),
    batch_on_different_axes=(("dp",), ("tp",), ("dp",), ANY, ANY),
    cotangent_otherwise=(BOTH, BOTH, ("tp", "dp"), NOTHING, ANY),
    one_kv_head=(HEADS, (), HEADS, NOTHING, ANY, ONE_KV),
    fewer_kv_heads_than_devices=((None, None, "dp"), (), (), NOTHING, ANY),
    as_many_kv_heads=(HEADS, HEADS, HEADS, NOTHING, NOTHING, FOUR_KV),
)


def biased_attention(q, k, v, bias):
    return hk.attention(q, k, v, bias, implementation="hk")


def attend_with_one_bias_for_all_heads(spec, bias):
    specs = [spec, spec, spec, ()]
    check(biased_attention, [Q, KV, KV, bias], [OUT], specs, [spec], NOTHING, ANY)


family(
    "bias of all heads",
    attend_with_one_bias_for_all_heads,
    heads=(HEADS, (1, 1, 16, 24)),
    both=(BOTH, (8, 1, 16, 24)),
    of_keys=(HEADS, (1, 1, 1, 24)),
)


@case
def attention_gradients_of_one_kv_head_are_reduced_once():
    def gradients(q, kv, d_out):
        _, pull = jax.vjp(lambda kv: attention(q, kv, kv)[0], kv)
        return pull(d_out)

    arrays = put(draw(Q, ONE_KV, OUT), [HEADS, (), HEADS])
    compiled = jax.jit(gradients).lower(*arrays).compile()
    assert set(collectives(compiled)) == {"all-reduce"}, collectives(compiled)
    text = compiled.as_text()
    operands = re.findall(r" all-reduce\(([^)]*)\)", text)
    assert sum(len(each.split(",")) for each in operands) <= 2, operands


EXTRAS = [(1, 4, 16, 24), (4,)]  # bias, sinks
SEGMENTS = np.sort(np.random.default_rng(0).integers(0, 2, (8, 24)))


def attention_with_extras(q, k, v, bias, sinks):
    return hk.attention(
        *(q, k, v, bias),
        sinks=sinks,
        query_segment_ids=SEGMENTS[:, :16],
        key_value_segment_ids=SEGMENTS,
        dropout_rate=0.3,
        dropout_key=jax.random.key(5),
        implementation="hk",
    )


def attend_with_extras(batch, heads):
    specs = [(batch, None, heads)] * 3 + [(None, heads), (heads,)]
    arguments = [Q, KV, KV, *EXTRAS], [OUT], specs, specs[:1]
    total = ANY if batch else NOTHING
    check(attention_with_extras, *arguments, NOTHING, total)


def same_mask(*specs):
    """Dropout drops the same: the outputs are equal to the bit."""
    arrays = draw(Q, KV, KV, *EXTRAS)
    expected = jax.jit(attention_with_extras)(*arrays)
    found = jax.jit(attention_with_extras)(*put(arrays, [*specs, (), ()]))
    bits.assert_same_bits(found, expected)


family(
    "attention with extras",
    attend_with_extras,
    batch=("dp", None),
    heads=(None, "tp"),
    both=("dp", "tp"),
)
family(
    "dropout of attention",
    same_mask,
    both=(BOTH, BOTH, BOTH),
    only_queries=(BOTH, (), ()),
    sequence=((None, "dp"), (None, "tp"), ()),
    batch_on_both_axes=((("dp", "tp"),), (), ()),
)

# GEMM ---------------------------------------------------------------------------------

A, B, C, N = (16, 32), (32, 8), (16, 8), (8,)


def gemm(a, b, bias):
    return hk.matmul(a, b, bias=bias, activation="gelu", implementation="hk")


def multiply(a, b, bias, c, forward):
    check(gemm, [A, B, N], [C], [a, b, bias], [c], forward, ANY)


def products(a, b, bias):
    one = functools.partial(hk.matmul, implementation="hk")
    return jax.vmap(lambda a, bias: one(a, b, bias=bias))(a, bias)


@case
def an_ensemble_of_biases_and_rows_contracted_over_a_split_axis():
    specs = [(None, None, "dp"), ("dp",), ()]
    check(products, [(3, 5, 8), (8, 4), (3, 4)], [(3, 5, 4)], specs, [()], ANY, ANY)


def contract(lhs, rhs, forward):
    """Transposed operands with a batch axis in the middle."""

    def op(lhs, rhs):
        numbers = ((0, 2), (0, 2)), ((1,), (1,))
        return hk.dot_general(lhs, rhs, numbers, implementation="hk")

    shapes = [(4, 8, 2, 6), (4, 8, 2, 10)]
    check(op, shapes, [(8, 6, 10)], [lhs, rhs], [()], forward, ANY)


REDUCED = {"all-reduce": 1}
family(
    "gemm",
    multiply,
    m=(("dp",), (), (), ("dp",), NOTHING),
    n=((), (None, "tp"), ("tp",), (None, "tp"), NOTHING),
    m_and_n=(("dp",), (None, "tp"), ("tp",), ("dp", "tp"), NOTHING),
    k=((None, "dp"), ("dp",), (), (), REDUCED),
    k_of_one_operand=((None, "dp"), (), (), (), REDUCED),
    m_and_k=(("dp", "tp"), ("tp",), (), ("dp",), REDUCED),
    m_and_k_on_one_axis=(("dp",), ("dp",), (), (), ANY),
)
family(
    "dot_general",
    contract,
    batch=((None, "dp"), (None, "dp"), NOTHING),
    contracted=(("dp",), ("dp",), REDUCED),
    both_contracted=(("dp", None, "tp"), ("dp", None, "tp"), REDUCED),
    free=((None, None, None, "tp"), (), NOTHING),
)

# norms --------------------------------------------------------------------------------

X = (8, 4, 16)


def norm(x, residual, weight, bias):
    return hk.layer_norm(
        *(x, weight, bias),
        residual=residual,
        dropout_rate=0.25,
        dropout_key=jax.random.key(3),
        implementation="hk",
    )


def rms(x, weight):
    return hk.rms_norm(x, weight, implementation="hk")


def normalise(rows, forward):
    specs = [rows, rows, (), ()]
    check(norm, [X, X, (16,), (16,)], [X, X], specs, [rows, rows], forward, ANY)


def normalise_rms(rows, total):
    check(rms, [X, (16,)], [X], [rows, ()], [rows], NOTHING, total)


def same_norm_mask(rows):
    arrays = draw(X, X, (16,), (16,))
    expected = jax.jit(norm)(*arrays)
    found = jax.jit(norm)(*put(arrays, [rows, (), (), ()]))
    bits.assert_same_bits(found, expected)


family(
    "layer_norm",
    normalise,
    rows=(("dp", "tp"), NOTHING),
    inner_rows=((None, "tp"), NOTHING),
    hidden=((None, None, "tp"), ANY),
)
family(
    "rms_norm",
    normalise_rms,
    rows=(("dp", "tp"), REDUCED),
    outer_rows=(("dp",), REDUCED),
)
family(
    "dropout of norms",
    same_norm_mask,
    rows=(("dp", "tp"),),
    inner_rows=((None, "dp"),),
    hidden=((None, None, "tp"),),
)

# rotary -------------------------------------------------------------------------------


def rotary(x):
    tables = hk.rotary_tables(32, 8)
    return hk.rotary(x, *tables, offset=jnp.arange(8), implementation="hk")


def rotary_and_tables(x, cos, sin):
    return hk.rotary(x, cos, sin, offset=jnp.arange(8), implementation="hk")


def turn(spec, total):
    check(rotary, [Q], [Q], [spec], [spec], total, total)


def turn_tables(spec, table):
    shapes = [Q, (32, 4), (32, 4)]
    specs = [spec, table, table]
    check(rotary_and_tables, shapes, [Q], specs, [spec], ANY, ANY)


family(
    "rotary",
    turn,
    batch=(("dp",), NOTHING),
    time=((None, "dp"), NOTHING),
    heads=((None, None, "tp"), NOTHING),
    all=(("dp", None, "tp"), NOTHING),
    head_dim=((None, None, None, "tp"), ANY),
)
family(
    "rotary with tables",
    turn_tables,
    whole=((None, "dp", "tp"), ()),
    positions=(("dp",), ("tp",)),
)

# other ways to shard ------------------------------------------------------------------


def weighted(q, kv, weight, matrix, bias):
    """Everything at once; what is shared by all devices has gradients too."""
    q = hk.rms_norm(q, weight, implementation="hk")
    q = hk.rotary(q, *hk.rotary_tables(16, 8), implementation="hk")
    out = hk.attention(q, kv, kv, bias, implementation="hk")
    return hk.matmul(out, matrix, activation="silu", implementation="hk")


WEIGHTED = [Q, KV, (8,), (8, 8), (1, 4, 16, 24)]


def value_and_gradients(function, operands):
    def total(*operands):
        return jnp.sum(jnp.sin(function(*operands)))

    return jax.jit(jax.value_and_grad(total, argnums=tuple(range(5))))(*operands)


def expected_of_weighted():
    return value_and_gradients(weighted, draw(*WEIGHTED))


def in_shard_map(axes, specs, out):
    mapped = jax.shard_map(
        weighted,
        mesh=mesh(),
        in_specs=tuple(P(*spec) for spec in specs),
        out_specs=P(*out),
        axis_names=axes,
    )
    close(value_and_gradients(mapped, draw(*WEIGHTED)), expected_of_weighted())


EVERY = {"dp", "tp"}
family(
    "shard_map",
    in_shard_map,
    batch=(EVERY, [BATCH, BATCH, (), (), ()], BATCH),
    both=(EVERY, [BOTH, BOTH, (), (), (None, "tp")], BOTH),
    leaving_heads_to_jit=({"dp"}, [BATCH, BATCH, (), (), ()], BATCH),
)


@case
def jit_of_everything():
    arrays = put(draw(*WEIGHTED), [BOTH, BOTH, (), (), (None, "tp")])
    close(value_and_gradients(weighted, arrays), expected_of_weighted())


@case
def without_shardy():
    if not hasattr(jax.config, "jax_use_shardy_partitioner"):
        return
    jax.config.update("jax_use_shardy_partitioner", False)
    jax.clear_caches()
    try:
        attend(BOTH, BOTH, BOTH, NOTHING, NOTHING)
        attend((None, "dp"), BATCH, BOTH, ANY, ANY)
        multiply((None, "dp"), ("dp",), (), (), REDUCED)
        normalise_rms(("dp", "tp"), REDUCED)
        turn((None, "dp", "tp"), NOTHING)
    finally:
        jax.config.update("jax_use_shardy_partitioner", True)
        jax.clear_caches()


@case
def vmap_of_a_sharded_axis():
    q, kv = draw((4, 2, 16, 4, 8), (4, 2, 24, 2, 8))
    mapped = jax.vmap(lambda q, kv: attention(q, kv, kv)[0], spmd_axis_name="dp")
    operands = put([q, kv], [("dp",), ("dp",)])
    compiled = jax.jit(mapped).lower(*operands).compile()
    close(compiled(*operands), jax.jit(mapped)(q, kv))
    assert collectives(compiled) == NOTHING, collectives(compiled)


@case
def explicit_shardings_are_left_to_xla():
    explicit = mesh(AxisType.Explicit)
    ops = {
        "attention": lambda x, name: hk.attention(x, x, x, implementation=name),
        "matmul": lambda x, name: hk.matmul(x, matrix, implementation=name),
        "rms_norm": lambda x, name: hk.rms_norm(x, matrix[0], implementation=name),
        "rotary": lambda x, name: hk.rotary(
            x, *hk.rotary_tables(16, 8), implementation=name
        ),
    }
    array, matrix = draw(Q, (8, 8))

    def gradient(op, x, name):
        return jax.jit(jax.grad(lambda x: jnp.sum(jnp.sin(op(x, name)))))(x)

    for name, op in ops.items():
        expected = gradient(op, array, "hk")
        with jax.set_mesh(explicit):
            (x,) = put([array], [BOTH], explicit)
            close(gradient(op, x, None), expected)
            try:
                gradient(op, x, "hk")
            except NotImplementedError as error:
                assert str(error).startswith(f"{name}: HK kernels serve arrays whose")
                continue
        raise AssertionError(f"{name} took an explicit sharding")


# any shardings ------------------------------------------------------------------------


def norm_of_rows(x, weight):
    return hk.rms_norm(x, weight, implementation="hk")


def turned(x):
    return hk.rotary(x, *hk.rotary_tables(16, 8), implementation="hk")


@st.composite
def specs_of(draw_one, shape):
    """A partition of an array's axes over the mesh axes, each at most once."""
    left = {"dp": 4, "tp": 2}
    spec = []
    for size in shape:
        fitting = [
            names
            for names in [("dp",), ("tp",), ("dp", "tp"), ("tp", "dp")]
            if set(names) <= set(left)
            and size % int(np.prod([left[name] for name in names])) == 0
        ]
        names = draw_one(st.sampled_from([(), *fitting]))
        spec.append(names or None)
        left = {name: size for name, size in left.items() if name not in names}
    return tuple(spec)


def shard_at_random(op, shapes, cotangent_shapes):
    every = [*shapes, *cotangent_shapes]

    @settings(max_examples=6, deadline=None, database=None)
    @given(st.tuples(*map(specs_of, every)))
    def run(specs):
        inputs, cotangents = specs[: len(shapes)], specs[len(shapes) :]
        check(op, shapes, cotangent_shapes, inputs, cotangents, ANY, ANY)

    run()


family(
    "any shardings",
    shard_at_random,
    attention=(attention, [Q, KV, KV], [OUT, LSE]),
    attention_with_extras=(attention_with_extras, [Q, KV, KV, *EXTRAS], [OUT]),
    gemm=(gemm, [A, B, N], [C]),
    rms_norm=(norm_of_rows, [(8, 16, 32), (32,)], [(8, 16, 32)]),
    rotary=(turned, [Q], [OUT]),
)


def main(only=""):
    """Runs the cases whose names contain ``only``."""
    assert jax.device_count() == 8
    for name, run in CASES.items():
        if only not in name:
            continue
        try:
            run()
        except Exception:
            print(f"{name}: {traceback.format_exc(limit=-3)}")
    print(f"ran {len(CASES)} cases")
