// What the plan's changes do to what is learned, where that is not plain from their names.
#include <stdio.h>
#include <string.h>

#include "plan_result.h"
#include "term.h"

typedef struct {
  const plan_for_card *c;
  int64_t from, to; // of the row's knob
} change;

static const char *name(plim_knob knob, int64_t value) { return plim_knob_value_name(knob, value); }

static void say_precision(const change *x, char *text, size_t size) {
  bool trains_wide = x->c->asked.job.dtype == PLIM_FP32 || x->c->asked.job.lora.rank;
  bool is_fp16 = strcmp(name(PLIM_KNOB_PRECISION, x->to), "fp16") == 0;
  const char *kept =
      trains_wide ? "; what is trained, its gradients and the optimizer stay fp32" : "";
  if (x->to == 0) snprintf(text, size, "no autocast: this card has no fast type of 16 bits");
  else if (is_fp16)
    snprintf(
        text, size,
        "autocast computes products in fp16, with a GradScaler for the loss (Trainer, accelerate "
        "and Lightning bring it)%s%s",
        kept, plim_plan_lacks_bf16(&x->c->asked) ? "; this card only emulates bf16" : "");
  else
    snprintf(text, size, "autocast computes products in bf16%s%s", kept,
             !x->c->request.is_known_by_size
                 ? ""
                 : "; cards before Ampere (T4, V100) need fp16 instead: --gpu T4");
}

static void say_dtype(const change *x, char *text, size_t size) {
  const char *to = name(PLIM_KNOB_DTYPE, x->to);
  if (x->c->asked.job.lora.rank)
    snprintf(
        text, size,
        "frozen weights are loaded in %s, which autocast makes of them anyway; the adapters that "
        "are trained stay fp32",
        to);
  else
    snprintf(text, size, "weights, gradients and optimizer in %s: small updates are rounded away",
             to);
}

static void say_liger(const change *x, char *text, size_t size) {
  (void)x;
  snprintf(text, size,
           "its cross entropy makes gradients chunk by chunk, so that the logits never exist as a "
           "whole; the same loss up to rounding");
}

static const struct {
  plim_knob knob;
  void (*say)(const change *x, char *text, size_t size);
} rows[] = {
    {PLIM_KNOB_PRECISION, say_precision},
    {PLIM_KNOB_DTYPE, say_dtype},
    {PLIM_KNOB_LIGER, say_liger},
};

void plan_print_reasons(const plan_for_card *c) {
  const plim_choice *from = &c->plan.before_choice, *to = &c->plan.rungs.at[0].choice;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    plim_knob knob = rows[i].knob;
    char text[320], line[400];
    change x = {c, from->at[knob], to->at[knob]};
    if (x.from == x.to) continue;
    rows[i].say(&x, text, sizeof text);
    snprintf(line, sizeof line, "%s: %s", plim_knob_table[knob].name, text);
    term_wrap(stdout, line, 0, 2, (size_t)term_width(stdout));
  }
}
