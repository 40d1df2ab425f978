"""The grammar: all sentence patterns, in the order in which they are drawn.

The docstring of a pattern shows sentences that it may draw.
"""

import patterns_actions
import patterns_comparisons
import patterns_complex
import patterns_places
import patterns_pronouns
import patterns_questions
import patterns_states
import patterns_time
import patterns_wishes
from drawing import Draw, Pattern

PATTERNS: tuple[Pattern, ...] = (
    *patterns_actions.PATTERNS,
    *patterns_pronouns.PATTERNS,
    *patterns_questions.PATTERNS,
    *patterns_states.PATTERNS,
    *patterns_comparisons.PATTERNS,
    *patterns_places.PATTERNS,
    *patterns_time.PATTERNS,
    *patterns_wishes.PATTERNS,
    *patterns_complex.PATTERNS,
)

__all__ = ["PATTERNS", "Draw", "Pattern"]
