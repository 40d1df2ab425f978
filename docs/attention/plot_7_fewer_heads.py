r"""
7. Fewer heads for keys and values
==================================

A decoder stores the keys and values of all words so far, and reads all of them for each new word.
On long texts, they take more memory and time than the weights. To save both, several query heads
may share one head of keys and values. H counts query heads, K key/value heads:

.. code-block:: text

    query heads h       0 1 2 3 4 5 6 7      0 1 2 3 4 5 6 7      0 1 2 3 4 5 6 7
                        | | | | | | | |       \\ //   \\ //        \ \ \| |/ / /
    key/value heads     0 1 2 3 4 5 6 7         0       1                0
                        multi-head, K = 8    grouped, K = 2       multi-query, K = 1
"""

import matplotlib.pyplot as plt
import torch

from seq2seq.model.attention import MultiHeadAttention, attend
from seq2seq.model.fused_attention import for_each_query_head
from seq2seq.model.kv_cache import KVCache

plt.rcParams["image.cmap"] = "Blues"

# %%
# One head for all: multi-query attention
# ---------------------------------------
# All query heads read the same keys and values (Shazeer 2019). Each query head gets what it would
# get alone.

torch.manual_seed(7)
q_BHTE = torch.randn(1, 8, 6, 4)
k_B1SE, v_B1SE = torch.randn(2, 1, 1, 6, 4)
shared = attend(q_BHTE, k_B1SE, v_B1SE)
for h in range(8):
    torch.testing.assert_close(shared[:, [h]], attend(q_BHTE[:, [h]], k_B1SE, v_B1SE))

names, millions, cached = [], [], []
for kv_heads in (8, 4, 2, 1):
    module, cache = MultiHeadAttention(512, n_heads=8, n_kv_heads=kv_heads), KVCache()
    cache.append(0, *module.keys_values(torch.zeros(1, 96, 512)))
    names.append(f"K = {kv_heads}")
    millions.append(sum(weight.numel() for weight in module.parameters()) / 1e6)
    cached.append(cache.bytes / 96 / 1024)
_, axes = plt.subplots(1, 2, layout="constrained")
axes[0].bar(names, millions)
axes[0].set_title("million weights")
axes[1].bar(names, cached)
axes[1].set_title("KiB of cache for each word")

# %%
# The bars on the right matter most: the cache (lesson 8) is H / K times smaller.
#
# **Exercise 7.1.** How large is the cache of a model with 6 layers, width 512, for 100 words,
# with K = 8 and K = 1?
#
# A head for each group: grouped-query attention
# ----------------------------------------------
# One head for all costs quality, so Ainslie et al. (2023) take a few: query head h reads key/value
# head h // (H / K). Neighbours share a head, so its copies stand side by side.
# ``repeat_interleave`` makes them; ``repeat`` would give query head h the head h % K.

k_BKSE, v_BKSE = torch.randn(2, 1, 2, 6, 4)  # K = 2
grouped = attend(q_BHTE, k_BKSE, v_BKSE)
copies = [for_each_query_head(x, q_BHTE) for x in (k_BKSE, v_BKSE)]
torch.testing.assert_close(attend(q_BHTE, *copies), grouped)
wrong = [x.repeat(1, 4, 1, 1) for x in (k_BKSE, v_BKSE)]
assert not torch.allclose(attend(q_BHTE, *wrong), grouped)
assert for_each_query_head(k_BKSE, q_BHTE[:, :2]).equal(k_BKSE)  # as many heads: nothing to do

heads = torch.arange(2.0).view(1, 2, 1, 1)
rows = [for_each_query_head(heads, q_BHTE).flatten(), heads.repeat(1, 4, 1, 1).flatten()]
_, ax = plt.subplots(figsize=(6, 2))
ax.matshow(torch.stack(rows))
ax.set_yticks([0, 1], ["repeat_interleave", "repeat"])
ax.set_xlabel("query head; the colour is its key/value head")

# %%
# **Exercise 7.2.** Copies take the memory that we wanted to save. How can you do without them?
# (Hint: the query heads of a group become further queries.)
#
# Heads as wide as the model
# --------------------------
# Some tutorials use the name multi-query attention for something else: each query head is as wide
# as the whole model, all heads share one full-width key and value, and the outputs of the heads
# are *averaged*. The same module does this with ``head_dim=d_model``, because the mean of H
# projections is one projection of the joined heads, divided by H. It saves nothing.

wide = MultiHeadAttention(32, n_heads=4, n_kv_heads=1, head_dim=32).requires_grad_(False)
x_BTD = torch.randn(1, 5, 32)
q, (k, v) = wide.queries(x_BTD), wide.keys_values(x_BTD)
per_head = [4 * wide.out_proj.weight[:, 32 * h : 32 * h + 32] for h in range(4)]
contexts = [attend(q[:, [h]], k, v)[:, 0] for h in range(4)]
outputs = [contexts[h] @ per_head[h].T + wide.out_proj.bias for h in range(4)]
torch.testing.assert_close(torch.stack(outputs).mean(dim=0), wide(x_BTD))

kinds = {"multi-head": (8, None), "multi-query": (1, None), "full-width heads": (1, 512)}
counts = []
for kv_heads, head_dim in kinds.values():
    module = MultiHeadAttention(512, 8, kv_heads, head_dim)
    counts.append(sum(weight.numel() for weight in module.parameters()) / 1e6)
plt.figure()
plt.bar(list(kinds), counts)
plt.ylabel("million weights, width 512, H = 8")
assert counts[2] > 4 * counts[0]

# %%
# **Exercise 7.3.** What do ``n_kv_heads=3`` and 8 query heads give?
#
# Answers
# -------
# **7.1** Each layer has two tensors, with 512 numbers of 4 bytes for each word: 2.3 MiB. K = 1
# needs an eighth of that.

for kv_heads in (8, 1):
    print(6 * 2 * 100 * (512 // 8 * kv_heads) * 4 / 2**20, "MiB")

# %%
# **7.2** Queries do not see each other. So the query heads of a group can become further queries
# of their key/value head.

folded = attend(q_BHTE.reshape(1, 2, 4 * 6, 4), k_BKSE, v_BKSE)
torch.testing.assert_close(folded.reshape(1, 8, 6, 4), grouped)

# %%
# **7.3** An error.

try:
    MultiHeadAttention(512, n_heads=8, n_kv_heads=3)
except ValueError as error:
    print(error)
