import pytest
import torch
import torch.nn.functional as F

from seq2seq.model.dropout import Dropout


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5, 0.999])
def test_each_number_is_dropped_with_the_rate_and_the_others_are_scaled(rate):
    torch.manual_seed(0)
    factors = Dropout(rate)(torch.ones(1000, 1001, dtype=torch.float64))
    kept = factors[factors != 0]
    assert kept.unique().numel() == 1
    assert kept[0].item() == pytest.approx(1 / (1 - rate), rel=1e-2 if rate > 0.9 else 1e-4)
    spread = (rate * (1 - rate) / factors.numel()) ** 0.5
    assert abs((factors == 0).double().mean().item() - rate) < 5 * spread + 1e-5
    # Whatever rounding does to the rate, nothing is gained or lost on average.
    assert factors.mean().item() == pytest.approx(1, abs=6 * spread / (1 - rate))


def test_neighbours_rows_and_draws_are_independent():
    """All four numbers that share a draw of 64 bits, too."""
    torch.manual_seed(0)
    rate = 0.25
    kept = (Dropout(rate)(torch.ones(2, 400, 1000)) != 0).double()
    for a, b in (
        *((kept[..., :-k], kept[..., k:]) for k in range(1, 9)),
        (kept[:, :-1], kept[:, 1:]),
        (kept[0], kept[1]),
    ):
        covariance = (a * b).mean() - a.mean() * b.mean()
        assert abs(covariance.item()) < 5 * rate * (1 - rate) / a.numel() ** 0.5


@pytest.mark.parametrize("shape", [(), (1,), (3,), (4,), (5, 7), (2, 0, 3)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_any_shape_and_precision_is_taken(shape, dtype):
    factors = Dropout(0.5)(torch.ones(shape, dtype=dtype))
    assert (factors.shape, factors.dtype) == (torch.Size(shape), dtype)
    assert ((factors == 0) | (factors == 2)).all()


def test_the_gradient_is_dropped_where_the_number_was():
    torch.manual_seed(0)
    x = torch.randn(40, 50, requires_grad=True)
    out = Dropout(0.3)(x)
    out.backward(torch.ones_like(x))
    torch.testing.assert_close(x.grad * x.detach(), out.detach())
    assert 0 < (x.grad == 0).sum() < x.numel()


def test_a_seed_repeats_it_and_nothing_is_dropped_in_evaluation_or_at_rate_zero():
    x = torch.randn(30, 30)
    draws = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        draws.append(Dropout(0.5)(x))
    assert draws[0].equal(draws[1])
    assert not draws[0].equal(draws[2])
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0)(x) is x


def test_the_rate_is_that_of_torch():
    torch.manual_seed(0)
    x = torch.ones(1000, 1000)
    ours, theirs = Dropout(0.2)(x), F.dropout(x, 0.2)
    shares = [(out == 0).float().mean().item() for out in (ours, theirs)]
    assert shares[0] == pytest.approx(shares[1], abs=2e-3)
    assert ours.max().item() == pytest.approx(theirs.max().item(), rel=1e-4)
