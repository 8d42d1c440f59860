// Settings beside which a framework does not let a knob change: the knob keeps its value, and says why.
#include "projects.h"

#define TUNE                                                                                       \
  "model:\n  _component_: torchtune.models.llama3_2.llama3_2_1b\nbatch_size: 2\n"                  \
  "gradient_accumulation_steps: 1\nenable_activation_checkpointing: True\n"                        \
  "optimizer:\n  _component_: torch.optim.AdamW\n  lr: 1e-5\n"
#define AXOLOTL                                                                                    \
  "base_model: NousResearch/Llama-3.2-1B\nmicro_batch_size: 2\ngradient_accumulation_steps: 4\n"   \
  "gradient_checkpointing: true\noptimizer: adamw_torch\ndatasets:\n  - path: a\n"
#define FACTORY                                                                                    \
  "model_name_or_path: Qwen/Qwen3-4B\nstage: sft\ndo_train: true\nfinetuning_type: full\n"         \
  "per_device_train_batch_size: 1\ngradient_accumulation_steps: 8\ncutoff_len: 2048\n"

static bool holds(plim_knob knob, const char *reason) {
  const plim_project_knob *k = &project.knobs[knob];
  return k->is_fixed && strstr(k->why, reason);
}

TEST(knobs_that_frameworks_tie_to_a_setting_are_held) {
  static const struct {
    const char *text;
    plim_knob knob;
    const char *reason;
  } cases[] = {
      {TUNE "optimizer_in_bwd: True\n", PLIM_KNOB_ACCUMULATE, "(optimizer_in_bwd)"},
      {AXOLOTL "flash_attn_fuse_mlp: true\n", PLIM_KNOB_LORA_RANK, "fused MLPs"},
      {AXOLOTL "base_model: mosaicml/mpt-7b\n", PLIM_KNOB_CHECKPOINT, "for MPT (mosaicml/mpt-7b)"},
      {AXOLOTL "use_eaft: true\n", PLIM_KNOB_LIGER, "needs all logits"},
      {AXOLOTL "plugins:\n  - axolotl.integrations.diffusion.DiffusionPlugin\n",
       PLIM_KNOB_CHUNKED_LOSS, "needs all logits"},
      {AXOLOTL
       "plugins:\n  - axolotl.integrations.diffusion.DiffusionPlugin\nsample_packing: true\n",
       PLIM_KNOB_MICRO_BATCH, "share a timestep"},
      {AXOLOTL "tiled_mlp: true\n", PLIM_KNOB_LIGER, "Liger's MLP"},
      {AXOLOTL "fp8_enable_fsdp_float8_all_gather: true\n", PLIM_KNOB_STRATEGY, "needs FSDP2"},
      {FACTORY "use_badam: true\n", PLIM_KNOB_OPTIMIZER, "BAdam"},
      {FACTORY "use_badam: true\n", PLIM_KNOB_STRATEGY, "ZeRO-3"},
      {FACTORY "use_galore: true\n", PLIM_KNOB_STRATEGY, "GaLore with DeepSpeed"},
      {FACTORY "use_galore: true\n", PLIM_KNOB_LORA_RANK, "adapters with GaLore"},
      {FACTORY "tensor_model_parallel_size: 1\n", PLIM_KNOB_STRATEGY, "use_distributed_optimizer"},
      {FACTORY "tensor_model_parallel_size: 1\n", PLIM_KNOB_CHECKPOINT, "recompute_granularity"},
      {FACTORY "use_asft_loss: true\n", PLIM_KNOB_LIGER, "needs all logits"},
      {FACTORY "pure_bf16: true\n", PLIM_KNOB_STRATEGY, "pure_bf16 with ZeRO-3"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    CHECK(!read_text("train.yaml", cases[i].text), "case %zu: %s", i, error.message);
    CHECK(holds(cases[i].knob, cases[i].reason), "case %zu: %s", i,
          project.knobs[cases[i].knob].why);
  }
}

TEST(settings_that_are_off_hold_nothing) {
  static const char *const texts[] = {
      TUNE "optimizer_in_bwd: False\nenable_activation_offloading: False\n",
      // A plan may turn both off; the pair alone is refused.
      TUNE "enable_activation_checkpointing: True\nenable_activation_offloading: True\n",
      AXOLOTL "activation_offloading: false\ntiled_mlp: null\n",
      // Without packing, each sample is a row.
      AXOLOTL "sample_packing: false\nadapter: null\n",
      FACTORY "use_badam: false\nuse_galore: false\npure_bf16: false\n",
      AXOLOTL "use_badam: true\n", // a key of another framework
  };
  static const plim_knob knobs[] = {PLIM_KNOB_ACCUMULATE, PLIM_KNOB_CHECKPOINT, PLIM_KNOB_LIGER,
                                    PLIM_KNOB_OPTIMIZER, PLIM_KNOB_STRATEGY};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    CHECK(!read_text("train.yaml", texts[i]), "text %zu: %s", i, error.message);
    for (size_t k = 0; k < sizeof knobs / sizeof *knobs; k++)
      CHECK(!project.knobs[knobs[k]].is_fixed, "text %zu: %s", i, project.knobs[knobs[k]].why);
  }
  plim_project_clear(&project);
}

static bool refuses_pair(plim_knob first, const char *value, plim_knob second, const char *with) {
  plim_refused_pair pairs[PLIM_MAX_REFUSED];
  size_t count = plim_project_refused(&project, pairs);
  for (size_t i = 0; i < count; i++)
    if (pairs[i].knob[0] == first && strstr(pairs[i].values[0], value) &&
        pairs[i].knob[1] == second && strstr(pairs[i].values[1], with))
      return true;
  return false;
}

// tests/torch/parsers.py has Axolotl and torchtune refuse them.
TEST(values_that_frameworks_refuse_together_are_told_to_a_plan) {
  CHECK(!read_text("train.yaml", AXOLOTL), "%s", error.message);
  CHECK(refuses_pair(PLIM_KNOB_STRATEGY, "fsdp2", PLIM_KNOB_OPTIMIZER, "adamw-8bit"), "Axolotl");
  CHECK(refuses_pair(PLIM_KNOB_OFFLOAD, "activations", PLIM_KNOB_CHECKPOINT, "off"), "Axolotl");
  CHECK(!read_text("train.yaml", TUNE), "%s", error.message);
  CHECK(refuses_pair(PLIM_KNOB_OFFLOAD, "activations", PLIM_KNOB_CHECKPOINT, "off"), "torchtune");
  CHECK(refuses_pair(PLIM_KNOB_STRATEGY, "fsdp2", PLIM_KNOB_OPTIMIZER, "paged-adamw"), "torchtune");
  CHECK(!read_text("train.yaml", FACTORY), "%s", error.message);
  CHECK(!refuses_pair(PLIM_KNOB_OFFLOAD, "activations", PLIM_KNOB_CHECKPOINT, "off"),
        "another one");
  plim_project_clear(&project);
}

TEST_MAIN
