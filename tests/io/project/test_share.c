// Knobs that consist of several keys: sharding strategies, where a new one replaces the keys of the old one, and Liger
// in Axolotl, where only missing keys are added.
#include "project_change.h"
#include "sharing.h"

// Files with a sharding strategy, the new strategy, and the edited text.
static const struct {
  const char *path, *before, *strategy, *offload, *after;
} other_ways[] = {
    {"train.py",
     "a = TrainingArguments(\n    per_device_train_batch_size=4,\n    bf16=True,\n    "
     "deepspeed=\"ds.json\",\n)\n",
     "ddp", NULL,
     "a = TrainingArguments(\n    per_device_train_batch_size=4,\n    bf16=True,\n)\n"},
    {"train.py",
     "a = TrainingArguments(per_device_train_batch_size=4, bf16=True, fsdp=\"full_shard "
     "auto_wrap\",\n"
     "                      fsdp_config=dict(version=2))\n",
     "none", NULL, "a = TrainingArguments(per_device_train_batch_size=4, bf16=True)\n"},
    {"train.yaml",
     "per_device_train_batch_size: 4\nbf16: true\ngradient_accumulation_steps: 2\ndeepspeed:\n"
     "  zero_optimization:\n    stage: 3\n",
     "fsdp2", NULL,
     "per_device_train_batch_size: 4\nbf16: true\ngradient_accumulation_steps: 2\n"
     "fsdp: full_shard auto_wrap\nfsdp_config:\n  version: 2\n  reshard_after_forward: true\n"},
    {"train.sh",
     "torchrun --nproc_per_node 8 run.py --per_device_train_batch_size 4 --bf16 true --fsdp "
     "'full_shard "
     "auto_wrap' --fsdp_config fsdp.json\n",
     "ddp", NULL,
     "torchrun --nproc_per_node 8 run.py --per_device_train_batch_size 4 --bf16 true\n"},
    {"train.py",
     "a = TrainingArguments(per_device_train_batch_size=4, bf16=True, fsdp=\"full_shard "
     "auto_wrap\",\n"
     "                      fsdp_config={\"version\": 2})\n",
     "fsdp2", "parameters",
     "a = TrainingArguments(per_device_train_batch_size=4, bf16=True, fsdp=\"full_shard auto_wrap "
     "offload\",\n                      fsdp_config={\"version\": 2})\n"},
    {"accelerate.yaml",
     "distributed_type: FSDP\nfsdp_config:\n  fsdp_version: 2\n  fsdp_offload_params: false\n"
     "mixed_precision: bf16\nnum_machines: 1\nnum_processes: 8\n",
     "zero2", NULL,
     "distributed_type: DEEPSPEED\nmixed_precision: bf16\nnum_machines: 1\nnum_processes: 8\n"
     "deepspeed_config:\n  zero_stage: 2\n"},
    {"accelerate.yaml",
     "distributed_type: DEEPSPEED\nmixed_precision: bf16\nnum_machines: 1\nnum_processes: 1\n"
     "deepspeed_config:\n  zero_stage: 2\n",
     "none", NULL,
     "distributed_type: \"NO\"\nmixed_precision: bf16\nnum_machines: 1\nnum_processes: 1\n"},
    {"axolotl.yaml",
     "base_model: a/b\nmicro_batch_size: 4\nfsdp_version: 2\nfsdp_config:\n  offload_params: true\n"
     "wandb_project: x\n",
     "ddp", NULL, "base_model: a/b\nmicro_batch_size: 4\nwandb_project: x\n"},
    {"axolotl.yaml", "base_model: a/b\nmicro_batch_size: 4\n", "fsdp2", NULL,
     "base_model: a/b\nmicro_batch_size: 4\nfsdp_version: 2\nfsdp_config:\n"
     "  auto_wrap_policy: TRANSFORMER_BASED_WRAP\n  state_dict_type: FULL_STATE_DICT\n"
     "  reshard_after_forward: true\n  cpu_ram_efficient_loading: true\n"},
    {"axolotl.yaml", "base_model: a/b\nmicro_batch_size: 4\n", "fsdp2", "parameters",
     "base_model: a/b\nmicro_batch_size: 4\nfsdp_version: 2\nfsdp_config:\n"
     "  auto_wrap_policy: TRANSFORMER_BASED_WRAP\n  state_dict_type: FULL_STATE_DICT\n"
     "  reshard_after_forward: true\n  cpu_ram_efficient_loading: true\n  offload_params: true\n"},
    {"train.sh",
     "torchrun --nproc_per_node 8 run.py --per_device_train_batch_size 4 --fsdp full_shard "
     "--fsdp_min_num_params 100 --fsdp_transformer_layer_cls_to_wrap LlamaDecoderLayer\n",
     "ddp", NULL, "torchrun --nproc_per_node 8 run.py --per_device_train_batch_size 4\n"},
    {"train.sh", "torchrun --nproc_per_node 8 run.py --per_device_train_batch_size 4\n", "fsdp2",
     NULL,
     "torchrun --nproc_per_node 8 run.py --per_device_train_batch_size 4 --fsdp 'full_shard "
     "auto_wrap' --fsdp_config '{\"version\": 2, \"reshard_after_forward\": true}'\n"},
    {"train.py", "a = TrainingArguments(per_device_train_batch_size=4)\n", "fsdp2", NULL,
     "a = TrainingArguments(per_device_train_batch_size=4, fsdp=\"full_shard auto_wrap\", "
     "fsdp_config={\"version\": 2, \"reshard_after_forward\": True})\n"},
    {"sft.py", "a = SFTConfig(per_device_train_batch_size=4)\n", "fsdp2", "parameters",
     "a = SFTConfig(per_device_train_batch_size=4, fsdp=\"full_shard auto_wrap offload\", "
     "fsdp_config={\"version\": 2, \"reshard_after_forward\": True})\n"},
    {"embed.py", "a = SentenceTransformerTrainingArguments(per_device_train_batch_size=4)\n",
     "fsdp2", NULL,
     "a = SentenceTransformerTrainingArguments(per_device_train_batch_size=4, "
     "fsdp=\"full_shard auto_wrap\", fsdp_config={\"version\": 2, "
     "\"reshard_after_forward\": True})\n"},
    {"train.yaml", "per_device_train_batch_size: 4\nbf16: true\nfsdp: full_shard auto_wrap\n",
     "fsdp2", NULL,
     "per_device_train_batch_size: 4\nbf16: true\nfsdp: full_shard auto_wrap\nfsdp_config:\n"
     "  version: 2\n  reshard_after_forward: true\n"},
    // Keys that turn nothing on may stay.
    {"train.yaml", "per_device_train_batch_size: 4\ndeepspeed: null\nfsdp: full_shard\n", "ddp",
     NULL, "per_device_train_batch_size: 4\ndeepspeed: null\n"},
    {"train.yaml", "per_device_train_batch_size: 4\ndeepspeed: ''\nfsdp: true\n", "ddp", NULL,
     "per_device_train_batch_size: 4\ndeepspeed: ''\n"},
    // accelerate's blocks.
    {"accelerate.yaml",
     "distributed_type: MULTI_GPU\nmixed_precision: bf16\nnum_machines: 1\nnum_processes: 8",
     "zero3", "parameters",
     "distributed_type: DEEPSPEED\nmixed_precision: bf16\nnum_machines: 1\nnum_processes: 8\n"
     "deepspeed_config:\n  zero_stage: 3\n  zero3_init_flag: true\n  zero3_save_16bit_model: true\n"
     "  offload_optimizer_device: cpu\n  offload_param_device: cpu\n"},
    {"accelerate.yaml",
     "distributed_type: MULTI_GPU\nmixed_precision: bf16\nnum_machines: 1\nnum_processes: 8\n",
     "zero2", "optimizer",
     "distributed_type: DEEPSPEED\nmixed_precision: bf16\nnum_machines: 1\nnum_processes: 8\n"
     "deepspeed_config:\n  zero_stage: 2\n  offload_optimizer_device: cpu\n"},
    {"accelerate.yaml",
     "distributed_type: DEEPSPEED\nmixed_precision: bf16\nnum_machines: 1\nnum_processes: 8\n"
     "deepspeed_config:\n  zero_stage: 2\n",
     "fsdp2", "parameters",
     "distributed_type: FSDP\nmixed_precision: bf16\nnum_machines: 1\nnum_processes: 8\n"
     "fsdp_config:\n  fsdp_version: 2\n  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"
     "  fsdp_state_dict_type: FULL_STATE_DICT\n  fsdp_offload_params: true\n"},
    {"accelerate.yaml",
     "distributed_type: DEEPSPEED\nmixed_precision: bf16\nnum_machines: 1\nnum_processes: 8\n"
     "deepspeed_config:\n  zero_stage: 2\n",
     "fsdp2", NULL,
     "distributed_type: FSDP\nmixed_precision: bf16\nnum_machines: 1\nnum_processes: 8\n"
     "fsdp_config:\n  fsdp_version: 2\n  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"
     "  fsdp_state_dict_type: FULL_STATE_DICT\n"},
    {"accelerate.yaml",
     "distributed_type: FSDP\nfsdp_config:\n  fsdp_version: 2\nnum_machines: 1\nnum_processes: 8\n",
     "ddp", NULL, "distributed_type: MULTI_GPU\nnum_machines: 1\nnum_processes: 8\n"},
};

TEST(one_sharding_strategy_replaces_another) {
  for (size_t i = 0; i < sizeof other_ways / sizeof *other_ways; i++) {
    plim_edit_set edits;
    CHECK(!read_text(other_ways[i].path, other_ways[i].before), "%s", error.message);
    bool ok = shares(other_ways[i].strategy, other_ways[i].offload, &edits);
    CHECK(ok, "row %zu", i);
    if (!ok) continue;
    CHECK(becomes(0, &edits, other_ways[i].after), "row %zu", i);
    plim_edit_set_clear(&edits);
  }
}

// Keys with such a name that do not belong to the run stay.
static const struct {
  const char *path, *before, *strategy, *after;
} decoys[] = {
    {"axolotl.yaml",
     "base_model: a/b\nmicro_batch_size: 4\ndatasets:\n  - path: x\n    fsdp: no\n"
     "my_tags:\n  deepspeed: z3-run\n  fsdp_config: {a: 1}\ndeepspeed: ds.json\n",
     "ddp",
     "base_model: a/b\nmicro_batch_size: 4\ndatasets:\n  - path: x\n    fsdp: no\n"
     "my_tags:\n  deepspeed: z3-run\n  fsdp_config: {a: 1}\n"},
    {"train.py",
     "wandb.init(config=dict(deepspeed=\"ds.json\", lr=1))\n"
     "args = TrainingArguments(\"o\", per_device_train_batch_size=4, deepspeed=\"ds.json\")\n",
     "ddp",
     "wandb.init(config=dict(deepspeed=\"ds.json\", lr=1))\n"
     "args = TrainingArguments(\"o\", per_device_train_batch_size=4)\n"},
    {"train.py",
     "deepspeed = \"ds.json\"\n"
     "args = TrainingArguments(\"o\", per_device_train_batch_size=4, fsdp=\"full_shard\")\n",
     "ddp",
     "deepspeed = \"ds.json\"\n"
     "args = TrainingArguments(\"o\", per_device_train_batch_size=4)\n"},
};

TEST(other_peoples_keys_stay) {
  for (size_t i = 0; i < sizeof decoys / sizeof *decoys; i++) {
    plim_edit_set edits;
    CHECK(!read_text(decoys[i].path, decoys[i].before), "%s", error.message);
    CHECK(shares(decoys[i].strategy, NULL, &edits), "%s", error.message);
    CHECK(becomes(0, &edits, decoys[i].after), "%s", decoys[i].path);
    plim_edit_set_clear(&edits);
  }
}

// ---- files -------------------------------------------------------------------------------------------

// A DeepSpeed file is created and referred to; a file that is no longer used is listed.
static const struct {
  const char *strategy, *offload, *path, *has, *lacks;
} created[] = {
    {"zero1", NULL, "ds_zero1.json", "\"stage\": 1\n", "offload"},
    {"zero2", "optimizer", "ds_zero2_offload.json", "\"stage\": 2,\n    \"offload_optimizer\": {",
     "stage3"},
    {"zero3", NULL, "ds_zero3.json",
     "\"stage\": 3,\n    \"stage3_gather_16bit_weights_on_model_save\": true\n", "offload"},
    {"zero3", "optimizer", "ds_zero3_offload.json", "\"offload_optimizer\": {", "offload_param"},
    {"zero3", "parameters", "ds_zero3_offload.json",
     "\"stage\": 3,\n    \"offload_optimizer\": {\"device\": \"cpu\", \"pin_memory\": true},\n"
     "    \"offload_param\": {\"device\": \"cpu\", \"pin_memory\": true},\n",
     NULL},
};

TEST(a_deepspeed_file_is_created_and_named) {
  for (size_t i = 0; i < sizeof created / sizeof *created; i++) {
    plim_edit_set edits;
    char after[128];
    snprintf(after, sizeof after, "per_device_train_batch_size: 4\nbf16: true\ndeepspeed: %s\n",
             created[i].path);
    CHECK(!read_text("train.yaml", "per_device_train_batch_size: 4\nbf16: true\n"), "%s",
          error.message);
    CHECK(shares(created[i].strategy, created[i].offload, &edits), "row %zu", i);
    CHECK(becomes(0, &edits, after) && edits.files.len == 1, "row %zu", i);
    const char *text = edits.files.at[0].text;
    CHECK_STR(edits.files.at[0].path, created[i].path);
    CHECK(strstr(text, created[i].has), "row %zu: %s", i, text);
    CHECK(!created[i].lacks || !strstr(text, created[i].lacks), "row %zu: %s", i, text);
    plim_edit_set_clear(&edits);
  }
}

TEST(a_file_that_is_no_longer_used_is_listed) {
  static const struct {
    const char *flags, *other, *text, *strategy;
  } rows[] = {
      {"deepspeed: other.json\n", "other.json", "{\"zero_optimization\": {\"stage\": 2}}", "ddp"},
      {"deepspeed: other.json\n", "other.json", "{\"zero_optimization\": {\"stage\": 2}}", "fsdp2"},
      {"fsdp: full_shard auto_wrap\nfsdp_config: other.json\n", "other.json",
       "{\"version\": 2, \"reshard_after_forward\": true}", "ddp"},
      {"fsdp: full_shard auto_wrap\nfsdp_config: other.json\n", "other.json",
       "{\"version\": 2, \"reshard_after_forward\": true}", "zero2"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    plim_edit_set edits;
    char text[256];
    snprintf(text, sizeof text, "per_device_train_batch_size: 4\nbf16: true\n%s", rows[i].flags);
    CHECK(!read_two("train.yaml", text, rows[i].other, rows[i].text), "%s", error.message);
    CHECK(shares(rows[i].strategy, NULL, &edits), "row %zu", i);
    CHECK(edits.unnamed.len == 1 && edits.unnamed.at[0] == 1, "row %zu", i);
    plim_edit_set_clear(&edits);
    CHECK(!read_two(rows[i].other, rows[i].text, "train.yaml", text), "%s", error.message);
    CHECK(shares(rows[i].strategy, NULL, &edits), "row %zu", i);
    CHECK(edits.unnamed.len == 1 && edits.unnamed.at[0] == 0, "row %zu, the other way round", i);
    plim_edit_set_clear(&edits);
  }
}

// ---- FSDP's own checkpointing -----------------------------------------------------------------------

#define RUN "torchrun --nproc_per_node 8 run.py --per_device_train_batch_size 4 --bf16 true"
#define SHARDED RUN " --fsdp 'full_shard auto_wrap' --fsdp_config fsdp.json\n"

static bool is_text(plim_knob knob, const char *value) {
  const plim_value *is = &project.knobs[knob].value;
  bool ok = is->kind == PLIM_VALUE_TEXT && strcmp(is->text, value) == 0;
  if (!ok) printf("%s\n", is->kind == PLIM_VALUE_TEXT ? is->text : "no text");
  return ok;
}

TEST(the_fsdp_version_is_in_the_file_of_fsdp_config) {
  CHECK(!read_two("run.sh", SHARDED, "fsdp.json", "{\"version\": 2}"), "%s", error.message);
  CHECK(is_text(PLIM_KNOB_STRATEGY, "fsdp2"), "2");
  CHECK(!read_two("run.sh", SHARDED, "fsdp.json", "{\"fsdp_version\": 1}"), "%s", error.message);
  CHECK(is_text(PLIM_KNOB_STRATEGY, "fsdp"), "1");
  CHECK(!read_two("run.sh", RUN " --fsdp_config fsdp.json\n", "fsdp.json", "{\"version\": 2}"),
        "%s", error.message);
  CHECK(project.knobs[PLIM_KNOB_STRATEGY].origin != PLIM_EXPLICIT, "it turns nothing on alone");
}

// A file that is no longer used after the change must not be edited.
TEST(checkpointing_goes_where_it_is_read_after_the_change) {
  static const struct {
    const char *file;
    size_t changes;
  } rows[] = {{"{\"version\": 2, \"activation_checkpointing\": false}", 2},
              {"{\"version\": 2, \"activation_checkpointing\": true}", 1}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    plim_knob_change changes[] = {{PLIM_KNOB_STRATEGY, value_from("zero3")},
                                  {PLIM_KNOB_CHECKPOINT, value_from("on")}};
    plim_edit_set edits;
    CHECK(!read_two("run.sh", SHARDED, "fsdp.json", rows[i].file), "%s", error.message);
    bool ok = !plim_project_set(&project, changes, rows[i].changes, &edits, &error);
    CHECK(ok, "row %zu: %s", i, error.message);
    if (!ok) continue;
    char *text, *other;
    size_t size;
    CHECK(!plim_project_text(&project, 0, &edits, &text, &size, &error) &&
              !plim_project_text(&project, 1, &edits, &other, &size, &error),
          "%s", error.message);
    CHECK(strstr(text, "--gradient_checkpointing ") && strstr(text, "--deepspeed"), "%s", text);
    CHECK(!strstr(text, "fsdp") && strcmp(other, rows[i].file) == 0, "%s%s", text, other);
    free(text);
    free(other);
    plim_edit_set_clear(&edits);
  }
}

// FSDP that is off does not conflict with DeepSpeed, and stays off when DeepSpeed is removed.
TEST(fsdp_that_is_off_does_not_conflict_with_deepspeed) {
  static const char *const offs[] = {"fsdp: ''\n", "fsdp: false\n", "fsdp: null\n"};
  for (size_t i = 0; i < sizeof offs / sizeof *offs; i++) {
    char trainer[128];
    plim_edit_set edits;
    snprintf(trainer, sizeof trainer, "per_device_train_batch_size: 4\n%sdeepspeed: ds.json\n",
             offs[i]);
    CHECK(!read_two("train.yaml", trainer, "ds.json", "{\"zero_optimization\": {\"stage\": 2}}"),
          "%s", error.message);
    CHECK(is_text(PLIM_KNOB_STRATEGY, "zero2"), "%s", offs[i]);
    CHECK(shares("none", NULL, &edits), "%s", offs[i]);
    *strstr(trainer, "deepspeed") = 0;
    CHECK(becomes(0, &edits, trainer), "%s", offs[i]);
    plim_edit_set_clear(&edits);
  }
  CHECK(!read_two("train.yaml", "per_device_train_batch_size: 4\nfsdp: ''\n", "accelerate.yaml",
                  "compute_environment: LOCAL_MACHINE\ndistributed_type: 'NO'\n"),
        "%s", error.message);
  CHECK(is_text(PLIM_KNOB_STRATEGY, "none"), "both are off");
}

// If FSDP's checkpointing is off, TRL still turns on that of the model. If it is on, it is used even if that of the
// model is off.
TEST(checkpointing_of_fsdp_and_of_the_model_are_separate) {
  static const struct {
    const char *trainer, *fsdp, *is;
  } rows[] = {{"", "false", "on"},
              {"gradient_checkpointing: true\n", "false", "on"},
              {"gradient_checkpointing: false\n", "false", "off"},
              {"gradient_checkpointing: false\n", "true", "on"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char trainer[256], accelerate[256];
    snprintf(trainer, sizeof trainer,
             "model_name_or_path: gpt2\nper_device_train_batch_size: 1\npacking: true\n"
             "max_length: 512\ndataset_text_field: text\n%s",
             rows[i].trainer);
    snprintf(accelerate, sizeof accelerate,
             "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nnum_processes: 4\n"
             "fsdp_config:\n  fsdp_version: 2\n  fsdp_activation_checkpointing: %s\n",
             rows[i].fsdp);
    CHECK(!read_two("sft.yaml", trainer, "accelerate.yaml", accelerate), "%s", error.message);
    CHECK(project.dialect == PLIM_DIALECT_TRL, "it is TRL's");
    CHECK(is_text(PLIM_KNOB_CHECKPOINT, rows[i].is), "row %zu", i);
    snprintf(trainer + strlen(trainer), sizeof trainer - strlen(trainer),
             "fsdp: full_shard auto_wrap\nfsdp_config:\n  activation_checkpointing: %s\n",
             rows[i].fsdp);
    CHECK(!read_text("sft.yaml", trainer), "%s", error.message);
    CHECK(is_text(PLIM_KNOB_CHECKPOINT, rows[i].is), "row %zu in one file", i);
  }
  plim_project_clear(&project);
}

static const struct {
  const char *before, *after;
} liger[] = {
    {"", "plugins:\n  - axolotl.integrations.liger.LigerPlugin\nliger_rope: true\n"
         "liger_rms_norm: true\nliger_glu_activation: true\n"
         "liger_fused_linear_cross_entropy: true\n"},
    {"plugins:\n- axolotl.integrations.liger.LigerPlugin\nliger_rms_norm: false\n"
     "liger_fused_linear_cross_entropy: true\n",
     "plugins:\n- axolotl.integrations.liger.LigerPlugin\nliger_rms_norm: true\n"
     "liger_fused_linear_cross_entropy: true\nliger_rope: true\nliger_glu_activation: true\n"},
    {"plugins:\n  - axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin  # fast\n",
     "plugins:\n  - axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin  # fast\n"
     "  - axolotl.integrations.liger.LigerPlugin\nliger_rope: true\nliger_rms_norm: true\n"
     "liger_glu_activation: true\n"},
    {"plugins: [axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin]\n", NULL},
};

TEST(only_missing_keys_of_liger_are_added) {
  static const char head[] = "base_model: x\nsequence_len: 64\nmicro_batch_size: 1\n";
  for (size_t i = 0; i < sizeof liger / sizeof *liger; i++) {
    char before[512], after[640];
    plim_edit_set edits;
    plim_knob_change change = {PLIM_KNOB_LIGER, value_from("on")};
    snprintf(before, sizeof before, "%s%s", head, liger[i].before);
    CHECK(!read_text("a.yaml", before), "%s", error.message);
    bool ok = !plim_project_set(&project, &change, 1, &edits, &error);
    CHECK(ok == (liger[i].after != NULL), "row %zu: %s", i, error.message);
    if (!ok) continue;
    snprintf(after, sizeof after, "%s%s", head, liger[i].after);
    CHECK(becomes(0, &edits, after), "row %zu", i);
    plim_edit_set_clear(&edits);
  }
  plim_project_clear(&project);
}

TEST_MAIN
