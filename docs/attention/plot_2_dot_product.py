"""
2. Dot-product attention
========================

One formula carries the rest of the course (Vaswani et al. 2017, "Attention is all you need")::

    context = softmax(q kᵀ / √E) v

A *query* q asks, *keys* k answer how well they fit, *values* v are what is read; E is the width of
a query. This lesson builds the formula from words, with nothing to learn in it.
"""

import matplotlib.pyplot as plt
import torch
from torch import nn

from seq2seq.model.attention import attend, attention_weights

# %%
# Words become vectors
# --------------------
# A vocabulary gives each word a number, and an embedding gives each number a vector. A word that
# comes twice has the same vector twice: below, the rows of "the" are equal, and so are those of
# "car".

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
# Let the vectors be queries, keys and values alike. The scores are all products of two vectors;
# the softmax runs over the keys, so that each *row* sums to 1; the context is the average of the
# vectors by these weights. ``attend`` does all three steps. It takes tensors with a dimension for
# sentences and one for heads (lesson 3), which ``[None, None]`` adds.

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
# A word finds itself, and each of its copies, at once: likeness is all that counts yet.
#
# **Exercise 2.2.** Compute the weights of one query by hand: the keys (2, 0), (1, 1), (0, 2), the
# query (2, 0).
#
# **Exercise 2.3.** Shuffle the sentence. What happens to the context of each word?
#
# Why the scores are divided by √E
# --------------------------------
# A product of two vectors is a sum of E terms. If all numbers are independent with variance 1,
# the sum has variance E. Wide vectors would give large scores; the softmax would put all its
# weight on one key and hardly change when the scores do, so it would not learn. Division by √E
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
# **2.3** Nothing: it only moves with its word. This attention knows no order. Lesson 9 mends
# that.

order = torch.randperm(7)
turned = x_BHSD[:, :, order]
torch.testing.assert_close(attend(turned, turned, turned)[0, 0], context_SD[order])

# %%
# **2.4** Yes, by far: a softmax that has decided does not change its mind.

for scale in (1, 1024**-0.5):
    scores = (products[0, 0, 0] * scale).requires_grad_()
    scores.softmax(dim=0).max().backward()
    print(f"scale {scale:.3f}: gradient {scores.grad.abs().max():.6f}")
