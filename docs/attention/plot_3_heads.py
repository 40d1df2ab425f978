"""
3. Queries, keys, values and heads
==================================

A word should find more than similar words: an adjective looks for its noun. So queries, keys and
values become three *projections* of the same vectors, which a model learns. Then one attention
becomes several *heads*. H counts heads, E is the width of one head, F the width of its values.
"""

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from torch import nn

from seq2seq.model.attention import MultiHeadAttention, attend, attention_weights

plt.rcParams["image.cmap"] = "Blues"

# %%
# One head
# --------
# ``nn.Linear`` acts on the last dimension and leaves all others alone, whatever their number.
# Queries and keys are multiplied, so they share a width E; values are only averaged, so their
# width F is free.

torch.manual_seed(3)
assert nn.Linear(10, 30)(torch.randn(5, 1, 2, 3, 4, 10)).shape == (5, 1, 2, 3, 4, 30)

x_BTD = torch.randn(2, 6, 8)  # two sentences of six words
to_q, to_k, to_v = nn.Linear(8, 3), nn.Linear(8, 3), nn.Linear(8, 5)  # E = 3, F = 5
q, k, v = (project(x_BTD)[:, None].detach() for project in (to_q, to_k, to_v))  # one head
by_hand = (q @ k.transpose(-1, -2) / 3**0.5).softmax(dim=-1) @ v
torch.testing.assert_close(attend(q, k, v), by_hand)
assert by_hand.shape == (2, 1, 6, 5)

plt.matshow(attention_weights(q, k)[0, 0], vmin=0)  # not symmetric: queries are not keys
plt.gca().set(xlabel="key", ylabel="query")

# %%
# **Exercise 3.1.** Which projections make this the attention of lesson 2 again?
#
# Several heads, apart
# --------------------
# One head makes one average for each word. Several heads make several: one may look for the verb,
# another for the word before. Each head has width E = D / H. Join the contexts of all heads on the
# *last* dimension; a last projection mixes them. Without ``dim=-1``, torch would join sentences.

module = MultiHeadAttention(d_model=12, n_heads=3).requires_grad_(False)  # so E = 4
x_BTD = torch.randn(2, 6, 12)
contexts, boards = [], []
for h in range(3):
    rows = slice(4 * h, 4 * h + 4)  # of the weights, which torch keeps as (out, in)
    q, k, v = (
        F.linear(x_BTD, part.weight[rows], part.bias[rows])[:, None]
        for part in (module.q_proj, module.k_proj, module.v_proj)
    )
    contexts.append(attend(q, k, v)[:, 0])
    boards.append(attention_weights(q, k)[0, 0])
apart_BTD = module.out_proj(torch.cat(contexts, dim=-1))
assert torch.cat(contexts).shape == (6, 6, 4)  # dim=0: not what we want

_, axes = plt.subplots(1, 3, layout="constrained")
for h, (ax, board) in enumerate(zip(axes, boards, strict=True)):
    ax.matshow(board, vmin=0)
    ax.set_title(f"head {h}")

# %%
# **Exercise 3.2.** A model of width 768 has 12 heads, one of width 1600 has 25. How wide is a
# head?
#
# Several heads, packed
# ---------------------
# H projections from D to E, stacked, are one projection from D to H·E. A computer is faster with
# one large product than with H small ones. ``view`` cuts the result into heads, as ``chunk``
# would, and gives the heads a dimension of their own. Then one product of two tensors serves all
# heads.

packed = module.q_proj(x_BTD), module.k_proj(x_BTD), module.v_proj(x_BTD)  # (B, T, 12)
q, k, v = (part.view(2, 6, 3, 4).transpose(1, 2) for part in packed)  # (B, H, T, E)
torch.testing.assert_close(torch.stack(packed[0].chunk(3, dim=-1), dim=1), q)
scores_BHTT = q @ k.transpose(-1, -2)
torch.testing.assert_close(torch.einsum("bhte,bhse->bhts", q, k), scores_BHTT)  # in letters
for h in range(3):  # one product for all heads, or one for each
    torch.testing.assert_close(scores_BHTT[:, h], q[:, h] @ k[:, h].transpose(-1, -2))
context_BHTE = attend(q, k, v)
joined_BTD = context_BHTE.transpose(1, 2).flatten(-2)
torch.testing.assert_close(module.out_proj(joined_BTD), apart_BTD)
torch.testing.assert_close(module(x_BTD), apart_BTD)

# Where each number of the joined vectors comes from: each word has its own colour.
word_BHTE = torch.arange(6.0)[None, None, :, None].expand(1, 3, 6, 4)
ways = {"transpose, then flatten": word_BHTE.transpose(1, 2).flatten(-2),
        "flatten at once: words are mixed": word_BHTE.reshape(1, 6, 12)}  # fmt: skip
_, axes = plt.subplots(1, 2, layout="constrained")
for ax, (title, board) in zip(axes, ways.items(), strict=True):
    ax.matshow(board[0], cmap="viridis")
    ax.set_title(title, fontsize=9)

# %%
# The right picture has the right shape and the wrong numbers, and torch raises no error.
#
# **Exercise 3.3.** The scale is 1/√E, with the width of one *head*. Many programs divide by √D by
# mistake: are their weights sharper or flatter?
#
# Queries and keys of one length
# ------------------------------
# Large inputs make large scores, whatever the scale, and a softmax of large scores learns nothing
# (lesson 2). ``qk_norm=True`` gives each query and each key the length √E, times a learnt gain.
# Then no score passes √E at the start of training (Henry et al. 2020).

normed = MultiHeadAttention(d_model=12, n_heads=3, qk_norm=True).requires_grad_(False)
sizes = [10.0**power for power in range(-1, 4)]
largest = {"as it is": [], "qk_norm": []}
for size in sizes:
    for name, part in zip(largest, (module, normed), strict=True):
        q, (k, _) = part.queries(size * x_BTD), part.keys_values(size * x_BTD)
        largest[name].append((q @ k.transpose(-1, -2) / 4**0.5).abs().max())

_, ax = plt.subplots()
for name, points in largest.items():
    ax.loglog(sizes, points, "o-", label=name)
ax.set(xlabel="size of the input", ylabel="largest score")
ax.legend()
assert max(largest["qk_norm"]) <= 4**0.5 + 1e-5 < max(largest["as it is"])

# %%
# **Exercise 3.4.** Why is a learnt gain needed?
#
# Answers
# -------
# **3.1** Three identities.

identity = torch.eye(8)
x = torch.randn(1, 1, 6, 8)
torch.testing.assert_close(attend(x @ identity, x @ identity, x @ identity), attend(x, x, x))

# %%
# **3.2** 64, both times: these are the sizes of the smallest and of the largest GPT-2.

for width, heads in ((768, 12), (1600, 25)):
    assert MultiHeadAttention(width, heads).head_dim == 64

# %%
# **3.3** Flatter: the scores are too small, by √H.

q, (k, _) = module.queries(x_BTD), module.keys_values(x_BTD)
flatter = attention_weights(q * (4 / 12) ** 0.5, k)
assert flatter.amax(-1).mean() < attention_weights(q, k).amax(-1).mean()

# %%
# **3.4** With scores between -2 and 2, as here, the largest weight of six is at most 0.92: a head
# could never choose one word alone.

scores = torch.tensor([2.0, -2.0, -2.0, -2.0, -2.0, -2.0])
print(scores.softmax(dim=0)[0])
