// Growth is found early and with the right step, and nothing else is taken for growth.
#include "trend.h"

#include <math.h>
#include <string.h>

#include "test.h"

#define LIMIT (24 * PLIM_GIB)

static plim_history h;
static plim_trend t;
static char text[PLIM_TREND_TEXT];

static void begin(void) { h = (plim_history){0}; }

static void add(uint64_t step, double live_mib, double peak_mib) {
  plim_history_add(&h, &(plim_step_memory){.step = step,
                                           .seconds = (double)step,
                                           .live_bytes = (uint64_t)(live_mib * (double)PLIM_MIB),
                                           .peak_bytes = (uint64_t)(peak_mib * (double)PLIM_MIB),
                                           .reserved_bytes = PLIM_UNKNOWN});
}

static void judge_until(uint64_t planned) {
  t = plim_history_trend(&h, LIMIT, planned);
  plim_trend_say(&t, text, sizeof text);
}

static void judge(void) { judge_until(PLIM_UNKNOWN); }

static uint64_t seed;

// Between -1 and 1, the same in each run.
static double noise(void) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (double)(seed >> 33) / (double)(1u << 30) - 1;
}

static bool is_near(uint64_t step, uint64_t want, uint64_t off) {
  return step + off >= want && step <= want + off;
}

static void add_outside(uint64_t step, double outside_mib) {
  plim_history_add(
      &h, &(plim_step_memory){.step = step,
                              .seconds = (double)step,
                              .live_bytes = 8192 * PLIM_MIB,
                              .peak_bytes = 10240 * PLIM_MIB,
                              .reserved_bytes = 11264 * PLIM_MIB,
                              .outside_bytes = (uint64_t)(outside_mib * (double)PLIM_MIB)});
}

// ---- growth -----------------------------------------------------------------------------------------

TEST(a_leak_is_announced_with_its_step) {
  begin();
  for (uint64_t s = 0; s < 500; s++) add(s, 8192 + 12.0 * (double)s, 10240 + 12.0 * (double)s);
  judge();
  CHECK(t.kind == PLIM_TREND_CREEPING, "%s", text);
  CHECK(plim_trend_is_warning(&t), "no warning");
  CHECK(fabs(t.bytes_per_step / (double)PLIM_MIB - 12) < 0.01, "%.2f", t.bytes_per_step);
  CHECK(is_near(t.full_step, (24576 - 10240) / 12, 2), "step %" PRIu64, t.full_step);
  CHECK_STR(text, "memory grows by 12.0 MiB per step; full at about step 1,194");
}

// The limit is what this process can still get, so growth outside it fills the rest.
TEST(growth_outside_the_allocator_is_announced) {
  begin();
  for (uint64_t s = 0; s < 100; s++) add_outside(s, 700 + 100.0 * (double)s);
  judge();
  CHECK(t.kind == PLIM_TREND_OUTSIDE && plim_trend_is_warning(&t), "%s", text);
  CHECK(is_near(t.full_step, 99 + (24576 - 10240) / 100, 2), "step %" PRIu64, t.full_step);
  CHECK(strstr(text, "GPU memory outside PyTorch's allocator grows by 100 MiB per step; full at "),
        "%s", text);
}

TEST(growth_outside_that_has_just_begun_is_announced) {
  begin();
  for (uint64_t s = 0; s < 130; s++) add_outside(s, s < 100 ? 700 : 700 + 50 * (double)(s - 100));
  judge();
  CHECK(t.kind == PLIM_TREND_OUTSIDE, "%s", text);
}

// Libraries take their workspaces in the first steps; other processes come and go.
TEST(what_comes_and_goes_outside_is_no_growth) {
  begin();
  for (uint64_t s = 0; s < 60; s++) add_outside(s, s < 10 ? 300 + 40 * (double)s : 700);
  judge();
  CHECK(t.kind == PLIM_TREND_STEADY, "%s", text);
  begin();
  seed = 7;
  for (uint64_t s = 0; s < 400; s++) {
    add_outside(s, 3000 + 1000 * noise());
    judge();
    CHECK(t.kind != PLIM_TREND_OUTSIDE, "step %" PRIu64 ": %s", s, text);
  }
}

// 500 MiB in each step fill the card within 30 steps: the warning must come long before.
TEST(a_fast_leak_is_announced_after_a_dozen_steps) {
  begin();
  uint64_t at = 0;
  for (uint64_t s = 0; s < 29 && !at; s++) {
    add(s, 8192 + 500.0 * (double)s, 10240 + 500.0 * (double)s);
    judge();
    if (t.kind == PLIM_TREND_CREEPING) at = s;
  }
  CHECK(at > 0 && at <= 12, "announced at step %" PRIu64, at);
  CHECK(is_near(t.full_step, 28, 1), "step %" PRIu64, t.full_step);
}

TEST(a_leak_that_begins_late_is_announced) {
  begin();
  for (uint64_t s = 0; s < 5000; s++) add(s, 8192, 10240);
  uint64_t at = 0;
  for (uint64_t s = 5000; s < 5140 && !at; s++) {
    add(s, 8192 + 100.0 * (double)(s - 5000), 10240 + 100.0 * (double)(s - 5000));
    judge();
    if (t.kind == PLIM_TREND_CREEPING) at = s;
  }
  CHECK(at > 0 && at <= 5030, "announced at step %" PRIu64, at);
  CHECK(is_near(t.full_step, 5143, 3), "step %" PRIu64, t.full_step);
}

// A leak of 20 KiB per step is invisible in the last 128 steps.
TEST(a_slow_leak_is_seen_in_the_whole_run) {
  begin();
  for (uint64_t s = 0; s < 20000; s++)
    add(s, 8192 + (double)s * 20 / 1024, 10240 + (double)s * 20 / 1024);
  judge_until(30000);
  CHECK(t.kind == PLIM_TREND_CREEPING && !t.is_full_before_end, "%s", text);
  CHECK(!plim_trend_is_warning(&t), "a warning though the run ends before");
  CHECK_STR(
      text,
      "memory grows by 20.0 KiB per step, but the run ends at step 30,000, before memory is full");
}

// Peaks that differ by gigabytes do not hide a leak in what stays allocated.
TEST(a_leak_under_swings_is_announced) {
  begin();
  seed = 7;
  for (uint64_t s = 0; s < 300; s++)
    add(s, 8192 + 5 * (double)s + 3 * noise(), 12288 + 5 * (double)s + 2048 * noise());
  judge();
  CHECK(t.kind == PLIM_TREND_CREEPING, "%s", text);
  CHECK(fabs(t.bytes_per_step / (double)PLIM_MIB - 5) < 0.5, "%.0f", t.bytes_per_step);
  CHECK(t.earliest_full_step <= t.full_step && t.full_step <= t.latest_full_step, "the range");
}

TEST(one_huge_step_and_a_gap_do_not_hide_a_leak) {
  begin();
  for (uint64_t s = 0; s < 200; s++) {
    uint64_t step = s < 100 ? s : s + 400; // nothing was reported for 400 steps
    add(step, (s == 60 ? 20000 : 8192) + 4.0 * (double)step, 10240 + 4.0 * (double)step);
  }
  judge();
  CHECK(t.kind == PLIM_TREND_CREEPING, "%s", text);
  CHECK(fabs(t.bytes_per_step / (double)PLIM_MIB - 4) < 0.2, "%.0f", t.bytes_per_step);
}

TEST(longer_batches_are_not_called_a_leak) {
  begin();
  for (uint64_t s = 0; s < 200; s++) add(s, 8192, 10240 + 16.0 * (double)s);
  judge();
  CHECK(t.kind == PLIM_TREND_LENGTHENING, "%s", text);
  CHECK_STR(
      text,
      "the peak grows by 16.0 MiB per step; full at about step 896; what stays allocated between "
      "steps does not grow, so the batches get larger");
}

TEST(without_steps_growth_is_per_minute) {
  begin();
  for (int i = 0; i < 100; i++)
    plim_history_add(&h, &(plim_step_memory){.step = PLIM_UNKNOWN,
                                             .seconds = i,
                                             .live_bytes = 8 * PLIM_GIB + (uint64_t)i * PLIM_MIB,
                                             .peak_bytes = PLIM_UNKNOWN,
                                             .reserved_bytes = PLIM_UNKNOWN});
  judge();
  CHECK_STR(text, "memory grows by 60.0 MiB per minute; full in about 4 h 31 min");
}

// ---- what is no growth ------------------------------------------------------------------------------

TEST(noise_is_not_growth) {
  int found = 0;
  seed = 42;
  for (int run = 0; run < 2000; run++) {
    begin();
    for (uint64_t s = 0; s < 60; s++) add(s, 8192 + 100 * noise(), 10240 + 100 * noise());
    judge();
    found += t.kind == PLIM_TREND_CREEPING || t.kind == PLIM_TREND_LENGTHENING;
  }
  printf("  growth in %d of 2000 noisy runs\n", found);
  CHECK(found <= 4, "%d runs", found);
}

TEST(warm_up_is_not_growth) {
  begin();
  for (uint64_t s = 0; s < 80; s++) {
    double level = s < 20 ? 4096 + 300 * (double)s : 10000;
    add(s, level, level + 2048);
  }
  judge();
  CHECK(t.kind != PLIM_TREND_CREEPING && t.kind != PLIM_TREND_LENGTHENING, "%s", text);
}

TEST(one_jump_is_not_growth) {
  begin();
  for (uint64_t s = 0; s < 300; s++) add(s, s < 150 ? 8192 : 9216, s < 150 ? 10240 : 11264);
  judge();
  CHECK(t.kind == PLIM_TREND_STEADY, "%s", text);
}

// A cache that fills up: it grows less and less.
TEST(growth_that_fades_is_not_growth) {
  begin();
  for (uint64_t s = 0; s < 300; s++) {
    double level = 8192 + 3000 * (1 - exp(-(double)s / 40));
    add(s, level, level + 2048);
    judge();
    CHECK(s < 60 || t.kind != PLIM_TREND_CREEPING, "step %" PRIu64 ": %s", s, text);
  }
}

// A judgement after each step must not find growth sooner or later.
TEST(noise_is_not_growth_at_any_step) {
  int found = 0;
  seed = 11;
  for (int run = 0; run < 40; run++) {
    begin();
    for (uint64_t s = 0; s < 200; s++) {
      add(s, 8192 + 100 * noise(), 14336 + 2048 * noise());
      judge();
      found += t.kind == PLIM_TREND_CREEPING || t.kind == PLIM_TREND_LENGTHENING;
    }
  }
  printf("  growth in %d of 8000 judgements\n", found);
  CHECK(found <= 4, "%d judgements", found);
}

// Garbage that is collected now and then.
TEST(a_sawtooth_is_not_growth) {
  begin();
  for (uint64_t s = 0; s < 1000; s++) {
    add(s, 8192 + 10.0 * (double)(s % 40), 10240 + 10.0 * (double)(s % 40));
    judge();
    CHECK(s < 100 || t.kind == PLIM_TREND_STEADY, "step %" PRIu64 ": %s", s, text);
  }
}

TEST(growth_that_has_ended_is_not_growth) {
  begin();
  for (uint64_t s = 0; s < 2000; s++) {
    double level = 8192 + (s < 600 ? 5.0 * (double)s : 3000);
    add(s, level, level + 1024);
  }
  judge();
  CHECK(t.kind != PLIM_TREND_CREEPING, "%s", text);
}

TEST(a_restart_begins_anew) {
  begin();
  for (uint64_t s = 0; s < 200; s++) add(s, 8192 + 12.0 * (double)s, 10240 + 12.0 * (double)s);
  for (uint64_t s = 100; s < 140; s++) add(s, 8192, 10240);
  judge();
  CHECK(t.kind == PLIM_TREND_STEADY, "%s", text);
  add(0, 8192, 10240);
  judge();
  CHECK(t.kind == PLIM_TREND_UNCLEAR, "%s", text);
}

TEST(a_clock_that_jumps_is_not_growth) {
  begin();
  for (int i = 0; i < 200; i++)
    plim_history_add(&h, &(plim_step_memory){.step = PLIM_UNKNOWN,
                                             .seconds = i < 100   ? i
                                                        : i < 150 ? i + 86400
                                                                  : i - 3600,
                                             .live_bytes = 8 * PLIM_GIB,
                                             .peak_bytes = PLIM_UNKNOWN,
                                             .reserved_bytes = PLIM_UNKNOWN});
  plim_history_add(&h, &(plim_step_memory){.step = PLIM_UNKNOWN, .seconds = NAN});
  judge();
  CHECK(t.kind == PLIM_TREND_STEADY, "%s", text);
}

// ---- other patterns ---------------------------------------------------------------------------------

TEST(rises_that_never_fall_are_a_staircase) {
  begin();
  for (uint64_t s = 0; s < 400; s++) {
    double level = s < 50 ? 9 : s < 120 ? 16 : s < 300 ? 20 : 22; // GiB, as in F5-TTS issue 223
    plim_history_add(&h, &(plim_step_memory){.step = s,
                                             .live_bytes = 6 * PLIM_GIB,
                                             .peak_bytes = PLIM_UNKNOWN,
                                             .reserved_bytes = (uint64_t)level * PLIM_GIB});
  }
  judge();
  CHECK(t.kind == PLIM_TREND_STAIRCASE && t.rises == 3, "%s", text);
  CHECK_STR(text, "memory rose 3 times, by 13.0 GiB in all, last at step 300, and never fell; "
                  "longer samples have this effect");
}

TEST(a_rise_that_would_not_fit_is_said) {
  begin();
  for (uint64_t s = 0; s < 200; s++) add(s, 8192, s < 60 ? 12288 : s < 120 ? 17408 : 22528);
  judge();
  CHECK(t.kind == PLIM_TREND_STAIRCASE, "%s", text);
  CHECK(plim_trend_is_warning(&t), "no warning");
  CHECK(strstr(text, "another rise like the largest (5.00 GiB) would not fit"), "%s", text);
}

TEST(swings_are_seen) {
  begin();
  seed = 3;
  for (uint64_t s = 0; s < 200; s++) add(s, 8192, 14336 + 4096 * noise());
  judge();
  CHECK(t.kind == PLIM_TREND_SWINGING, "%s", text);
  CHECK(plim_trend_headroom(&t) == LIMIT - t.highest_bytes, "headroom");
}

TEST(low_use_is_seen) {
  begin();
  for (uint64_t s = 0; s < 100; s++) add(s, 4096, 8192);
  judge();
  CHECK_STR(text, "memory is steady");
  CHECK(plim_trend_is_low(&t), "8 of 24 GiB");
  double shares[40], middle;
  for (int i = 0; i < 40; i++) shares[i] = i % 4 ? 0.2 : 1;
  CHECK(plim_shares_are_low(shares, 40, &middle) && middle < 0.21, "busy a fifth of the time");
  CHECK(!plim_shares_are_low(shares, 29, &middle), "too few values");
  for (int i = 0; i < 40; i++) shares[i] = i < 20 ? -1 : 0.2;
  CHECK(!plim_shares_are_low(shares, 40, &middle), "unknown values do not count");
}

TEST(few_steps_are_unclear) {
  begin();
  judge();
  CHECK_STR(text, "too few steps to see a trend");
  for (uint64_t s = 0; s < 8; s++) add(s, 8192 + 100 * (double)s, 10240);
  judge();
  CHECK(t.kind == PLIM_TREND_UNCLEAR, "%s", text);
}

TEST(values_that_are_not_reported_are_no_zeros) {
  begin();
  for (uint64_t s = 0; s < 100; s++)
    plim_history_add(&h, &(plim_step_memory){s, 0, PLIM_UNKNOWN, PLIM_UNKNOWN, PLIM_UNKNOWN});
  judge();
  CHECK(t.kind == PLIM_TREND_UNCLEAR && t.highest_bytes == PLIM_UNKNOWN, "%s", text);
  CHECK_U64(plim_trend_headroom(&t), PLIM_UNKNOWN);
}

TEST_MAIN
