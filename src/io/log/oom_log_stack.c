// Follows Python's tracebacks: where the user's code was, and which phase of the training it was.
#include <ctype.h>
#include <string.h>

#include "oom_log_impl.h"

// ---- which frame means what -------------------------------------------------------------------------

typedef struct {
  const char *function; // NULL: any function of the file; a star at either end stands for anything
  const char *path;     // part of the file's path; NULL: any
  plim_run_phase phase;
} phase_row;

// The outermost of these decides: from_pretrained calls load_state_dict, saving calls state_dict.
static const phase_row phase_rows[] = {
    {"evaluation_loop", NULL, PLIM_RUN_EVALUATION},
    {"prediction_loop", NULL, PLIM_RUN_EVALUATION},
    {"prediction_step", NULL, PLIM_RUN_EVALUATION},
    {"nested_concat", NULL, PLIM_RUN_EVALUATION},
    {"evaluate*", NULL, PLIM_RUN_EVALUATION},
    {"_evaluate*", NULL, PLIM_RUN_EVALUATION},
    {"eval_*", NULL, PLIM_RUN_EVALUATION},
    {"eval", NULL, PLIM_RUN_EVALUATION},
    {"run_eval*", NULL, PLIM_RUN_EVALUATION},
    {"do_eval*", NULL, PLIM_RUN_EVALUATION},
    {"validat*", NULL, PLIM_RUN_EVALUATION},
    {"_validat*", NULL, PLIM_RUN_EVALUATION},
    {"valid_*", NULL, PLIM_RUN_EVALUATION},
    {"val_*", NULL, PLIM_RUN_EVALUATION},
    {"val", NULL, PLIM_RUN_EVALUATION},
    {"_run_validation", NULL, PLIM_RUN_EVALUATION},
    {"test_step", NULL, PLIM_RUN_EVALUATION},
    {"compute_metrics", NULL, PLIM_RUN_EVALUATION},
    {"estimate_loss", NULL, PLIM_RUN_EVALUATION}, // nanoGPT
    {"*save_ckpt", NULL, PLIM_RUN_SAVING},
    {"*save_checkpoint", NULL, PLIM_RUN_SAVING},
    {"*save_model", NULL, PLIM_RUN_SAVING},
    {"save*", NULL, PLIM_RUN_SAVING},
    {"_save*", NULL, PLIM_RUN_SAVING},
    {"safe_save*", NULL, PLIM_RUN_SAVING},
    {"trainer_save_model*", NULL, PLIM_RUN_SAVING},
    {"_zero3_consolidated*", NULL, PLIM_RUN_SAVING},
    {"dump_checkpoint", NULL, PLIM_RUN_SAVING},
    {"consolidate_state_dict", NULL, PLIM_RUN_SAVING},
    {"full_optim_state_dict", NULL, PLIM_RUN_SAVING},
    {"optim_state_dict", NULL, PLIM_RUN_SAVING},
    {"get_model_state_dict", NULL, PLIM_RUN_SAVING},
    {"get_state_dict", NULL, PLIM_RUN_SAVING},
    {"state_dict", NULL, PLIM_RUN_SAVING},
    {"_load_from_checkpoint", NULL, PLIM_RUN_RESUMING},
    {"_load_optimizer_and_scheduler", NULL, PLIM_RUN_RESUMING},
    {"_load_best_model", NULL, PLIM_RUN_RESUMING},
    {"load_checkpoint*", NULL, PLIM_RUN_RESUMING},
    {"_load_checkpoint*", NULL, PLIM_RUN_RESUMING},
    {"load_training_state*", NULL, PLIM_RUN_RESUMING},
    {"load_optimizer*", NULL, PLIM_RUN_RESUMING},
    {"load_fsdp*", NULL, PLIM_RUN_RESUMING},
    {"load_state", NULL, PLIM_RUN_RESUMING},
    {"load_state_dict", NULL, PLIM_RUN_RESUMING},
    {"set_state_dict", NULL, PLIM_RUN_RESUMING},
    {"resume*", NULL, PLIM_RUN_RESUMING},
    {"_resume*", NULL, PLIM_RUN_RESUMING},
    {"restore*", NULL, PLIM_RUN_RESUMING},
    {"_restore*", NULL, PLIM_RUN_RESUMING},
    {"load", "torch/serialization.py", PLIM_RUN_RESUMING},
    {"from_pretrained", NULL, PLIM_RUN_LOADING},
    {"_from_pretrained", NULL, PLIM_RUN_LOADING},
    {"_load_pretrained_model*", NULL, PLIM_RUN_LOADING},
    {"load_pretrained*", NULL, PLIM_RUN_LOADING},
    {"dispatch_model", NULL, PLIM_RUN_LOADING},
    {"merge_and_unload", NULL, PLIM_RUN_LOADING}, // needs the weights, like loading
    {"_move_model_to_device", NULL, PLIM_RUN_LOADING},
    {"prepare_model", NULL, PLIM_RUN_LOADING},
    {"_prepare_deepspeed", NULL, PLIM_RUN_LOADING},
    {"_prepare_fsdp*", NULL, PLIM_RUN_LOADING},
    {"_configure_distributed_model", NULL, PLIM_RUN_LOADING},
    {"initialize", "deepspeed/", PLIM_RUN_LOADING},
    {"_configure_*", "deepspeed/", PLIM_RUN_LOADING},
    {"_init_param_handle*", NULL, PLIM_RUN_LOADING},
    {"fully_shard", NULL, PLIM_RUN_LOADING},
};

// These only suggest the phase; any of the above decides first.
static const phase_row loose_rows[] = {
    {"load_model*", NULL, PLIM_RUN_LOADING},     {"_inner_training_loop", NULL, PLIM_RUN_TRAINING},
    {"training_step*", NULL, PLIM_RUN_TRAINING}, {"train_step*", NULL, PLIM_RUN_TRAINING},
    {"train_one*", NULL, PLIM_RUN_TRAINING},     {"train_epoch*", NULL, PLIM_RUN_TRAINING},
    {"train_batch*", NULL, PLIM_RUN_TRAINING},   {"compute_loss", NULL, PLIM_RUN_TRAINING},
    {"backward", NULL, PLIM_RUN_TRAINING},       {"train_loop*", NULL, PLIM_RUN_TRAINING},
    {"optimizer_step", NULL, PLIM_RUN_TRAINING}, {"clip_grad_norm_", NULL, PLIM_RUN_TRAINING},
};

typedef struct {
  const char *function, *path;
  plim_run_moment moment;
} moment_row;

// The innermost of these decides: Lightning runs the forward pass within the optimizer's step.
static const moment_row moment_rows[] = {
    {"closure", NULL, PLIM_RUN_IN_UNKNOWN},
    {"_fn", "checkpoint.py", PLIM_RUN_IN_FORWARD},
    {"eager_attention_forward", NULL, PLIM_RUN_IN_ATTENTION},
    {"scaled_dot_product*", NULL, PLIM_RUN_IN_ATTENTION},
    {"_attn", NULL, PLIM_RUN_IN_ATTENTION},
    {"softmax", "torch/nn/functional", PLIM_RUN_IN_ATTENTION},
    {"cross_entropy", NULL, PLIM_RUN_IN_LOSS},
    {"fixed_cross_entropy", NULL, PLIM_RUN_IN_LOSS},
    {"ForCausalLMLoss", NULL, PLIM_RUN_IN_LOSS},
    {"log_softmax", NULL, PLIM_RUN_IN_LOSS},
    {"selective_log_softmax", NULL, PLIM_RUN_IN_LOSS},
    {"forward", NULL, PLIM_RUN_IN_FORWARD},
    {"backward", NULL, PLIM_RUN_IN_BACKWARD},
    {"_engine_run_backward", NULL, PLIM_RUN_IN_BACKWARD},
    {"step", "optim", PLIM_RUN_IN_OPTIMIZER},
    {"step", "zero/stage", PLIM_RUN_IN_OPTIMIZER},
    {"_init_group", NULL, PLIM_RUN_IN_OPTIMIZER},
    {"_multi_tensor_*", NULL, PLIM_RUN_IN_OPTIMIZER},
    {"_single_tensor_*", NULL, PLIM_RUN_IN_OPTIMIZER},
    {"init_state", "optim", PLIM_RUN_IN_OPTIMIZER},
    {"initialize_optimizer_states", NULL, PLIM_RUN_IN_OPTIMIZER},
    {"_setup_for_real_optimizer", NULL, PLIM_RUN_IN_OPTIMIZER},
    {"clip_grad_norm_", NULL, PLIM_RUN_IN_OPTIMIZER}, // activations are gone by then
    {"pin_memory", NULL, PLIM_RUN_IN_PINNING},
    {"_pin_memory_loop", NULL, PLIM_RUN_IN_PINNING},
    {NULL, "utils/data/_utils/pin_memory", PLIM_RUN_IN_PINNING},
    {NULL, "utils/data/", PLIM_RUN_IN_DATA},
    {"_lazy_init", NULL, PLIM_RUN_IN_CONTEXT},
    {"_cuda_init", NULL, PLIM_RUN_IN_CONTEXT},
    {"set_device", "torch/cuda", PLIM_RUN_IN_CONTEXT},
};

static bool is_name(const char *name, const char *pattern) {
  size_t length = strlen(pattern);
  if (*pattern == '*') return strstr(name, pattern + 1) != NULL;
  if (pattern[length - 1] == '*') return strncmp(name, pattern, length - 1) == 0;
  return strcmp(name, pattern) == 0;
}

static bool is_frame(const plim_oom_frame *f, const char *function, const char *path) {
  return (!function || is_name(f->function, function)) && (!path || strstr(f->file, path));
}

static plim_run_phase phase_of(const plim_oom_frame *f, const phase_row *rows, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (is_frame(f, rows[i].function, rows[i].path)) return rows[i].phase;
  return PLIM_RUN_UNKNOWN;
}

// ---- whose frame ------------------------------------------------------------------------------------

static bool is_library(const char *file) {
  static const char *const parts[] = {
      "site-packages",   "dist-packages", "/lib/python3",       "\\lib\\",          "<frozen",
      "/bin/",           "<string>",      "/src/transformers/", "/src/accelerate/", "/src/peft/",
      "/src/lightning/", "torch/_",       "torch/nn/",          "torch/autograd/"};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    if (strstr(file, parts[i])) return true;
  return false;
}

// ---- lines ------------------------------------------------------------------------------------------

// Takes the name that follows, up to a blank or the end of the line.
static void copy_name(plim_oom_frame *f, log_text rest) {
  size_t length = 0;
  while (length < rest.size && rest.at[length] != ' ' && rest.at[length] != '(') length++;
  log_copy(f->function, sizeof f->function, (log_text){rest.at, length});
  char *dot =
      strrchr(f->function, '.'); // "Trainer.train", as Python 3.11 does not print it, but rich may
  if (dot && dot[1]) memmove(f->function, dot + 1, strlen(dot + 1) + 1);
}

// File "train.py", line 12, in main; the quotes may be escaped.
static bool read_python_frame(log_text line, plim_oom_frame *f) {
  bool is_escaped = log_starts(line, "File \\\"");
  if (!is_escaped && !log_starts(line, "File \"")) return false;
  log_text path = {line.at + 6 + is_escaped, line.size - 6 - is_escaped};
  const char *quote = memchr(path.at, '"', path.size);
  log_text number = log_after(line, ", line ");
  if (!quote || !number.at || !log_count(number, &f->line)) return false;
  size_t length = (size_t)(quote - path.at) - (is_escaped && quote > path.at);
  log_copy(f->file, sizeof f->file, (log_text){path.at, length});
  log_text name = log_after(number, ", in ");
  if (name.at) copy_name(f, name);
  return true;
}

// rich's "/home/me/train.py:12 in main".
static bool read_rich_frame(log_text line, plim_oom_frame *f) {
  log_text after = log_after(line, ".py:");
  log_text name = after.at ? log_after(after, " in ") : after;
  if (!name.at || !log_count(after, &f->line)) return false;
  size_t digits = 0;
  while (digits < after.size && isdigit((unsigned char)after.at[digits])) digits++;
  if (name.at != after.at + digits + 4) return false;
  size_t length = (size_t)(after.at - line.at) - 1;
  if (memchr(line.at, ' ', length)) return false;
  log_copy(f->file, sizeof f->file, (log_text){line.at, length});
  copy_name(f, name);
  return true;
}

// IPython's "File /usr/lib/trainer.py:2113, in Trainer.evaluate(self)" and, before version 8,
// "/usr/lib/trainer.py in evaluate(self)".
static bool read_notebook_frame(log_text line, plim_oom_frame *f) {
  log_text path = log_starts(line, "File ") ? (log_text){line.at + 5, line.size - 5} : line;
  log_text after = log_after(path, ".py");
  log_text name = after.at ? log_after(after, " in ") : after;
  bool is_new = after.size && *after.at == ':';
  if (!name.at || memchr(path.at, ' ', (size_t)(after.at - path.at))) return false;
  if (is_new && !log_count((log_text){after.at + 1, after.size - 1}, &f->line)) return false;
  if (!is_new && name.at != after.at + 4) return false;
  log_copy(f->file, sizeof f->file, (log_text){path.at, (size_t)(after.at - path.at)});
  copy_name(f, name);
  return *f->function != 0;
}

// Under `plimsoll run`, calls pass through functions of its modules (src/card/python), whose names mean nothing here.
static bool is_plimsolls(const char *file) { return strstr(file, "/python/plimsoll_") != NULL; }

static void add_frame(plim_oom_stack *stack, const plim_oom_frame *f) {
  if (is_plimsolls(f->file)) return;
  if (!is_library(f->file)) {
    if (!*stack->script.file) stack->script = *f;
    stack->own = *f;
  }
  plim_run_phase phase = phase_of(f, phase_rows, sizeof phase_rows / sizeof *phase_rows);
  plim_run_phase loose = phase_of(f, loose_rows, sizeof loose_rows / sizeof *loose_rows);
  bool is_first = stack->phase == PLIM_RUN_UNKNOWN;
  if (phase != PLIM_RUN_UNKNOWN && (is_first || stack->is_loose)) {
    stack->phase = phase, stack->sign = *f, stack->is_loose = false;
  } else if (loose != PLIM_RUN_UNKNOWN && is_first) {
    stack->phase = loose, stack->sign = *f, stack->is_loose = true;
  }
  for (size_t i = 0; i < sizeof moment_rows / sizeof *moment_rows; i++)
    if (is_frame(f, moment_rows[i].function, moment_rows[i].path)) {
      bool is_head = stack->moment == PLIM_RUN_IN_LOSS && strstr(f->file, "nn/modules/");
      if (is_head) return; // the linear layer that computes the logits
      stack->moment = moment_rows[i].moment;
      stack->part = *f;
      return;
    }
}

// The line of a model's forward that computes the logits, or a copy of them: "logits = logits.float()".
static bool is_logits(log_text source) {
  static const char *const words[] = {"lm_head(", "logits.float()", "shift_logits", "logits.to("};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (log_has(source, words[i])) return true;
  return false;
}

void log_follow_stack(plim_oom_stack *stack, log_text line) {
  plim_oom_frame frame = {0};
  if (log_has(line, "Traceback (most recent call last)")) {
    *stack = (plim_oom_stack){0};
    return;
  }
  if (read_python_frame(line, &frame) || read_rich_frame(line, &frame) ||
      read_notebook_frame(line, &frame)) {
    add_frame(stack, &frame);
    return;
  }
  // The source line comes after its frame.
  if (stack->moment == PLIM_RUN_IN_FORWARD && is_logits(line)) stack->moment = PLIM_RUN_IN_LOSS;
  bool is_source = *stack->own.file && !*stack->own.code && line.size && *line.at != '^';
  if (is_source && !log_has(line, "Error")) log_copy(stack->own.code, sizeof stack->own.code, line);
}
