"""
1. Reading the source again
===========================

A translator keeps one sentence in mind while it writes another. This lesson measures how much a
recurrent network remembers. Then it shows the idea that attention began with: before you write a
word, look at the source again (Bahdanau, Cho and Bengio, 2015, "Neural machine translation by
jointly learning to align and translate").

In all lessons, the last letters of a name give the shape of the tensor: B counts the sentences of
a batch, T queries, S keys, and D the numbers in a word's vector. So ``x_BSD`` has the shape
(B, S, D).
"""

import matplotlib.pyplot as plt
import torch
from torch import nn

from seq2seq.config import RecurrentConfig
from seq2seq.model import masks
from seq2seq.model.attention_maps import attention_maps
from seq2seq.model.recurrent import AdditiveAttention, RecurrentModel

plt.rcParams["image.cmap"] = "Blues"

# %%
# What a recurrent network remembers
# ----------------------------------
# A recurrent network reads word after word. It makes each state from the present word and the
# state before. So a state knows the past, and nothing of the future. A *bidirectional* network has
# a second row of states that starts at the end. Change word i, and measure how far state j moves:

torch.manual_seed(1)
words, width = 12, 32
gru = nn.GRU(width, width, batch_first=True, bidirectional=True).requires_grad_(False)
x_BSD = torch.randn(1, words, width)
states_BSD, _ = gru(x_BSD)
moved = torch.zeros(2, words, words)  # direction, changed word i, state j
for i in range(words):
    changed = x_BSD.clone()
    changed[:, i] = torch.randn(width)
    difference_SD = (gru(changed)[0] - states_BSD)[0]
    moved[:, i] = difference_SD.unflatten(-1, (2, width)).norm(dim=-1).T

_, axes = plt.subplots(1, 2, layout="constrained")
for ax, title, board in zip(axes, ("left to right", "right to left"), moved, strict=True):
    ax.matshow(board, vmin=0)
    ax.set(title=title, xlabel="state j", ylabel="changed word i")
assert not moved[0].tril(-1).any()  # no state of the first row knows a later word
assert not moved[1].triu(1).any()  # no state of the second row knows an earlier one
near, far = moved[0].diag(1).mean(), moved[0].diag(10).mean()
print(f"one word on: {near:.2f}, ten words on: {far:.4f}")

# %%
# The colours grow pale away from the diagonal: memory fades. An encoder that passes on only its
# last state has nearly forgotten how a long sentence began.
#
# **Exercise 1.1.** Swap the last two words. Which states of each row stay as they were?
#
# Additive attention
# ------------------
# The remedy is to keep all states, the *annotations*, and to let the decoder choose among them. A
# small network scores each annotation h against the decoder's state s:
#
# ``energy = v · tanh(W s + U h + b)``
#
# A softmax turns the energies into weights, which are positive and sum to 1. The *context* is the
# average of the annotations with these weights. Sentences of a batch differ in length, so short
# ones are padded. A mask, in which True means "may attend", gives the padding no weight.

attention = AdditiveAttention(8, source_dim=64, d_attention=16).requires_grad_(False)
annotations_BSD = states_BSD.view(2, 6, 64)  # two sentences
real_BS = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]])
state_BTD = torch.randn(2, 1, 8)  # one decoder state for each sentence
allowed = masks.padding(real_BS)[:, 0]
context_BTD, weights_BTS = attention(state_BTD, annotations_BSD, allowed)

keys_SA = attention.source_proj(annotations_BSD[0])
inner = torch.tanh(attention.state_proj(state_BTD[0]) + keys_SA)
energies_S = attention.score(inner)[:, 0]
torch.testing.assert_close(weights_BTS[0, 0], energies_S.softmax(dim=0))
torch.testing.assert_close(context_BTD[0, 0], weights_BTS[0, 0] @ annotations_BSD[0])
assert not weights_BTS[1, 0, 4:].any()  # padding

_, ax = plt.subplots(figsize=(5, 2))
ax.matshow(weights_BTS[:, 0], vmin=0)
ax.set(xlabel="source word", ylabel="sentence", yticks=[0, 1])

# %%
# **Exercise 1.2.** What is the context when v is zero, so that all energies are equal?
#
# A network that reads its own past
# ---------------------------------
# The same attention helps a network that reads only one sentence, such as a language model: each
# state looks back at the earlier states and at itself. A *causal* mask forbids the later states.

own = AdditiveAttention(64, 64, 16).requires_grad_(False)
_, own_BTS = own(states_BSD, states_BSD, masks.causal(words, words)[0])
plt.matshow(own_BTS[0], vmin=0)
plt.gca().set(xlabel="state that is read", ylabel="state that reads")
assert not own_BTS[0].triu(1).any()

# %%
# **Exercise 1.3.** Let each state read only *earlier* states, not itself. What context does the
# first state get?
#
# The whole model
# ---------------
# ``RecurrentModel`` is the translator of the paper: a bidirectional encoder, this attention, a
# recurrent decoder. It is untrained here, so its weights are nearly even.

model = RecurrentModel(RecurrentConfig(d_model=16, d_attention=16), vocab_size=20).eval()
source_BS, target_BT = torch.randint(3, 20, (1, 7)), torch.randint(3, 20, (1, 5))
(weights_BHTS,) = attention_maps(model, source_BS, source_BS > 0, target_BT).values()
plt.matshow(weights_BHTS[0, 0], vmin=0)
plt.gca().set(xlabel="source word", ylabel="word to write")
assert weights_BHTS.shape == (1, 1, 5, 7)

# %%
# Two problems remain. The decoder works step by step, even in training. And two distant words of
# one sentence still meet only through a chain of states. From the next lesson on, we drop the
# recurrence and keep the attention.
#
# **Exercise 1.4.** How many numbers does the decoder remember between two steps? Does this number
# grow?
#
# Answers
# -------
# **1.1** Left to right: all but the last two. Right to left: none, because all of them have read
# the end.

swapped = gru(x_BSD[:, [*range(10), 11, 10]])[0]
same_2S = (swapped == states_BSD)[0].unflatten(-1, (2, width)).all(dim=-1).T
print(same_2S.int())

# %%
# **1.2** The plain mean of all annotations that are not padding.

attention.score.weight.zero_()
context_BTD, _ = attention(state_BTD, annotations_BSD, allowed)
torch.testing.assert_close(context_BTD[1, 0], annotations_BSD[1, :4].mean(dim=0))

# %%
# **1.3** Zero: the first state has nothing to read, so all its weights are zero.

context_BTD, own_BTS = own(states_BSD, states_BSD, masks.causal(words, words)[0].tril(-1))
assert not own_BTS[0, 0].any()
assert not context_BTD[0, 0].any()

# %%
# **1.4** A state of D numbers for each sentence, and the annotations. This never grows; the cache
# of lesson 8 does.

state = model.start(source_BS, source_BS > 0)
before = state.bytes
model.decode_step(target_BT, state)
assert state.bytes == before
