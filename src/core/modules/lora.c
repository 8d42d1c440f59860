// LoRA adapters: which layers get them, and their parameters.
#include <stdio.h>
#include <string.h>

#include "family.h"
#include "heads.h"
#include "kernels.h"
#include "lora_pattern.h"
#include "modules.h"
#include "quantised.h"
#include "suggest.h"
#include "tape_state.h"

#include "op_names.h"

// ---- target_modules ---------------------------------------------------------------------------------

enum { PATH_BYTES = 160 };

bool plim_lora_is_everywhere(const plim_lora *lora) {
  return strcmp(lora->targets, PLIM_ALL_LINEAR) == 0;
}

// Takes the next name off a list of names separated by commas. False at its end.
static bool next_name(const char **list, const char **name, size_t *length) {
  *list += strspn(*list, ", ");
  *name = *list;
  *length = strcspn(*list, ", ");
  *list += *length;
  return *length > 0;
}

// peft: the whole path, or what follows a dot of it.
static bool is_end_of(const char *name, size_t length, const char *path) {
  size_t whole = strlen(path);
  if (length > whole || memcmp(path + whole - length, name, length) != 0) return false;
  return length == whole || path[whole - length - 1] == '.';
}

static bool is_listed(const char *list, const char *path) {
  const char *name;
  size_t length;
  while (next_name(&list, &name, &length))
    if (is_end_of(name, length, path)) return true;
  return false;
}

static bool has_layer(const plim_lora *lora, int64_t index) {
  char number[24];
  snprintf(number, sizeof number, "%d", (int)index);
  return !lora->layers || (index >= 0 && is_listed(lora->layers, number));
}

static bool is_target(const plim_lora *lora, int64_t index, const char *path) {
  if (lora->excluded && is_listed(lora->excluded, path)) return false;
  if (!has_layer(lora, index)) return false;
  if (plim_lora_is_pattern(lora->targets)) return plim_lora_pattern_fits(lora->targets, path);
  return plim_lora_is_everywhere(lora) || is_listed(lora->targets, path);
}

bool plim_lora_names(const plim_lora *lora, const char *name) {
  if (plim_lora_is_everywhere(lora)) return true;
  const char *list = lora->targets, *target;
  size_t length;
  while (next_name(&list, &target, &length)) {
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%.*s", (int)length, target);
    if (is_end_of(name, strlen(name), path)) return true;
  }
  return false;
}

// modules_to_save: names of the embedding of tokens and of the head in the models of transformers.
static const char *const embeddings[] = {"embed_tokens",    "wte", "embed_in", "shared",
                                         "word_embeddings", NULL};
static const char *const heads[] = {"lm_head", "embed_out", NULL};

static bool names_one_of(const char *list, const char *const *names) {
  for (size_t i = 0; list && names[i]; i++)
    if (is_listed(list, names[i])) return true;
  return false;
}

bool plim_lora_names_head(const plim_lora *lora) {
  return !plim_lora_is_everywhere(lora) && !plim_lora_is_pattern(lora->targets) &&
         names_one_of(lora->targets, heads) && !names_one_of(lora->excluded, heads);
}

static bool is_one_of(const char *name, const char *const *names) {
  size_t i = 0;
  while (names[i] && !is_end_of(names[i], strlen(names[i]), name)) i++;
  return names[i];
}

static plim_err check_saved(const plim_lora *lora, plim_error *error) {
  const char *list = lora->saved ? lora->saved : "", *start;
  size_t length;
  while (next_name(&list, &start, &length)) {
    char name[PATH_BYTES];
    snprintf(name, sizeof name, "%.*s", (int)length, start);
    if (is_one_of(name, embeddings) || is_one_of(name, heads)) continue;
    plim_err err = plim_fail(error, PLIM_ERR_UNSUPPORTED,
                             "training %.64s in full beside adapters is not supported yet", name);
    plim_error_hint(error, "supported: embed_tokens, lm_head");
    return err;
  }
  return PLIM_OK;
}

// Modules outside the layers that peft can adapt as well, and the tape cannot.
static const char *const outside[] = {
    "lm_head",    "embed_tokens",    "wte",    "wpe",        "embed_in", "embed_out", "tok_embed",
    "embeddings", "word_embeddings", "shared", "classifier", "score",
};

static bool is_outside(const char *name) {
  for (size_t i = 0; i < sizeof outside / sizeof *outside; i++)
    if (is_end_of(outside[i], strlen(outside[i]), name)) return true;
  return false;
}

// Whether a layer of the model has this name: the end of its path in the layer, or a path that ends in it.
static bool is_of_model(const plim_model *m, const char *name) {
  for (size_t i = 0; i < m->linear_names.len; i++) {
    const char *path = m->linear_names.at[i];
    if (is_end_of(name, strlen(name), path) || is_end_of(path, strlen(path), name)) return true;
  }
  return false;
}

static const char *closest(const plim_model *m, const char *name) {
  const char *ends[64];
  size_t count = 0;
  for (size_t i = 0; i < m->linear_names.len && count < 64; i++) {
    const char *dot = strrchr(m->linear_names.at[i], '.');
    ends[count++] = dot ? dot + 1 : m->linear_names.at[i];
  }
  return plim_suggest(name, ends, count);
}

static plim_err refuse_outside(const char *name, plim_error *error) {
  plim_err err = plim_fail(error, PLIM_ERR_UNSUPPORTED,
                           "adapters on %.64s, outside the layers, are not supported yet", name);
  plim_error_hint(error, "plimsoll simulate -- YOUR COMMAND measures this run without a GPU; "
                         "without those adapters: --lora-targets all-linear");
  return err;
}

// Of a head that is a linear layer with nothing around it; DoRA on it is not supported.
static bool can_adapt_head(const plim_model *m, const plim_lora *lora) {
  return m->head && m->forward == plim_causal_forward && !lora->uses_dora;
}

static plim_err compare_names(const plim_model *m, const plim_lora *lora, plim_lora_unmatched *out,
                              plim_error *error) {
  const char *list = lora->targets, *start;
  size_t length;
  while (next_name(&list, &start, &length)) {
    char name[PATH_BYTES];
    snprintf(name, sizeof name, "%.*s", (int)length, start);
    if (is_of_model(m, name) || (is_one_of(name, heads) && can_adapt_head(m, lora))) out->matched++;
    else if (is_outside(name)) return refuse_outside(name, error);
    else {
      size_t used = strlen(out->names);
      snprintf(out->names + used, sizeof out->names - used, "%s%.63s", used ? ", " : "", name);
      if (!out->count++) out->closest = closest(m, name);
    }
  }
  if (out->matched) return PLIM_OK;
  plim_err err =
      plim_fail(error, PLIM_ERR_ARGUMENT, "no layer for adapters is called %.128s", out->names);
  if (out->closest) plim_error_hint(error, "did you mean %s?", out->closest);
  else plim_error_hint(error, "--lora-targets all-linear");
  return err;
}

// The first linear layer of the first layer; NULL: not known.
static const char *path_in_layer(const plim_model *m) {
  for (size_t i = 0; i < m->names.len; i++)
    if (m->names.at[i].spot == 1 && m->names.at[i].tensor->is_projection)
      return m->names.at[i].path;
  return NULL;
}

// An expression is compared with the whole paths, which adding the adapters makes.
static plim_err compare_pattern(plim_tape *t, plim_model *m, const plim_lora *lora,
                                plim_error *error) {
  bool is_valid = plim_lora_pattern_is_valid(lora->targets);
  if (is_valid && m->add_lora) m->add_lora(t, m, lora);
  if (is_valid && m->parameters.len) return PLIM_OK;
  plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT,
                           is_valid ? "no layer's path fits the expression \"%.128s\""
                                    : "the expression \"%.128s\" for layers is not understood",
                           lora->targets);
  const char *example = is_valid && m->place ? path_in_layer(m) : NULL;
  if (example)
    plim_error_hint(error,
                    "peft would fail: in this version of transformers the layers are called "
                    "%.64s.0.%.48s; correct the expression, or name them: --lora-targets "
                    "q_proj,v_proj",
                    m->place, example);
  else plim_error_hint(error, "name the layers that get adapters: --lora-targets q_proj,v_proj");
  return err;
}

static void ignore(void *context, plim_stream_kind kind, uint32_t id, uint64_t bytes) {
  (void)context, (void)kind, (void)id, (void)bytes;
}

// peft takes the router for an ordinary linear layer, and fails in the first forward pass.
static plim_err refuse_router(const plim_config *c, plim_error *error) {
  plim_err err = plim_fail(error, PLIM_ERR_UNSUPPORTED,
                           "peft's all-linear also adapts the router of %s, which returns two "
                           "tensors: training would fail",
                           plim_config_whole(c)->model_type);
  plim_error_hint(error, "name the layers: --lora-targets q_proj,k_proj,v_proj,o_proj");
  return err;
}

// peft stops with an error if such a layer is among the targets.
static plim_err check_refused(const plim_config *c, const plim_lora *lora, plim_error *error) {
  const char *name = c->family->lora_refuses;
  const plim_lora excluded = {.targets = lora->excluded};
  bool is_pattern = plim_lora_is_pattern(lora->targets);
  if (!name || is_pattern || (lora->excluded && plim_lora_names(&excluded, name))) return PLIM_OK;
  if (!plim_lora_is_everywhere(lora) && !plim_lora_names(lora, name)) return PLIM_OK;
  plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT, "peft refuses adapters on %s in %s models",
                           name, c->family->model_type);
  plim_error_hint(error, "name other layers: --lora-targets in_proj%s",
                  c->family->has_only_mixers ? "" : ",q_proj,k_proj,v_proj,o_proj");
  return err;
}

plim_err plim_lora_check(const plim_config *c, const plim_lora *lora, plim_lora_unmatched *out,
                         plim_error *error) {
  *out = (plim_lora_unmatched){0};
  plim_err wrong = check_saved(lora, error);
  if (!wrong) wrong = check_refused(c, lora, error);
  if (!wrong && plim_lora_is_everywhere(lora) && c->family->has_linear_router)
    wrong = refuse_router(c, error);
  if (wrong || plim_lora_is_everywhere(lora)) return wrong;
  plim_tape *t = plim_tape_new((plim_tape_sink){.event = ignore});
  plim_model *m = t ? c->family->build(t, c, PLIM_BF16) : NULL;
  plim_err err = !m ? plim_fail(error, PLIM_ERR_NOMEM, "not enough memory on this machine")
                 : plim_lora_is_pattern(lora->targets) ? compare_pattern(t, m, lora, error)
                                                       : compare_names(m, lora, out, error);
  plim_model_delete(m);
  plim_tape_delete(t);
  return err;
}

static bool adapts(const plim_model *m, const plim_lora *lora, const char *name) {
  char path[PATH_BYTES];
  snprintf(path, sizeof path, "%s%s%s", m->place ? m->place : "", m->place ? ".0." : "", name);
  for (size_t i = 0; i < m->linear_names.len; i++)
    if (strcmp(m->linear_names.at[i], name) == 0) return is_target(lora, 0, path);
  return false;
}

unsigned plim_lora_adapts(const plim_config *c, const plim_lora *lora, const plim_paths *sets,
                          size_t count) {
  plim_lora anywhere = *lora;
  unsigned found = 0;
  anywhere.layers = NULL;
  plim_tape *t = plim_tape_new((plim_tape_sink){.event = ignore});
  plim_model *m = t ? c->family->build(t, c, PLIM_BF16) : NULL;
  for (size_t i = 0; m && i < count; i++) {
    size_t k = 0;
    while (k < PLIM_PATHS && sets[i][k] && adapts(m, &anywhere, sets[i][k])) k++;
    if (k == PLIM_PATHS || !sets[i][k]) found |= 1u << i;
  }
  plim_model_delete(m);
  plim_tape_delete(t);
  return found;
}

// ---- parameters ---------------------------------------------------------------------------------------

void plim_lora_begin(plim_model *m) {
  for (size_t i = 0; i < m->parameters.len; i++) {
    m->parameters.at[i]->requires_grad = false;
    if (!vec_push(&m->frozen, m->parameters.at[i])) m->failed = true;
  }
  m->parameters.len = 0;
}

// Adapters have the compute dtype of the base layer; LLM.int8() has none, so there they are float32.
static plim_dtype adapter_dtype(const plim_tensor *weight) {
  if (!weight->quant) return (plim_dtype)weight->dtype;
  return weight->quant->kind == PLIM_WEIGHTS_INT8 ? PLIM_FP32 : weight->quant->compute;
}

const char *const plim_lora_bias_names[PLIM_BIASES + 1] = {
    [PLIM_BIAS_NONE] = "none",
    [PLIM_BIAS_LORA_ONLY] = "lora_only",
    [PLIM_BIAS_ALL] = "all",
};

static bool trains_bias(const plim_lora *lora, bool is_adapted) {
  return lora->bias == PLIM_BIAS_ALL || (lora->bias == PLIM_BIAS_LORA_ONLY && is_adapted);
}

// Trains a parameter that plim_lora_begin has frozen.
static void train(plim_model *m, plim_tensor *p) {
  size_t kept = 0;
  for (size_t i = 0; i < m->frozen.len; i++)
    if (m->frozen.at[i] != p) m->frozen.at[kept++] = m->frozen.at[i];
  m->frozen.len = kept;
  p->requires_grad = true;
  if (!vec_push(&m->parameters, p)) m->failed = true;
}

// torchtune's layer has the magnitude itself, so it comes before the matrices, which are in modules of the layer.
static void put_before_matrices(plim_model *m) {
  plim_tensor **last = &m->parameters.at[m->parameters.len - 3], *magnitude = last[2];
  last[2] = last[1];
  last[1] = last[0];
  last[0] = magnitude;
}

// Its memory is the norm's, so no further one is allocated.
static void add_magnitude(plim_tape *t, plim_model *m, plim_linear *l) {
  set(t, &l->magnitude, plim_dora_magnitude(t, l));
  l->magnitude->requires_grad = l->magnitude->is_adapter = true;
  l->magnitude->decay = PLIM_DECAY_ALWAYS;
  l->magnitude->behind = l->bias ? l->bias : l->weight;
  plim_tape_move_behind(l->magnitude, l->magnitude->behind, 3);
  m->elements += (uint64_t)plim_numel(&l->magnitude->shape);
  if (!vec_push(&m->parameters, l->magnitude)) m->failed = true;
  else if (plim_state(t)->is_torchtune) put_before_matrices(m);
}

static void add_adapter(plim_tape *t, plim_model *m, const plim_lora *lora, plim_linear *l) {
  plim_dtype dtype = adapter_dtype(l->weight);
  int64_t in = l->weight->shape.at[!l->weight->is_flipped];
  int64_t out = l->weight->shape.at[l->weight->is_flipped];
  l->lora_a = plim_model_parameter(t, m, dims(lora->rank, in), dtype);
  l->lora_b = plim_model_parameter(t, m, dims(out, lora->rank), dtype);
  l->dropout = lora->dropout;
  const plim_tensor *last = l->bias ? l->bias : l->weight; // last parameter of the wrapped module
  l->lora_a->is_adapter = l->lora_b->is_adapter = true;
  l->lora_a->behind = l->lora_b->behind = last;
  plim_tape_move_behind(l->lora_a, last, 1);
  plim_tape_move_behind(l->lora_b, last, 2);
  if (lora->uses_dora) add_magnitude(t, m, l);
}

void plim_lora_add(plim_tape *t, plim_model *m, const plim_lora *lora, const char *place,
                   int64_t index, plim_linear *const *layers, size_t count) {
  char path[PATH_BYTES];
  int used = index < 0 ? snprintf(path, sizeof path, "%s.", place)
                       : snprintf(path, sizeof path, "%s.%d.", place, (int)index);
  for (size_t i = 0; i < count; i++) {
    if (!layers[i]->weight) continue;
    snprintf(path + used, sizeof path - (size_t)used, "%s", layers[i]->path);
    bool is_adapted = is_target(lora, index, path);
    if (layers[i]->bias && trains_bias(lora, is_adapted)) train(m, layers[i]->bias);
    if (is_adapted) add_adapter(t, m, lora, layers[i]);
  }
}

// ---- modules that are trained in full -----------------------------------------------------------------

// copy.deepcopy(module): the model uses the copy, and the original stays.
static plim_tensor *copy_of(plim_tape *t, plim_model *m, plim_tensor *original) {
  plim_tensor *copy = NULL;
  set(t, &copy, empty(t, original->shape, (plim_dtype)original->dtype));
  copy->requires_grad = true;
  copy->behind = original;
  plim_tape_move_behind(copy, original, 1);
  m->elements += (uint64_t)plim_numel(&copy->shape);
  return copy;
}

// A buffer of the embedding is copied with it; deepcopy makes a tensor in between.
static void copy_scale(plim_tape *t, const plim_tensor *scale) {
  plim_tensor *copy = NULL;
  set(t, &copy, k_like(t, scale));
  plim_consume(t, k_like(t, scale));
}

static size_t place_among(const plim_tensors *list, const plim_tensor *p) {
  size_t i = 0;
  while (i < list->len && list->at[i] != p) i++;
  return i;
}

// The trained parameters before the table of tokens: adapters of towers, which were built before the language model.
static size_t count_before_table(const plim_model *m, size_t table) {
  size_t i = 0;
  while (i < m->parameters.len && m->parameters.at[i]->behind &&
         place_among(&m->frozen, m->parameters.at[i]->behind) < table)
    i++;
  return i;
}

// The family refers to its embedding by a pointer of its own, so this tensor becomes the copy and a new one the
// original.
static void save_embedding(plim_tape *t, plim_model *m) {
  size_t place = place_among(&m->frozen, m->table), first = count_before_table(m, place);
  plim_tensor *table = m->table, *copy = copy_of(t, m, table);
  if (m->table_scale) copy_scale(t, m->table_scale);
  plim_tensor taken = *table;
  bool is_tied = m->head == table;
  *table = *copy, *copy = taken;
  table->behind = copy;
  m->frozen.at[place] = copy;
  if (is_tied) m->head = copy;
  if (!vec_push(&m->parameters, table)) m->failed = true;
  for (size_t i = m->parameters.len - 1; i > first && !m->failed; i--) {
    m->parameters.at[i] = m->parameters.at[i - 1];
    m->parameters.at[i - 1] = table;
  }
}

static void save_head(plim_tape *t, plim_model *m) {
  m->head = copy_of(t, m, m->head);
  if (!vec_push(&m->parameters, m->head)) m->failed = true;
}

// Only adapters become float32, not biases or copies.
static void widen(plim_tape *t, const plim_model *m) {
  for (size_t i = 0; i < m->parameters.len; i++) {
    plim_tensor *p = m->parameters.at[i];
    if (p->is_adapter && p->dtype != PLIM_FP32) plim_retype(t, p, PLIM_FP32);
  }
}

// sft_trainer.py, dpo_trainer.py, kto_trainer.py and reward_trainer.py, if _is_quantized_model: param.data.to(bfloat16) for
// all that is trained. DoRA's magnitudes stay; they are refused with quantised weights.
static void narrow(plim_tape *t, const plim_model *m) {
  for (size_t i = 0; i < m->parameters.len; i++)
    if (m->parameters.at[i]->dtype != PLIM_BF16) plim_retype(t, m->parameters.at[i], PLIM_BF16);
}

// The head follows the layers in the order of the model's modules. A tied one shares its weight with the embedding.
static void adapt_head(plim_tape *t, plim_model *m, const plim_lora *lora) {
  bool is_asked = plim_lora_names_head(lora) && has_layer(lora, -1);
  if (!is_asked || !can_adapt_head(m, lora)) return;
  plim_linear head = {.weight = m->head, .bias = m->head_bias};
  add_adapter(t, m, lora, &head);
  m->head_a = head.lora_a;
  m->head_b = head.lora_b;
  m->head_dropout = head.dropout;
}

void plim_lora_end(plim_tape *t, plim_model *m, const plim_lora *lora) {
  bool is_late = plim_label_head_is_late(m);
  if (!is_late) plim_label_head_save(t, m);
  adapt_head(t, m, lora);
  bool has_both = m->frozen.len && m->head;
  if (m->frozen.len && m->table && names_one_of(lora->saved, embeddings)) save_embedding(t, m);
  if (has_both && names_one_of(lora->saved, heads)) save_head(t, m);
  if (!lora->keeps_dtype) widen(t, m);
  if (is_late) plim_label_head_save(t, m);
  if (lora->casts_bf16) narrow(t, m);
}
