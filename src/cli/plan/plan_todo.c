// What is left to do outside of configurations: the environment, packages, lines of code.
#include <stdio.h>
#include <string.h>

#include "plan_show.h"

static bool is_turned_on(const plan_for_card *c, plim_knob knob) {
  return c->plan.rungs.at[0].choice.at[knob] && !c->plan.before_choice.at[knob];
}

static plim_value count(int64_t value) {
  return (plim_value){.kind = PLIM_VALUE_INTEGER, .integer = value};
}

static bool has_place(const plan_result *r, plim_knob knob, plim_value value) {
  return r->files && plan_file_takes(&r->files->project, &(plim_knob_change){knob, value}, 1);
}

// ---- packages ---------------------------------------------------------------------------------------

static bool takes_bitsandbytes(const plim_choice *x) {
  const char *optimizer = plim_knob_value_name(PLIM_KNOB_OPTIMIZER, x->at[PLIM_KNOB_OPTIMIZER]);
  bool is_theirs = optimizer && (strstr(optimizer, "8bit") || strstr(optimizer, "paged"));
  return is_theirs || x->at[PLIM_KNOB_QUANTISATION] != PLIM_WEIGHTS_PLAIN;
}

static bool takes_deepspeed(const plim_choice *x) {
  return x->at[PLIM_KNOB_STRATEGY] >= PLIM_SHARD_ZERO1;
}

static bool takes_flash(const plim_choice *x) {
  return x->at[PLIM_KNOB_ATTENTION] == PLIM_ATTENTION_FLASH;
}

static bool takes_liger(const plim_choice *x) { return x->at[PLIM_KNOB_LIGER]; }

static const struct {
  const char *name;
  bool (*is_taken)(const plim_choice *x);
} packages[] = {{"bitsandbytes", takes_bitsandbytes},
                {"deepspeed", takes_deepspeed},
                {"flash-attn", takes_flash},
                {"liger-kernel", takes_liger}};

// Those that the plan takes and the run as it is does not. Megatron shares by itself.
static void list_packages(const plan_result *r, const plan_for_card *c, char *text, size_t size) {
  bool shares_itself = r->files && r->files->is_megatron;
  *text = 0;
  for (size_t i = 0; i < sizeof packages / sizeof *packages; i++) {
    size_t used = strlen(text);
    if (shares_itself && packages[i].is_taken == takes_deepspeed) continue;
    if (packages[i].is_taken(&c->plan.rungs.at[0].choice) &&
        !packages[i].is_taken(&c->plan.before_choice))
      snprintf(text + used, size - used, " %s", packages[i].name);
  }
}

// ---- a loss in chunks -------------------------------------------------------------------------------

// The file that was measured: docs/chunked-loss.md.
void plan_print_loss(int64_t tokens, FILE *out) {
  fprintf(out,
          "plimsoll help chunked_loss > chunked_loss.py   # beside your script, and in it:\n"
          "    from chunked_loss import use_chunked_loss\n"
          "    use_chunked_loss(model, %lld)   # behind from_pretrained\n",
          (long long)tokens);
}

// ---- Liger-Kernel -----------------------------------------------------------------------------------

static void print_liger(const plan_result *r, FILE *out) {
  static const plim_value on = {.kind = PLIM_VALUE_TEXT, .text = "on"};
  bool is_axolotl = r->files && r->files->project.dialect == PLIM_DIALECT_AXOLOTL;
  if (is_axolotl && !has_place(r, PLIM_KNOB_LIGER, on))
    fprintf(out, "\nin your Axolotl file:\n"
                 "  plugins:\n"
                 "    - axolotl.integrations.liger.LigerPlugin\n"
                 "  liger_rope: true\n"
                 "  liger_rms_norm: true\n"
                 "  liger_glu_activation: true\n"
                 "  liger_fused_linear_cross_entropy: true\n");
}

// ---- FSDP2 in the trainer's own keys ----------------------------------------------------------------

static bool has_accelerate_file(const plim_project *p) {
  for (size_t i = 0; i < p->files.len; i++)
    if (p->files.at[i]->is.dialect == PLIM_DIALECT_ACCELERATE) return true;
  return false;
}

// transformers 4 reads no version there, and runs FSDP 1; Axolotl sees to it itself.
static bool runs_version_1(const plan_result *r, const plan_for_card *c) {
  int64_t before = c->plan.before_choice.at[PLIM_KNOB_STRATEGY];
  int64_t strategy = c->plan.rungs.at[0].choice.at[PLIM_KNOB_STRATEGY];
  bool is_new = strategy == PLIM_SHARD_FSDP2 && before != PLIM_SHARD_FSDP2;
  const plim_project *p = r->files ? &r->files->project : NULL;
  bool is_trainer = p && p->dialect < PLIM_DIALECTS && p->dialect != PLIM_DIALECT_AXOLOTL &&
                    plim_dialect_table[p->dialect].has_trainer;
  return is_new && is_trainer && !has_accelerate_file(p) &&
         plan_file_shares(p, strategy, c->plan.rungs.at[0].choice.at[PLIM_KNOB_OFFLOAD]);
}

static bool is_written(const plan_edits *edits, plim_knob knob) {
  for (size_t i = 0; i < edits->write_count; i++)
    if (edits->writes[i].knob == knob) return true;
  return false;
}

// What the files say, or will when the plan is applied, is not to be exported.
static const char *conf_to_export(const plan_result *r, const plan_for_card *c) {
  const plim_rung *best = &c->plan.rungs.at[0];
  plan_edits edits;
  bool is_new =
      best->choice.at[PLIM_KNOB_ALLOC_CONF] != c->plan.before_choice.at[PLIM_KNOB_ALLOC_CONF];
  if (!r->files) return plim_choice_conf(&c->asked, &best->choice);
  plan_edits_or_end(&r->files->project, c, best, &edits);
  bool is_left = is_new && !is_written(&edits, PLIM_KNOB_ALLOC_CONF);
  return is_left ? plim_choice_conf(&c->asked, &best->choice) : "";
}

void plan_print_needs(const plan_result *r, const plan_for_card *c, FILE *out) {
  char needed[128];
  list_packages(r, c, needed, sizeof needed);
  if (*needed) fprintf(out, "pip install%s\n", needed);
  if (is_turned_on(c, PLIM_KNOB_LIGER)) print_liger(r, out);
  if (runs_version_1(r, c)) fprintf(out, "transformers 5: with these keys, 4 runs FSDP 1\n");
}

void plan_print_todo(const plan_result *r, const plan_for_card *c) {
  if (!c->plan.rungs.len) return;
  const char *conf = conf_to_export(r, c);
  int64_t chunk = c->plan.rungs.at[0].choice.at[PLIM_KNOB_CHUNKED_LOSS];
  bool chunks = is_turned_on(c, PLIM_KNOB_CHUNKED_LOSS) &&
                !has_place(r, PLIM_KNOB_CHUNKED_LOSS, count(chunk));
  char needed[128];
  list_packages(r, c, needed, sizeof needed);
  if (!*conf && !chunks && !*needed && !runs_version_1(r, c) && !plan_has_launch(r, c)) return;
  plan_heading("to do");
  if (*conf) printf("export PYTORCH_CUDA_ALLOC_CONF=%s\n", conf);
  plan_print_needs(r, c, stdout);
  if (chunks) plan_print_loss(chunk, stdout);
}
