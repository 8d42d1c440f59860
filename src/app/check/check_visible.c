// Checks which cards a run sees: CUDA_VISIBLE_DEVICES in the environment or in the files.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

typedef struct {
  size_t at[PLIM_MAX_CARDS]; // the indices in the list
  size_t count;
} card_list;

// Reads a list of indices; false: it is empty or names cards in another way (UUIDs, MIG).
static bool read_list(const char *text, card_list *out) {
  *out = (card_list){.count = 0};
  for (;; text++) {
    char *end;
    if (*text < '0' || *text > '9' || out->count == PLIM_MAX_CARDS) return false;
    out->at[out->count++] = (size_t)strtoul(text, &end, 10);
    text = end;
    if (!*text) return true;
    if (*text != ',') return false;
  }
}

// CUDA numbers cards from the fastest, the driver by bus; the order is the same if all cards are alike.
static bool counts_as_the_driver(const check *c) {
  const char *order = c->environment("CUDA_DEVICE_ORDER");
  if (order && strcmp(order, "PCI_BUS_ID") == 0) return true;
  for (size_t i = 1; i < c->card_count; i++)
    if (strcmp(c->cards[i].name, c->cards[0].name) != 0) return false;
  return true;
}

// A value in a file overrides the environment.
static bool find_list(const check *c, check_place *place, char *text, size_t size) {
  const char *set = c->environment("CUDA_VISIBLE_DEVICES");
  *place = (check_place){0};
  snprintf(text, size, "%s", set ? set : "");
  if (!check_find(c, "cuda_visible_devices", place)) return set;
  const plim_value *v = &place->value;
  if (v->kind == PLIM_VALUE_TEXT) snprintf(text, size, "%s", v->text);
  else if (v->kind == PLIM_VALUE_INTEGER) snprintf(text, size, "%lld", (long long)v->integer);
  else return false;
  return true;
}

// CUDA uses only the cards before the first one that does not exist.
static size_t count_present(const check *c, const card_list *list) {
  size_t count = 0;
  while (count < list->count && list->at[count] < c->card_count) count++;
  return count;
}

static void report_missing(check *c, const check_place *place, const char *text,
                           const card_list *list, size_t present) {
  char all[4 * PLIM_MAX_CARDS] = "", gets[64];
  for (size_t i = 0, used = 0; i < c->card_count; i++)
    used += (size_t)snprintf(all + used, sizeof all - used, "%s%zu", i ? "," : "", i);
  if (present == 1) snprintf(gets, sizeof gets, "only GPU %zu", list->at[0]);
  else if (present) snprintf(gets, sizeof gets, "only the first %zu GPUs of the list", present);
  else snprintf(gets, sizeof gets, "no GPU");
  check_finding *f =
      check_add(c, "environment.missing_card", CHECK_WARNING,
                "CUDA_VISIBLE_DEVICES=%.60s, but GPU %zu does not exist", text, list->at[present]);
  if (place->file) check_at(f, place);
  check_why(f, "CUDA ignores everything from the first missing GPU on, so the run gets %s", gets);
  check_fix(f, "CUDA_VISIBLE_DEVICES=%.200s", all);
}

static void swap_cards(check *c, size_t a, size_t b) {
  plim_card card = c->cards[a];
  c->cards[a] = c->cards[b];
  c->cards[b] = card;
  for (size_t i = 0; i < c->processes.len; i++) {
    size_t *at = &c->processes.at[i].card;
    *at = *at == a ? b : *at == b ? a : *at;
  }
}

static size_t place_of(const check *c, size_t from, size_t index) {
  for (size_t i = from; i < c->card_count; i++)
    if (c->cards[i].index == index) return i;
  return SIZE_MAX;
}

// Puts the cards that the run sees first, in its order; the others follow as hidden.
static void leave(check *c, const card_list *list, size_t present) {
  size_t seen = 0;
  for (size_t i = 0; i < present; i++) {
    size_t at = place_of(c, seen, list->at[i]);
    if (at != SIZE_MAX) swap_cards(c, seen++, at);
  }
  c->hidden_cards = c->card_count - seen;
  c->card_count = seen;
}

// The number of processes on one machine, also if the files disagree about it.
static int64_t started(const check *c) {
  static const char *const keys[] = {"nproc_per_node", "num_gpus", "num_processes"};
  int64_t most = check_local_world(c);
  check_place at;
  for (size_t i = 0; !c->world && i < sizeof keys / sizeof *keys; i++)
    if (check_find(c, keys[i], &at) && at.value.kind == PLIM_VALUE_INTEGER &&
        at.value.integer > most && check_number(c, PLIM_KNOB_NODES) <= 1)
      most = at.value.integer;
  return most;
}

// "CUDA_VISIBLE_DEVICES=0,1, or ": empty if the list would be longer than any machine's.
static void print_first(int64_t count, char *text, size_t size) {
  *text = 0;
  if (count > PLIM_MAX_CARDS) return;
  size_t used = (size_t)snprintf(text, size, "CUDA_VISIBLE_DEVICES=");
  for (int64_t i = 0; i < count; i++)
    used += (size_t)snprintf(text + used, size - used, "%s%lld", i ? "," : "", (long long)i);
  snprintf(text + used, size - used, ", or ");
}

// Without cards in this machine, compares the list with the number of GPUs in the files.
static void check_named(check *c) {
  check_place at;
  int64_t named = project_job_visible(&c->files), local = started(c);
  if (c->card_count || !named || named >= local) return;
  char where[96], before[4 * PLIM_MAX_CARDS + 32];
  bool is_in_file = check_find(c, "cuda_visible_devices", &at);
  check_print_place(is_in_file ? &at : &(check_place){0}, "CUDA_VISIBLE_DEVICES", where,
                    sizeof where);
  check_finding *f = check_add(c, "environment.few_cards", CHECK_FAILS,
                               "%s makes %lld GPU%s visible, but the run starts %lld processes",
                               where, (long long)named, named == 1 ? "" : "s", (long long)local);
  if (is_in_file) check_at(f, &at);
  check_why(f, "a process without its own GPU fails with \"invalid device ordinal\"");
  print_first(local, before, sizeof before);
  check_fix_processes(c, f, before, local, named);
}

void check_visible(check *c) {
  char text[128];
  card_list list;
  check_place place;
  check_named(c);
  if (!c->card_count || !find_list(c, &place, text, sizeof text) || !read_list(text, &list)) return;
  size_t present = count_present(c, &list);
  if (present < list.count) report_missing(c, &place, text, &list, present);
  if (present && counts_as_the_driver(c)) leave(c, &list, present);
}
