from jax_hipkittens.bench import memory


def test_hk_grows_less_than_the_logits():
    length = 2048
    found = memory.measure(length)
    logits = memory.HEADS * length * length * 4 / 2**20
    assert found.xla_planned >= logits
    assert 0 < found.hk_measured < logits / 2
    assert found.hk_planned < logits / 2
