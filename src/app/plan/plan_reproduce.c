// Builds the estimate command that reproduces the plan's numbers, so that anyone can check them. It is run before it is
// shown; if a setting that matters has no option, there is no command, and the reason is given.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "job_effects.h"
#include "option_values.h"
#include "plan_json.h"
#include "quoting.h"

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

// Trainer loads in parts on its own.
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

enum { TABLES_BYTES = 96 };

// Texts that the arguments refer to.
typedef struct {
  char tables[TABLES_BYTES];
  plim_packages_name packages;
  plim_versions_name versions;
} arg_texts;

static job_args args_of(const plan_result *r, const plan_for_card *c, const plim_choice *x,
                        arg_texts *texts) {
  plim_job job = plim_choice_job(&c->asked, x);
  const char *conf = plim_choice_conf(&c->asked, x);
  job_args a = JOB_DEFAULTS;
  a.model = r->args->model;
  a.head = r->args->head;
  a.labels = r->args->labels;
  a.gpu = *c->gpu ? c->gpu : NULL;
  a.limit_bytes = r->args->limit_bytes;
  a.alloc_conf = *conf ? conf : NULL;
  a.dtype = place_of(job_dtypes, type_name(job.dtype));
  a.amp = amp_of(&job);
  a.weights = (int)job.weights;
  a.qat = r->args->qat;
  a.load = load_of(&job);
  const char *prepares = job.returns_ends ? "axolotl" : "none";
  if (job.weights && (job.returns_ends || !job.prepares_kbit))
    a.prepare = place_of(job_prepares, prepares);
  take_recipe(&job, r->args, &a);
  a.lengths = r->args->lengths;
  texts->packages = plim_packages_words(job.packages);
  if (job.packages) a.packages = texts->packages.text;
  texts->versions = plim_versions_words(&job.versions);
  if (*texts->versions.text) a.versions = texts->versions.text;
  take_adapters(&job, r->args, &c->request, &a);
  take_trained(&job, r->args, &a);
  take_sharding(&job, r->args, &a);
  a.is_torchtune = job.is_torchtune;
  job_describe_tables(&job, texts->tables, sizeof texts->tables);
  if (*texts->tables) a.rope_tables = texts->tables;
  return a;
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

static bool is_default(const cli_option *o, const void *at, const void *was) {
  switch (o->kind) {
  case CLI_FLAG: return !*(const bool *)at;
  case CLI_UINT:
  case CLI_BYTES: return *(const uint64_t *)at == *(const uint64_t *)was;
  case CLI_NUMBER: return *(const double *)at == *(const double *)was;
  case CLI_CHOICE: return *(const int *)at == *(const int *)was;
  default: break;
  }
  const char *text = *(const char *const *)at, *usual = *(const char *const *)was;
  return !text || (usual && strcmp(text, usual) == 0);
}

// The command line; NULL if memory runs out.
static char *command_of(const job_args *a) {
  static const job_args usual = JOB_DEFAULTS;
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  if (!out) return NULL;
  fputs("plimsoll estimate", out);
  for (const cli_option *o = job_own_options; o->name; o++) {
    const char *at = (const char *)a + o->offset, *was = (const char *)&usual + o->offset;
    if (is_default(o, at, was)) continue;
    fprintf(out, " --%s", o->name);
    if (o->kind == CLI_FLAG) continue;
    fputc(' ', out);
    put_value(out, o, at);
  }
  return plim_stream_end(out, &text) ? text : NULL;
}

// ---- options as a request ---------------------------------------------------------------------------

static void put_member(json_writer *j, const cli_option *o, const void *at) {
  char name[64];
  cli_member_name(o, name, sizeof name);
  switch (o->kind) {
  case CLI_FLAG: jsonw_bool(j, name, true); break;
  case CLI_UINT:
  case CLI_BYTES: jsonw_u64(j, name, *(const uint64_t *)at); break;
  case CLI_NUMBER: jsonw_number(j, name, *(const double *)at); break;
  case CLI_CHOICE: jsonw_string(j, name, o->choices[*(const int *)at]); break;
  default: jsonw_string(j, name, *(const char *const *)at); break;
  }
}

void plan_write_request(json_writer *j, const plan_result *r, const plan_for_card *c,
                        const plim_choice *choice) {
  static const job_args usual = JOB_DEFAULTS;
  arg_texts texts;
  job_args a = args_of(r, c, choice, &texts);
  jsonw_object(j, "request");
  for (const cli_option *o = job_own_options; o->name; o++) {
    const char *at = (const char *)&a + o->offset, *was = (const char *)&usual + o->offset;
    if (!is_default(o, at, was)) put_member(j, o, at);
  }
  jsonw_end(j);
}

// ---- whether it says the same -----------------------------------------------------------------------

// The setting of the files that has no option; NULL if there is none.
static const char *without_option(const job_args *own, const plim_job *job) {
  static const plim_zero_sizes usual = {0};
  bool has_sizes = memcmp(&own->zero_sizes, &usual, sizeof usual) != 0;
  if (job->recipe.reaches_towers && job->model.outer) return "batches with images";
  if (job->recipe.empties_cache) return "the cache that Axolotl's DPO empties after each pass";
  if (own->through_accelerate && own->strategy == PLIM_SHARD_FSDP2) return "accelerate's FSDP";
  if (job->left_plain && job->weights != PLIM_WEIGHTS_PLAIN)
    return "layers that are not quantised with the others";
  if (job->leaves_tables && job->weights != PLIM_WEIGHTS_PLAIN) return "embeddings_skip_upcast";
  if (job->returns_tables && job->weights != PLIM_WEIGHTS_PLAIN)
    return "the embeddings that TRL's DPO returns to bf16";
  if (own->quantises_experts && job->returns_ends) return "quantize_moe_experts";
  if (own->widens_ends && !own->lora_rank) return "Axolotl's float32 embeddings";
  if (has_sizes) return "DeepSpeed's bucket sizes";
  if (own->overlaps) return "DeepSpeed's overlap_comm";
  if (own->own_parts) return "custom_sharded_layers";
  if (own->through_accelerate) return "accelerate's training loop";
  if (own->is_pairwise) return "a loss that compares texts of one sample";
  if (job->lora.leaves_towers) return "adapters that leave out what sees images";
  if (own->wraps_layers) return "FSDP's activation checkpointing";
  return "something in these files";
}

static bool is_same(const plim_estimate *a, const plim_estimate *b) {
  return a->p.peak_allocated_bytes == b->p.peak_allocated_bytes &&
         a->p.peak_reserved_bytes == b->p.peak_reserved_bytes && a->fits == b->fits;
}

static plim_err predict(const job_request *request, int passes, plim_estimate *out) {
  plim_job job = request->job;
  if (job.recipe.accumulate > passes) job.recipe.accumulate = passes;
  return plim_estimate_make(&job, &request->target, out, NULL);
}

// The plan has not run all passes, but the command does. Runs them all and puts the result into the plan too.
static plim_err settle(const plim_plan_request *asked, const job_request *request, plim_rung *x) {
  plim_estimate all;
  int passes = request->job.recipe.accumulate;
  if (passes <= PLIM_SHOWN_PASSES) return PLIM_OK;
  plim_err err = predict(request, passes, &all);
  if (err) return err;
  bool is_sure = asked->margin >= 0 || all.interval_bytes[1] <= all.budget_bytes;
  if (all.has_verdict && !(all.fits && is_sure)) return PLIM_ERR_UNSUPPORTED;
  x->e = all;
  return PLIM_OK;
}

// Whether the command predicts the same as the plan: PLIM_ERR_NOMEM, or any other error if it does not.
static plim_err check_reproduces(const plim_plan_request *asked, const job_args *a, plim_rung *x) {
  job_request *request = calloc(1, sizeof *request);
  const char *source;
  plim_estimate e;
  if (!request) return PLIM_ERR_NOMEM;
  plim_err err = job_understand(a, a, request, &source, NULL);
  if (!err) err = predict(request, PLIM_SHOWN_PASSES, &e);
  if (!err && !is_same(&e, &x->e)) err = PLIM_ERR_UNSUPPORTED;
  if (!err) err = settle(asked, request, x);
  job_request_clear(request);
  free(request);
  return err;
}

plim_err plan_reproduce(const plan_result *r, plan_for_card *c, plim_error *error) {
  if (!c->plan.rungs.len) return PLIM_OK;
  plim_rung *x = &c->plan.rungs.at[0];
  arg_texts texts;
  job_args a = args_of(r, c, &x->choice, &texts);
  plim_err err = check_reproduces(&c->asked, &a, x);
  if (!err && !(c->reproduce = command_of(&a))) err = PLIM_ERR_NOMEM;
  if (err == PLIM_ERR_NOMEM) return plim_no_memory(error);
  if (err) c->no_reproduce = without_option(r->args, &c->request.job);
  return PLIM_OK;
}
