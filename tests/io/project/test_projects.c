// Small projects with common layouts, read as a whole and changed.
#include "project_change.h"
#include "projects.h"
#include "run_settings.h"

// ---- projects in the shapes people use --------------------------------------------------------------

TEST(config_py_with_trainer) {
  CHECK(!READ(FIXTURES "seed0/config/config.py", FIXTURES "seed0/train_baseline.py",
              FIXTURES "seed0/start_baseline.sh"),
        "%s", error.message);
  CHECK(
      says("model=Qwen/Qwen2.5-7B-Instruct micro_batch=2 accumulate=8 sequence=2048 lora_rank=128 "
           "lora_alpha=256 lora_dropout=0.05 "
           "lora_targets=q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj precision=fp16 "
           "dtype=fp16 checkpoint=on optimizer=adamw-foreach workers=4 epochs=15 clip=1 "
           "alloc_conf=max_split_size_mb:128,expandable_segments:True"),
      "values");
  plim_run_settings run;
  CHECK(!plim_run_settings_of(&project, &run, &error), "%s", error.message);
  CHECK(strcmp(run.loop.text, "trainer") == 0 && run.micro_batch.count == 2, "the run");
  CHECK(run.lora_rank.origin == PLIM_EXPLICIT && run.attention.origin == PLIM_DEFAULTED,
        "who said so");
  CHECK(changes("micro_batch", "1") && changes("accumulate", "16") && changes("sequence", "1536"),
        "the guide's steps");
  CHECK(changes("lora_rank", "64") && changes("optimizer", "adamw"), "more");
  CHECK(changes("alloc_conf", "expandable_segments:True"), "the environment");
  CHECK(changes("liger", "on"), "a key that is not there");
}

TEST(hydra_accelerate_and_deepspeed) {
  CHECK(!READ(FIXTURES "seed1/scripts/experiments.sh",
              FIXTURES "seed1/configs/accelerate/default_config.yaml",
              FIXTURES "seed1/configs/accelerate/zero_stage3.json",
              FIXTURES "seed1/configs/trainer/finetune.yaml"),
        "%s", error.message);
  CHECK(
      says("micro_batch=4 accumulate=4 precision=bf16 checkpoint=on attention=flash sequence=1024 "
           "strategy=zero3 offload=none world=3 optimizer=paged-adamw epochs=10 "
           "alloc_conf=expandable_segments:True,max_split_size_mb:64"),
      "values");
  plim_edit_set edits;
  CHECK(set("micro_batch", "1", &edits), "%s", error.message);
  CHECK(edits.at.len == 2, "the override and DeepSpeed's number: %zu", edits.at.len);
  plim_edit_set_clear(&edits);
  CHECK(changes("accumulate", "8") && changes("offload", "parameters"), "the guide's steps");
}

TEST(files_that_a_script_names_are_found) {
  CHECK(!read_and_follow(FIXTURES "seed0/start_baseline.sh"), "%s", error.message);
  CHECK(project.files.len == 3 && says("micro_batch=2 lora_rank=128"), "%zu files",
        project.files.len);
  CHECK(!read_and_follow(FIXTURES "seed1/scripts/experiments.sh"), "%s", error.message);
  CHECK(project.files.len == 3 && says("strategy=zero3 world=3"), "%zu files", project.files.len);
  CHECK(!read_and_follow(FIXTURES "seed4/Dockerfile.training"), "%s", error.message);
  CHECK(project.files.len == 2 && says("micro_batch=8 dtype=bf16"), "%zu files", project.files.len);
}

// A configuration of DeepSpeed that a trainer ships is known by its name, and is never written.
TEST(files_that_trainers_ship_are_known) {
  static const char yaml[] = "base_model: Qwen/Qwen2.5-0.5B\nmicro_batch_size: 2\n"
                             "sequence_len: 512\ndeepspeed: deepspeed_configs/zero2.json\n";
  plim_project_clear(&project);
  project = (plim_project){0};
  CHECK(!plim_project_add(&project, "/nowhere/a.yaml", yaml, sizeof yaml - 1, &error), "%s",
        error.message);
  CHECK(!plim_project_follow(&project, &error) && !plim_project_finish(&project, &error), "%s",
        error.message);
  CHECK(project.files.len == 2 && project.unread.len == 0, "%zu files", project.files.len);
  CHECK_STR(project.files.at[1]->shipped_by, "Axolotl");
  CHECK(says("strategy=zero2 offload=optimizer micro_batch=2"), "values");
  plim_edit_set edits;
  CHECK(!set("offload", "none", &edits), "a file that is not here is written");
  CHECK(strstr(error.message, "a file of Axolotl that is not here"), "%s", error.message);
  CHECK(set("micro_batch", "1", &edits), "%s", error.message);
  plim_edit_set_clear(&edits);
}

TEST(shipped_files_are_found_by_the_end_of_their_paths) {
  static const char *const known[] = {
      "deepspeed_configs/zero1.json", "/workspace/axolotl/deepspeed_configs/zero3_bf16.json",
      "examples/deepspeed/ds_z3_offload_config.json", "recipes/accelerate_configs/zero3.yaml"};
  static const char *const unknown[] = {"zero1.json", "mydeepspeed_configs/zero1.json", "ds.json",
                                        "deepspeed_configs/zero9.json", ""};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    plim_project p = {0};
    CHECK(plim_shipped_by(known[i]), "%s", known[i]);
    CHECK(!plim_project_add_shipped(&p, known[i], &error), "%s: %s", known[i], error.message);
    CHECK(!plim_project_finish(&p, &error), "%s: %s", known[i], error.message);
    CHECK(p.knobs[PLIM_KNOB_STRATEGY].origin == PLIM_EXPLICIT, "%s has no strategy", known[i]);
    plim_project_clear(&p);
  }
  for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
    CHECK(!plim_shipped_by(unknown[i]), "%s", unknown[i]);
}

// torchtune's launch command is in a comment.
TEST(gpus_in_a_comment_are_read) {
  static const char yaml[] =
      "# To launch on 4 devices:\n#   tune run --nproc_per_node 4 full_finetune_distributed "
      "--config a\nmodel:\n  _component_: torchtune.models.llama3_1.llama3_1_8b\noptimizer:\n  "
      "_component_: torch.optim.AdamW\nbatch_size: 2\nepochs: 1\n";
  plim_project_clear(&project);
  project = (plim_project){0};
  CHECK(!plim_project_add(&project, "a.yaml", yaml, sizeof yaml - 1, &error), "%s", error.message);
  CHECK(!plim_project_finish(&project, &error), "%s", error.message);
  CHECK(says("world=4 micro_batch=2"), "values");
  static const char cut[] = "model:\n  _component_: torchtune.models.llama3_1.llama3_1_8b\n"
                            "optimizer:\n  _component_: torch.optim.AdamW\nbatch_size: 2\n"
                            "epochs: 1\n# tune run --nproc_per_node";
  plim_project_clear(&project);
  project = (plim_project){0};
  CHECK(!plim_project_add(&project, "a.yaml", cut, sizeof cut - 1, &error), "%s", error.message);
  CHECK(!plim_project_finish(&project, &error), "%s", error.message);
  CHECK(project.knobs[PLIM_KNOB_WORLD].origin == PLIM_ABSENT, "a number that is not there");
}

TEST(axolotl_reads_fsdp_config_alone_as_fsdp) {
  static const char yaml[] = "base_model: Qwen/Qwen2.5-0.5B\nmicro_batch_size: 2\n"
                             "sequence_len: 512\nray_num_workers: 4\nfsdp_config:\n  "
                             "fsdp_version: 2\n  offload_params: true\n";
  plim_project_clear(&project);
  project = (plim_project){0};
  CHECK(!plim_project_add(&project, "a.yaml", yaml, sizeof yaml - 1, &error), "%s", error.message);
  CHECK(!plim_project_finish(&project, &error), "%s", error.message);
  CHECK(says("strategy=fsdp2 offload=parameters world=4"), "values");
}

TEST(custom_yaml_with_torchrun) {
  CHECK(!READ(FIXTURES "seed2/configs/pretrain_512m.yaml", FIXTURES "seed2/run.sh"), "%s",
        error.message);
  CHECK(says("micro_batch=2 accumulate=32 global_batch=256 sequence=1024 precision=bf16 "
             "checkpoint=on optimizer=adamw-foreach world=4 workers=4 "
             "alloc_conf=expandable_segments:True"),
        "values");
  CHECK(!project.notes.list.len, "2 x 32 x 4 is 256");
  plim_knob_change both[] = {{PLIM_KNOB_MICRO_BATCH, {.kind = PLIM_VALUE_INTEGER, .integer = 4}},
                             {PLIM_KNOB_ACCUMULATE, {.kind = PLIM_VALUE_INTEGER, .integer = 16}}};
  plim_edit_set edits;
  CHECK(!plim_project_set(&project, both, 2, &edits, &error), "%s", error.message);
  plim_edit_set_clear(&edits);
  CHECK(refuses("micro_batch", "3", "would not equal the global batch"), "3 x 21 x 4 is 252");
}

TEST(lightning_with_stages) {
  CHECK(!READ(FIXTURES "seed3/conf/config.yaml",
              FIXTURES "seed3/conf/text_curriculum/01_stage.yaml",
              FIXTURES "seed3/conf/text_curriculum/02_stage.yaml", FIXTURES "seed3/plimsoll.yaml"),
        "%s", error.message);
  CHECK(says("micro_batch=45 accumulate=5 n_positives=32 n_negatives=24 precision=fp16 dtype=fp32 "
             "checkpoint=on lora_rank=8 lora_alpha=16 lora_dropout=0.1 world=1 sequence=128 "
             "workers=4 epochs=15 clip=1"),
        "values");
  CHECK(changes("n_negatives", "16") && changes("micro_batch", "15"), "changes");
  CHECK(!READ(FIXTURES "seed3/conf/text_curriculum/01_stage.yaml",
              FIXTURES "seed3/conf/text_curriculum/02_stage.yaml"),
        "%s", error.message);
  CHECK(says("n_negatives=24"), "of the stage that takes most");
  CHECK(refuses("n_negatives", "16", "sets 24"), "no one value is both stages'");
}

static plim_err read_stages(const char *first, const char *second) {
  plim_project_clear(&project);
  project = (plim_project){0};
  error = (plim_error){0};
  plim_err err = plim_project_add(&project, "1.yaml", first, strlen(first), &error);
  if (!err) err = plim_project_add(&project, "2.yaml", second, strlen(second), &error);
  return err ? err : plim_project_finish(&project, &error);
}

// The stage that needs most memory is known only if it has the largest value of every count that differs.
TEST(stages_that_differ) {
#define STAGE(batch, length)                                                                       \
  "base_model: meta-llama/Llama-3.2-1B\nmicro_batch_size: " batch "\nsequence_len: " length        \
  "\ngradient_accumulation_steps: 4\n"
  CHECK(!read_stages(STAGE("2", "512"), STAGE("4", "2048")), "%s", error.message);
  CHECK(says("micro_batch=4 sequence=2048 accumulate=4"), "the second");
  CHECK(project.knobs[PLIM_KNOB_SEQUENCE].places[0].file == 1, "it is named");
  CHECK(refuses("micro_batch", "2", "1.yaml sets 2"), "held");
  CHECK(changes("accumulate", "8"), "in both");
  CHECK(!read_stages(STAGE("8", "512"), STAGE("2", "2048")), "%s", error.message);
  CHECK(says("micro_batch=unclear sequence=unclear"), "neither has the most of both");
  CHECK(!read_stages("base_model: x\nmicro_batch_size: 2\nadapter: lora\nlora_r: 8\n",
                     "base_model: x\nmicro_batch_size: 2\nadapter: lora\nlora_r: 64\n"),
        "%s", error.message);
  CHECK(says("lora_rank=64"), "the larger adapters");
}

TEST(loop_that_keeps_only_the_loss) {
  static const char script[] = "batch_size = 4\nmodel.config.use_cache = False\n"
                               "for batch in loader:\n"
                               "    loss = model(**batch).loss\n    loss.backward()\n";
  plim_run_settings run;
  CHECK(!read_text("train.py", script), "%s", error.message);
  CHECK(!plim_run_settings_of(&project, &run, &error), "%s", error.message);
  CHECK_STR(run.loop.text, "loss-only");
}

TEST(dockerfile_with_a_loop_of_its_own) {
  CHECK(!READ(FIXTURES "seed4/Dockerfile.training", FIXTURES "seed4/cli/train.py"), "%s",
        error.message);
  CHECK(says("micro_batch=8 accumulate=16 model=google/flan-t5-xl epochs=5 workers=0 dtype=bf16 "
             "checkpoint=on optimizer=adamw empty_cache=10 "
             "alloc_conf=expandable_segments:True,max_split_size_mb:128"),
        "values");
  plim_run_settings run;
  CHECK(!plim_run_settings_of(&project, &run, &error), "%s", error.message);
  CHECK(strcmp(run.loop.text, "manual") == 0, "%s", run.loop.text);
  plim_edit_set edits;
  CHECK(set("micro_batch", "4", &edits), "%s", error.message);
  CHECK(edits.at.len == 1 && edits.at.at[0].file == 0, "what the container starts with");
  plim_edit_set_clear(&edits);
}

// An absurd count is not used; the knob is unclear.
TEST(an_absurd_count_is_unclear) {
  plim_run_settings run;
  CHECK(!read_text("run.sh", "torchrun --nproc_per_node=8111111111111111111111111111111111 t.py "
                             "--model_name_or_path gpt2 --per_device_train_batch_size 4\n"),
        "%s", error.message);
  CHECK(!plim_run_settings_of(&project, &run, &error), "%s", error.message);
  CHECK(run.world.origin == PLIM_UNCLEAR && !run.world.count, "%lld", (long long)run.world.count);
}

TEST_MAIN
