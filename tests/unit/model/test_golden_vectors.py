"""Every golden vector, through both kernels and in both precisions."""

from decimal import Decimal

import golden
import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from seq2seq.config import KERNELS
from seq2seq.model.attention import masked_softmax

BOTH_KERNELS = pytest.mark.parametrize("kernel", KERNELS)
BOTH_DTYPES = pytest.mark.parametrize("dtype", golden.DTYPES, ids=str)


def check(name, kernel, dtype, least):
    case, found = golden.load(name), golden.errors(name, kernel, dtype)
    assert len(found) >= least
    wrong = {
        what: error
        for what, error in found.items()
        if not error <= golden.tolerance(case, what, dtype)
    }
    assert not wrong


@BOTH_DTYPES
@BOTH_KERNELS
@pytest.mark.parametrize("name", golden.ATTENTION)
def test_projections_weights_context_and_output_are_golden(name, kernel, dtype):
    check(name, kernel, dtype, least=6)


@BOTH_DTYPES
@BOTH_KERNELS
@pytest.mark.parametrize("name", golden.OTHERS)
def test_scores_softmax_masks_and_additive_attention_are_golden(name, kernel, dtype):
    check(name, kernel, dtype, least=2)


@BOTH_DTYPES
@pytest.mark.parametrize("name", golden.ATTENTION)
def test_the_slow_kernel_of_torch_is_golden_too(name, dtype):
    with sdpa_kernel(SDPBackend.MATH):
        check(name, "sdpa", dtype, least=6)


def test_every_golden_file_is_checked():
    golden.load(golden.ATTENTION[0])  # skips where there are none
    files = {path.stem for path in golden.FOLDER.glob("*.json")}
    assert files == {*golden.ATTENTION, *golden.OTHERS}


def test_the_module_holds_every_case_but_those_of_other_widths():
    cases = [golden.load(name) for name in golden.ATTENTION]
    by_hand_only = {case["name"] for case in cases if not golden.module_fits(case)}
    assert by_hand_only == {
        "single_head_self_attention_001",  # keys of width 2, values of width 4
        "causal_single_head_001",
        "cross_attention_001",
        "attention_dropout_given_draw_004",  # input of width 3, output of width 2
        "causal_mha_two_heads_004",
    }


def test_the_worked_softmax_rounds_to_its_printed_digits_but_for_one_misprint():
    worked = golden.load("softmax_worked_000")
    scores = torch.tensor(worked["inputs"]["scores"], dtype=torch.float64)
    for index in (0, 2):
        mask = worked["cases"][index]["mask"]
        ours = masked_softmax(scores, None if mask is None else torch.tensor(mask))
        wrong = []
        for row, numbers in enumerate(worked["printed"][index]["values"]):
            for column, number in enumerate(numbers):
                digits = len(Decimal(str(number)).normalize().as_tuple().digits)
                if float(f"{ours[row, column].item():.{digits}g}") != number:
                    wrong.append((row, column))
        assert wrong == [(2, 2)]
        assert ours[2, 2].item() == pytest.approx(0.000333, abs=1e-6)
