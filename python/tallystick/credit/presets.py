"""The published estimators that this room computes."""

from tallystick._preset import Preset

_OUTCOMES = ("rewards", "group")
_GRPO = (
    "Shao et al. 2024, DeepSeekMath: Pushing the Limits of Mathematical Reasoning in Open Language Models, "
    "arXiv 2402.03300"
)
_DAPO = "Yu et al. 2025, DAPO: An Open-Source LLM Reinforcement Learning System at Scale, arXiv 2503.14476"
_GIGPO = "Feng et al. 2025, Group-in-Group Policy Optimization for LLM Agent Training, arXiv 2505.10978"
_REINFORCE_PP = (
    "Hu 2025, REINFORCE++: A Simple and Efficient Approach for Aligning Large Language Models, arXiv 2501.03262"
)

PRESETS = (
    Preset(
        name="grpo",
        room="credit",
        call="grpo",
        needs=_OUTCOMES,
        seeds=("baseline",),
        mark="verified",
        citation=_GRPO,
    ),
    Preset(
        name="dr_grpo",
        room="credit",
        call="grpo",
        defaults={"scale": "none"},
        needs=_OUTCOMES,
        seeds=("baseline",),
        mark="verified",
        citation="Liu et al. 2025, Understanding R1-Zero-Like Training: A Critical Perspective, arXiv 2503.20783",
    ),
    Preset(
        name="lite_ppo",
        room="credit",
        call="grpo",
        defaults={"scale": "batch_std"},
        needs=_OUTCOMES,
        seeds=("003-24",),
        mark="verified",
        citation="Liu et al. 2025, Part I: Tricks or Traps? A Deep Dive into RL for LLM Reasoning, arXiv 2508.08221",
    ),
    Preset(
        name="flow_grpo",
        room="credit",
        call="grpo",
        defaults={"singleton": "raw"},
        needs=_OUTCOMES,
        seeds=("003-58",),
        mark="verified",
        citation=(
            "Li et al. 2025, In-the-Flow Agentic System Optimization for Effective Planning and Tool Use, "
            "arXiv 2510.05592"
        ),
    ),
    Preset(
        name="rloo",
        room="credit",
        call="rloo",
        needs=_OUTCOMES,
        seeds=("baseline",),
        mark="verified",
        citation=(
            "Ahmadian et al. 2024, Back to Basics: Revisiting REINFORCE Style Optimization for Learning from "
            "Human Feedback in LLMs, arXiv 2402.14740"
        ),
    ),
    Preset(
        name="opo",
        room="credit",
        call="opo",
        needs=("rewards", "group", "length"),
        seeds=("baseline",),
        mark="verified",
        citation="Hao et al. 2025, On-Policy RL with Optimal Reward Baseline, arXiv 2505.23585",
    ),
    Preset(
        name="gpg",
        room="credit",
        call="gpg",
        needs=_OUTCOMES,
        seeds=("baseline",),
        mark="verified",
        citation=(
            "Chu et al. 2025, GPG: A Simple and Strong Reinforcement Learning Baseline for Model Reasoning, "
            "arXiv 2504.02546"
        ),
    ),
    Preset(
        name="best_of_group",
        room="credit",
        call="best_of_group",
        needs=_OUTCOMES,
        seeds=("baseline",),
        mark="reported",
        citation=(
            "Tang et al. 2025, Optimizing Language Models for Inference Time Objectives using Reinforcement "
            "Learning, arXiv 2503.19595"
        ),
    ),
    Preset(
        name="reinforce_pp",
        room="credit",
        call="reinforce_pp",
        defaults={"whiten": True},
        needs=("rewards", "offsets", "mask"),
        seeds=("baseline",),
        mark="reported",
        citation=_REINFORCE_PP,
    ),
    Preset(
        name="reinforce_pp_baseline",
        room="credit",
        call="reinforce_pp_baseline",
        defaults={"whiten": True},
        needs=("rewards", "group", "offsets", "mask"),
        seeds=("baseline",),
        mark="reported",
        citation=_REINFORCE_PP,
    ),
    Preset(
        name="gae",
        room="credit",
        call="gae",
        defaults={"gamma": 1.0, "lam": 0.95},
        needs=("rewards", "values", "offsets", "mask"),
        seeds=("baseline",),
        mark="verified",
        citation=(
            "Schulman et al. 2015, High-Dimensional Continuous Control Using Generalized Advantage Estimation, "
            "arXiv 1506.02438"
        ),
    ),
    Preset(
        name="dapo_filter",
        room="credit",
        call="informative_groups",
        needs=("accuracy", "group"),
        seeds=("baseline",),
        mark="verified",
        citation=_DAPO,
    ),
    Preset(
        name="dapo_overlong",
        room="credit",
        call="overlong_penalty",
        defaults={"max_length": 20480, "buffer": 4096},
        needs=("length",),
        seeds=("baseline",),
        mark="verified",
        citation=_DAPO,
    ),
    Preset(
        name="gigpo",
        room="credit",
        call="gigpo",
        needs=("rewards", "group", "trajectory", "state", "step"),
        seeds=("000-1",),
        mark="verified",
        citation=_GIGPO,
    ),
    Preset(
        name="gigpo_verl_agent",
        room="credit",
        call="gigpo",
        defaults={"compat": "verl-agent"},
        needs=("rewards", "group", "trajectory", "state", "step"),
        seeds=("000-1",),
        mark="verified",
        citation=_GIGPO,
    ),
    Preset(
        name="rlvmr",
        room="credit",
        call="tag_groups",
        defaults={"singleton": "raw"},
        needs=("rewards", "group", "tag", "outcome"),
        seeds=("003-81",),
        mark="verified",
        citation=(
            "Zhang et al. 2025, RLVMR: Reinforcement Learning with Verifiable Meta-Reasoning Rewards for Robust "
            "Long-Horizon Agents, arXiv 2507.22844"
        ),
    ),
)
