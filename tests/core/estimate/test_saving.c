// Ways to save memory, on a small model: what they move to the host or avoid, and what is known about them.
#include "families.h"
#include "job.h"
#include "test.h"
#include "unverified.h"

static const struct {
  const char *key;
  double value;
} tiny[] = {
    {"hidden_size", 512},       {"intermediate_size", 1024},      {"num_hidden_layers", 2},
    {"num_attention_heads", 8}, {"num_key_value_heads", 4},       {"vocab_size", 4096},
    {"head_dim", 64},           {"max_position_embeddings", 512}, {"tie_word_embeddings", 0},
};

// CHECK cannot be used here, because it returns without a value.
static plim_job job_of(const char *model_type, const char *optimizer) {
  plim_job job = {.dtype = PLIM_BF16,
                  .recipe = {.batch = 2,
                             .length = 256,
                             .steps = 2,
                             .optimizer = plim_optimizer_named(optimizer),
                             .autocast = PLIM_BOOL}};
  if (plim_config_init(&job.model, model_type, NULL)) test_failed = true;
  for (size_t i = 0; i < sizeof tiny / sizeof *tiny; i++)
    plim_config_number(&job.model, tiny[i].key, tiny[i].value);
  if (plim_config_finish(&job.model, NULL)) test_failed = true;
  return job;
}

static plim_job job_new(const char *optimizer) { return job_of("llama", optimizer); }

typedef struct {
  uint64_t now, peak;
} card;

static void count(void *context, plim_stream_kind kind, uint32_t id, uint64_t bytes) {
  card *c = context;
  (void)id;
  c->now = kind == PLIM_STREAM_ALLOC ? c->now + bytes : c->now - bytes;
  if (c->now > c->peak) c->peak = c->now;
}

typedef struct {
  uint64_t card_peak, host_peak,
      paged; // elements of parameters that are large enough to be paged
} outcome;

static outcome run(const plim_job *job) {
  card c = {0};
  outcome o = {0};
  plim_tape *t = plim_tape_new((plim_tape_sink){count, &c});
  plim_model *m = plim_job_load(t, job);
  if (!m || !plim_train(t, m, &job->recipe)) test_failed = true;
  for (size_t i = 0; m && i < m->parameters.len; i++) {
    uint64_t n = (uint64_t)plim_numel(&m->parameters.at[i]->shape);
    if (n >= 100000) o.paged += n;
  }
  o.card_peak = c.peak;
  o.host_peak = plim_tape_host_peak(t);
  plim_model_delete(m);
  plim_tape_delete(t);
  return o;
}

TEST(optimizers_have_names_and_trainers_names) {
  static const char *const names[] = {
      "adamw_torch",
      "adamw_torch_fused",
      "adamw_bnb_8bit",
      "paged_adamw_8bit",
      "paged_adamw_32bit",
      "lion_32bit",
      "lion_8bit",
      "sgd",
      "adafactor",
      "lion",
      "adamw",
  };
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    CHECK(plim_optimizer_named(names[i]), "%s", names[i]);
  for (size_t i = 0; plim_optimizer_name(i); i++)
    CHECK(plim_optimizer_named(plim_optimizer_name(i)), "%s", plim_optimizer_name(i));
  CHECK(!plim_optimizer_named("adamw_9bit"), "unknown");
}

TEST(paged_states_are_on_the_host) {
  plim_job job = job_new("paged_adamw_8bit");
  outcome o = run(&job);
  CHECK_U64(o.host_peak, 2 * o.paged);
  job = job_new("paged_adamw_32bit");
  CHECK_U64(run(&job).host_peak, 8 * o.paged);
  job = job_new("adamw-8bit");
  CHECK_U64(run(&job).host_peak, 0);
}

TEST(offloaded_activations_leave_the_card) {
  plim_job job = job_new("sgd");
  outcome plain = run(&job);
  job.recipe.saving = PLIM_SAVED_ON_HOST;
  outcome saved = run(&job);
  CHECK(saved.card_peak < plain.card_peak && saved.host_peak > 0, "saved on the host");
  job.recipe.saving = PLIM_SAVED_HERE;
  job.recipe.checkpoint = PLIM_CHECKPOINT_REENTRANT;
  outcome checkpointed = run(&job);
  job.recipe.checkpoint = PLIM_CHECKPOINT_OFFLOADED;
  outcome layers = run(&job);
  CHECK(layers.card_peak <= checkpointed.card_peak, "checkpoints on the host");
  CHECK_U64(layers.host_peak, 2 * 2 * 256 * 512 * 2); // the input of each layer
}

// With flash-attn, packed samples are put one after another: StableLM's rotated queries and keys are copied for it, and then
// the result needs no copy; those of Llama already lie so.
TEST(packed_samples_lie_one_after_another) {
  static const struct {
    const char *model_type;
    uint64_t kept; // per layer
  } cases[] = {{"llama", 0}, {"stablelm", 2 * 256 * 512 * 2}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    plim_job job = job_of(cases[i].model_type, "sgd");
    job.recipe.attention = PLIM_ATTENTION_FLASH;
    uint64_t rows = run(&job).card_peak, small = 1 << 14;
    job.recipe.mask = PLIM_MASK_PACKED;
    uint64_t packed = run(&job).card_peak, least = rows - 2 * cases[i].kept;
    CHECK(packed + small > least && packed < least + small, "%s: %llu and %llu",
          cases[i].model_type, (unsigned long long)rows, (unsigned long long)packed);
  }
}

TEST(losses_without_all_logits_need_less) {
  plim_job job = job_new("sgd");
  outcome full = run(&job);
  job.recipe.loss = PLIM_LOSS_FUSED;
  CHECK(run(&job).card_peak < full.card_peak, "fused");
  job.recipe.loss = PLIM_LOSS_CHUNKED;
  job.recipe.loss_chunk = 64;
  CHECK(run(&job).card_peak < full.card_peak, "chunked");
}

TEST(unmeasured_parts_are_reported) {
  const char *reasons[1] = {NULL};
  plim_job job = job_new("adamw");
  CHECK_U64(plim_job_unverified(&job, reasons, 1), 0);
  job.recipe.is_trainer = true;
  job.recipe.saving = PLIM_SAVED_ON_HOST;
  CHECK_U64(plim_job_unverified(&job, reasons, 1), 1);
  CHECK(reasons[0] && *reasons[0], "a reason in words");
  CHECK_U64(plim_job_unverified(&job, NULL, 0), 1);
}

TEST_MAIN
