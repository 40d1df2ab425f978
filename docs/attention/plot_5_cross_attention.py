"""
5. Cross-attention
==================

So far, a sentence read itself. In a translator, French also reads English: queries come from one
sentence, keys and values from another. This is the attention of lesson 1 with products as scores.
"""

import matplotlib.pyplot as plt
import torch
from torch import nn

from seq2seq.model import masks
from seq2seq.model.attention import MultiHeadAttention, attend

plt.rcParams["image.cmap"] = "Blues"

# %%
# French asks, English answers
# ----------------------------
# T French queries and S English keys give a matrix of T rows and S columns. The context has one
# vector for each query. The whole English sentence is known from the start, so each query may read
# all of it: cross-attention is never causal.

torch.manual_seed(5)
cross = MultiHeadAttention(d_model=18, n_heads=3).requires_grad_(False)
english_BSD = torch.randn(3, 5, 18)
french_BTD = torch.randn(3, 7, 18)
output_BTD = cross(french_BTD, english_BSD)
weights_BHTS = cross.weights(french_BTD, english_BSD)
assert output_BTD.shape == (3, 7, 18)
assert weights_BHTS.shape == (3, 3, 7, 5)

plt.matshow(weights_BHTS[0, 0], vmin=0)
plt.gca().set(xlabel="English key", ylabel="French query")
try:
    cross(french_BTD, english_BSD, causal=True)
except ValueError as error:
    print(error)

# %%
# **Exercise 5.1.** Swap two English words. What happens to the output?
#
# Padding on both sides
# ---------------------
# Both languages have padding. Only keys are masked, so only the *English* padding becomes a mask.
# Attention computes the French padding, too, and the loss leaves it out.

english_real_BS = torch.arange(5) < torch.tensor([[3], [5], [4]])
french_real_BT = torch.arange(7) < torch.tensor([[7], [6], [2]])
allowed = masks.padding(english_real_BS)  # (B, 1, 1, S) fits any number of queries
output_BTD = cross(french_BTD, english_BSD, allowed)
weights_BHTS = cross.weights(french_BTD, english_BSD, allowed)

_, axes = plt.subplots(1, 3, layout="constrained")
for b, ax in enumerate(axes):
    ax.matshow(weights_BHTS[b, 0], vmin=0)
    ax.axhline(french_real_BT[b].sum() - 0.5, color="tab:orange")  # below: French padding
    ax.set_title(f"{english_real_BS[b].sum()} English, {french_real_BT[b].sum()} French")
alone = cross(french_BTD[2:, :2], english_BSD[2:, :4])  # the third pair without any padding
torch.testing.assert_close(output_BTD[2:, :2], alone)

# %%
# **Exercise 5.2.** What does a French word get from an English sentence of length zero?
#
# Keys and values are made once
# -----------------------------
# A decoder writes word after word, while the English sentence stays the same. ``keys_values``
# computes its keys and values once. They serve all steps, and all hypotheses of a beam search.

source = cross.keys_values(english_BSD)
assert source.k.shape == source.v.shape == (3, 3, 5, 6)  # (B, heads, S, E)
steps = [cross(word_B1D, source, allowed) for word_B1D in french_BTD.split(1, dim=1)]
torch.testing.assert_close(torch.cat(steps, dim=1), output_BTD)

length = torch.arange(1, 41)
plt.figure()
plt.plot(length, length * 20, label="computed at each step")
plt.plot(length, torch.full((40,), 20), label="computed once")
plt.xlabel("French words written")
plt.ylabel("keys computed, for 20 English words")
plt.legend()

# %%
# **Exercise 5.3.** A beam search follows 4 hypotheses for one English sentence. Must it copy the
# keys?
#
# Two sides of different width
# ----------------------------
# Only the projections of keys and values touch the English vectors, so these may have another
# width, here 10. The vectors may come from another model, or from patches of a picture.

wide = MultiHeadAttention(d_model=18, n_heads=3)
wide.k_proj, wide.v_proj = nn.Linear(10, 18), nn.Linear(10, 18)
patches_BSD = torch.randn(3, 25, 10)  # 5 x 5 of a picture
weights_BHTS = wide.weights(french_BTD, patches_BSD)
assert wide(french_BTD, patches_BSD).shape == (3, 7, 18)

plt.matshow(weights_BHTS[0, 0, 0].detach().view(5, 5), vmin=0)
plt.title("what the first word reads of the picture")

# %%
# **Exercise 5.4.** Which of the four projections change if the *French* vectors are 10 wide?
#
# Answers
# -------
# **5.1** Nothing: keys and values move together, and a sum has no order (compare exercise 2.3).

swapped_BSD = english_BSD[:, [1, 0, 2, 3, 4]]
torch.testing.assert_close(cross(french_BTD, swapped_BSD), cross(french_BTD, english_BSD))

# %%
# **5.2** A context of zero. So the output is the bias of the last projection.

nothing = masks.padding(torch.zeros(3, 5))
torch.testing.assert_close(cross(french_BTD, source, nothing)[0, 0], cross.out_proj.bias)

# %%
# **5.3** No: the hypotheses can be four queries of one row, since queries do not see each other.

q_BHTE = cross.queries(french_BTD[:1, :4])  # four hypotheses at one position
apart = [attend(q_BHTE[:, :, [n]], source.k[:1], source.v[:1]) for n in range(4)]
torch.testing.assert_close(attend(q_BHTE, source.k[:1], source.v[:1]), torch.cat(apart, dim=2))

# %%
# **5.4** ``q_proj``; also ``out_proj`` if the output is to be 10 wide.
