#include "card_fault.h"

#include <stdio.h>
#include <string.h>

#include "units.h"

typedef enum { NO_AMOUNT, COUNT_OR_ALL, BYTES } amount_kind;

static const struct {
  const char *name;
  amount_kind amount;
} kinds[CARD_FAULT_KINDS] = {
    [CARD_FAULT_REFUSE] = {"refuse", COUNT_OR_ALL},
    [CARD_FAULT_OTHER_PROCESS] = {"other-process", BYTES},
    [CARD_FAULT_LEAK] = {"leak", BYTES},
    [CARD_FAULT_DRIVER_HANGS] = {"driver-hangs", NO_AMOUNT},
    [CARD_FAULT_DRIVER_FAILS] = {"driver-fails", NO_AMOUNT},
};

static const struct {
  const char *name;
  bool is_bytes;
} moments[CARD_MOMENTS] = {
    [CARD_MOMENT_STEP] = {"step", false},
    [CARD_MOMENT_ALLOCATION] = {"allocation", false},
    [CARD_MOMENT_USED] = {"used", true},
};

static plim_err refuse(const char *text, plim_error *error, const char *why) {
  plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT, "--fault %.60s: %s", text, why);
  plim_error_hint(error, "--fault refuse=all@step=3, --fault other-process=4GiB@step=3, --fault "
                         "leak=20MiB, --fault driver-hangs@step=2");
  return err;
}

// "NAME" or "NAME=VALUE"; the value is NULL if there is none.
static char *split(char *text) {
  char *value = strchr(text, '=');
  if (value) *value++ = 0;
  return value;
}

static bool read_number(const char *text, bool is_bytes, uint64_t *out) {
  plim_err err = is_bytes ? units_parse_bytes(text, out, NULL) : units_parse_u64(text, out, NULL);
  return !err && *out > 0;
}

static bool read_moment(char *text, card_fault *out) {
  char *value = split(text);
  for (int i = CARD_MOMENT_START + 1; value && i < CARD_MOMENTS; i++) {
    if (strcmp(text, moments[i].name) != 0) continue;
    out->moment = (card_moment)i;
    return read_number(value, moments[i].is_bytes, &out->at);
  }
  return false;
}

static bool read_amount(amount_kind kind, const char *text, uint64_t *out) {
  *out = 1;
  if (!text) return kind != BYTES;
  if (kind == COUNT_OR_ALL && strcmp(text, "all") == 0) return *out = CARD_FAULT_ALL, true;
  return kind != NO_AMOUNT && read_number(text, kind == BYTES, out);
}

plim_err card_fault_parse(const char *text, card_fault *out, plim_error *error) {
  char parts[sizeof out->text];
  *out = (card_fault){.moment = CARD_MOMENT_START};
  if (strlen(text) >= sizeof parts) return refuse(text, error, "this is too long");
  strcpy(out->text, text);
  strcpy(parts, text);
  char *moment = strchr(parts, '@');
  if (moment) *moment++ = 0;
  if (moment && !read_moment(moment, out))
    return refuse(text, error, "after @ comes step=N, allocation=N or used=SIZE, each at least 1");
  char *amount = split(parts);
  int kind = 0;
  while (kind < CARD_FAULT_KINDS && strcmp(parts, kinds[kind].name) != 0) kind++;
  if (kind == CARD_FAULT_KINDS)
    return refuse(text, error,
                  "the faults are refuse, other-process, leak, driver-hangs and driver-fails");
  out->kind = (card_fault_kind)kind;
  if (!read_amount(kinds[kind].amount, amount, &out->amount)) {
    static const char *const wanted[] = {[NO_AMOUNT] = "this fault takes no value",
                                         [COUNT_OR_ALL] =
                                             "refuse takes a number of requests, or all",
                                         [BYTES] = "this fault needs a size, such as =20MiB"};
    return refuse(text, error, wanted[kinds[kind].amount]);
  }
  out->has_begun = out->moment == CARD_MOMENT_START;
  return PLIM_OK;
}
