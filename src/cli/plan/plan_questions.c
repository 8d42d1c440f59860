#include <stdio.h>

#include "plan_question.h"
#include "plan_show.h"
#include "term.h"
#include "units.h"

static void print_cached(const plan_for_card *c, size_t width) {
  plan_cached_loss x = plan_cached_instead(c);
  char line[512], tight[PLAN_TIGHT_SIZE] = "";
  if (!x.at_once) return;
  plan_why_tight(c, &x.e, tight, sizeof tight);
  int used =
      snprintf(line, sizeof line,
               "a cached loss (CachedMultipleNegativesRankingLoss with mini_batch_size=%lld, "
               "or GradCache) still compares all %lld and needs %s with your settings: %s%s%s",
               (long long)x.at_once, plan_own_micro_batch(c), units_bytes(x.e.device_bytes).text,
               x.e.fits ? "FITS" : "DOES NOT FIT", *tight ? ", " : "", tight);
  if (x.e.tokens_per_second > 0 && used < (int)sizeof line)
    snprintf(line + used, sizeof line - (size_t)used, ", %s tokens per second",
             units_count((uint64_t)x.e.tokens_per_second).text);
  term_wrap(stdout, line, 0, 0, width);
}

void plan_print_questions(const plan_for_card *c) {
  const plan_question *q = plan_question_of(c);
  char line[512];
  size_t width = (size_t)term_width(stdout);
  if (!q) return;
  plan_heading("question: may the micro batch change?");
  snprintf(line, sizeof line, "%s; it stays at %lld until you answer", q->why,
           plan_own_micro_batch(c));
  term_wrap(stdout, line, 0, 0, width);
  printf("yes: --allow micro_batch\nno:  --fix micro_batch=%lld\n", plan_own_micro_batch(c));
  if (q->instead) term_wrap(stdout, q->instead, 0, 0, width);
  else print_cached(c, width);
}
