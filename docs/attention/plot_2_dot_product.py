"""
2. Dot-product attention
========================

One formula carries the rest of the course (Vaswani et al. 2017, "Attention is all you need"):

``context = softmax(q kᵀ / √E) v``

A *query* q is compared with each *key* k. The better a key fits, the more its *value* v counts in
the average. E is the width of a query. This lesson builds the formula from words. Nothing in it is
learnt yet.
"""

import matplotlib.pyplot as plt
import torch
from torch import nn

from seq2seq.model.attention import attend, attention_weights

plt.rcParams["image.cmap"] = "Blues"

# %%
# Words become vectors
# --------------------
# A vocabulary gives each word a number, and an embedding gives each number a vector. Equal words
# have equal vectors: below, both rows of "the" are the same, and so are both rows of "car".

torch.manual_seed(2)
text = ["the", "red", "car", "passed", "the", "old", "car"]
vocabulary = {word: number for number, word in enumerate(sorted(set(text)))}
ids_S = torch.tensor([vocabulary[word] for word in text])
x_SD = nn.Embedding(len(vocabulary), 16)(ids_S).detach()
print(vocabulary, ids_S.tolist())

_, ax = plt.subplots()
ax.matshow(x_SD, cmap="RdBu")
ax.set_yticks(range(len(text)), text)
assert x_SD[0].equal(x_SD[4])
assert x_SD[2].equal(x_SD[6])

# %%
# **Exercise 2.1.** The vocabulary has 5 words. How large is the embedding's matrix? Which
# of its rows learns from the word "car"?
#
# Each word looks at all words
# ----------------------------
# Here, the same vectors are queries, keys and values. Attention has three steps. The scores are
# the products of each vector with each. A softmax over the keys turns scores into weights, so each
# *row* sums to 1. The context is the average of the vectors with these weights. ``attend`` does
# all three steps. It expects a dimension for sentences and one for heads (lesson 3), which
# ``[None, None]`` adds.

scores_SS = x_SD @ x_SD.T / 16**0.5
weights_SS = scores_SS.softmax(dim=-1)
context_SD = weights_SS @ x_SD
x_BHSD = x_SD[None, None]
torch.testing.assert_close(attend(x_BHSD, x_BHSD, x_BHSD)[0, 0], context_SD)
torch.testing.assert_close(attention_weights(x_BHSD, x_BHSD)[0, 0], weights_SS)
torch.testing.assert_close(weights_SS.sum(dim=-1), torch.ones(7))

plt.matshow(weights_SS, vmin=0)
plt.xticks(range(len(text)), text, rotation=90)
plt.yticks(range(len(text)), text)
print([f"{weight:.3f}" for weight in weights_SS[2]])  # what "car" looks at

# %%
# Each word gives most weight to itself and its copies, because only similarity counts so far.
#
# **Exercise 2.2.** Compute the weights of one query by hand: the keys (2, 0), (1, 1), (0, 2), the
# query (2, 0).
#
# **Exercise 2.3.** Shuffle the sentence. What happens to the context of each word?
#
# Why the scores are divided by √E
# --------------------------------
# The product of two vectors is a sum of E terms. If all numbers are independent with variance 1,
# the sum has variance E. So wide vectors give large scores. A softmax of large scores puts all
# weight on one key and hardly changes when the scores change, so it does not learn. Division by √E
# makes the variance 1 again.

widths = [2**power for power in range(1, 11)]
curves = {"not divided": [], "divided by √E": []}
for width in widths:
    q, k = torch.randn(2, 64, 1, 32, width)  # 64 draws of 32 queries and keys
    products = q @ k.transpose(-1, -2)
    assert 0.8 < products.var() / width < 1.2
    for name, scale in (("not divided", 1), ("divided by √E", width**-0.5)):
        largest = (products * scale).softmax(dim=-1).amax(dim=-1).mean()
        curves[name].append(largest)

_, ax = plt.subplots()
for name, points in curves.items():
    ax.semilogx(widths, points, "o-", base=2, label=name)
ax.set(xlabel="width E", ylabel="largest of 32 weights (mean)", ylim=(0, 1))
ax.legend()
assert max(curves["divided by √E"]) < 0.25 < 0.9 < curves["not divided"][-1]

# %%
# **Exercise 2.4.** Is the gradient really smaller? Compare ∂(largest weight)/∂scores at width
# 1024.
#
# Answers
# -------
# **2.1** Five rows of 16 numbers. Row 0 stands for both places of "car", and learns from both.
#
# **2.2** The products are 4, 2 and 0, divided by √2: 2.83, 1.41 and 0. Their exponentials are
# 16.9, 4.1 and 1, which sum to 22.0; each is divided by the sum.

keys = torch.tensor([[2.0, 0.0], [1.0, 1.0], [0.0, 2.0]])[None, None]
print(attention_weights(keys[:, :, :1], keys))

# %%
# **2.3** Nothing: the context moves with its word. This attention knows no order. Lesson 9 adds
# the order.

order = torch.randperm(7)
turned = x_BHSD[:, :, order]
torch.testing.assert_close(attend(turned, turned, turned)[0, 0], context_SD[order])

# %%
# **2.4** Yes, much smaller.

for scale in (1, 1024**-0.5):
    scores = (products[0, 0, 0] * scale).requires_grad_()
    scores.softmax(dim=0).max().backward()
    print(f"scale {scale:.3f}: gradient {scores.grad.abs().max():.6f}")
