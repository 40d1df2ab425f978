"""
4. Masks
========

A mask says which query may read which key. In this project a mask is boolean, and **True means "may
attend"**. Some programs mean the opposite, so check before you combine code. A mask has the four
dimensions (B, H, T, S) of the scores, and any of them may be 1.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch

from seq2seq.model import masks
from seq2seq.model.attention import attend, attention_weights, masked_softmax

plt.rcParams["image.cmap"] = "Blues"

# %%
# A table that you can check
# --------------------------
# Three queries (rows) have scored three keys (columns). A mask acts *before* the softmax: a
# forbidden score becomes -∞, whose exponential is 0. The key then has no weight, and the other
# weights of its row grow, so that the row sums to 1 again.

scores_TS = torch.tensor([[7.0, -8.0, 6.0], [-3.0, 2.0, 4.0], [1.0, 6.0, -2.0]])
real_S, order_TS = torch.tensor([True, True, False]), masks.causal(3, 3)[0, 0]
tables = {
    "no mask": scores_TS.softmax(dim=-1),
    "key 2 is padding": masked_softmax(scores_TS, real_S),
    "causal": masked_softmax(scores_TS, order_TS),
}
by_hand = scores_TS.masked_fill(~order_TS, -torch.inf).softmax(dim=-1)
torch.testing.assert_close(tables["causal"], by_hand)

_, axes = plt.subplots(1, 3, layout="constrained")
for ax, (title, board) in zip(axes, tables.items(), strict=True):
    ax.matshow(board, vmin=0, vmax=2)
    ax.set_title(title)
    for (row, column), weight in np.ndenumerate(board.numpy()):
        ax.text(column, row, f"{weight:.3f}", ha="center", va="center")

# %%
# **Exercise 4.1.** Mask key 2 *after* the softmax instead: set its weights to zero. What do the
# rows sum to?
#
# Padding
# -------
# Sentences of a batch have different lengths. Padding fills up the short ones, and no query may
# read it. ``masks.padding`` takes (B, S), "is this token real", and returns a mask (B, 1, 1, S),
# which broadcasts over heads and queries. A mask with copies for all queries, (B, 1, T, S), gives
# the same and takes more memory.

torch.manual_seed(4)
real_BS = torch.arange(6) < torch.tensor([[6], [4]])  # a sentence of six words, one of four
x = torch.randn(2, 1, 6, 8)
allowed = masks.padding(real_BS)
weights, context = attention_weights(x, x, allowed), attend(x, x, x, allowed)
torch.testing.assert_close(attend(x, x, x, allowed.expand(2, 1, 6, 6)), context)
torch.testing.assert_close(masked_softmax(torch.zeros(6), real_BS[1]), real_BS[1] / 4)

_, axes = plt.subplots(1, 2, layout="constrained")
for ax, board in zip(axes, weights[:, 0], strict=True):
    ax.matshow(board, vmin=0)
    ax.set(xlabel="key", ylabel="query")
assert not weights[1, :, :, 4:].any()

# %%
# Only columns are empty. Attention also computes the last two rows, whose *queries* are padding.
# No harm comes from them: later layers mask them as keys, and the loss leaves them out.
#
# **Exercise 4.2.** Write 1000 into the padding. Which contexts change?
#
# Causal attention
# ----------------
# In training, a decoder learns all positions of a sentence at once, so position t must not see the
# word that it has to predict. ``masks.causal`` lets query t read the keys up to t. Some programs
# keep one large mask for the longest text and cut its upper left corner out: that is the same.
# Others multiply the weights by the mask and divide each row by its sum: that is the same on
# paper.

order = masks.causal(6, 6)
assert order.equal(masks.causal(10, 10)[:, :, :6, :6])
torch.testing.assert_close(attend(x, x, x, causal=True), attend(x, x, x, order))
cut = attention_weights(x, x) * order
renormalised = cut / cut.sum(dim=-1, keepdim=True)
torch.testing.assert_close(renormalised, attention_weights(x, x, order))

_, axes = plt.subplots(1, 2, layout="constrained")
for ax, board in zip(axes, (cut[0, 0], renormalised[0, 0]), strict=True):
    ax.matshow(board, vmin=0, vmax=1)
    ax.set_title(f"rows sum to {board.sum(-1).min():.2f} and more")

# %%
# **Exercise 4.3.** Give the last key a score of 200. Does "multiply and divide" still work?
#
# Both, and a query that sees nothing
# -----------------------------------
# Masks with the same meaning combine by "and". Padding must be masked in causal attention, too.
# Texts that are aligned at their ends are padded on the *left*; then the first queries see nothing
# at all. A softmax of -∞ alone is 0 / 0 = NaN, and one NaN spoils all gradients, even if the loss
# leaves the row out. ``attend`` gives such a query a context of zero.

left = masks.combine(masks.padding(torch.tensor([[0, 0, 1, 1, 1, 1]])), order)
x = torch.randn(1, 1, 6, 8, requires_grad=True)
for kernel in ("reference", "sdpa"):
    context = attend(x, x, x, left, kernel=kernel)
    (gradient,) = torch.autograd.grad(context[:, :, 2:].sum(), x)
    assert not context[0, 0, :2].any()
    assert gradient.isfinite().all()
naive = (x @ x.transpose(-1, -2)).masked_fill(~left, -torch.inf).softmax(dim=-1) @ x
(gradient,) = torch.autograd.grad(naive[:, :, 2:].sum(), x)
assert gradient.isnan().any()

right = masks.combine(masks.padding(real_BS[1:]), order)
_, axes = plt.subplots(1, 3, layout="constrained")
boards = {"causal": order, "and padding": right, "padding on the left": left}
for ax, (title, board) in zip(axes, boards.items(), strict=True):
    ax.matshow(board[0, 0], vmin=0, vmax=1.5)
    ax.set_title(title)

# %%
# **Exercise 4.4.** A text of 8 places has 4 real tokens. How many cells of its combined mask are
# True?
#
# A mask of its own for each query
# --------------------------------
# A mask may be any table: here each query sees its neighbours and the first word. A mask (B, T, S)
# needs a dimension for the heads. Programs whose tensors begin with the length, (T, B, D), often
# have masks (T, S, B): transpose both first.

near_TS = (torch.arange(6)[:, None] - torch.arange(6)).abs() < 2
near_TS[:, 0] = True
per_query_BTS = torch.stack([near_TS, near_TS & real_BS[1]])
sentence_last_TSB = per_query_BTS.permute(1, 2, 0)
assert sentence_last_TSB.permute(2, 0, 1).equal(per_query_BTS)
x = torch.randn(2, 3, 6, 8)  # three heads
plt.matshow(attention_weights(x, x, per_query_BTS[:, None])[1, 0], vmin=0)

# %%
# **Exercise 4.5.** Why does ``attend`` refuse a plain (B, S) mask, even if B = T?
#
# Answers
# -------
# **4.1** To less than 1: what key 2 had is lost.

print((tables["no mask"] * real_S).sum(dim=-1))

# %%
# **4.2** Only those of the padding itself.

x, junk = x[:, :1], x[:, :1].masked_fill(~real_BS[:, None, :, None], 1000)
moved = (attend(junk, junk, junk, allowed) != attend(x, x, x, allowed)).any(dim=-1)
assert moved[:, 0].equal(~real_BS)

# %%
# **4.3** No: the other weights round to zero, and 0 / 0 is NaN. Mask *before* the softmax.

scores = torch.tensor([1.0, 2.0, 200.0])
cut = scores.softmax(dim=0)[:2]
print(cut / cut.sum(), masked_softmax(scores, torch.arange(3) < 2))

# %%
# **4.4** 1 + 2 + 3 + 4 in the rows of real tokens, and 4 in each of the four others: 26.

real_BS = torch.arange(8)[None] < 4
assert masks.combine(masks.padding(real_BS), masks.causal(8, 8)).sum() == 26

# %%
# **4.5** Torch would broadcast it as (T, S): the padding of *sentence* b would hide keys of
# *query* b, without an error.

try:
    attend(x, x, x, torch.ones(2, 6, dtype=torch.bool))
except ValueError as error:
    print(error)
