"""Every known mistake by name. A new one is its file and its line here."""

from estimators.mistakes import (
    batch_grouping,
    bf16_rewards,
    group_split,
    kl_counted_twice,
    kl_left_out,
    mask_ignored,
    mask_shifted,
    offset,
    padding_counted,
    prompt_grouping,
    rank_whitening,
    rejected_shift,
    rejected_vote,
    reset_at_observations,
    reward_on_last_response,
    reward_on_last_unmasked,
    reward_past_end,
    scaled,
    segments_counted,
    sign_flipped,
    stride_grouping,
    values_shifted,
    whitened_twice,
    wrong_ddof,
    wrong_eps,
)
from estimators.mistakes.mistake import Mistake

__all__ = ["MISTAKES", "Mistake"]

#: In the order in which they are tried and, where several fit equally well, named.
MISTAKES: dict[str, Mistake] = {
    each.MISTAKE.name: each.MISTAKE
    for each in (
        group_split,
        prompt_grouping,
        stride_grouping,
        rejected_shift,
        batch_grouping,
        rejected_vote,
        segments_counted,
        mask_ignored,
        padding_counted,
        rank_whitening,
        whitened_twice,
        reset_at_observations,
        reward_past_end,
        reward_on_last_response,
        reward_on_last_unmasked,
        values_shifted,
        kl_left_out,
        kl_counted_twice,
        bf16_rewards,
        sign_flipped,
        wrong_ddof,
        wrong_eps,
        mask_shifted,
        scaled,
        offset,
    )
}
