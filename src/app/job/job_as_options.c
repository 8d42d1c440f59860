#include "job_as_options.h"

#include <stdlib.h>
#include <string.h>

#include "option_values.h"
#include "quoting.h"
#include "unverified.h"

// ---- a job as its options ---------------------------------------------------------------------------

static int place_of(const char *const *names, const char *name) {
  for (int i = 0; names[i]; i++)
    if (strcmp(names[i], name) == 0) return i;
  return 0;
}

static const char *type_name(plim_dtype dtype) {
  return dtype == PLIM_BF16 ? "bf16" : dtype == PLIM_FP16 ? "fp16" : "fp32";
}

static int amp_of(const plim_job *job) {
  plim_dtype type = job->recipe.autocast != PLIM_BOOL            ? job->recipe.autocast
                    : job->sharding.strategy == PLIM_SHARD_FSDP2 ? job->sharding.compute_dtype
                                                                 : PLIM_BOOL;
  return type == PLIM_BOOL ? 0 : place_of(job_amps, type_name(type));
}

static int offload_of(const plim_job *job) {
  const char *what = job->recipe.checkpoint == PLIM_CHECKPOINT_OFFLOADED ? "checkpoints"
                     : job->recipe.saving                                ? "activations"
                     : job->sharding.offloads_parameters                 ? "parameters"
                     : job->sharding.offloads_optimizer                  ? "optimizer"
                                                                         : "none";
  return place_of(job_offloads, what);
}

// Trainer loads the model in parts without being told.
static int load_of(const plim_job *job) {
  static const char *const names[] = {[PLIM_LOAD_INIT] = "init",
                                      [PLIM_LOAD_PRETRAINED] = "pretrained",
                                      [PLIM_LOAD_DEVICE_MAP] = "device-map",
                                      [PLIM_LOAD_SHARDED] = "sharded"};
  bool is_seen_to = job->load == PLIM_LOAD_SHARDED && job->recipe.is_trainer;
  return is_seen_to ? 0 : place_of(job_loads, names[job->load]);
}

static const char *optimizer_of(const plim_recipe *c) {
  const char *name;
  for (size_t i = 0; (name = plim_optimizer_name(i)); i++)
    if (plim_optimizer_named(name) == c->optimizer) return name;
  return "adamw";
}

static void take_recipe(const plim_job *job, const job_args *own, job_args *a) {
  const plim_recipe *c = &job->recipe;
  bool is_contrastive = c->loss == PLIM_LOSS_CONTRASTIVE;
  a->batch = (uint64_t)c->batch;
  a->seq = (uint64_t)c->length;
  a->target_seq = (uint64_t)c->target_length;
  a->accumulate = c->accumulate > 1 ? (uint64_t)c->accumulate : 1;
  a->steps = (uint64_t)c->steps;
  a->optimizer = optimizer_of(c);
  a->attention = (int)c->attention;
  a->mask = (int)c->mask;
  a->checkpoint = c->checkpoint == PLIM_CHECKPOINT_ON;
  a->reentrant = c->checkpoint == PLIM_CHECKPOINT_REENTRANT;
  a->loss = (int)c->loss;
  if (c->loss == PLIM_LOSS_CHUNKED || c->loss == PLIM_LOSS_LOOP)
    a->loss_chunk = (uint64_t)c->loss_chunk;
  a->columns = is_contrastive ? (uint64_t)c->columns : 0;
  a->cached_batch = is_contrastive ? (uint64_t)c->cached_batch : 0;
  a->pooling = is_contrastive ? (int)c->pooling : 0;
  a->method = (int)c->method;
  if (plim_method_has_reference(c->method)) a->reference = 1 + (int)c->reference;
  if (plim_method_compares(c->method) && c->method != PLIM_METHOD_REWARD &&
      c->answers[0] < c->length - 1)
    a->answer_seq = (uint64_t)c->answers[0];
  if (c->distils) a->teacher = own->teacher;
  a->liger = c->uses_liger;
  a->no_clip = c->skips_clipping;
  a->noise = c->adds_noise;
  a->in_backward = c->steps_in_backward;
  a->projected = c->projection.names;
  a->projection_rank = (uint64_t)c->projection.rank;
  a->delete_outputs = c->deletes_outputs;
  bool has_own_loop = c->method == PLIM_METHOD_DPO_TUNE;
  a->loop = place_of(job_loops, has_own_loop         ? "manual"
                                : c->is_trainer      ? "trainer"
                                : c->is_bare         ? "bare"
                                : c->keeps_only_loss ? "loss-only"
                                                     : "manual");
}

static void take_trained(const plim_job *job, const job_args *own, job_args *a) {
  if (!job->trained.names || job->lora.rank) return;
  a->trained = job->trained.names;
  a->trained_by = own->trained_by;
}

static void take_adapters(const plim_job *job, const job_args *own, const job_request *r,
                          job_args *a) {
  if (!job->lora.rank) return;
  a->lora_rank = (uint64_t)job->lora.rank;
  a->lora_dropout = job->lora.dropout;
  a->lora_dtype = job->lora.casts_bf16 ? ADAPTERS_CAST : job->lora.keeps_dtype ? ADAPTERS_KEPT : 0;
  a->lora_saved = job->lora.saved;
  a->lora_layers = job->lora.layers;
  a->lora_excluded = job->lora.excluded;
  a->lora_bias = (int)job->lora.bias;
  a->dora = job->lora.uses_dora;
  bool is_everywhere = !own->lora_rank || strcmp(job_lora_targets(own, r), "all-linear") == 0;
  if (!is_everywhere) a->lora_targets = job_lora_targets(own, r);
}

static void take_sharding(const plim_job *job, const job_args *own, job_args *a) {
  const plim_sharding *s = &job->sharding;
  a->strategy = (int)s->strategy;
  a->offload = offload_of(job);
  if (job->recipe.saving) a->offload_with = (int)(job->recipe.saving - PLIM_SAVED_ON_HOST);
  if (!s->strategy) return;
  a->world = (uint64_t)s->world;
  a->nodes = s->nodes ? (uint64_t)s->nodes : 1;
  a->link = own->link;
  a->network = own->network;
  a->no_reshard = s->keeps_full;
  a->bucket_views = s->has_bucket_views && s->strategy == PLIM_SHARD_DDP;
  bool is_own = s->strategy == PLIM_SHARD_FSDP2 && !s->is_by_accelerate;
  a->reduce_dtype = is_own && amp_of(job) && s->reduce_dtype == PLIM_BF16;
}

job_args job_as_options(const job_described *d, job_option_texts *texts) {
  const plim_job *job = d->job;
  job_args a = JOB_DEFAULTS;
  a.model = d->own->model;
  a.head = d->own->head;
  a.labels = d->own->labels;
  a.gpu = *d->gpu ? d->gpu : NULL;
  a.limit_bytes = d->own->limit_bytes;
  a.alloc_conf = *d->conf ? d->conf : NULL;
  a.dtype = place_of(job_dtypes, type_name(job->dtype));
  a.amp = amp_of(job);
  a.weights = (int)job->weights;
  a.qat = d->own->qat;
  a.load = load_of(job);
  const char *prepares = job->returns_ends ? "axolotl" : "none";
  if (job->weights && (job->returns_ends || !job->prepares_kbit))
    a.prepare = place_of(job_prepares, prepares);
  take_recipe(job, d->own, &a);
  a.lengths = d->own->lengths;
  texts->packages = plim_packages_words(job->packages);
  if (job->packages) a.packages = texts->packages.text;
  texts->versions = plim_versions_words(&job->versions);
  if (*texts->versions.text) a.versions = texts->versions.text;
  take_adapters(job, d->own, d->request, &a);
  take_trained(job, d->own, &a);
  take_sharding(job, d->own, &a);
  a.is_torchtune = job->is_torchtune;
  job_describe_tables(job, texts->tables, sizeof texts->tables);
  if (*texts->tables) a.rope_tables = texts->tables;
  return a;
}

const char *job_setting_without_option(const job_args *own, const plim_job *job) {
  static const plim_zero_sizes usual = {0};
  bool has_sizes = memcmp(&own->zero_sizes, &usual, sizeof usual) != 0;
  if (job->recipe.reaches_towers && job->model.outer) return "batches with images";
  if (job->recipe.empties_cache) return "the cache that Axolotl's DPO empties after each pass";
  if (own->through_accelerate && own->strategy == PLIM_SHARD_FSDP2) return "accelerate's FSDP";
  if (job->left_plain && job->weights != PLIM_WEIGHTS_PLAIN)
    return "layers that are not quantised with the others";
  if (job->leaves_tables && job->weights != PLIM_WEIGHTS_PLAIN) return "embeddings_skip_upcast";
  if (job->returns_tables && job->weights != PLIM_WEIGHTS_PLAIN)
    return "the embeddings that TRL returns to bf16";
  if (own->quantises_experts && job->returns_ends) return "quantize_moe_experts";
  if (own->widens_ends && !own->lora_rank) return "Axolotl's float32 embeddings";
  if (has_sizes) return "DeepSpeed's bucket sizes";
  if (own->overlaps || (own->sends_in_turn && job->sharding.strategy == PLIM_SHARD_ZERO3))
    return "DeepSpeed's overlap_comm";
  if (plim_job_copies_pageable(job)) return "pin_memory";
  if (own->syncs_passes) return "sync_each_batch";
  if (own->own_parts) return "custom_sharded_layers";
  if (own->through_accelerate) return "accelerate's training loop";
  if (own->is_pairwise) return "a loss that compares texts of one sample";
  if (job->lora.leaves_towers) return "adapters that leave out what sees images";
  if (own->wraps_layers) return "FSDP's activation checkpointing";
  return NULL;
}

// ---- options as a command ---------------------------------------------------------------------------

static void put_value(FILE *out, const cli_option *o, const void *at) {
  switch (o->kind) {
  case CLI_UINT:
  case CLI_BYTES: fprintf(out, "%llu", (unsigned long long)*(const uint64_t *)at); break;
  case CLI_NUMBER: fprintf(out, "%g", *(const double *)at); break;
  case CLI_CHOICE: fputs(o->choices[*(const int *)at], out); break;
  default: plim_shell_quote(out, *(const char *const *)at); break;
  }
}

bool job_option_is_usual(const cli_option *o, const job_args *a) {
  static const job_args usual = JOB_DEFAULTS;
  return job_option_is_same(o, a, &usual);
}

bool job_option_is_same(const cli_option *o, const job_args *a, const job_args *b) {
  const void *at = (const char *)a + o->offset, *was = (const char *)b + o->offset;
  switch (o->kind) {
  case CLI_FLAG: return *(const bool *)at == *(const bool *)was;
  case CLI_UINT:
  case CLI_BYTES: return *(const uint64_t *)at == *(const uint64_t *)was;
  case CLI_NUMBER: return *(const double *)at == *(const double *)was;
  case CLI_CHOICE: return *(const int *)at == *(const int *)was;
  default: break;
  }
  const char *text = *(const char *const *)at, *other = *(const char *const *)was;
  return text && other ? strcmp(text, other) == 0 : !text && !other;
}

char *job_command_line(const job_args *a) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  if (!out) return NULL;
  fputs("plimsoll estimate", out);
  for (const cli_option *o = job_own_options; o->name; o++) {
    const char *at = (const char *)a + o->offset;
    if (job_option_is_usual(o, a)) continue;
    fprintf(out, " --%s", o->name);
    if (o->kind == CLI_FLAG) continue;
    fputc(' ', out);
    put_value(out, o, at);
  }
  return plim_stream_end(out, &text) ? text : NULL;
}
