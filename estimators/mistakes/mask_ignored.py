"""The mask not looked at: in the recursion over tokens, in the whitening, or in both."""

from collections.abc import Iterator
from dataclasses import replace

import torch

from estimators.batch import Batch
from estimators.mistakes.mistake import Input, Mistake, Setup, Whiten, another_mask
from estimators.mistakes.rank_whitening import kernel
from estimators.reconciliation import Hints
from estimators.shape import Shape, of_all
from estimators.whitening import Affine, Whitening


def variants(batch: Batch, hints: Hints) -> Iterator[Input | Whiten]:
    if bool(batch.response_mask.all()):
        return
    text = "the mask was not looked at: masked tokens took part like the others"
    yield another_mask("mask_ignored", text, lambda batch: torch.ones_like(batch.response_mask))
    text = "the recursion did not look at the mask: masked tokens took part with what is recorded there"
    yield Input("mask_ignored", text, _plain)
    yield Whiten("mask_ignored:whitening", "the whitening did not look at the mask", _every_token)


def _plain(setup: Setup) -> Setup | None:
    if getattr(setup.params, "masked_tokens", "plain") == "plain":
        return None
    return replace(setup, params=replace(setup.params, masked_tokens="plain"))


def _every_token(shape: Shape, own: Whitening) -> Affine | None:
    return of_all(shape.every_token, kernel(own)) if shape.raw.per_token else None


MISTAKE = Mistake(
    "mask_ignored",
    "The mask is not looked at, so tokens that the policy did not choose take part.",
    variants,
    beside_match=True,
)
