"""Plotly figures of batches and runs. `FIGURES[name].build(session, batch or run, options)` gives `{"data",
"layout"}`.

One figure is one file of this folder with a `FIGURE`; colours come from `palette`.
"""

from app.figures import (
    advantage_over_steps,
    estimator_agreement,
    group_advantages,
    group_rewards,
    length_advantage,
    length_over_steps,
    loss_weights,
    recorded_vs_recomputed,
    reward_histogram,
    reward_over_steps,
    sign_flips,
    signal_over_steps,
    token_heatmap,
    token_tracks,
    whitening_scopes,
)
from app.figures.figure import Figure

__all__ = ["FIGURES", "Figure"]

FIGURES: dict[str, Figure] = {
    figure.name: figure
    for figure in (
        token_heatmap.FIGURE,
        token_tracks.FIGURE,
        group_rewards.FIGURE,
        group_advantages.FIGURE,
        reward_histogram.FIGURE,
        length_advantage.FIGURE,
        whitening_scopes.FIGURE,
        sign_flips.FIGURE,
        estimator_agreement.FIGURE,
        recorded_vs_recomputed.FIGURE,
        loss_weights.FIGURE,
        reward_over_steps.FIGURE,
        signal_over_steps.FIGURE,
        advantage_over_steps.FIGURE,
        length_over_steps.FIGURE,
    )
}
