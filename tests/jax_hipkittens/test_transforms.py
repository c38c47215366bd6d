"""Every op under JAX's transformations does what plain JAX does."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jax_hipkittens as hk
from tests.jax_hipkittens import bits

TABLES = hk.rotary_tables(9, 6)


def attention(q, k, v, name):
    return hk.attention(q, k, v, is_causal=True, implementation=name)


def attention_of_everything(q, k, v, bias, scale, sinks, name):
    out, lse = hk.attention(
        *(q, k, v, bias),
        scale=scale,
        sinks=sinks,
        query_seq_lengths=jnp.array([5, 3], jnp.int32),
        logits_soft_cap=4.0,
        implementation=name,
        return_residual=True,
    )
    lse = jnp.where(lse == -jnp.inf, 0, lse)  # of queries past the length
    return out + jnp.sin(lse)[..., None]


def matmul(a, b, bias, name):
    return hk.matmul(a, b, bias=bias, activation="gelu", implementation=name)


def dot_general(lhs, rhs, name):
    numbers = ((0,), (1,)), ((1,), (0,))
    return hk.dot_general(lhs, rhs, numbers, implementation=name)


def layer_norm(x, weight, bias, residual, name):
    y, h = hk.layer_norm(x, weight, bias, residual=residual, implementation=name)
    return y * jnp.cos(h)


def rms_norm(x, weight, name):
    return hk.rms_norm(x, weight, implementation=name)


def rotary(x, cos, sin, name):
    return hk.rotary(x, cos, sin, offset=2, interleaved=True, implementation=name)


SHAPES = {
    attention: [(2, 5, 4, 6), (2, 7, 2, 6), (2, 7, 2, 6)],
    attention_of_everything: [
        *[(2, 5, 4, 6), (2, 7, 2, 6), (2, 7, 2, 6), (1, 4, 5, 7), (), (4,)]
    ],
    matmul: [(3, 5, 6), (6, 4), (4,)],
    dot_general: [(6, 3, 5), (3, 6, 4)],
    layer_norm: [(2, 5, 6), (6,), (6,), (2, 5, 6)],
    rms_norm: [(2, 5, 6), (6,)],
    rotary: [(2, 5, 3, 8), (9, 3), (9, 3)],
}
OPS = pytest.mark.parametrize("op", SHAPES, ids=lambda op: op.__name__)

FEW = pytest.mark.parametrize(
    "op", [attention, matmul, layer_norm, rotary], ids=lambda op: op.__name__
)


def draw(shapes, seed=0, lead=()):
    rng = np.random.default_rng(seed)
    return [
        jnp.asarray(rng.standard_normal((*lead, *shape)), jnp.float32)
        for shape in shapes
    ]


def close(actual, expected, tolerance=2e-5):
    actual, expected = jax.tree.leaves(actual), jax.tree.leaves(expected)
    assert len(actual) == len(expected)
    for x, y in zip(actual, expected, strict=True):
        assert x.shape == y.shape and x.dtype == y.dtype
        noise = tolerance * max(1.0, np.abs(y).max(initial=0.0))
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=noise)


def check(make, op, *args, tolerance=2e-5):
    """``make(op)`` by HK is as by XLA, and the same eagerly and under jit."""
    by_hk = make(lambda *operands: op(*operands, "hk"))
    by_xla = make(lambda *operands: op(*operands, "xla"))
    found = jax.jit(by_hk)(*args)
    close(found, jax.jit(by_xla)(*args), tolerance)
    return by_hk, found


def gradient(function, count):
    """Of every operand, for a cotangent that is not uniform."""
    total = lambda *xs: jnp.sum(jnp.sin(function(*xs)))  # noqa: E731
    return jax.grad(total, argnums=tuple(range(count)))


def equations(jaxpr):
    """Names of all primitives in a jaxpr, those inside others included."""
    for equation in jaxpr.eqns:
        yield equation.primitive.name
        for parameter in equation.params.values():
            for each in jax.tree.leaves(
                parameter, is_leaf=lambda x: hasattr(x, "eqns") or hasattr(x, "jaxpr")
            ):
                inner = getattr(each, "jaxpr", each)
                if hasattr(inner, "eqns"):
                    yield from equations(inner)


# vmap ---------------------------------------------------------------------------------


def mapped_operands(shapes, axes, size=3):
    operands = []
    for i, (shape, axis) in enumerate(zip(shapes, axes, strict=True)):
        (x,) = draw([shape], i, () if axis is None else (size,))
        operands.append(x if axis is None else jnp.moveaxis(x, 0, axis))
    return operands


def mixes(shapes):
    """The first mapped alone, all but the first, and all at their last axes."""
    n = len(shapes)
    return [
        (0, *[None] * (n - 1)),
        (None, *[0] * (n - 1)),
        tuple(len(shape) for shape in shapes),
    ]


@OPS
@pytest.mark.parametrize("mix", range(3), ids=["first", "rest", "last_axis"])
def test_vmap_of_value_and_gradient(op, mix):
    shapes = SHAPES[op]
    axes = mixes(shapes)[mix]
    operands = mapped_operands(shapes, axes)

    def make(function):
        def both(*xs):
            return function(*xs), gradient(function, len(shapes))(*xs)

        return jax.vmap(both, in_axes=axes)

    check(make, op, *operands)


@OPS
def test_vmap_is_one_call(op):
    shapes = SHAPES[op]
    operands = mapped_operands(shapes, (0,) * len(shapes))
    function = jax.vmap(jax.vmap(lambda *xs: op(*xs, "hk")))
    twice = [jnp.stack([x, x]) for x in operands]
    names = list(equations(jax.make_jaxpr(function)(*twice).jaxpr))
    assert names.count("jax_hipkittens_call") == 1
    assert not {"scan", "while"} & set(names)


@OPS
def test_nested_vmap_with_outer_axes_and_grad_of_vmap(op):
    shapes = SHAPES[op]
    n = len(shapes)
    inner, outer = (0, *[None] * (n - 1)), (None, *[0] * (n - 1))
    operands = mapped_operands(shapes, inner, 2)
    operands = [operands[0], *(jnp.stack([x, 2 * x, -x]) for x in operands[1:])]

    def make(function):
        nested = jax.vmap(
            jax.vmap(function, in_axes=inner, out_axes=-1), in_axes=outer, out_axes=1
        )
        return lambda *xs: (nested(*xs), gradient(nested, n)(*xs))

    check(make, op, *operands)


@pytest.mark.parametrize("size", [0, 1])
@FEW
def test_a_mapped_axis_of_size_none_or_one(op, size):
    shapes = SHAPES[op]
    axes = (0,) * len(shapes)
    operands = mapped_operands(shapes, axes, size)
    check(lambda f: jax.vmap(lambda *x: gradient(f, len(axes))(*x)), op, *operands)


# derivatives --------------------------------------------------------------------------


@FEW
def test_jit_is_eager(op):
    shapes = SHAPES[op]
    operands = draw(shapes)

    def both(*xs):
        results, pull = jax.vjp(lambda *x: op(*x, "hk"), *xs)
        return results, pull(jnp.cos(results))

    eager = both(*operands)
    value, pulled = jax.jit(both)(*operands)
    close(pulled, eager[1])  # XLA computes some of them, and the cotangent.
    if op is not layer_norm:  # XLA multiplies its results.
        bits.assert_same_bits(value, eager[0])


@OPS
def test_forward_mode(op):
    """jvp, linearize with the transpose of what it gives, and one operand alone."""
    shapes = SHAPES[op]
    operands, dots = draw(shapes), draw(shapes, 1)

    def make(function):
        def run(operands, dots):
            value, change = jax.jvp(function, operands, dots)
            _, linear = jax.linearize(function, *operands)
            back = jax.linear_transpose(linear, *operands)(jnp.cos(value))
            alone = jax.jvp(
                lambda x: function(x, *operands[1:]), operands[:1], dots[:1]
            )
            return value, change, linear(*dots), back, alone

        return run

    check(make, op, operands, dots)


@FEW
def test_jacobians(op):
    shapes = SHAPES[op]
    operands = draw(shapes)

    def make(function):
        def few(x):
            """Two numbers of the result, which depend on all of it."""
            y = function(x, *operands[1:]).reshape(-1)
            return jnp.stack([jnp.sum(jnp.sin(y)), jnp.sum(y[::2] ** 2)])

        def direction(s):
            return function(operands[0] * s, *operands[1:])

        return lambda x, s: (jax.jacrev(few)(x), jax.jacfwd(direction)(s))

    check(make, op, operands[0], jnp.float32(1.1))


@FEW
def test_second_derivatives(op):
    """grad(grad) and a Hessian-vector product in all operands."""
    shapes = SHAPES[op]
    operands, dots = draw(shapes), draw(shapes, 1)
    n = len(shapes)

    def make(function):
        def run(operands, dots):
            first = gradient(function, n)
            _, product = jax.jvp(first, operands, dots)

            def slope(*xs):
                parts = zip(first(*xs), dots, strict=True)
                return sum(jnp.vdot(g, d) for g, d in parts)

            return product, jax.grad(slope, argnums=tuple(range(n)))(*operands)

        return run

    check(make, op, tuple(operands), tuple(dots), tolerance=1e-4)


@FEW
def test_checkpoint_in_a_scan(op):
    shapes = SHAPES[op]
    operands = draw(shapes)

    def make(function):
        def total(*xs):
            def layer(carry, x):
                y = function(*(each + carry for each in xs))
                return 0.1 * jnp.mean(jnp.sin(y)) + x, jnp.sum(y)

            carry, sums = jax.lax.scan(jax.checkpoint(layer), 0.1, jnp.arange(2.0))
            return carry + 0.01 * jnp.sum(jnp.sin(sums))

        return jax.value_and_grad(total, argnums=tuple(range(len(shapes))))

    check(make, op, *operands, tolerance=1e-4)


# what may be passed -------------------------------------------------------------------


def test_numpy_inputs_and_numbers_as_scales():
    q, k, v = (np.asarray(x) for x in draw(SHAPES[attention]))
    expected = hk.attention(q, k, v, scale=0.5, implementation="xla")
    traced = jax.jit(lambda s: hk.attention(q, k, v, scale=s, implementation="hk"))
    for scale in 0.5, np.float64(0.5), np.float32(0.5), jnp.float32(0.5):
        close(hk.attention(q, k, v, scale=scale, implementation="hk"), expected)
        close(traced(scale), expected)
    d_scale = jax.grad(lambda s: jnp.sum(jnp.sin(traced(s))))(0.5)
    by_xla = jax.grad(
        lambda s: jnp.sum(jnp.sin(hk.attention(q, k, v, scale=s, implementation="xla")))
    )(0.5)
    close(d_scale, by_xla)


def test_weak_types_are_dropped_as_by_xla():
    weak = jnp.full((2, 4), 1.5)  # weak when made of a Python number by lax
    weak = jax.lax.full_like(weak, 1.5) * 1.0
    scalar = jax.jit(lambda s: hk.rms_norm(jnp.broadcast_to(s, (2, 4))))
    result = jax.eval_shape(scalar, 2.0)
    assert result.dtype == jnp.float32 and not result.weak_type
    assert hk.matmul(weak, jnp.ones((4, 3)), implementation="hk").dtype == jnp.float32


@FEW
def test_where_numbers_have_64_bits(op):
    """f32 stays f32, in gradients too; f64 is XLA's."""
    shapes = SHAPES[op]
    operands = draw(shapes)
    plain = jax.jit(gradient(lambda *x: op(*x, "hk"), len(shapes)))(*operands)
    with jax.enable_x64(True):
        wide = jax.jit(gradient(lambda *x: op(*x, "hk"), len(shapes)))(*operands)
        close(wide, plain)
        doubles = [jnp.asarray(np.asarray(x), jnp.float64) for x in operands]
        with pytest.raises(NotImplementedError, match="float64"):
            op(*doubles, "hk")
        assert op(*doubles, None).dtype == jnp.float64


def test_donated_operands():
    q, k, v = draw([(2, 5, 4, 6)] * 3)
    expected = jax.jit(functools.partial(attention, name="hk"))(q, k, v)
    donating = jax.jit(functools.partial(attention, name="hk"), donate_argnums=0)
    bits.assert_same_bits(donating(q, k, v), expected)
    assert q.is_deleted() and not k.is_deleted()


@OPS
def test_shapes_alone(op):
    operands = draw(SHAPES[op])
    by_hk, by_xla = (
        jax.eval_shape(lambda *x, name=name: op(*x, name), *operands)
        for name in ("hk", "xla")
    )
    assert by_hk == by_xla and by_hk.weak_type == by_xla.weak_type


EMPTY = {
    "B": (attention, [(0, 5, 4, 6), (0, 7, 2, 6), (0, 7, 2, 6)]),
    "T": (attention, [(2, 0, 4, 6), (2, 7, 2, 6), (2, 7, 2, 6)]),
    "S": (attention, [(2, 5, 4, 6), (2, 0, 2, 6), (2, 0, 2, 6)]),
    "M": (matmul, [(3, 0, 6), (6, 4), (4,)]),
    "K": (matmul, [(3, 5, 0), (0, 4), (4,)]),
    "N": (matmul, [(3, 5, 6), (6, 0), (0,)]),
    "rows": (layer_norm, [(0, 5, 6), (6,), (6,), (0, 5, 6)]),
    "steps": (rotary, [(2, 0, 3, 8), (9, 3), (9, 3)]),
}


@pytest.mark.parametrize("which", EMPTY)
def test_empty_arrays(which):
    op, shapes = EMPTY[which]
    n = len(shapes)

    def make(function):
        both = lambda *x: (function(*x), gradient(function, n)(*x))  # noqa: E731
        return lambda xs, mapped: (both(*xs), jax.vmap(both)(*mapped))

    check(make, op, draw(shapes), draw(shapes, 1, (2,)))


def test_debug_nans_sees_an_op_make_one():
    x = draw([(2, 5, 6)])[0]
    with jax.debug_nans(True):
        hk.rms_norm(x, implementation="hk").block_until_ready()
        for run in hk.rms_norm, jax.jit(hk.rms_norm):
            with pytest.raises(FloatingPointError, match="nan"):
                run(x.at[0, 0, 0].set(jnp.inf))


@pytest.mark.skipif(not hasattr(jax, "pmap"), reason="this JAX has no pmap")
@pytest.mark.filterwarnings("ignore:.*pmap.*:DeprecationWarning")
def test_without_jit():
    x = jnp.ones((1, 4, 2, 8))
    ops = {
        "attention": lambda x: hk.attention(x, x, x),
        "matmul": lambda x: hk.matmul(x, x.mT),
        "rms_norm": hk.rms_norm,
        "rotary": lambda x: hk.rotary(x, *hk.rotary_tables(4, 8)),
    }
    for op in ops.values():
        expected = jax.grad(lambda x, op=op: op(x).sum())(x)
        with jax.disable_jit():
            found = jax.grad(lambda x, op=op: op(x).sum())(x)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_pmap():
    operands = mapped_operands(SHAPES[attention], (0, 0, 0), 1)
    value = jax.pmap(functools.partial(attention, name="hk"))(*operands)
    bits.assert_same_bits(value[0], attention(*(x[0] for x in operands), "hk"))


@pytest.mark.parametrize("mapped", ["offset", "tables"])
def test_one_array_turned_by_many_angles(mapped):
    x = draw([(1, 4, 2, 8)])[0]
    tables = hk.rotary_tables(16, 8)
    many = [jnp.stack([table, table[::-1]]) for table in tables]

    def make(name):
        def by_offset(offset):
            return hk.rotary(x, *tables, offset=offset, implementation=name)

        def by_tables(cos, sin):
            return hk.rotary(x, cos, sin, implementation=name)

        if mapped == "offset":
            return jax.vmap(by_offset)(jnp.arange(3))
        of_all = jax.grad(lambda *t: jnp.sum(jnp.sin(by_tables(*t))), (0, 1))
        return jax.vmap(by_tables)(*many), jax.vmap(of_all)(*many)

    jax.tree.map(close, make("hk"), make("xla"))
