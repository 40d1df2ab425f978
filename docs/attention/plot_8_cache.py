"""
8. The cache
============

A decoder writes word by word. Earlier positions never see later ones, so their keys and values stay
the same. Compute them once and keep them: then a step costs one query, not a sentence.
"""

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F

from seq2seq.model import masks
from seq2seq.model.attention import MultiHeadAttention, attend, attention_weights
from seq2seq.model.kv_cache import KeysValues, KVCache

plt.rcParams["image.cmap"] = "Blues"

# %%
# Steps give the same as the whole
# --------------------------------
# The caller makes a ``KVCache`` and passes it to each call. Each call appends its keys and values.
# A step may have any number of words: query i of a chunk that starts at position s sees keys 0 to
# s + i.

torch.manual_seed(8)
module = MultiHeadAttention(16, n_heads=4, n_kv_heads=2).requires_grad_(False)
x_BTD = torch.randn(2, 7, 16)
whole_BTD = module(x_BTD, causal=True)
for sizes in ([1] * 7, [3, 4], [2, 1, 4]):
    cache = KVCache(layers=1, capacity=7)
    chunks = x_BTD.split(sizes, dim=1)
    steps = [module(chunk, causal=True, cache=cache.layer(0)) for chunk in chunks]
    torch.testing.assert_close(torch.cat(steps, dim=1), whole_BTD)
    assert cache.length == 7

_, axes = plt.subplots(1, 3, layout="constrained")
for ax, (start, end) in zip(axes, ((0, 2), (2, 3), (3, 7)), strict=True):
    ax.matshow(masks.causal(end - start, end)[0, 0], vmin=0, vmax=1.5)
    ax.set(title=f"{end - start} queries, {end} keys", yticks=range(end - start))

# %%
# A cache stores only the key/value heads (lesson 7), without gradients. It belongs to the caller,
# not to the module, so two translations cannot disturb each other.
#
# **Exercise 8.1.** Append one word more. What happens?
#
# **Exercise 8.2.** Why does cross-attention need no cache that grows?
#
# Several hypotheses
# ------------------
# A beam search follows several beginnings of a translation, the *hypotheses*, as rows of a batch.
# After each step, some end and others split. ``reorder`` makes the cache follow: row i becomes a
# copy of the old row ``rows[i]``.

cache = KVCache()
first_RTD, next_R1D = torch.randn(3, 4, 16), torch.randn(3, 1, 16)
module(first_RTD, causal=True, cache=cache.layer(0))
rows = torch.tensor([1, 1, 0])  # row 1 splits, row 2 ends
cache.reorder(rows)
step = module(next_R1D, causal=True, cache=cache.layer(0))
again = module(torch.cat([first_RTD[rows], next_R1D], dim=1), causal=True)
torch.testing.assert_close(step, again[:, -1:])

plt.figure(figsize=(4, 2.5))
for new, old in enumerate(rows.tolist()):
    plt.annotate("", (1, -new), (0, -old), arrowprops={"arrowstyle": "->"})
plt.gca().set(xlim=(-0.2, 1.2), ylim=(-2.5, 0.5), yticks=[0, -1, -2], yticklabels=[0, 1, 2])
plt.xticks([0, 1], ["before", "after"])
plt.ylabel("row")

# %%
# **Exercise 8.3.** The search for one of several sentences has ended. Which call drops its row?
#
# Memory entries
# --------------
# A layer may also learn M extra keys and values, which stand before all others. Every query sees
# them, in causal attention, too. They are no words, so they have neither position nor padding.

entries = KeysValues(*torch.randn(2, 2, 2, 2, 4))  # of 2 sentences: K = 2, M = 2, E = 4
q, own = module.queries(x_BTD), module.keys_values(x_BTD)
k, v = (torch.cat([given, part], dim=2) for given, part in zip(entries, own, strict=True))
allowed = F.pad(masks.causal(7, 7), (2, 0), value=True)
output_BTD = module.out_proj(attend(q, k, v, allowed).transpose(1, 2).flatten(-2))
assert output_BTD.shape == (2, 7, 16)

plt.matshow(attention_weights(q, k, allowed)[0, 0], vmin=0)
plt.axvline(1.5, color="tab:orange")  # left of it: the entries
plt.gca().set(xlabel="entry, then key", ylabel="query")

# %%
# **Exercise 8.4.** Now decode the same sentence word by word. Does the cache store the entries?
#
# Answers
# -------
# **8.1** An error that gives the numbers. The cache never overwrites.

full = KVCache(capacity=7)
module(x_BTD, causal=True, cache=full.layer(0))
try:
    module(x_BTD[:, :1], causal=True, cache=full.layer(0))
except ValueError as error:
    print(error)

# %%
# **8.2** Its keys and values are computed once for the whole source (lesson 5), and stay the same.
#
# **8.3** ``reorder`` again, with the rows that stay.

cache.reorder(torch.tensor([0, 2]))
assert module(next_R1D[:2], causal=True, cache=cache.layer(0)).shape == (2, 1, 16)

# %%
# **8.4** No: at each step, they are put before the keys and values that the cache returns.

cache, steps = KVCache(), []
for word_B1D in x_BTD.split(1, dim=1):
    own = cache.append(0, *module.keys_values(word_B1D))
    k, v = (torch.cat([given, part], dim=2) for given, part in zip(entries, own, strict=True))
    context = attend(module.queries(word_B1D), k, v)  # a single query is the last: it sees all
    steps.append(module.out_proj(context.transpose(1, 2).flatten(-2)))
torch.testing.assert_close(torch.cat(steps, dim=1), output_BTD)
