"""Names that people give to columns, the surest first, compared in lower case with underscores."""

import re

_TABLE = """
response: response completion output generation generated_text model_output model_response
    assistant_response output_text response_text completion_text generated prediction rollout_text
    completions responses outputs
prompt: prompt question query input instruction problem prompt_text input_text user_prompt prompts
reward: reward score total_reward final_reward reward_score rm_score rewards scores
group_id: group_id uid group prompt_id prompt_uid question_id problem_id task_id example_id group_index
    prompt_idx prompt_index
step: step global_step training_step train_step iteration iter gen_step rollout_step
split: split phase
data_source: data_source source dataset env env_name domain benchmark task task_name
ground_truth: ground_truth gts gt answer gold gold_answer label target reference expected solution
advantage: advantage advantages adv
finish_reason: finish_reason stop_reason
messages: messages conversation conversations
response_ids: response_ids token_ids completion_ids output_ids response_token_ids completion_token_ids
    output_token_ids
response_tokens: response_tokens tokens token_texts
response_mask: response_mask loss_mask action_mask completion_mask mask
advantages: advantages token_advantages
rollout_log_probs: rollout_log_probs rollout_logprobs sampling_logprobs inference_logprobs
    generation_logprobs logprobs log_probs
old_log_probs: old_log_probs old_logprobs prev_logprobs trainer_logprobs
ref_log_probs: ref_log_probs ref_logprobs reference_logprobs
token_level_rewards: token_level_rewards token_rewards
prompt_ids: prompt_ids prompt_token_ids input_ids
entropies: entropies entropy
sample_id: sample_id request_id rollout_uid
sample_index: sample_index sample_idx generation_index
"""


def _parsed(text: str) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for word in text.split():
        if word.endswith(":"):
            names = found.setdefault(word.removesuffix(":"), [])
        else:
            names.append(word)
    return {field: tuple(names) for field, names in found.items()}


#: Field -> names.
NAMES = _parsed(_TABLE)


def normal(name: str) -> str:
    """As names are compared: lower case, underscores between words."""
    return re.sub(r"[^a-z0-9]+", "_", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()).strip("_")


def shown(name: str) -> str:
    """A column's name in a sentence: one line, not too long."""
    clean = "".join(character if character.isprintable() else "\ufffd" for character in name)
    return clean if len(clean) <= 40 else f"{clean[:39]}…"
