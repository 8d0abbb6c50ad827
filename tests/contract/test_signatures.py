"""Names, order and defaults of the arguments that trainers rely on. Options may be added; what stands here stays."""

import inspect

import pytest
import tallystick as ts

REQUIRED = inspect.Parameter.empty


def positional(*names):
    return dict.fromkeys(names, (inspect.Parameter.POSITIONAL_OR_KEYWORD, REQUIRED))


def keyword(**defaults):
    return {name: (inspect.Parameter.KEYWORD_ONLY, default) for name, default in defaults.items()}


SIGNATURES = {
    "segment_reduce": positional("values", "offsets")
    | {"op": (inspect.Parameter.POSITIONAL_OR_KEYWORD, "sum")}
    | keyword(mask=None),
    "reverse_scan": positional("values", "offsets", "decay") | keyword(mask=None, dead="carry"),
    "prefix_scan": positional("values", "offsets") | keyword(exclusive=False, mask=None),
    "group_ids": {"columns": (inspect.Parameter.VAR_POSITIONAL, REQUIRED)},
    "group_normalize": positional("x", "group")
    | keyword(
        center="mean",
        scale="std",
        ddof=1,
        eps=1e-6,
        singleton="zero",
        zero_variance="zero",
        weight=None,
        unit=None,
        mask=None,
    ),
    "group_rank": positional("x", "group") | keyword(descending=True),
    "random.Stream": positional("seed"),
    "random.Stream.draw": positional("self", "step", "id", "purpose"),
    "RolloutPlan": keyword(
        prompt=REQUIRED, count=REQUIRED, temperature=None, variant=None, node=None, role=None, hint=None
    ),
    "RolloutBatch.from_steps": positional("steps"),
    "RolloutBatch.concat": positional("batches"),
    "RolloutBatch.select": positional("self", "rows"),
    "RolloutBatch.broadcast": positional("self", "per_row"),
    "RolloutBatch.to_padded": positional("self"),
    "RolloutBatch.validate": positional("self"),
    "RolloutBatch.save": positional("self", "path"),
    "states.keys": positional("observations") | keyword(scope=None),
    "states.groups": positional("observations", "scope") | keyword(canonical=None),
    "RolloutBatch.from_padded": positional("tokens", "response_mask", "rewards", "uid")
    | keyword(old_log_probs=None, rollout_log_probs=None, trajectory=None, step=None, state=None, version=None),
    "RolloutBatch.load": positional("path"),
    "credit.grpo": positional("rewards", "group")
    | keyword(scale="std", trajectory=None, singleton="zero", ddof=1, eps=1e-6),
    "credit.rloo": positional("rewards", "group")
    | keyword(scale="none", trajectory=None, singleton="zero", ddof=1, eps=1e-6),
    "credit.opo": positional("rewards", "group", "length")
    | keyword(scale="none", trajectory=None, singleton="zero", ddof=1, eps=1e-6),
    "credit.gpg": positional("rewards", "group")
    | keyword(alpha="live_samples", scale="none", trajectory=None, singleton="zero", ddof=1, eps=1e-4),
    "credit.best_of_group": positional("rewards", "group")
    | keyword(scale="none", trajectory=None, singleton="zero", ddof=1, eps=1e-6),
    "credit.gae": positional("rewards", "values", "offsets")
    | keyword(gamma=REQUIRED, lam=REQUIRED, mask=REQUIRED, dead_rewards="move", whiten=False),
    "credit.reinforce_pp": positional("rewards", "offsets")
    | keyword(mask=REQUIRED, gamma=1.0, dead_rewards="move", whiten=False),
    "credit.gigpo": positional("rewards", "group", "trajectory", "state")
    | keyword(
        step=REQUIRED,
        outcome=None,
        gamma=0.95,
        step_weight=1.0,
        scale="none",
        weight=None,
        compat=None,
        singleton=None,
        ddof=1,
        eps=1e-6,
    ),
    "rows.row_stats": positional("logits", "targets") | keyword(ids=None, temperature=1.0),
    "methods.table": {},
    "methods.get": positional("name"),
    "objectives.policy_loss": positional("log_probs", "advantages", "response_mask")
    | keyword(
        rule=REQUIRED,
        old_log_probs=None,
        offsets=None,
        aggregation=None,
        horizon=None,
        empty_rows="skip",
        global_counts=None,
    ),
    "objectives.PPOClip": {
        name: (inspect.Parameter.POSITIONAL_OR_KEYWORD, default)
        for name, default in {"low": 0.2, "high": 0.2, "dual": None}.items()
    },
}


@pytest.mark.parametrize("path", SIGNATURES)
def test_signature(path):
    found = ts
    for name in path.split("."):
        found = getattr(found, name)
    parameters = inspect.signature(found).parameters
    expected = SIGNATURES[path]
    for name, (kind, default) in expected.items():
        assert parameters[name].kind is kind, name
        assert parameters[name].default == default, name
    order = [name for name in expected if expected[name][0] is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    assert list(parameters)[: len(order)] == order
    added = set(parameters) - set(expected)
    assert all(parameters[name].default is not REQUIRED for name in added)


def test_row_statistics_have_these_fields():
    names = "log_probs", "entropy", "logsumexp", "log_sum_sq", "mean_logit", "log_one_minus_p", "id_log_probs"
    assert ts.rows.RowStats._fields == names


def test_a_method_has_the_fields_that_the_table_has():
    row = ts.methods.table()[0]
    assert all(hasattr(row, name) for name in ("name", "seeds", "mark", "room", "needs", "defaults", "citation"))
    method = ts.methods.get(row.name)
    assert all(hasattr(method, name) for name in ("name", "seeds", "mark", "call", "defaults", "citation"))
