// Runs the pre-flight list on a machine and files that a test describes.
#ifndef PLIM_TESTS_CHECKING_H
#define PLIM_TESTS_CHECKING_H

#include "check.h"

#include <stdlib.h>

#include "folder.h"
#include "test.h"

static check c;
static plim_error error;
static const char *cuda_conf, *conf, *visible;
static char paths[8][256];
static const char *files[8];
static size_t file_count;

static inline char *environment(const char *name) {
  const char *value = strcmp(name, "PYTORCH_CUDA_ALLOC_CONF") == 0 ? cuda_conf
                      : strcmp(name, "PYTORCH_ALLOC_CONF") == 0    ? conf
                      : strcmp(name, "CUDA_VISIBLE_DEVICES") == 0  ? visible
                                                                   : NULL;
  return (char *)value;
}

// A machine with 64 GiB of memory, half of it as /dev/shm, no card, and no settings.
static inline void begin(void) {
  check_clear(&c);
  c = (check){.root = "",
              .environment = environment,
              .machine = {.total_bytes = 64 * PLIM_GIB,
                          .available_bytes = 60 * PLIM_GIB,
                          .limit_bytes = PLIM_UNKNOWN,
                          .limit_used_bytes = PLIM_UNKNOWN,
                          .shm_total_bytes = 32 * PLIM_GIB,
                          .shm_free_bytes = 32 * PLIM_GIB,
                          .locked_bytes = PLIM_UNKNOWN}};
  cuda_conf = conf = visible = NULL;
  file_count = 0;
  folder_make();
}

static inline void given(const char *name, const char *text) {
  folder_write_text(name, text);
  snprintf(paths[file_count], sizeof paths[0], "%s", folder_path(name));
  files[file_count] = paths[file_count];
  file_count++;
}

static inline bool go(void) {
  plim_err err = check_read(&c, &(project_input){.files = files, .count = file_count}, &error);
  if (!err) check_all(&c, NULL);
  else printf("%s: %s\n", error.file, error.message);
  folder_remove();
  return !err;
}

// If this is inlined, GCC 12 warns about a NULL finding, which CHECK_FOUND excludes.
__attribute__((noinline, unused)) static const check_finding *found(const char *id) {
  for (size_t i = 0; i < c.findings.len; i++)
    if (strcmp(c.findings.at[i].id, id) == 0) return &c.findings.at[i];
  return NULL;
}

static inline void print_findings(void) {
  for (size_t i = 0; i < c.findings.len; i++)
    printf("  %d %s: %s\n", c.findings.at[i].severity, c.findings.at[i].id, c.findings.at[i].what);
}

#define GO() CHECK(go(), "not read")
#define CHECK_FOUND(id_, severity_)                                                                \
  do {                                                                                             \
    const check_finding *f_ = found(id_);                                                          \
    if (!f_ || f_->severity != (severity_)) print_findings();                                      \
    CHECK(f_ != NULL, "no %s", id_);                                                               \
    CHECK(f_->severity == (severity_), "%s: severity %d", id_, f_->severity);                      \
    bool is_explained_ = f_->severity < CHECK_WARNING || *f_->why;                                 \
    CHECK(is_explained_, "%s does not say why it matters", id_);                                   \
    CHECK(f_->severity < CHECK_WARNING || *f_->fix, "%s does not say what to type", id_);          \
  } while (0)
#define CHECK_NOT_FOUND(id_)                                                                       \
  do {                                                                                             \
    if (found(id_)) print_findings();                                                              \
    CHECK(!found(id_), "there is %s", id_);                                                        \
  } while (0)
#define CHECK_SAYS(text_, part_)                                                                   \
  CHECK(strstr(text_, part_) != NULL, "\"%s\" does not say \"%s\"", text_, part_)

__attribute__((unused)) static const char trainer[] =
    "from transformers import TrainingArguments\n"
    "args = TrainingArguments(output_dir='o',\n"
    "    per_device_train_batch_size=2, gradient_accumulation_steps=8,\n"
    "    bf16=True, learning_rate=1e-5)\n";

static inline void put_card(uint64_t free_mib) {
  c.cards[c.card_count] = (plim_card){.index = (unsigned)c.card_count,
                                      .name = "NVIDIA GeForce RTX 4090",
                                      .total_bytes = 24564 * PLIM_MIB,
                                      .free_bytes = free_mib * PLIM_MIB,
                                      .used_bytes = (24564 - free_mib) * PLIM_MIB};
  c.card_count++;
}

static const char sharded[] = "base_model: gpt2\nmicro_batch_size: %d\nsequence_len: 512\n"
                              "datasets:\n  - path: x\n%s";

static inline void given_axolotl(int micro, const char *rest) {
  char text[512];
  snprintf(text, sizeof text, sharded, micro, rest);
  given("train.yaml", text);
}

static inline void given_torchtune(int steps) {
  char text[512];
  snprintf(text, sizeof text,
           "model:\n  _component_: torchtune.models.llama3.llama3_8b\n"
           "optimizer:\n  _component_: torch.optim.AdamW\n  lr: 2e-5\n"
           "batch_size: 2\ngradient_accumulation_steps: %d\noptimizer_in_bwd: True\n",
           steps);
  given("full.yaml", text);
}

#endif
