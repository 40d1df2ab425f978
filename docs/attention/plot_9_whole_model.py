"""
9. Order, and the whole model
=============================

Attention does not know the order of words (exercise 2.3). This last lesson adds positions, builds
the transformer that this project trains from all parts, and looks at what a trained model reads.
"""

import matplotlib.pyplot as plt
import torch

from seq2seq import Translator
from seq2seq.config import TransformerConfig
from seq2seq.data.collate import collate
from seq2seq.model.attention import MultiHeadAttention
from seq2seq.model.attention_maps import attention_maps, cross_attentions
from seq2seq.model.kv_cache import KVCache
from seq2seq.model.positions import RotaryPositions, SinusoidalPositions
from seq2seq.model.transformer import Transformer

plt.rcParams["image.cmap"] = "Blues"

# %%
# Positions that are added
# ------------------------
# Each position has a vector of sines and cosines, which are fast and slow waves. It is added to
# the vector of the word. A position has its largest product with itself. (``LearnedPositions``
# learns the vectors instead.)

torch.manual_seed(9)
sines = SinusoidalPositions(max_length=64, d_model=32)
table_LD = sines(torch.zeros(1, 64, 32))[0]
products_LL = table_LD @ table_LD.T
assert products_LL.argmax(dim=-1).equal(torch.arange(64))

_, axes = plt.subplots(1, 2, layout="constrained")
axes[0].matshow(table_LD, cmap="RdBu")
axes[0].set(xlabel="number in the vector", ylabel="position", title="the vectors")
axes[1].matshow(products_LL, vmin=0)
axes[1].set(xlabel="position", title="their products")

# %%
# **Exercise 9.1.** Show that a sentence and its reverse now have different contexts.
#
# Positions that turn
# -------------------
# Rotary positions (Su et al. 2021) act inside attention. They turn pairs of numbers in a query and
# in a key by an angle that grows with the position. The product of the two then depends only on
# their *distance*. Values do not turn. A key turns before it is cached. Cross-attention does not
# turn, because its two sentences have no positions in common.

rotary = RotaryPositions(max_length=64, head_dim=16)
q, k = torch.randn(2, 1, 1, 1, 16).expand(2, 1, 1, 64, 16)  # one of each, 64 times
scores_LL = (rotary(q) @ rotary(k).transpose(-1, -2))[0, 0]
torch.testing.assert_close(scores_LL[5, 2], scores_LL[45, 42])
torch.testing.assert_close(rotary(q).norm(dim=-1), q.norm(dim=-1))  # a turn keeps lengths

plt.matshow(scores_LL, cmap="RdBu")
plt.gca().set(xlabel="position of the key", ylabel="position of the query")

# %%
# Each diagonal has one colour.
#
# **Exercise 9.2.** Decode with ``rotary`` and a cache, word by word. Do the steps still give the
# whole?
#
# The transformer
# ---------------
# The encoder reads English by self-attention with padding masks. Each decoder layer has causal
# self-attention over French, cross-attention to English, and a feed-forward block. Training runs
# all positions at once; decoding, step by step over a cache, gives the same.

sizes = TransformerConfig(d_model=16, n_heads=2, d_ff=32, encoder_layers=2, decoder_layers=2)
model = Transformer(sizes, vocab_size=20).eval().requires_grad_(False)
source_BS = torch.tensor([[5, 9, 3, 2], [6, 4, 2, 0]])  # 2 ends a sentence, 0 pads
target_BT = torch.randint(3, 20, (2, 6))
whole = model(source_BS, source_BS != 0, target_BT)
state = model.start(source_BS, source_BS != 0)
steps = [model.decode_step(word_B1, state) for word_B1 in target_BT.split(1, dim=1)]
torch.testing.assert_close(torch.cat(steps, dim=1), whole)

_, ax = plt.subplots()
ax.matshow(whole[0], cmap="RdBu")
ax.set(xlabel="number in the hidden state", ylabel="position of the target")

# %%
# **Exercise 9.3.** The encoder's layers are not causal. Which mask would make them so, and what
# is lost?
#
# What a trained model reads
# --------------------------
# The model that comes with the project translates a sentence. For each French token that it
# predicts (rows), the picture shows which English tokens (columns) the cross-attention of the last
# layer reads. Nobody told the model which words translate each other.

translator = Translator.load("general", "cpu", precision="float32")
english = translator.as_read("My neighbor bought a red car yesterday.")
french = translator.translate([english])[0].text
source, target = translator.vocabularies.source, translator.vocabularies.target
ids = source.encode([english]), target.encode([french])
batch = collate(*ids)
model = translator.engine.models[0]
maps = attention_maps(model, batch.source, batch.source_real, batch.target_in)
weights_HTS = maps[cross_attentions(model)[-1]][0]

read = [*source.tokens(ids[0][0]), "</s>"]
written = [*target.tokens(ids[1][0]), "</s>"]
weights_TS = weights_HTS.mean(dim=0)
_, ax = plt.subplots()
ax.matshow(weights_TS, vmin=0)
ax.set_xticks(range(len(read)), read, rotation=90)
ax.set_yticks(range(len(written)), written)
most = [read[key] for key in weights_TS.argmax(dim=-1)]
print(french, *zip(written, most, strict=True), sep="\n")

# %%
# The dark cells nearly form a diagonal, because both languages have a similar order. They leave it
# where the order differs: "voiture rouge" reads "car" before "red". Such a picture shows what the
# model read, not why it decided: values and projections follow, and each layer mixes the words
# again.
#
# **Exercise 9.4.** Which other attentions are in ``maps``? What must hold for those of the
# decoder?
#
# You now know the parts of other models, too. An encoder alone, trained to guess hidden words, is
# BERT. A decoder alone, without cross-attention, is GPT. An encoder over patches of a picture is a
# vision transformer.
#
# Answers
# -------
# **9.1** Each word now has another position, so its context differs.

x = torch.randn(1, 6, 32)
attention = MultiHeadAttention(32, 4)
torch.testing.assert_close(attention(x.flip(1)).flip(1), attention(x))  # without positions
assert not torch.allclose(attention(sines(x.flip(1))).flip(1), attention(sines(x)), atol=1e-3)

# %%
# **9.2** Yes: a new word turns by its own position, which the cache knows.

attention, rotary, cache = MultiHeadAttention(32, 4), RotaryPositions(64, 8), KVCache()
steps = [
    attention(word, causal=True, rotary=rotary, cache=cache.layer(0)) for word in x.split(1, dim=1)
]
whole = attention(x, causal=True, rotary=rotary)
torch.testing.assert_close(torch.cat(steps, dim=1), whole)

# %%
# **9.3** ``masks.causal``. A word such as "bank" could no longer read what follows, "of the
# river".
#
# **9.4** The self-attention of the encoder and of the decoder. The decoder's never reads a later
# token. The picture has the heads of the first layers: the encoder above, the decoder below.

for name, weights_BHTT in maps.items():
    print(f"{name:26}", list(weights_BHTT.shape))
    if name.startswith("decoder") and "self" in name:
        assert not weights_BHTT[0].triu(1).any()

_, axes = plt.subplots(2, 4, layout="constrained")
for row, side in zip(axes, ("encoder", "decoder"), strict=True):
    for ax, board in zip(row, maps[f"{side}.0.self_attention"][0], strict=True):
        ax.matshow(board, vmin=0)
