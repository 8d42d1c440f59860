#include "run_settings.h"

#include <math.h>
#include <string.h>

#include "project_impl.h"

static bool is_known(const plim_project_knob *k) {
  return k->origin == PLIM_EXPLICIT || k->origin == PLIM_DEFAULTED;
}

// Whether a real number can be converted to a count; a number of 34 digits is read as a real one.
static bool is_countable(const plim_value *value) {
  return value->kind == PLIM_VALUE_REAL && fabs(value->real) < 1e15;
}

static plim_known_count count(const plim_project *p, plim_knob knob) {
  const plim_project_knob *k = &p->knobs[knob];
  plim_known_count x = {k->origin, 0};
  if (k->value.kind == PLIM_VALUE_INTEGER) x.count = k->value.integer;
  else if (is_countable(&k->value)) x.count = (int64_t)k->value.real;
  else if (is_known(k)) x.origin = PLIM_UNCLEAR;
  return x;
}

static plim_known_number number(const plim_project *p, plim_knob knob) {
  const plim_project_knob *k = &p->knobs[knob];
  plim_known_number x = {k->origin, 0};
  if (k->value.kind == PLIM_VALUE_REAL) x.number = k->value.real;
  else if (k->value.kind == PLIM_VALUE_INTEGER) x.number = (double)k->value.integer;
  else if (is_known(k)) x.origin = PLIM_UNCLEAR;
  return x;
}

static plim_known_text text(const plim_project *p, plim_knob knob) {
  const plim_project_knob *k = &p->knobs[knob];
  bool is_text = is_known(k) && k->value.kind == PLIM_VALUE_TEXT;
  return (plim_known_text){is_known(k) && !is_text ? PLIM_UNCLEAR : k->origin,
                           is_text ? k->value.text : ""};
}

// use_liger_kernel also turns on its fused cross entropy; Axolotl has a separate key for each kernel, and LLaMA-Factory v1
// leaves this one out.
static bool has_fused_loss(const plim_project *p) {
  const plim_project_knob *liger = &p->knobs[PLIM_KNOB_LIGER];
  bool is_on = is_known(liger) && liger->value.kind == PLIM_VALUE_TEXT &&
               strcmp(liger->value.text, "on") == 0;
  bool is_apart = p->dialect == PLIM_DIALECT_AXOLOTL || p->dialect == PLIM_DIALECT_LLAMA_FACTORY_V1;
  return is_on && !is_apart && p->knobs[PLIM_KNOB_CHUNKED_LOSS].origin != PLIM_EXPLICIT;
}

// The knob is the number of tokens per chunk (0: not chunked), or the name of a loss.
static void take_loss(const plim_project *p, plim_run_settings *out) {
  const plim_project_knob *k = &p->knobs[PLIM_KNOB_CHUNKED_LOSS];
  out->loss = (plim_known_text){k->origin, "full"};
  if (has_fused_loss(p)) {
    out->loss = (plim_known_text){PLIM_DEFAULTED, "fused"};
    return;
  }
  if (k->value.kind == PLIM_VALUE_TEXT) out->loss.text = k->value.text;
  if (k->value.kind != PLIM_VALUE_INTEGER || k->value.integer <= 0) return;
  out->loss.text = "chunked";
  out->loss_chunk = count(p, PLIM_KNOB_CHUNKED_LOSS);
}

// loss = model(**batch).loss: no variable keeps the model's outputs. The tape has no cache of keys and values, which a
// decoder fills unless use_cache is false; then the loop that keeps its outputs is the safer prediction.
static bool keeps_only_loss(const plim_project *p) {
  static const char *const kept[] = {"out.loss", "output.loss", "outputs.loss",
                                     "res.loss", "result.loss", "results.loss"};
  bool takes_it = false, has_no_cache = false;
  for (size_t i = 0; i < p->files.len; i++) {
    const plim_project_file *f = p->files.at[i];
    if (f->settings.format != PLIM_FORMAT_PYTHON) continue;
    takes_it = takes_it || plim_python_has(&f->code, ").loss");
    has_no_cache = has_no_cache || plim_python_has(&f->code, "use_cache=False");
    for (size_t k = 0; k < sizeof kept / sizeof *kept; k++)
      if (plim_python_has(&f->code, kept[k])) return false;
  }
  return takes_it && has_no_cache;
}

// transformers' run_clm.py joins texts and cuts them into blocks of this size: nothing is padded, and the mask is all ones.
static bool has_blocks(const plim_project *p) {
  static const char end[] = "block_size";
  const plim_project_knob *k = &p->knobs[PLIM_KNOB_SEQUENCE];
  const char *key = k->place_count && k->places[0].setting ? k->places[0].setting->key : "";
  size_t size = strlen(key), n = sizeof end - 1;
  return size >= n && strcmp(key + size - n, end) == 0;
}

// Without attn_implementation, or with kernels that it does not know, Axolotl keeps the mask of packed samples, whose padding
// is zeros (attn_decontaminates_packing of utils/schemas/config.py).
static bool packs_with_mask(const plim_project *p, const plim_run_settings *out) {
  const plim_project_knob *k = &p->knobs[PLIM_KNOB_ATTENTION];
  const plim_setting *s = k->place_count ? k->places[0].setting : NULL;
  const char *name = s && s->value.kind == PLIM_VALUE_TEXT ? s->value.text : "";
  // Of the kernels from the hub, it knows these (ATTN_IMPLS_SUPPORTING_PACKING).
  bool is_known = strcmp(name, "kernels-community/flash-attn2") == 0 ||
                  strcmp(name, "kernels-community/flash-attn3") == 0 ||
                  strcmp(name, "kernels-community/sage-attention") == 0;
  bool is_other = strchr(name, '/') && !is_known;
  return p->dialect == PLIM_DIALECT_AXOLOTL &&
         (out->attention.origin <= PLIM_DEFAULTED || is_other);
}

// Position ids that begin again with each sample: Axolotl (core/trainers/mixins/packing.py drops the mask) and TRL, whose
// strategy "wrapped" cuts all tokens into rows instead.
static bool packs_with_positions(const plim_project *p) {
  if (p->dialect != PLIM_DIALECT_TRL) return p->dialect == PLIM_DIALECT_AXOLOTL;
  for (size_t i = 0; i < p->files.len; i++) {
    const plim_setting *s = plim_project_setting(p->files.at[i], "packing_strategy");
    if (s && s->value.text && strcmp(s->value.text, "wrapped") == 0) return false;
  }
  return true;
}

// Axolotl's collators pad to the longest sample only if pad_to_sequence_len is false (core/builders/causal.py), and those for
// images always (utils/collators/mm_chat.py).
static bool pads_to_longest(const plim_project *p) {
  if (p->dialect != PLIM_DIALECT_AXOLOTL) return false;
  for (size_t i = 0; i < p->files.len; i++) {
    const plim_setting *pads = plim_project_setting(p->files.at[i], "pad_to_sequence_len");
    const plim_setting *sees = plim_project_setting(p->files.at[i], "processor_type");
    if (pads && pads->value.kind == PLIM_VALUE_BOOL && !pads->value.flag) return true;
    if (sees && sees->value.kind == PLIM_VALUE_TEXT) return true;
  }
  return false;
}

// LLaMA-Factory's collators pad to a multiple of 8 (pad_to_multiple_of in train/*/workflow.py).
static bool pads_to_eights(const plim_project *p, const plim_run_settings *out) {
  return p->dialect == PLIM_DIALECT_LLAMA_FACTORY && out->sequence.count % 8 != 0;
}

// The collators of a Trainer pad and pass a mask; packed batches and most other loops have none.
static void take_loop(const plim_project *p, plim_run_settings *out) {
  bool has_trainer = p->dialect != PLIM_DIALECTS && plim_dialect_table[p->dialect].has_trainer;
  const char *mask = p->dialect != PLIM_DIALECTS ? plim_dialect_table[p->dialect].mask : NULL;
  bool is_packed = strcmp(out->packing.text, "on") == 0 && !packs_with_mask(p, out);
  if (mask && has_blocks(p)) mask = "ones";
  if (mask && pads_to_longest(p)) mask = "longest";
  if (mask && pads_to_eights(p, out)) mask = "pad";
  if (is_packed) mask = packs_with_positions(p) ? "packed" : "none";
  out->loop = (plim_known_text){PLIM_DEFAULTED, has_trainer          ? "trainer"
                                                : keeps_only_loss(p) ? "loss-only"
                                                                     : "manual"};
  out->mask = (plim_known_text){PLIM_DEFAULTED, mask ? mask : "none"};
}

// If the user tells where the batch is set, the files are a training.
static bool has_bound_batch(const plim_project *p) {
  for (size_t i = 0; i < p->bindings.len; i++)
    if (p->bindings.at[i]->key.knob == PLIM_KNOB_MICRO_BATCH) return true;
  return false;
}

// A script with a loop of its own; NULL: none.
static const char *script_with_loop(const plim_project *p) {
  for (size_t i = 0; i < p->files.len; i++)
    if (p->files.at[i]->settings.format == PLIM_FORMAT_PYTHON &&
        plim_python_has(&p->files.at[i]->code, ".backward("))
      return p->files.at[i]->path;
  return NULL;
}

// What to type instead of planning files that train nothing.
static void hint_training(const plim_project *p, size_t file, plim_error *error) {
  const plim_project_file *f = file == SIZE_MAX ? NULL : p->files.at[file];
  plim_dialect dialect = f ? f->recipe.dialect : PLIM_DIALECTS;
  char command[200];
  if (p->missing) plim_error_hint(error, "find %.160s and add its path to the command", p->missing);
  else if (dialect != PLIM_DIALECTS && plim_dialect_table[dialect].is_part)
    plim_error_hint(error,
                    "give the configuration or script that trains, too: plimsoll plan train.yaml "
                    "%.160s",
                    f->path);
  else if (dialect == PLIM_DIALECT_TORCHTUNE)
    plim_error_hint(
        error,
        "give the configuration of a recipe that trains; to see the memory of this one: plimsoll "
        "simulate %s %.120s",
        plim_project_simulate_tune(f, command, sizeof command) ? command
                                                               : "-- tune run RECIPE --config",
        f->path);
  else if (dialect != PLIM_DIALECTS && plim_recipe_file_command(&f->settings, &f->recipe))
    plim_error_hint(error,
                    "give the configuration that trains; to see the memory of this one: plimsoll "
                    "simulate -- %s %.120s",
                    plim_recipe_file_command(&f->settings, &f->recipe), f->path);
  else if (plim_project_ask_command(p, PLIM_KNOB_MICRO_BATCH, command, sizeof command))
    plim_error_hint(error,
                    "give the launch command: %s, or its file; or, if one of your own keys sets "
                    "the batch size: --set micro_batch=FILE:KEY",
                    command);
  else if (script_with_loop(p))
    plim_error_hint(
        error,
        "name the key that sets it: --set micro_batch=%.120s:KEY; or run the program on "
        "a simulated GPU: plimsoll simulate --gpu GPU -- python %.120s",
        script_with_loop(p), script_with_loop(p));
  else
    plim_error_hint(error, "add the training script or configuration; or, if one of your own keys "
                           "sets the batch size: --set micro_batch=FILE:KEY");
}

// `reason` begins with "it" if it is about the file, whose name takes the place of that word.
static plim_err refuse_training(const plim_project *p, size_t file, const char *reason,
                                plim_error *error) {
  bool is_about_file = file != SIZE_MAX && strncmp(reason, "it ", 3) == 0;
  const char *name = is_about_file ? p->files.at[file]->path : "";
  const char *rest = is_about_file ? reason + 2 : reason;
  plim_err err = p->missing
                     ? plim_fail(error, PLIM_ERR_UNSUPPORTED,
                                 "%.100s%s, and the files refer to %.100s, which does not exist "
                                 "here",
                                 name, rest, p->missing)
                     : plim_fail(error, PLIM_ERR_UNSUPPORTED, "%.200s%s", name, rest);
  hint_training(p, file, error);
  return plim_error_file_of(p, file, err, error);
}

static plim_err check_trains(const plim_project *p, plim_error *error) {
  const char *reason = NULL;
  size_t file = SIZE_MAX;
  if (has_bound_batch(p)) return PLIM_OK;
  for (size_t i = 0; i < p->files.len; i++) {
    const plim_project_file *f = p->files.at[i];
    if (f->recipe.dialect == PLIM_DIALECTS) continue;
    const char *mine = plim_recipe_file_refusal(&f->settings, &f->recipe);
    if (!mine && f->is.dialect == p->dialect) return PLIM_OK;
    if (mine && !f->shipped_by) reason = mine, file = i;
  }
  return reason ? refuse_training(p, file, reason, error)
                : refuse_training(p, SIZE_MAX,
                                  "none of these files is a training configuration that plimsoll "
                                  "knows",
                                  error);
}

plim_err plim_run_settings_of(const plim_project *p, plim_run_settings *out, plim_error *error) {
  *out = (plim_run_settings){
      .model = text(p, PLIM_KNOB_MODEL),
      .micro_batch = count(p, PLIM_KNOB_MICRO_BATCH),
      .accumulate = count(p, PLIM_KNOB_ACCUMULATE),
      .global_batch = count(p, PLIM_KNOB_GLOBAL_BATCH),
      .sequence = count(p, PLIM_KNOB_SEQUENCE),
      .world = count(p, PLIM_KNOB_WORLD),
      .nodes = count(p, PLIM_KNOB_NODES),
      .workers = count(p, PLIM_KNOB_WORKERS),
      .tensor_parallel = count(p, PLIM_KNOB_TENSOR_PARALLEL),
      .context_parallel = count(p, PLIM_KNOB_CONTEXT_PARALLEL),
      .positives = count(p, PLIM_KNOB_POSITIVES),
      .negatives = count(p, PLIM_KNOB_NEGATIVES),
      .precision = text(p, PLIM_KNOB_PRECISION),
      .dtype = text(p, PLIM_KNOB_DTYPE),
      .checkpoint = text(p, PLIM_KNOB_CHECKPOINT),
      .attention = text(p, PLIM_KNOB_ATTENTION),
      .optimizer = text(p, PLIM_KNOB_OPTIMIZER),
      .quantisation = text(p, PLIM_KNOB_QUANTISATION),
      .strategy = text(p, PLIM_KNOB_STRATEGY),
      .offload = text(p, PLIM_KNOB_OFFLOAD),
      .loss_kind = text(p, PLIM_KNOB_LOSS_KIND),
      .alloc_conf = text(p, PLIM_KNOB_ALLOC_CONF),
      .lora_rank = count(p, PLIM_KNOB_LORA_RANK),
      .empty_cache = count(p, PLIM_KNOB_EMPTY_CACHE),
      .lora_alpha = number(p, PLIM_KNOB_LORA_ALPHA),
      .lora_dropout = number(p, PLIM_KNOB_LORA_DROPOUT),
      .epochs = number(p, PLIM_KNOB_EPOCHS),
      .clip = number(p, PLIM_KNOB_CLIP),
      .lora_targets = text(p, PLIM_KNOB_LORA_TARGETS),
      .lora_saved = text(p, PLIM_KNOB_LORA_SAVED),
      .lora_layers = text(p, PLIM_KNOB_LORA_LAYERS),
      .lora_excluded = text(p, PLIM_KNOB_LORA_EXCLUDED),
      .lora_bias = text(p, PLIM_KNOB_LORA_BIAS),
      .dora = text(p, PLIM_KNOB_DORA),
      .liger = text(p, PLIM_KNOB_LIGER),
      .packing = text(p, PLIM_KNOB_PACKING),
      .compile = text(p, PLIM_KNOB_COMPILE),
      .reshard = text(p, PLIM_KNOB_RESHARD),
  };
  take_loss(p, out);
  take_loop(p, out);
  return check_trains(p, error);
}
