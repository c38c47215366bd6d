"""A Llama of Hugging Face transformers and the example's, with the same weights."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from examples.flax_llama import model
from examples.flax_llama.config import Config
from examples.flax_llama.data import VOCABULARY

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

CONFIG = Config(
    dim=48, layers=2, heads=4, kv_heads=2, head_dim=12, ffn_dim=80, tied=False
)


def theirs():
    """Theirs with random weights, norms included."""
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=CONFIG.dim,
        intermediate_size=CONFIG.ffn_dim,
        num_hidden_layers=CONFIG.layers,
        num_attention_heads=CONFIG.heads,
        num_key_value_heads=CONFIG.kv_heads,
        head_dim=CONFIG.head_dim,
        rms_norm_eps=model.NORM_EPSILON,
        rope_theta=CONFIG.rope_base,
        tie_word_embeddings=False,
        attn_implementation="eager",
    )
    torch.manual_seed(0)
    llama = transformers.LlamaForCausalLM(config).float().eval()
    with torch.no_grad():
        for name, parameter in llama.named_parameters():
            draw = torch.randn_like(parameter)
            parameter.copy_(1 + 0.2 * draw if "norm" in name else 0.15 * draw)
    return llama


def converted(of):
    """Arrays in the places that the example's model has for them.

    ``of`` gives the array of a name of theirs: a weight, or its gradient. Theirs are
    [outputs, inputs].
    """

    def side_by_side(prefix, *names):
        return np.concatenate([of(f"{prefix}.{n}.weight").T for n in names], axis=1)

    blocks = {}
    for i in range(CONFIG.layers):
        at = f"model.layers.{i}"
        attention, ffn = f"{at}.self_attn", f"{at}.mlp"
        qkv = side_by_side(attention, "q_proj", "k_proj", "v_proj")
        blocks[i] = {
            "attention_norm": {"scale": of(f"{at}.input_layernorm.weight")},
            "attention": {
                "qkv": {"kernel": qkv},
                "out": {"kernel": side_by_side(attention, "o_proj")},
            },
            "ffn_norm": {"scale": of(f"{at}.post_attention_layernorm.weight")},
            "ffn": {
                "gate_up": {"kernel": side_by_side(ffn, "gate_proj", "up_proj")},
                "down": {"kernel": side_by_side(ffn, "down_proj")},
            },
        }
    return {
        "embedding": of("model.embed_tokens.weight"),
        "blocks": blocks,
        "norm": {"scale": of("model.norm.weight")},
        "head": {"kernel": of("lm_head.weight").T},
    }


@pytest.mark.parametrize("implementation", ["hk", "xla"])
def test_logits_and_gradients(implementation, monkeypatch):
    monkeypatch.setattr(model, "DTYPE", jnp.float32)
    llama = theirs()
    weights = {n: p.detach().numpy() for n, p in llama.named_parameters()}
    pure = converted(weights.__getitem__)
    # The example's embedding is scaled where it is used.
    pure["embedding"] = pure["embedding"] / CONFIG.dim**0.5

    tokens = np.random.default_rng(0).integers(0, VOCABULARY, (2, 19))
    logits = llama(torch.asarray(tokens)).logits
    d_logits = torch.cos(torch.arange(logits.numel())).reshape(logits.shape)
    logits.backward(d_logits)
    gradients = {n: p.grad.numpy() for n, p in llama.named_parameters()}
    expected = converted(gradients.__getitem__)
    expected["embedding"] = expected["embedding"] * CONFIG.dim**0.5

    config = dataclasses.replace(CONFIG, implementation=implementation)
    ours = nnx.eval_shape(lambda: model.Llama(config, nnx.Rngs(0)))
    graph, state = nnx.split(ours)
    nnx.replace_by_pure_dict(state, jax.tree.map(jnp.asarray, pure))

    @jax.jit
    def run(state, d_logits):
        def logits(state):
            return nnx.merge(graph, state)(jnp.asarray(tokens))

        y, pullback = jax.vjp(logits, state)
        return y, pullback(d_logits)[0]

    actual, d_state = run(state, jnp.asarray(d_logits.numpy()))
    np.testing.assert_allclose(actual, logits.detach().numpy(), rtol=1e-4, atol=1e-4)
    found = nnx.to_pure_dict(d_state)
    jax.tree.map(
        lambda x, y: np.testing.assert_allclose(
            x, y, rtol=1e-3, atol=1e-4 * np.abs(y).max()
        ),
        found,
        expected,
    )
