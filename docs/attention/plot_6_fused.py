"""
6. Dropout and the fused kernel
===============================

The formula is complete. This lesson shows what training adds to it, and the fast function that
computes it: torch's ``scaled_dot_product_attention``. This function makes some mistakes easy.
"""

import time

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F

from seq2seq.model import masks
from seq2seq.model.attention import MultiHeadAttention, attend, attention_weights
from seq2seq.model.fused_attention import fused_backend

plt.rcParams["image.cmap"] = "Blues"

# %%
# Dropout of attention weights
# ----------------------------
# In training, dropout sets some weights to zero at random, *after* the softmax, so that no query
# relies on one key. It divides the others by 1 - p (not by p), which keeps the mean of each
# weight. In evaluation, all weights stay.

torch.manual_seed(6)
x = torch.randn(1, 1, 8, 16)
weights = attention_weights(x, x, masks.causal(8, 8))
dropped = F.dropout(weights, 0.25)
kept = dropped > 0
torch.testing.assert_close(dropped[kept], weights[kept] / (1 - 0.25))

_, axes = plt.subplots(1, 2, layout="constrained")
boards = {"evaluation": weights, "training": dropped}
for ax, (title, board) in zip(axes, boards.items(), strict=True):
    ax.matshow(board[0, 0], vmin=0, vmax=1)
    ax.set_title(title)

module, x_BTD = MultiHeadAttention(16, n_heads=2, dropout=0.25), torch.randn(1, 8, 16)
assert not module.train()(x_BTD).equal(module(x_BTD))  # other weights at each call
assert module.eval()(x_BTD).equal(module(x_BTD))

# %%
# The rows on the right no longer sum to 1, so ``module.weights`` returns the weights before
# dropout. The layer around attention (``Residual``) has a second dropout, of the projected output.
#
# **Exercise 6.1.** Average 2,000 draws of ``attend(..., dropout=0.25)``. What do you expect?
#
# One kernel in place of four operations
# --------------------------------------
# Written out, attention stores T x S scores for each head, masks them, stores weights, and
# multiplies. A *fused* kernel (Dao et al. 2022, "FlashAttention") goes through the keys block by
# block and never stores all scores. ``attend`` has both: ``kernel="reference"``, and ``"sdpa"``,
# the default.

lengths, times = (64, 128, 256, 512, 1024), {"reference": [], "sdpa": []}
for length in lengths:
    q, k, v = torch.randn(3, 1, 8, length, 64)
    torch.testing.assert_close(attend(q, k, v, kernel="reference"), attend(q, k, v))
    for kernel, points in times.items():
        start = time.perf_counter()
        attend(q, k, v, kernel=kernel)
        points.append(1000 * (time.perf_counter() - start))

_, ax = plt.subplots()
for kernel, points in times.items():
    ax.loglog(lengths, points, "o-", label=kernel)
ax.set(xlabel="length", ylabel="milliseconds, here and once")
ax.legend()

# %%
# **Exercise 6.2.** How much memory do the weights of one layer with 8 heads take at length 4,096?
#
# Five traps of torch's function
# ------------------------------
# 1. A raw mask (B, S) broadcasts as (T, S).
# 2. A mask together with ``is_causal=True``: some kernels combine both, others raise an error.
#    Dropout decides which kernel runs, so this can work in evaluation and fail in training.
# 3. Dropout is an argument: the function knows nothing of ``module.eval()``.
# 4. ``is_causal`` counts from the first key. A new query after old keys (lesson 8) sees only the
#    first of them.
# 5. A mask of zeros and ones is *added* to the scores, so it hides nothing.
#
# ``attend`` accepts boolean masks only, makes one mask of all, and lets the last query see the
# last key.

q, k, v = torch.randn(3, 2, 4, 6, 16)
allowed = masks.padding(torch.arange(6) < torch.tensor([[6], [3]]))
both = masks.combine(allowed, masks.causal(6, 6))
torch.testing.assert_close(attend(q, k, v, allowed, causal=True), attend(q, k, v, both))
print("torch runs:", fused_backend(q, k, v, both))
print("with dropout:", fused_backend(q, k, v, both, dropout=0.1))

last = q[:, :, -1:]
torchs = F.scaled_dot_product_attention(last, k, v, is_causal=True)
torch.testing.assert_close(torchs, v[:, :, :1])  # it read the first key, and nothing else
torch.testing.assert_close(attend(last, k, v, causal=True), attend(last, k, v))

numbers = torch.ones(6, 6).tril()  # not boolean: trap 5
added = F.scaled_dot_product_attention(q, k, v, numbers)
assert not torch.allclose(added, attend(q, k, v, causal=True))
try:
    attend(q, k, v, numbers[None, None])
except ValueError as error:
    print(error)

boards = {"is_causal": torch.ones(1, 6).tril(), "attend": masks.causal(1, 6)[0, 0]}
_, axes = plt.subplots(2, 1, layout="constrained")
for ax, (title, board) in zip(axes, boards.items(), strict=True):
    ax.matshow(board, vmin=0, vmax=1.5)
    ax.set(title=title, yticks=[])

# %%
# **Exercise 6.3.** Show the second trap: call torch's function with a mask, ``is_causal`` and
# dropout.
#
# Answers
# -------
# **6.1** The output without dropout, but for the noise of the draws: dropout keeps the mean.

q, k, v = torch.randn(3, 1, 1, 4, 8)
many = attend(*(x.expand(2000, -1, -1, -1) for x in (q, k, v)), dropout=0.25)
print((many.mean(dim=0) - attend(q, k, v)[0]).abs().max())

# %%
# **6.2** 8 · 4,096² numbers of 4 bytes: half a GiB, for one sentence. The fused kernel stores
# none.

assert 8 * 4096**2 * 4 == 2**29

# %%
# **6.3** On a CPU, it is an error with dropout and none without.

mask = masks.causal(4, 4)
F.scaled_dot_product_attention(q, k, v, mask, is_causal=True)
try:
    F.scaled_dot_product_attention(q, k, v, mask, dropout_p=0.1, is_causal=True)
except RuntimeError as error:
    print(error)
