"""Advantage estimators of RL fine-tuning, on packed tensors. Knows no database, no HTTP and no files."""

from estimators.batch import ROLLOUT_FIELDS, TOKEN_FIELDS, Batch
from estimators.conventions import CONVENTIONS, Convention
from estimators.estimate import Result, Summaries, estimate, missing, usable
from estimators.estimator import Estimator, Raw, params_schema
from estimators.groups import factorize, group_statistics
from estimators.loss_weights import LOSS_MODES, loss_weights, token_loss_weights
from estimators.moments import Moments, merge_all
from estimators.parameters import settings_schema, settings_to_dict
from estimators.policy_ratio import PolicyRatio, policy_ratio
from estimators.refused import Refused
from estimators.registry import ESTIMATORS
from estimators.request import GROUPINGS, Request
from estimators.rewards import ScoreParams
from estimators.whitening import Whitening, scope_ids, whiten_rollouts

__all__ = [
    "CONVENTIONS",
    "ESTIMATORS",
    "GROUPINGS",
    "LOSS_MODES",
    "ROLLOUT_FIELDS",
    "TOKEN_FIELDS",
    "Batch",
    "Convention",
    "Estimator",
    "Moments",
    "PolicyRatio",
    "Raw",
    "Refused",
    "Request",
    "Result",
    "ScoreParams",
    "Summaries",
    "Whitening",
    "estimate",
    "factorize",
    "group_statistics",
    "loss_weights",
    "merge_all",
    "missing",
    "params_schema",
    "policy_ratio",
    "scope_ids",
    "settings_schema",
    "settings_to_dict",
    "token_loss_weights",
    "usable",
    "whiten_rollouts",
]
