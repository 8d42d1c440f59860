// Checks for memory that every process uses without need: complete weights under ZeRO-3, all logits of an
// evaluation.
#include <string.h>

#include "check.h"
#include "python_code.h"

#define WHOLE_ON_EACH                                                                              \
  "each process loads the whole model before it is sharded: the host or the GPU must hold it "     \
  "once per process"

static bool is_zero3(const check *c) { return check_says(c, PLIM_KNOB_STRATEGY, "zero3"); }

// ---- weights ----------------------------------------------------------------------------------------

static void check_init_flag(check *c) {
  check_place at;
  if (!is_zero3(c) || !check_find(c, "zero3_init_flag", &at) || check_is_on(&at.value)) return;
  check_finding *f =
      check_add(c, "loading.init_flag", CHECK_WARNING, "zero3_init_flag is off under ZeRO-3");
  check_at(f, &at);
  check_why(f, WHOLE_ON_EACH);
  check_fix(f, "zero3_init_flag: true");
}

// transformers prepares zero.Init when TrainingArguments are created (its DeepSpeed guide).
static void check_order(check *c) {
  size_t loaded;
  const plim_project_file *file = is_zero3(c) ? project_job_loads_early(&c->files, &loaded) : NULL;
  if (!file) return;
  check_finding *f = check_add(c, "loading.order", CHECK_WARNING,
                               "the model is loaded before TrainingArguments are created");
  check_at_byte(f, file, loaded);
  check_why(f, "transformers turns zero.Init on when they are created; without it " WHOLE_ON_EACH);
  check_fix(f, "create TrainingArguments before calling from_pretrained");
}

// ---- evaluation -------------------------------------------------------------------------------------

static bool evaluates(const check *c) {
  static const char *const keys[] = {"eval_strategy", "evaluation_strategy"};
  check_place at;
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    if (check_find(c, keys[i], &at))
      return at.value.kind == PLIM_VALUE_TEXT && strcmp(at.value.text, "no") != 0;
  return check_find_on(c, "do_eval", &at);
}

static bool lets_logits_go(const check *c) {
  static const char *const words[] = {"preprocess_logits_for_metrics", "eval_accumulation_steps",
                                      "prediction_loss_only", "predict_with_generate",
                                      "batch_eval_metrics"};
  check_place at;
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (check_code(c, words[i], NULL) || check_find(c, words[i], &at)) return true;
  return false;
}

// Trainer gathers logits on the card if metrics are computed from them (transformers#12878).
static void check_evaluation(check *c) {
  size_t byte;
  const plim_project_file *file = check_code(c, "compute_metrics=", &byte);
  bool is_language = check_code(c, "*ForCausalLM", NULL) || check_code(c, "*ForMaskedLM", NULL);
  if (!file || !is_language || !evaluates(c) || lets_logits_go(c)) return;
  if (plim_python_find(&file->code, "compute_metrics=None", byte, byte + 1) == byte) return;
  check_finding *f = check_add(c, "loading.logits", CHECK_WARNING,
                               "evaluation keeps all logits on the GPU, for compute_metrics");
  check_at_byte(f, file, byte);
  check_why(f, "Trainer keeps the logits of the whole evaluation set: sequences x tokens "
               "x vocabulary. A thousand sequences already exceed most GPUs");
  check_fix(f, "preprocess_logits_for_metrics=lambda logits, labels: logits.argmax(-1)");
}

void check_loading(check *c) {
  if (!c->trains) return;
  check_init_flag(c);
  check_order(c);
  check_evaluation(c);
}
