// Command lines: ambiguous ones, the number of GPUs, and flags that replace defaults.
#include "project_change.h"
#include "projects.h"

// ---- command lines that could mean several things -------------------------------------------------------

#define MICRO "--per_device_train_batch_size "

// refusal: the reason why a micro batch of 2 is refused; NULL: it is written.
static const struct {
  const char *name, *text, *says, *refusal;
} scripts[] = {
    {"two trainings that differ", "python train.py " MICRO "8\npython train.py " MICRO "4\n",
     "micro_batch=unclear", "is 8 in line"},
    {"two that are the same", "python train.py " MICRO "8\npython train.py " MICRO "8\n",
     "micro_batch=8", "and 2 in line"},
    {"two by one variable",
     "N=8\npython train.py " MICRO "$N --seed 1\npython train.py " MICRO "$N --seed 2\n",
     "micro_batch=8", NULL},
    {"words that differ",
     "python train.py " MICRO "8 --attn_implementation sdpa\n"
     "python train.py " MICRO "8 --attn_implementation eager\n",
     "micro_batch=8 attention=unclear", "and 2 in line"},
    {"a branch each",
     "if [ $A ]; then python train.py " MICRO "8\nelse python train.py " MICRO "4\nfi\n",
     "micro_batch=unclear", "is 8 in line"},
    {"an append under a condition",
     "ARGS=(" MICRO "8)\nif [ $A ]; then ARGS+=(" MICRO "2); fi\npython train.py \"${ARGS[@]}\"\n",
     "micro_batch=unclear", "but only under a condition"},
    {"an append behind &&",
     "ARGS=\"" MICRO "8\"\n[ $A ] && ARGS+=\" " MICRO "2\"\npython train.py $ARGS\n",
     "micro_batch=unclear", "but only under a condition"},
    {"a list for each case",
     "case $A in a) ARGS=(" MICRO "8);; *) ARGS=(" MICRO "4);; esac\npython train.py ${ARGS[@]}\n",
     "micro_batch=unclear", "but only under a condition"},
    {"a training behind &&", "cd x && python train.py " MICRO "8\n", "micro_batch=8", NULL},
    {"a training in a branch", "if [ -d x ]; then python train.py " MICRO "8; fi\n",
     "micro_batch=8", NULL},
    {"in a function", "run() {\n  ARGS+=(" MICRO "8)\n  python train.py \"${ARGS[@]}\"\n}\nrun\n",
     "micro_batch=8", NULL},
    {"what the command gets later", "ARGS=\"" MICRO "8\"\npython train.py " MICRO "4 $ARGS\n",
     "micro_batch=8", NULL},
    {"two spellings", "python train.py " MICRO "8 --per-device-train-batch-size=16\n",
     "micro_batch=16", NULL},
    {"other programs",
     "python prepare_data.py " MICRO "64\npython train.py " MICRO "8\npython -m x.eval " MICRO
     "1\n",
     "micro_batch=8", NULL},
    {"another program by the same variable",
     "N=8\npython train.py " MICRO "$N\npython eval.py " MICRO "$N\n", "micro_batch=8",
     "#2 (line 3)"},
    {"a sourced script before a default", "source vars.sh\npython train.py " MICRO "${N:-8}\n",
     "micro_batch=unclear", "cannot evaluate"},
    {"the same with :=", ". ./vars.sh\n: ${N:=8}\npython train.py " MICRO "$N\n",
     "micro_batch=unclear", "cannot evaluate"},
    {"a sourced script behind a value", "N=8\nsource vars.sh\npython train.py " MICRO "$N\n",
     "micro_batch=unclear", "cannot evaluate"},
    {"a value behind a sourced script", "source vars.sh\nN=8\npython train.py " MICRO "$N\n",
     "micro_batch=8", NULL},
    {"an environment", "source venv/bin/activate\npython train.py " MICRO "${N:-8}\n",
     "micro_batch=8", NULL},
};

TEST(scripts_that_could_mean_several_things_are_not_guessed) {
  for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
    bool ok = !read_text("run.sh", scripts[i].text) && says(scripts[i].says);
    const char *refusal = scripts[i].refusal;
    ok = ok && (refusal ? refuses("micro_batch", "2", refusal) : changes("micro_batch", "2"));
    test_count(scripts[i].name, ok);
  }
}

TEST(only_stages_of_the_built_image_count) {
  CHECK(!read_text("Dockerfile",
                   "FROM y AS a\nENV N=64\nCMD python train.py " MICRO "1\nFROM y\n"
                   "CMD python train.py " MICRO "8\nCMD python train.py " MICRO "4\n"),
        "%s", error.message);
  CHECK(says("micro_batch=4") && changes("micro_batch", "2"), "the last CMD of the last stage");
  CHECK(!read_text("Dockerfile", "FROM y AS a\nENV N=64\nFROM y\n"
                                 "CMD python train.py " MICRO "$N\n"),
        "%s", error.message);
  CHECK(says("micro_batch=unclear"), "a variable of another stage");
}

// ---- machines and GPUs ------------------------------------------------------------------------------

static const struct {
  const char *file, *text, *says;
} worlds[] = {
    {"run.sh", "torchrun --nnodes 2 --nproc_per_node 4 t.py --per_device_train_batch_size 1\n",
     "world=8 nodes=2"},
    {"run.sh",
     "NNODES=2\ntorchrun --nnodes $NNODES --nproc_per_node 4 t.py --per_device_train_batch_size "
     "1\n",
     "world=8 nodes=2"},
    {"run.sh",
     "torchrun --nnodes $SLURM_NNODES --nproc_per_node 4 t.py --per_device_train_batch_size 1\n",
     "world=unclear nodes=unclear"},
    {"run.sh", "torchrun --nnodes 1:4 --nproc_per_node 4 t.py --per_device_train_batch_size 1\n",
     "world=unclear nodes=unclear"},
    {"run.sh", "deepspeed --num_gpus 4 --num_nodes 2 t.py --per_device_train_batch_size 1\n",
     "world=8 nodes=2"},
    {"run.sh",
     "accelerate launch --num_machines 2 --num_processes 8 t.py --per_device_train_batch_size 1\n",
     "world=8 nodes=2"},
    {"run.sh", "CUDA_VISIBLE_DEVICES=0,1 python t.py --per_device_train_batch_size 1\n",
     "world=2 nodes=unknown"},
    {"t.yaml", "trainer:\n  accumulate_grad_batches: 4\n  devices: 4\n  num_nodes: 2\n",
     "world=8 nodes=2"},
    {"t.yaml", "trainer:\n  accumulate_grad_batches: 4\n  devices: -1\n", "world=unclear"},
    {"t.yaml", "base_model: m\nmicro_batch_size: 1\ndp_shard_size: 4\nsequence_len: 8\n",
     "world=4"},
};

TEST(gpus_are_those_of_all_machines) {
  for (size_t i = 0; i < sizeof worlds / sizeof *worlds; i++) {
    bool ok = !read_text(worlds[i].file, worlds[i].text) && says(worlds[i].says);
    if (!ok) printf("%s%s\n", worlds[i].text, error.message);
    test_count(worlds[i].says, ok);
  }
}

// A store_true flag of argparse cannot be false, so it is removed.
TEST(a_flag_that_cannot_be_false_is_removed) {
  static const char shell[] = "torchrun pretrain_gpt.py \\\n  --micro-batch-size 2 \\\n"
                              "  --global-batch-size 16 \\\n  --bf16 \\\n"
                              "  --seq-length 2048 --tensor-model-parallel-size 1\n";
  plim_edit_set edits;
  CHECK(!read_text("run.sh", shell), "%s", error.message);
  CHECK(project.dialect == PLIM_DIALECT_MEGATRON && says("precision=bf16"), "as it is");
  CHECK(set("precision", "none", &edits), "%s", error.message);
  CHECK(becomes(0, &edits,
                "torchrun pretrain_gpt.py \\\n  --micro-batch-size 2 \\\n"
                "  --global-batch-size 16 \\\n"
                "  --seq-length 2048 --tensor-model-parallel-size 1\n"),
        "gone");
  plim_edit_set_clear(&edits);
}

TEST(a_flag_replaces_the_default_of_the_argument) {
  static const char script[] =
      "parser.add_argument('--bs', type=int, default=16)\n"
      "parser.add_argument('--total', type=int, default=64)\n"
      "args = parser.parse_args()\n"
      "TrainingArguments('o', per_device_train_batch_size=args.bs,\n"
      "                  gradient_accumulation_steps=args.total // args.bs)\n";
  plim_project_clear(&project);
  project = (plim_project){0};
  plim_project_add(&project, "train.py", script, sizeof script - 1, &error);
  static const char command[] = "python train.py --bs 4\n";
  plim_project_add(&project, "run.sh", command, sizeof command - 1, &error);
  CHECK(!plim_project_finish(&project, &error), "%s", error.message);
  CHECK(says("micro_batch=4 accumulate=unclear"), "the command's, and what it leaves open");
  CHECK(changes("micro_batch", "2"), "in the command");
}

TEST(a_command_that_sets_the_variable_leaves_its_default_open) {
  static const char script[] = "BS = int(os.environ.get('BS', 16))\n"
                               "TrainingArguments('o', per_device_train_batch_size=BS)\n";
  static const char config[] = "base_model: x\nsequence_len: 8\nmicro_batch_size: ${oc.env:BS,8}\n";
  static const char command[] = "export BS=4\npython train.py\n";
  const char *names[] = {"train.py", "a.yaml"}, *texts[] = {script, config};
  for (int i = 0; i < 2; i++) {
    plim_project_clear(&project);
    project = (plim_project){0};
    plim_project_add(&project, names[i], texts[i], strlen(texts[i]), &error);
    plim_project_add(&project, "run.sh", command, sizeof command - 1, &error);
    CHECK(!plim_project_finish(&project, &error), "%s", error.message);
    CHECK(says("micro_batch=unclear"), "%s", names[i]);
  }
}

TEST_MAIN
