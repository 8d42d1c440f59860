#include "settings_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model_names.h"
#include "torchtune_builders.h"
#include "value.h"

// ---- values -----------------------------------------------------------------------------------------

enum { ROOM = 1024 };

typedef const char *value_of(const settings_run *run, char room[ROOM]);

static const char *number(uint64_t value, char room[ROOM]) {
  snprintf(room, ROOM, "%llu", (unsigned long long)value);
  return room;
}

// Whether a text needs no quotes in any of the formats.
static bool is_plain(const char *text, const char *also) {
  for (const char *c = text; *c; c++) {
    bool is_letter =
        (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9');
    if (!is_letter && !strchr("_-./", *c) && !strchr(also, *c)) return false;
  }
  return *text;
}

#define UNKNOWN_MODEL "path/to/your-model"

const char *settings_model(const settings_run *run) {
  const char *model = run->typed->model;
  const plim_catalogue_model *known = plim_catalogue_named(model);
  return !is_plain(model, "") ? UNKNOWN_MODEL : known && !strchr(model, '/') ? known->id : model;
}

static const char *model(const settings_run *run, char room[ROOM]) {
  (void)room;
  return settings_model(run);
}

static const char *builder(const settings_run *run, char room[ROOM]) {
  return torchtune_builder(run->typed->model, run->want->lora_rank, room, ROOM) ? room : NULL;
}

static const char *tokenizer(const settings_run *run, char room[ROOM]) {
  (void)room;
  return torchtune_tokenizer(run->typed->model);
}

static const char *type_of_model(const settings_run *run, char room[ROOM]) {
  (void)room;
  return torchtune_type(run->typed->model);
}

static const char *batch(const settings_run *run, char room[ROOM]) {
  return number(run->want->batch, room);
}

static const char *accumulate(const settings_run *run, char room[ROOM]) {
  return number(run->want->accumulate, room);
}

static const char *seq(const settings_run *run, char room[ROOM]) {
  return number(run->want->seq, room);
}

static const char *world(const settings_run *run, char room[ROOM]) {
  return number(run->want->world, room);
}

static const char *nodes(const settings_run *run, char room[ROOM]) {
  return number(run->want->nodes, room);
}

static const char *each(const settings_run *run, char room[ROOM]) {
  return number(run->want->world / (run->want->nodes ? run->want->nodes : 1), room);
}

static const char *rank(const settings_run *run, char room[ROOM]) {
  return run->want->lora_rank ? number(run->want->lora_rank, room) : NULL;
}

static const char *rank_of_projection(const settings_run *run, char room[ROOM]) {
  return run->want->projection_rank ? number(run->want->projection_rank, room) : NULL;
}

// Twice the rank is usual.
static const char *alpha(const settings_run *run, char room[ROOM]) {
  const job_args *a = run->typed;
  snprintf(room, ROOM, "%g", a->lora_alpha > 0 ? a->lora_alpha : 2.0 * (double)a->lora_rank);
  return a->lora_rank ? room : NULL;
}

static const char *dropout(const settings_run *run, char room[ROOM]) {
  snprintf(room, ROOM, "%g", run->want->lora_dropout);
  return run->want->lora_rank ? room : NULL;
}

static const char *type_name(int choice, const char *none) {
  static const char *const names[] = {NULL, "bfloat16", "float16", "float32"};
  return choice ? names[choice] : none;
}

static const char *dtype(const settings_run *run, char room[ROOM]) {
  (void)room;
  return type_name(run->want->dtype, "bfloat16");
}

// torchtune uses the same words as plimsoll.
static const char *short_dtype(const settings_run *run, char room[ROOM]) {
  (void)room;
  return job_dtypes[run->want->dtype ? run->want->dtype : 1];
}

// The type in which bitsandbytes multiplies.
static const char *compute_dtype(const settings_run *run, char room[ROOM]) {
  (void)room;
  return type_name(run->want->amp ? run->want->amp : run->want->dtype, "bfloat16");
}

static const char *mixed(const settings_run *run, char room[ROOM]) {
  (void)room;
  return run->want->amp ? job_amps[run->want->amp] : "no";
}

static const char *precision(const settings_run *run, char room[ROOM]) {
  static const char *const mixed_names[] = {NULL, "bf16-mixed", "16-mixed"};
  static const char *const pure[] = {"bf16-true", "bf16-true", "16-true", "32-true"};
  (void)room;
  return run->want->amp ? mixed_names[run->want->amp] : pure[run->want->dtype];
}

static const char *attention(const settings_run *run, char room[ROOM]) {
  const char *name = plim_attention_names[run->want->attention];
  (void)room;
  return strcmp(name, "flash") == 0 ? "flash_attention_2" : name;
}

static const char *conf(const settings_run *run, char room[ROOM]) {
  (void)room;
  const char *conf = run->want->alloc_conf;
  return conf && is_plain(conf, ":,[]") ? conf : NULL;
}

static const char *stage(const settings_run *run, char room[ROOM]) {
  int strategy = run->want->strategy;
  bool is_zero = strategy >= PLIM_SHARD_ZERO1 && strategy <= PLIM_SHARD_ZERO3;
  return is_zero ? number((uint64_t)(strategy - PLIM_SHARD_ZERO1 + 1), room) : NULL;
}

// ---- lists ------------------------------------------------------------------------------------------

// A list with commas, with each item between quotes or as it is: ["q_proj", "v_proj"].
static const char *listed(const char *list, const char *quote, char room[ROOM]) {
  size_t used = 0;
  if (!list || !is_plain(list, ",")) return NULL;
  used += (size_t)snprintf(room + used, ROOM - used, "[");
  for (const char *at = list; *at;) {
    size_t n = strcspn(at, ",");
    used += (size_t)snprintf(room + used, ROOM - used, "%s%s%.*s%s", at == list ? "" : ", ", quote,
                             (int)n, at, quote);
    if (used + 2 > ROOM) return NULL;
    at += n + (at[n] == ',');
  }
  snprintf(room + used, ROOM - used, "]");
  return room;
}

static bool is_named(const char *targets) {
  return targets && strcmp(targets, "all-linear") != 0 && strcmp(targets, JOB_PEFT_TARGETS) != 0;
}

static const char *named_targets(const settings_run *run) {
  return run->want->lora_rank && is_named(run->want->lora_targets) ? run->want->lora_targets : NULL;
}

// The modules of attention among those that get adapters, in torchtune's words; the others have flags of their own.
static const char *attention_targets(const settings_run *run, char room[ROOM]) {
  static const char *const all = "q_proj,k_proj,v_proj,o_proj";
  const char *list = named_targets(run);
  char names[ROOM / 4] = "";
  if (!run->want->lora_rank) return NULL;
  for (const char *at = list ? list : all; *at;) {
    size_t n = strcspn(at, ","), used = strlen(names);
    bool is_output = n == 6 && strncmp(at, "o_proj", n) == 0;
    bool is_known = is_output || (n == 6 && at[1] == '_' && strchr("qkv", *at));
    if (is_known)
      snprintf(names + used, sizeof names - used, "%s%.*s", used ? "," : "",
               is_output ? 11 : (int)n, is_output ? "output_proj" : at);
    at += n + (at[n] == ',');
  }
  return listed(names, "", room);
}

static bool has_target(const settings_run *run, const char *name) {
  const char *list = named_targets(run);
  return list ? strstr(list, name) != NULL : run->want->lora_rank && strcmp(name, "lm_head") != 0;
}

static const char *targets(const settings_run *run, char room[ROOM]) {
  return listed(named_targets(run), "\"", room);
}

static const char *bare_targets(const settings_run *run, char room[ROOM]) {
  return listed(named_targets(run), "", room);
}

static const char *comma_targets(const settings_run *run, char room[ROOM]) {
  (void)room;
  const char *list = named_targets(run);
  return list && is_plain(list, ",") ? list : NULL;
}

static const char *saved(const settings_run *run, char room[ROOM]) {
  return listed(run->want->lora_saved, "\"", room);
}

static const char *comma_saved(const settings_run *run, char room[ROOM]) {
  (void)room;
  const char *list = run->want->lora_saved;
  return list && is_plain(list, ",") ? list : NULL;
}

static const char *excluded(const settings_run *run, char room[ROOM]) {
  return listed(run->want->lora_excluded, "\"", room);
}

static const char *layers(const settings_run *run, char room[ROOM]) {
  return listed(run->want->lora_layers, "", room);
}

static const char *bias(const settings_run *run, char room[ROOM]) {
  (void)room;
  return run->want->lora_bias ? plim_lora_bias_names[run->want->lora_bias] : NULL;
}

static const struct {
  const char *name;
  value_of *value;
} values[] = {
    {"model", model},
    {"builder", builder},
    {"tokenizer", tokenizer},
    {"model_type", type_of_model},
    {"attention_targets", attention_targets},
    {"batch", batch},
    {"accumulate", accumulate},
    {"seq", seq},
    {"world", world},
    {"nodes", nodes},
    {"each", each},
    {"rank", rank},
    {"alpha", alpha},
    {"dropout", dropout},
    {"bias", bias},
    {"targets", targets},
    {"bare_targets", bare_targets},
    {"comma_targets", comma_targets},
    {"saved", saved},
    {"comma_saved", comma_saved},
    {"layers", layers},
    {"excluded", excluded},
    {"dtype", dtype},
    {"short_dtype", short_dtype},
    {"compute_dtype", compute_dtype},
    {"mixed", mixed},
    {"precision", precision},
    {"attention", attention},
    {"conf", conf},
    {"stage", stage},
    {"projection_rank", rank_of_projection},
};

// ---- conditions -------------------------------------------------------------------------------------

static bool has_adapters(const settings_run *run) { return run->want->lora_rank; }
static bool is_4_bit(const settings_run *run) {
  return run->want->weights == PLIM_WEIGHTS_NF4 || run->want->weights == PLIM_WEIGHTS_NF4_DOUBLE;
}
static bool is_double(const settings_run *run) {
  return run->want->weights == PLIM_WEIGHTS_NF4_DOUBLE;
}
static bool is_8_bit(const settings_run *run) { return run->want->weights == PLIM_WEIGHTS_INT8; }
static bool is_quantised(const settings_run *run) { return is_4_bit(run) || is_8_bit(run); }
static bool is_prepared(const settings_run *run) {
  return is_quantised(run) && strcmp(job_prepares[run->want->prepare], "none") != 0;
}
static bool is_everywhere(const settings_run *run) {
  const char *list = run->want->lora_targets;
  return has_adapters(run) && (!list || strcmp(list, "all-linear") == 0);
}
static bool adapts_mlp(const settings_run *run) { return has_target(run, "up_proj"); }
static bool adapts_head(const settings_run *run) { return has_target(run, "lm_head"); }
static bool is_checkpointed(const settings_run *run) {
  return run->want->checkpoint || run->want->reentrant ||
         run->want->offload == JOB_OFFLOAD_CHECKPOINTS;
}
static bool is_reentrant(const settings_run *run) { return run->want->reentrant; }
static bool offloads_checkpoints(const settings_run *run) {
  return run->want->offload == JOB_OFFLOAD_CHECKPOINTS;
}
static bool offloads_optimizer(const settings_run *run) {
  return run->want->offload == JOB_OFFLOAD_OPTIMIZER ||
         run->want->offload == JOB_OFFLOAD_PARAMETERS;
}
static bool offloads_parameters(const settings_run *run) {
  return run->want->offload == JOB_OFFLOAD_PARAMETERS;
}
static bool offloads_activations(const settings_run *run) {
  return run->want->offload == JOB_OFFLOAD_ACTIVATIONS;
}
static bool is_fused_alone(const settings_run *run) {
  return run->want->loss == PLIM_LOSS_FUSED && !run->want->liger;
}
static bool is_in_eighths(const settings_run *run) { return run->want->loss == PLIM_LOSS_EIGHTHS; }
static bool is_listed(const settings_run *run) { return run->want->loss == PLIM_LOSS_LISTED; }
static bool steps_in_backward(const settings_run *run) { return run->want->in_backward; }
static bool is_bf16(const settings_run *run) { return run->want->amp == 1; }
static bool is_fp16(const settings_run *run) { return run->want->amp == 2; }
static bool is_loaded_in_bf16(const settings_run *run) { return run->want->dtype <= 1; }
static bool is_packed(const settings_run *run) {
  return strcmp(plim_mask_names[run->want->mask], "packed") == 0;
}
static bool adds_noise(const settings_run *run) { return run->want->noise; }
static bool clips(const settings_run *run) { return !run->want->no_clip; }
static bool is_dora(const settings_run *run) { return run->want->dora; }
static bool is_shared(const settings_run *run) { return run->want->strategy; }
static bool is_fsdp(const settings_run *run) { return run->want->strategy == PLIM_SHARD_FSDP2; }
static bool is_zero(const settings_run *run) { return run->want->strategy >= PLIM_SHARD_ZERO1; }
static bool is_zero_3(const settings_run *run) { return run->want->strategy == PLIM_SHARD_ZERO3; }
static bool is_ddp(const settings_run *run) { return run->want->strategy == PLIM_SHARD_DDP; }
static bool has_conf(const settings_run *run) { return run->want->alloc_conf; }
static bool has_nodes(const settings_run *run) { return run->want->nodes > 1; }
static bool keeps_full(const settings_run *run) { return run->want->no_reshard; }

static const struct {
  const char *name;
  bool (*holds)(const settings_run *run);
} conditions[] = {
    {"lora", has_adapters},
    {"4bit", is_4_bit},
    {"double", is_double},
    {"8bit", is_8_bit},
    {"quantised", is_quantised},
    {"prepared", is_prepared},
    {"everywhere", is_everywhere},
    {"adapted_mlp", adapts_mlp},
    {"adapted_head", adapts_head},
    {"checkpoint", is_checkpointed},
    {"reentrant", is_reentrant},
    {"offloaded_checkpoints", offloads_checkpoints},
    {"offloaded_optimizer", offloads_optimizer},
    {"offloaded_parameters", offloads_parameters},
    {"offloaded_activations", offloads_activations},
    {"fused_alone", is_fused_alone},
    {"eighths", is_in_eighths},
    {"listed", is_listed},
    {"in_backward", steps_in_backward},
    {"bf16", is_bf16},
    {"fp16", is_fp16},
    {"loaded_in_bf16", is_loaded_in_bf16},
    {"packed", is_packed},
    {"noise", adds_noise},
    {"clipped", clips},
    {"dora", is_dora},
    {"shared", is_shared},
    {"fsdp", is_fsdp},
    {"zero", is_zero},
    {"zero3", is_zero_3},
    {"ddp", is_ddp},
    {"conf", has_conf},
    {"several_nodes", has_nodes},
    {"keeps_full", keeps_full},
};

// ---- templates --------------------------------------------------------------------------------------

static bool is_word(const char *word, size_t n, const char *name) {
  return strlen(name) == n && memcmp(word, name, n) == 0;
}

static bool holds(const settings_run *run, const char *word, size_t n) {
  for (size_t i = 0; i < sizeof conditions / sizeof *conditions; i++)
    if (is_word(word, n, conditions[i].name)) return conditions[i].holds(run);
  return false;
}

static const char *value_named(const settings_run *run, const char *word, size_t n,
                               char room[ROOM]) {
  for (size_t i = 0; i < sizeof values / sizeof *values; i++)
    if (is_word(word, n, values[i].name)) return values[i].value(run, room);
  return NULL;
}

bool settings_word_is_known(const char *word, size_t n) {
  bool is_condition = n && (*word == '?' || *word == '!');
  for (size_t i = 0; !is_condition && i < sizeof values / sizeof *values; i++)
    if (is_word(word, n, values[i].name)) return true;
  for (size_t i = 0; is_condition && i < sizeof conditions / sizeof *conditions; i++)
    if (is_word(word + 1, n - 1, conditions[i].name)) return true;
  return false;
}

// The length of a line with its line break.
static size_t line_length(const char *line) {
  size_t n = strcspn(line, "\n");
  return n + (line[n] == '\n');
}

// Prints a line; returns false if it has to be left out, whatever was printed.
static bool print_line(FILE *out, const settings_run *run, const char *line, size_t size) {
  char room[ROOM];
  for (const char *at = line, *end = line + size; at < end;) {
    const char *stop = *at == '<' ? memchr(at, '>', (size_t)(end - at)) : NULL;
    const char *word = at + 1;
    if (!stop) {
      fputc(*at++, out);
      continue;
    }
    at = stop + 1;
    if (*word == '?' || *word == '!') {
      if (holds(run, word + 1, (size_t)(stop - word - 1)) != (*word == '?')) return false;
      continue;
    }
    const char *value = value_named(run, word, (size_t)(stop - word), room);
    if (!value) return false;
    fputs(value, out);
  }
  return true;
}

static bool add_line(FILE *out, const settings_run *run, const char *line, size_t size) {
  char *text = NULL;
  size_t length = 0;
  FILE *one = open_memstream(&text, &length);
  if (!one) return false;
  bool stays = print_line(one, run, line, size), is_whole = plim_stream_end(one, &text);
  if (is_whole && stays) fwrite(text, 1, length, out);
  free(text);
  return is_whole;
}

plim_err settings_fill(const char *text, const settings_run *run, char **out, plim_error *error) {
  size_t length = 0;
  *out = NULL;
  FILE *all = open_memstream(out, &length);
  bool is_whole = all != NULL;
  for (const char *line = text; is_whole && *line; line += line_length(line))
    is_whole = add_line(all, run, line, line_length(line));
  bool has_ended = all && plim_stream_end(all, out);
  if (has_ended && is_whole) return PLIM_OK;
  if (has_ended) free(*out);
  *out = NULL;
  return plim_no_memory(error);
}
