"""
4. Masks
========

A mask says which query may read which key. In this project a mask is boolean and **True means "may
attend"**, everywhere; some code means the opposite, so look before you mix. Its four dimensions are
(B, H, T, S), and each is full or 1. A mask changes nothing in place.
"""

import matplotlib.pyplot as plt
import torch

from seq2seq.model import masks
from seq2seq.model.attention import attend, attention_weights, masked_softmax

# %%
# Padding
# -------
# Sentences of a batch have different lengths; short ones are filled up with padding, which nobody
# may read. ``masks.padding`` turns "is this token real", (B, S), into a mask (B, 1, 1, S), which
# broadcasts over heads and queries. Copies for all queries, (B, 1, T, S), give the same and take
# more memory.

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
# Only columns are empty. The *queries* that pad, the last two rows, are computed like all others:
# nobody reads them, since later layers mask them as keys, and the loss leaves them out.
#
# **Exercise 4.1.** Write 1000 into the padding. Which contexts move?
#
# Causal attention
# ----------------
# A decoder learns all positions of a sentence at once, so position t must not see what it is to
# predict. ``masks.causal`` lets query t read the keys up to t. It is made for the lengths at
# hand; code that keeps one large board for the longest text cuts the same corner out of it. Some
# code multiplies the weights by the board and divides each row by its sum. That is the same on
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
# **Exercise 4.2.** Give the last key a score of 200. Does "multiply and divide" still work?
#
# Both, and a query that sees nothing
# -----------------------------------
# Masks of one meaning combine by "and", and padding counts whether attention is causal or not.
# Texts that are aligned at their ends are padded on the *left*; then the first queries see
# nothing at all. A softmax over nothing but -∞ is 0 / 0 = NaN, and one NaN spoils all gradients,
# even if the loss leaves the row out. ``attend`` gives such a query a context of zero.

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
# **Exercise 4.3.** A text of 8 places has 4 real tokens. How many cells of its causal board are
# allowed?
#
# A mask of its own for each query
# --------------------------------
# Any board will do: here each query sees its neighbours and the first word. A mask (B, T, S) gets a
# dimension for the heads. Code whose tensors begin with the length, (T, B, D), often has masks
# (T, S, B): turn both first.

near_TS = (torch.arange(6)[:, None] - torch.arange(6)).abs() < 2
near_TS[:, 0] = True
per_query_BTS = torch.stack([near_TS, near_TS & real_BS[1]])
sentence_last_TSB = per_query_BTS.permute(1, 2, 0)
assert sentence_last_TSB.permute(2, 0, 1).equal(per_query_BTS)
x = torch.randn(2, 3, 6, 8)  # three heads
plt.matshow(attention_weights(x, x, per_query_BTS[:, None])[1, 0], vmin=0)

# %%
# **Exercise 4.4.** Why does ``attend`` refuse the plain (B, S) of a batch with B = T?
#
# Answers
# -------
# **4.1** Those of padding alone.

x, junk = x[:, :1], x[:, :1].masked_fill(~real_BS[:, None, :, None], 1000)
moved = (attend(junk, junk, junk, allowed) != attend(x, x, x, allowed)).any(dim=-1)
assert moved[:, 0].equal(~real_BS)

# %%
# **4.2** No: the weights that are left round to zero, and 0 / 0 is NaN. Mask *before* the
# softmax.

scores = torch.tensor([1.0, 2.0, 200.0])
cut = scores.softmax(dim=0)[:2]
print(cut / cut.sum(), masked_softmax(scores, torch.arange(3) < 2))

# %%
# **4.3** 1 + 2 + 3 + 4 in the rows of real tokens, and 4 in each of the others: 26.

real_BS = torch.arange(8)[None] < 4
assert masks.combine(masks.padding(real_BS), masks.causal(8, 8)).sum() == 26

# %%
# **4.4** It would broadcast as (T, S): sentence b's padding would hide keys of *query* b,
# silently.

try:
    attend(x, x, x, torch.ones(2, 6, dtype=torch.bool))
except ValueError as error:
    print(error)
