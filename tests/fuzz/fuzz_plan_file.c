// Any JSON document as a saved plan, with a correct digest, is refused with a message, or requests only valid values of
// its knobs.
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "plan_digest.h"
#include "plan_file.h"

static void expect(bool condition) {
  if (!condition) abort();
}

// Adds a correct digest, which a fuzzer would never find, so that the code after the check is reached. Uses json_pack,
// because the json_string of src/cli is not the one of jansson.
static char *sign(const uint8_t *data, size_t size) {
  plim_plan_digest digest;
  json_t *root = json_loadb((const char *)data, size, 0, NULL);
  if (!json_is_object(root)) {
    json_decref(root);
    return NULL;
  }
  expect(!plim_plan_digest_of(root, &digest, NULL));
  json_object_set_new(root, PLIM_PLAN_DIGEST_KEY, json_pack("s", digest.hex));
  char *text = json_dumps(root, 0);
  json_decref(root);
  return text;
}

static void check_value(plim_knob knob, const plim_value *value) {
  expect(knob < PLIM_KNOBS);
  expect(value->kind == PLIM_VALUE_INTEGER ? value->integer >= 0 && value->integer <= 1 << 24
                                           : value->kind == PLIM_VALUE_TEXT && value->text);
}

static void check_plan(const plim_plan_file *plan) {
  expect(plan->files.len > 0);
  for (size_t i = 0; i < plan->files.len; i++) expect(plan->files.at[i].path != NULL);
  for (size_t i = 0; i < plan->changes.len; i++)
    check_value(plan->changes.at[i].knob, &plan->changes.at[i].value);
  for (size_t i = 0; i < plan->by_hand.len; i++) {
    const plim_plan_left *left = &plan->by_hand.at[i];
    check_value(left->knob, &left->value);
    for (const char *c = left->reason; *c; c++) expect(*c != 0x1b && *c != 0x7f);
  }
}

static void parse(const char *text, size_t size, uint64_t rung) {
  plim_plan_file plan;
  plim_error error = {0};
  plim_err err = plim_plan_file_parse(text, size, rung, &plan, &error);
  expect(err == error.code && (!err || (error.message[0] && !plan.files.at)));
  if (!err) check_plan(&plan);
  plim_plan_file_clear(&plan);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char *signed_text = sign(data, size);
  parse((const char *)data, size, 1);
  for (uint64_t rung = 0; signed_text && rung < 3; rung++)
    parse(signed_text, strlen(signed_text), rung);
  free(signed_text);
  return 0;
}
