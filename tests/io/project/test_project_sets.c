// Settings that several files or keys define together are changed together: sharding, DeepSpeed, accelerate, types.
#include <stdlib.h>

#include "formats.h"
#include "project_change.h"
#include "projects.h"

// ---- several GPUs -----------------------------------------------------------------------------------

static bool shares(const char *strategy, const char *offload, plim_edit_set *edits) {
  plim_knob_change both[] = {{PLIM_KNOB_STRATEGY, value_from(strategy)},
                             {PLIM_KNOB_OFFLOAD, value_from(offload ? offload : "none")}};
  error = (plim_error){0};
  bool ok = !plim_project_set(&project, both, offload ? 2 : 1, edits, &error);
  if (!ok) printf("%s: %s\n", strategy, error.message);
  return ok;
}

// Whether a file is created and referred to, and the result reads back as requested.
static bool creates(const char *strategy, const char *offload, const char *path) {
  plim_edit_set edits;
  if (!shares(strategy, offload, &edits)) return false;
  bool ok = edits.files.len == 1 && edits.at.len == 1 &&
            strcmp(edits.files.at[0].path, path) == 0 &&
            strstr(edits.at.at[0].edit.text, path) != NULL;
  plim_settings s;
  ok = ok && !plim_settings_read(PLIM_FORMAT_JSON, edits.files.at[0].text,
                                 strlen(edits.files.at[0].text), &s, &error);
  if (ok) plim_settings_clear(&s);
  plim_edit_set_clear(&edits);
  return ok;
}

TEST(sharding_without_a_key_creates_a_file_that_the_trainer_names) {
  CHECK(!read_text("train.yaml", "per_device_train_batch_size: 4\nbf16: true\noutput_dir: out\n"
                                 "gradient_accumulation_steps: 2\n"),
        "%s", error.message);
  CHECK(creates("zero2", NULL, "ds_zero2.json"), "zero2");
  CHECK(creates("zero3", NULL, "ds_zero3.json"), "zero3");
  CHECK(creates("zero2", "optimizer", "ds_zero2_offload.json"), "offloaded");
  CHECK(creates("zero3", "parameters", "ds_zero3_offload.json"), "offloaded");
  CHECK(!read_text("train.py", "args = TrainingArguments(output_dir='o', bf16=True,\n"
                               "                         per_device_train_batch_size=4)\n"),
        "%s", error.message);
  CHECK(creates("zero3", NULL, "ds_zero3.json"), "a call");
  CHECK(!read_text("train.yaml", "per_device_train_batch_size: 4\nbf16: true\noutput_dir: out\n"
                                 "deepspeed: null\n"),
        "%s", error.message);
  CHECK(creates("zero3", NULL, "ds_zero3.json"), "a key that is empty");
}

TEST(accelerate_gets_its_type_and_its_block_together) {
  static const char file[] = "distributed_type: MULTI_GPU\nmixed_precision: bf16\n"
                             "num_machines: 1\nnum_processes: 8\ndowncast_bf16: 'no'";
  plim_edit_set edits;
  CHECK(!read_text("accelerate.yaml", file), "%s", error.message);
  static const char *const ways[][2] = {{"zero1", NULL},
                                        {"zero3", NULL},
                                        {"zero2", "optimizer"},
                                        {"fsdp2", NULL},
                                        {"fsdp2", "parameters"}};
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    CHECK(shares(ways[i][0], ways[i][1], &edits), "%s", ways[i][0]);
    CHECK(edits.at.len == 2 && !edits.files.len, "%zu edits", edits.at.len);
    plim_edit_set_clear(&edits);
  }
  CHECK(!read_text("accelerate.yaml", "distributed_type: 'NO'\nmixed_precision: bf16\n"
                                      "num_machines: 1\nnum_processes: 1\n"),
        "%s", error.message);
  CHECK(refuses("strategy", "zero3", "for one GPU"), "one GPU");
}

// ---- several files ----------------------------------------------------------------------------------

static const char hf_yaml[] =
    "per_device_train_batch_size: 4\ngradient_accumulation_steps: 2\nbf16: true\n";
static const char numbers_json[] =
    "{\n  \"train_batch_size\": 16,\n  \"train_micro_batch_size_per_gpu\": 4,\n"
    "  \"gradient_accumulation_steps\": 2,\n  \"bf16\": {\"enabled\": true},\n"
    "  \"zero_optimization\": {\"stage\": 2}\n}\n";

static plim_err read_pair(const char *yaml, const char *json, const char *shell) {
  plim_project_clear(&project);
  project = (plim_project){0};
  error = (plim_error){0};
  plim_err err = plim_project_add(&project, "train.yaml", yaml, strlen(yaml), &error);
  if (!err) err = plim_project_add(&project, "ds.json", json, strlen(json), &error);
  if (!err && shell) err = plim_project_add(&project, "run.sh", shell, strlen(shell), &error);
  return err ? err : plim_project_finish(&project, &error);
}

TEST(places_that_must_agree_are_changed_together) {
  CHECK(!read_pair(hf_yaml, numbers_json, NULL), "%s", error.message);
  CHECK(says("micro_batch=4 accumulate=2 global_batch=16 strategy=zero2 precision=bf16"), "values");
  CHECK(!project.notes.list.len, "%s", project.notes.list.at[0].message);
  plim_edit_set edits;
  CHECK(says("world=2"), "two GPUs, as 16 is 4 x 2 on each");
  CHECK(refuses("micro_batch", "2", "would not equal the global batch"),
        "16 would be 2 x 2 on four");
  plim_knob_change both[] = {
      {PLIM_KNOB_MICRO_BATCH, {.kind = PLIM_VALUE_INTEGER, .integer = 2}},
      {PLIM_KNOB_ACCUMULATE, {.kind = PLIM_VALUE_INTEGER, .integer = 4}},
  };
  CHECK(!plim_project_set(&project, both, 2, &edits, &error), "%s", error.message);
  CHECK(edits.at.len == 4 && edits.at.at[0].file != edits.at.at[1].file, "%zu edits", edits.at.len);
  plim_edit_set_clear(&edits);
}

// The precision is changed in every file that sets it, and never to both types at once.
static const char accelerate_yaml[] =
    "compute_environment: LOCAL_MACHINE\ndistributed_type: 'NO'\nmixed_precision: bf16\n";

TEST(precision_is_one_set_over_all_files) {
  CHECK(!read_pair(hf_yaml, numbers_json, NULL), "%s", error.message);
  plim_edit_set edits;
  CHECK(set("precision", "fp16", &edits), "%s", error.message);
  CHECK(becomes(0, &edits,
                "per_device_train_batch_size: 4\ngradient_accumulation_steps: 2\nbf16: false\n"
                "fp16: true\n"),
        "TrainingArguments");
  char *text = text_after(1, &edits);
  CHECK(text && strstr(text, "\"bf16\": {\"enabled\": false}"), "DeepSpeed: %s", text);
  CHECK(text && strstr(text, "\"fp16\": {\"enabled\": true},\n"), "DeepSpeed: %s", text);
  free(text);
  plim_edit_set_clear(&edits);
}

TEST(accelerate_follows_training_arguments) {
  plim_project_clear(&project);
  project = (plim_project){0};
  CHECK(!plim_project_add(&project, "train.yaml", hf_yaml, strlen(hf_yaml), &error) &&
            !plim_project_add(&project, "acc.yaml", accelerate_yaml, strlen(accelerate_yaml),
                              &error) &&
            !plim_project_finish(&project, &error),
        "%s", error.message);
  plim_edit_set edits;
  CHECK(set("precision", "none", &edits), "%s", error.message);
  CHECK(becomes(1, &edits,
                "compute_environment: LOCAL_MACHINE\ndistributed_type: 'NO'\n"
                "mixed_precision: \"no\"\n"),
        "quoted, or it is false");
  plim_edit_set_clear(&edits);
}

// One key that sets both the compute type and the type in which the base model is loaded.
TEST(types_set_by_one_key_change_together) {
  static const char yaml[] = "base_model: x\nadapter: lora\nsequence_len: 64\nmicro_batch_size: 1\n"
                             "bf16: auto  # cluster\nfp16:\n";
  plim_project_clear(&project);
  project = (plim_project){0};
  CHECK(!plim_project_add(&project, "axolotl.yaml", yaml, strlen(yaml), &error) &&
            !plim_project_finish(&project, &error),
        "%s", error.message);
  CHECK(refuses("precision", "fp16", ""), "alone, the other would change unasked");
  plim_knob_change both[] = {{PLIM_KNOB_PRECISION, value_from("fp16")},
                             {PLIM_KNOB_DTYPE, value_from("fp16")}};
  plim_edit_set edits;
  CHECK(!plim_project_set(&project, both, 2, &edits, &error), "%s", error.message);
  CHECK(becomes(0, &edits,
                "base_model: x\nadapter: lora\nsequence_len: 64\nmicro_batch_size: 1\n"
                "bf16: false  # cluster\nfp16: true\n"),
        "both");
  plim_edit_set_clear(&edits);
}

TEST(a_global_batch_implies_the_number_of_gpus) {
  static const char json[] = "{\"train_batch_size\": 24, \"zero_optimization\": {\"stage\": 2}}\n";
  static const char odd[] = "{\"train_batch_size\": 20, \"zero_optimization\": {\"stage\": 2}}\n";
  CHECK(!read_pair(hf_yaml, json, NULL) && says("world=3"), "24 is 4 x 2 on three");
  CHECK(!read_pair(hf_yaml, odd, NULL) && says("world=unclear"), "20 is no multiple of 8");
  CHECK(!read_pair(hf_yaml, json, "torchrun --nproc_per_node 2 t.py\n") && says("world=2"),
        "what starts it is sure");
}

TEST(a_global_batch_must_multiply_out) {
  CHECK(!read_pair(hf_yaml, numbers_json, "torchrun --nproc_per_node 2 train.py train.yaml\n"),
        "%s", error.message);
  CHECK(says("world=2 micro_batch=4"), "values");
  CHECK(refuses("micro_batch", "2", "would not equal the global batch"), "half a batch");
  plim_knob_change both[] = {{PLIM_KNOB_MICRO_BATCH, {.kind = PLIM_VALUE_INTEGER, .integer = 2}},
                             {PLIM_KNOB_ACCUMULATE, {.kind = PLIM_VALUE_INTEGER, .integer = 4}}};
  plim_edit_set edits;
  CHECK(!plim_project_set(&project, both, 2, &edits, &error), "%s", error.message);
  CHECK(edits.at.len == 4, "%zu edits", edits.at.len);
  plim_edit_set_clear(&edits);
}

TEST(disagreement_with_deepspeed_is_noted) {
  CHECK(!read_pair("per_device_train_batch_size: 8\n", numbers_json, NULL), "%s", error.message);
  CHECK(project.notes.list.len && strstr(project.notes.list.at[0].message, "would not start"),
        "a note");
}

TEST(a_command_line_overrides_the_file_it_starts) {
  CHECK(!read_pair(hf_yaml, "{\"zero_optimization\": {\"stage\": 1}}\n",
                   "accelerate launch train.py --per_device_train_batch_size 1 train.yaml\n"),
        "%s", error.message);
  CHECK(says("micro_batch=1 accumulate=2 strategy=zero1"), "values");
  plim_edit_set edits;
  CHECK(set("micro_batch", "2", &edits), "%s", error.message);
  CHECK(edits.at.len == 1 && strcmp(project.files.at[edits.at.at[0].file]->path, "run.sh") == 0,
        "only what is in force");
  plim_edit_set_clear(&edits);
}

TEST(a_file_comes_before_an_arguments_default) {
  CHECK(!read_two("conf.yaml", "train:\n  batch_size: 8\n", "train.py",
                  "p.add_argument('--batch_size', type=int, default=4)\n"),
        "%s", error.message);
  CHECK(says("micro_batch=8") && changes("micro_batch", "2"), "the file's");
}

// The devices in a DeepSpeed file, which two keys set together, and the result of each offload.
static const struct {
  const char *before, *says, *offload, *after;
} devices[] = {
    {"{\"zero_optimization\": {\"stage\": 3, \"offload_optimizer\": {\"device\": \"none\"}, "
     "\"offload_param\": {\"device\": \"none\"}}}\n",
     "offload=none", "parameters",
     "{\"zero_optimization\": {\"stage\": 3, \"offload_optimizer\": {\"device\": \"cpu\"}, "
     "\"offload_param\": {\"device\": \"cpu\"}}}\n"},
    {"{\"zero_optimization\": {\"stage\": 3, \"offload_param\": {\"device\": \"cpu\"}}}\n",
     "offload=weights", "optimizer",
     "{\"zero_optimization\": {\"stage\": 3, \"offload_param\": {\"device\": \"none\"}, "
     "\"offload_optimizer\": {\"device\": \"cpu\"}}}\n"},
    {"{\"zero_optimization\": {\"stage\": 3, \"offload_optimizer\": {\"device\": \"none\"}, "
     "\"offload_param\": {\"device\": \"nvme\"}}}\n",
     "offload=weights", "parameters",
     "{\"zero_optimization\": {\"stage\": 3, \"offload_optimizer\": {\"device\": \"cpu\"}, "
     "\"offload_param\": {\"device\": \"nvme\"}}}\n"},
    {"{\"zero_optimization\": {\"stage\": 3, \"offload_optimizer\": {\"device\": \"cpu\"}, "
     "\"offload_param\": {\"device\": \"cpu\"}}}\n",
     "offload=parameters", "none",
     "{\"zero_optimization\": {\"stage\": 3, \"offload_optimizer\": {\"device\": \"none\"}, "
     "\"offload_param\": {\"device\": \"none\"}}}\n"},
};

TEST(both_devices_of_zero_change_together) {
  for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
    plim_edit_set edits = {0};
    CHECK(!read_pair(hf_yaml, devices[i].before, NULL), "%s", error.message);
    CHECK(says(devices[i].says), "%s", devices[i].before);
    CHECK(set("offload", devices[i].offload, &edits), "%s", error.message);
    CHECK(becomes(1, &edits, devices[i].after), "%s", devices[i].offload);
    plim_edit_set_clear(&edits);
  }
}

TEST(both_devices_of_accelerates_block_change_together) {
  static const char block[] =
      "compute_environment: LOCAL_MACHINE\ndistributed_type: DEEPSPEED\nnum_processes: 4\n"
      "deepspeed_config:\n  zero_stage: 3\n  offload_optimizer_device: none\n"
      "  offload_param_device: none\n";
  plim_edit_set edits;
  CHECK(!read_text("acc.yaml", block), "%s", error.message);
  CHECK(set("offload", "parameters", &edits), "%s", error.message);
  CHECK(becomes(0, &edits,
                "compute_environment: LOCAL_MACHINE\ndistributed_type: DEEPSPEED\nnum_processes: "
                "4\ndeepspeed_config:\n  zero_stage: 3\n  offload_optimizer_device: cpu\n"
                "  offload_param_device: cpu\n"),
        "both");
  plim_edit_set_clear(&edits);
}

TEST(deepspeeds_adam_is_its_fused_one) {
  CHECK(!read_text("ds.json", "{\"zero_optimization\": {\"stage\": 1},\n \"optimizer\": "
                              "{\"type\": \"Adam\", \"params\": {\"lr\": 1e-5}}}\n"),
        "%s", error.message);
  CHECK(says("optimizer=adamw") && changes("optimizer", "adamw"), "FusedAdam");
  CHECK(!read_text("ds.json", "{\"zero_optimization\": {\"stage\": 1},\n \"optimizer\": "
                              "{\"type\": \"AdamW\", \"params\": {\"torch_adam\": true}}}\n"),
        "%s", error.message);
  CHECK(says("optimizer=adamw-foreach") && changes("optimizer", "adamw"), "torch's own");
  CHECK(!read_text("ds.json", "{\"zero_optimization\": {\"stage\": 1},\n \"optimizer\": "
                              "{\"type\": \"SGD\", \"params\": {\"lr\": 1e-5}}}\n"),
        "%s", error.message);
  CHECK(says("optimizer=sgd") && changes("optimizer", "adamw"), "AdamW is its word");
}

TEST(stage_3_removes_device_map) {
  plim_edit_set edits;
  CHECK(!read_text("t.py",
                   "m = AutoModelForCausalLM.from_pretrained(\"gpt2\", device_map=\"cuda\")\n"
                   "a = TrainingArguments(per_device_train_batch_size=4, bf16=True)\n"),
        "%s", error.message);
  CHECK(set("strategy", "zero3", &edits), "%s", error.message);
  char *text = text_after(0, &edits);
  CHECK(text && strstr(text, "from_pretrained(\"gpt2\")\n"), "%s", text);
  free(text);
  plim_edit_set_clear(&edits);
  CHECK(set("strategy", "zero2", &edits), "%s", error.message);
  text = text_after(0, &edits);
  CHECK(text && strstr(text, "device_map=\"cuda\""), "%s", text);
  free(text);
  plim_edit_set_clear(&edits);
}

TEST_MAIN
