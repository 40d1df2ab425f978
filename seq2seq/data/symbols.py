"""Put symbols that people type into both sides of a sentence pair, at the same place.

Corpora hardly have such symbols: of 1.7 million pairs of English and French text, 28 have a euro
sign, 20 an arrow, and few an emoji. A model cannot copy what it has never seen.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable

from seq2seq.data.annotations import marked, shared_spans
from seq2seq.data.corpus import Pair
from seq2seq.data.word_links import WordLinks

# The most frequent first.
_EMOJI = """
    😂 ❤️ 😍 🤣 😊 🙏 😘 😭 😁 👍 😅 👏 😄 🔥 💔 💖 😢 🤔 😆 🙄 💪 😉 ☺️ 👌
    🤗 💜 😔 😎 😇 🌹 🤦 🎉 💞 ✌️ ✨ 🤷 😱 😌 🌸 🙌 😋 💗 💚 😏 💛 🙂 💓 🤩
    😀 🖤 😃 💯 🙈 👇 🎶 😒 🤭 ❣️ 😜 💋 👀 😪 😑 💥 🙋 😞 😩 😡 🤪 👊 🥰 🎂
    🎁 🎄 🎈 🥳 🍀 ☀️ 🌞 ⛅ 🌧️ ❄️ ⭐ 🌟 🌈 🌍 🌊 🏖️ ✈️ 🚗 🚆 🚲 🏠 🏡 🏃 ⚽
    🏀 🎾 🏆 🥇 🍕 🍔 🍟 🍰 🍫 🍎 🍓 🍷 🍺 🍻 🥂 ☕ 🍵 🐶 🐱 🐰 🦊 🐻 🐼 🦁
    🐷 🐸 🐵 🐔 🐧 🦋 🐟 🌻 🌷 🌲 📷 📞 📱 💻 📧 ✉️ 📅 📌 📍 📎 ✏️ 📚 📖 💡
    🔑 🔒 🔔 ⏰ ⌛ 💰 💶 💳 🛒 🛍️ 📦 ✅ ❌ ❗ ❓ ⚠️ ♻️ 🆕 🆗 ➡️ ⬅️ ⬆️ ⬇️ 👉
    👈 👆 👋 🤝 ✋ 🤞 🙃 😴 🤒 🤢 🤯 😳 😬 🤐 🥺 😤 😠 🤬 😈 💀 👻 👽 🤖 💩
    😷 👶 👧 👨 👩 👵 👴 👮 🎅 👑 👗 👟 🎓 💍 💄 🎤 🎧 🎸 🎬 🎮 🚀 🇫🇷 🇬🇧 🇺🇸
    🇨🇦 🇩🇪 🇪🇸 🇮🇹 🇪🇺 👨‍👩‍👧 👩‍💻 👨‍🍳 🤷‍♀️ 🤦‍♂️ 👍🏻 👍🏽 👏🏼 🙏🏾 💪🏿 ❤️‍🔥 🏳️‍🌈 1️⃣ 2️⃣ 3️⃣ ▶️ ⏸️ ☎️ ☔
    ⚡ ♥ ★ ☆ ☺
"""
EMOJI = _EMOJI.split()
RANGES = ((0x1F300, 0x1F650), (0x1F680, 0x1F6F0), (0x1F900, 0x1FA00), (0x2600, 0x2700),
          (0x2190, 0x2200), (0x25A0, 0x2600), (0x2200, 0x2270), (0x20A0, 0x20C0))  # fmt: skip
_FACES = ":) :-) ;) ;-) :D :-D :( :-( :P :p XD xD ^^ <3 :/ :o ♥ :'( (y) B-)"
_BULLETS = "• - * → ✓ ✔ – — + ► ‣ · > >> ☐ ☑ ● ○ ■ # ## ✅ 👉 ⇒ 1. 2. 3. 1) 2) a) b) (1) (a)"
_HASHTAGS = (
    "#love #happy #travel #Paris #London #news #sport #foodie #music #NowPlaying #tbt "
    "#MondayMotivation #weekend #TeamWork #climate #COP28 #JO2024 #photo #art #books"
)
_HANDLES = "@anna @max_22 @the.real.lea @Support @BBCNews @lemonde @jp @NASA @user123 @team"
BULLETS, FACES, HASHTAGS, HANDLES = (
    words.split() for words in (_BULLETS, _FACES, _HASHTAGS, _HANDLES)
)

_END = re.compile(r"\s*(?:[.!?]|\.\.\.)$")
_INNER = re.compile(r"(?<=[.!?]) (?=[^\W\d_])")  # where the next sentence begins
_STRESS = re.compile(r"(?<=[\w])\s*([!?])$")


def symbols(source: str, target: str, draw: random.Random, links: WordLinks) -> Pair:
    """Put symbols into a pair at places that both sides share."""
    change = draw.choices(list(_CHANGES), weights=list(_CHANGES.values()))[0]
    return change(source, target, draw, links)


def _emoji(draw: random.Random) -> str:
    if draw.random() < 0.15:
        return chr(draw.randrange(*draw.choice(RANGES)))
    return EMOJI[int(len(EMOJI) * draw.random() ** 2)]  # the frequent ones more often


def _several(draw: random.Random) -> str:
    count = draw.choice((1, 1, 1, 1, 2, 3))
    one = _emoji(draw)
    if draw.random() < 0.5:
        return one * count
    return one + "".join(_emoji(draw) for _ in range(count - 1))


def _on_both(source: str, target: str, first: str, last: str = "") -> Pair:
    """Put the same text before and after both sides."""
    return f"{first}{source}{last}", f"{first}{target}{last}"


def _emoji_behind(source: str, target: str, draw: random.Random, _: WordLinks) -> Pair:
    sign = _several(draw) if draw.random() < 0.8 else draw.choice(FACES)
    space = " " if draw.random() < 0.85 or sign in FACES else ""
    ends = draw.random() < 0.5 and _END.search(source) and _END.search(target)
    if ends and source[-1] == target[-1] == ".":
        source, target = _END.sub("", source), _END.sub("", target)
    return _on_both(source, target, "", space + sign)


def _emoji_before(source: str, target: str, draw: random.Random, _: WordLinks) -> Pair:
    return _on_both(source, target, f"{_several(draw)} ")


def _emoji_between(source: str, target: str, draw: random.Random, _: WordLinks) -> Pair:
    """Put an emoji after the first sentence if both sides have as many; else at the end."""
    places = [len(_INNER.findall(side)) for side in (source, target)]
    if not places[0] or places[0] != places[1]:
        return _emoji_behind(source, target, draw, _)
    sign = f" {_several(draw)} "
    return _INNER.sub(sign, source, count=1), _INNER.sub(sign, target, count=1)


def _bullet(source: str, target: str, draw: random.Random, _: WordLinks) -> Pair:
    return _on_both(source, target, f"{draw.choice(BULLETS)} ")


def _enclosed(source: str, target: str, draw: random.Random, _: WordLinks) -> Pair:
    """Enclose both sides in quotation marks, brackets or the signs of bold text."""
    first, last = draw.choice((('"', '"'),) * 4 + (("(", ")"), ("[", "]"), ("*", "*"), ("**", "**"),
                                                   ("_", "_"), ("~~", "~~")))  # fmt: skip
    if '"' in source + target or "«" in target:
        return source, target
    return _on_both(source, target, first, last)


def _signed(source: str, target: str, draw: random.Random, links: WordLinks) -> Pair:
    """Put a word into quotation marks or the like, or a sign beside a name."""
    names, phrases = shared_spans(source, target), links.phrases(source, target)
    if names and draw.random() < 0.4:
        one = draw.choice(names)
        marks = [("#", ""), ("~", ""), ("(", ")"), ("± ", ""), ("≈ ", "")]
        if source[slice(*one.source)].isalpha():
            trade = draw.choice("®™©")
            marks = [("@", ""), ("#", ""), ("", trade), ('"', '"'), ("*", "*"), ("& ", "")]
    elif phrases and '"' not in source + target and "«" not in target:
        one = draw.choice(phrases)
        marks = [('"', '"')] * 6 + [("*", "*"), ("**", "**"), ("_", "_"), ("(", ")")]
        if " " not in source[slice(*one.source)] + target[slice(*one.target)]:
            marks.append(("#", ""))
    else:
        return source, target
    return marked(source, target, [(one, "{}".join(draw.choice(marks)))])


def _tagged(source: str, target: str, draw: random.Random, _: WordLinks) -> Pair:
    """Put hashtags at the end, or an @name at the beginning or end."""
    if draw.random() < 0.4:
        sign = draw.choice(HANDLES)
        before = draw.random() < 0.7
        return _on_both(source, target, *((f"{sign} ", "") if before else ("", f" {sign}")))
    some = " ".join(draw.sample(HASHTAGS, draw.choice((1, 1, 2, 3))))
    return _on_both(source, target, "", f" {some}")


def _stressed(source: str, target: str, draw: random.Random, _: WordLinks) -> Pair:
    """Write several exclamation or question marks at the end."""
    ends = [_STRESS.search(side) for side in (source, target)]
    if not ends[0] or not ends[1] or ends[0][1] != ends[1][1]:
        return _emoji_behind(source, target, draw, _)
    more = draw.choice(("!!", "!!!", "!!!!") if ends[0][1] == "!" else ("??", "???", "?!", "!?"))
    return source[:-1] + more, target[:-1] + more


_CHANGES: dict[Callable[[str, str, random.Random, WordLinks], Pair], int] = {
    _emoji_behind: 6,
    _emoji_before: 2,
    _emoji_between: 2,
    _bullet: 4,
    _enclosed: 2,
    _signed: 8,
    _tagged: 2,
    _stressed: 2,
}
