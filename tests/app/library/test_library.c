// The functions of plimsoll.h: what they answer is tested in library_check.py, against the commands. Here: requests that
// are wrong, memory, and snapshots that are looked at more than once.
#include <locale.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>

#include "fault_memory.h"
#include "folder.h"
#include "plimsoll.h"
#include "test.h"

#define RECORDING TEST_ROOT "/truth/snapshots/stacks-leak-logits.pickle.xz"

static plim_error error;
static char *answer;

// ---- requests that are wrong ------------------------------------------------------------------------

typedef plim_err call(const char *request, char **answer, plim_error *error);

static const struct {
  call *call;
  const char *request;
  plim_err err;
  const char *message;
  uint64_t byte; // PLIM_UNKNOWN: not about a place
} wrong[] = {
    {plimsoll_estimate, "", PLIM_ERR_PARSE, "the request is empty", 0},
    {plimsoll_estimate, "[]", PLIM_ERR_PARSE, "not one JSON object", 0},
    {plimsoll_estimate, "{} {}", PLIM_ERR_PARSE, "", 3},
    {plimsoll_estimate, "{\"model\": \"gpt2\",", PLIM_ERR_PARSE, "", 17},
    {plimsoll_estimate, "{}", PLIM_ERR_ARGUMENT, "model", PLIM_UNKNOWN},
    {plimsoll_estimate, "{\"modle\": \"gpt2\"}", PLIM_ERR_ARGUMENT, "no member \"modle\"", 1},
    {plimsoll_estimate, "{\"model\": 7}", PLIM_ERR_ARGUMENT, "", PLIM_UNKNOWN},
    {plimsoll_estimate, "{\"model\": [\"gpt2\"]}", PLIM_ERR_ARGUMENT, "a name, a path or an object",
     10},
    {plimsoll_estimate, "{\"model\": {}}", PLIM_ERR_PARSE, "model_type", PLIM_UNKNOWN},
    {plimsoll_estimate, "{\"model\": \"gpt2\", \"batch\": -1}", PLIM_ERR_ARGUMENT, "\"batch\"", 27},
    {plimsoll_estimate, "{\"model\": \"gpt2\", \"batch\": 1.5}", PLIM_ERR_ARGUMENT, "\"batch\"",
     27},
    {plimsoll_estimate, "{\"model\": \"gpt2\", \"batch\": true}", PLIM_ERR_ARGUMENT,
     "a whole number", 27},
    {plimsoll_estimate, "{\"model\": \"gpt2\", \"batch\": [1]}", PLIM_ERR_ARGUMENT,
     "a whole number", 27},
    {plimsoll_estimate, "{\"model\": \"gpt2\", \"checkpoint\": 1}", PLIM_ERR_ARGUMENT,
     "true or false", 32},
    {plimsoll_estimate, "{\"model\": \"gpt2\", \"amp\": \"bf17\"}", PLIM_ERR_ARGUMENT, "bf16", 25},
    {plimsoll_estimate, "{\"model\": \"gpt2\", \"timeline\": 1000000}", PLIM_ERR_ARGUMENT,
     "columns", PLIM_UNKNOWN},
    {plimsoll_estimate, "{\"model\": \"gpt2\", \"alloc_conf\": \"max_split_size_mb:1\"}",
     PLIM_ERR_ARGUMENT, "max_split_size_mb", PLIM_UNKNOWN},
    {plimsoll_plan, "{}", PLIM_ERR_ARGUMENT, "neither \"files\" nor a \"model\"", PLIM_UNKNOWN},
    {plimsoll_plan, "{\"model\": \"gpt2\", \"out\": \"plan.json\"}", PLIM_ERR_ARGUMENT,
     "no member \"out\"", 18},
    {plimsoll_plan, "{\"files\": [7]}", PLIM_ERR_ARGUMENT, "a path", 11},
    {plimsoll_plan, "{\"files\": [\"/no/such/file.yaml\"]}", PLIM_ERR_IO, "", PLIM_UNKNOWN},
    {plimsoll_plan, "{\"model\": \"gpt2\", \"gpu\": \"24GiB\", \"fix\": [\"wings=2\"]}",
     PLIM_ERR_ARGUMENT, "wings", PLIM_UNKNOWN},
    {plimsoll_replay, "{}", PLIM_ERR_ARGUMENT, "lacks \"snapshot\"", PLIM_UNKNOWN},
    {plimsoll_replay, "{\"snapshot\": \"/no/such/file\"}", PLIM_ERR_IO, "", PLIM_UNKNOWN},
};

TEST(a_wrong_request_is_an_error_that_names_the_place) {
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    answer = (char *)1;
    plim_err err = wrong[i].call(wrong[i].request, &answer, &error);
    CHECK(err == wrong[i].err && error.code == err, "%s: %d %s", wrong[i].request, err,
          error.message);
    CHECK(!answer, "%s", wrong[i].request);
    CHECK(*error.message && strstr(error.message, wrong[i].message), "%s: %s", wrong[i].request,
          error.message);
    if (!*error.file) CHECK_U64(error.byte, wrong[i].byte);
    CHECK(wrong[i].call(wrong[i].request, &answer, NULL) == err, "without an error");
  }
}

TEST(a_list_that_does_not_exist_is_an_error) {
  CHECK(plimsoll_list("models", &answer, &error) == PLIM_OK, "%s", error.message);
  CHECK(strstr(answer, "\"qwen2.5-7b\""), "%.80s", answer);
  plimsoll_free(answer);
  CHECK(plimsoll_list("cards", &answer, &error) == PLIM_ERR_ARGUMENT && !answer, "%s",
        error.message);
}

TEST(freeing_nothing_is_fine) {
  plimsoll_free(NULL);
  plimsoll_snapshot_close(NULL);
}

// ---- threads ----------------------------------------------------------------------------------------

static const char *const asked[] = {
    "{\"model\": \"gpt2\", \"batch\": 4, \"seq\": 512, \"gpu\": \"24GiB\"}",
    "{\"model\": \"qwen2.5-0.5b\", \"lora_rank\": 8, \"checkpoint\": true, \"gpu\": \"4090\"}",
    "{\"model\": \"bert-base\", \"batch\": 16, \"seq\": 128, \"amp\": \"bf16\"}",
};
enum { ASKED = sizeof asked / sizeof *asked };

static void *ask_often(void *expected) {
  char **answers = expected, *own;
  for (size_t i = 0; i < 3 * ASKED; i++) {
    if (plimsoll_estimate(asked[i % ASKED], &own, NULL)) return "an error";
    bool is_same = strcmp(own, answers[i % ASKED]) == 0;
    plimsoll_free(own);
    if (!is_same) return "another answer";
  }
  return NULL;
}

TEST(threads_get_the_same_answers) {
  char *answers[ASKED];
  pthread_t threads[4];
  for (size_t i = 0; i < ASKED; i++)
    CHECK(!plimsoll_estimate(asked[i], &answers[i], &error), "%s", error.message);
  for (size_t i = 0; i < 4; i++) pthread_create(&threads[i], NULL, ask_often, answers);
  for (size_t i = 0; i < 4; i++) {
    void *wrong_with = NULL;
    pthread_join(threads[i], &wrong_with);
    CHECK(!wrong_with, "%s", (const char *)wrong_with);
  }
  for (size_t i = 0; i < ASKED; i++) plimsoll_free(answers[i]);
}

#define SMALL_MODEL                                                                                \
  "{\"model_type\": \"llama\", \"hidden_size\": 64, \"intermediate_size\": 128, "                  \
  "\"num_hidden_layers\": 1, \"num_attention_heads\": 4, \"vocab_size\": 100}"

static void *ask_with_expression(void *none) {
  char *own;
  (void)none;
  if (plimsoll_estimate("{\"model\": " SMALL_MODEL ", \"seq\": 16, \"lora_rank\": 4, "
                        "\"lora_targets\": \".*(q|k|v)_proj\"}",
                        &own, NULL))
    return "an error";
  plimsoll_free(own);
  return NULL;
}

TEST(a_thread_that_ends_leaves_no_memory_behind) {
  enum { WARM = 4, THREADS = 40 };
  size_t before = 0;
  for (size_t i = 0; i < WARM + THREADS; i++) {
    pthread_t thread;
    void *wrong_with = NULL;
    if (i == WARM) before = mallinfo2().uordblks;
    pthread_create(&thread, NULL, ask_with_expression, NULL);
    pthread_join(thread, &wrong_with);
    CHECK(!wrong_with, "%s", (const char *)wrong_with);
  }
  size_t now = mallinfo2().uordblks;
  CHECK(now < before + THREADS * 1024, "%zu bytes, and then %zu", before, now);
}

// ---- locales ----------------------------------------------------------------------------------------

// Makes the locale "comma", in which a half is 0,5, and sets it.
static bool set_comma(void) {
  char command[600];
  folder_make();
  folder_write_text("comma.txt", "LC_NUMERIC\ndecimal_point \",\"\nthousands_sep \".\"\n"
                                 "grouping 3;3\nEND LC_NUMERIC\n");
  snprintf(command, sizeof command, "localedef -c -i %s %s/comma 2>/dev/null",
           folder_path("comma.txt"), folder_path("."));
  if (system(command) < 0) return false; // it warns of the categories that are not defined
  setenv("LOCPATH", folder_path("."), true);
  return setlocale(LC_NUMERIC, "comma") && strtod("0,5", NULL) > 0;
}

static char *answer_to(call *ask, const char *request) {
  return ask(request, &answer, &error) ? strdup(error.message) : answer;
}

TEST(the_callers_locale_changes_no_answer) {
  static const struct {
    call *call;
    const char *request;
  } questions[] = {
      {plimsoll_estimate, "{\"model\": \"gpt2\", \"lora_rank\": 4, \"lora_dropout\": 0.05, "
                          "\"gpu\": \"17.5GiB\"}"},
      {plimsoll_plan,
       "{\"model\": \"gpt2\", \"lora_rank\": 4, \"lora_dropout\": 0.05, \"gpu\": \"17.5GiB\"}"},
      {plimsoll_settings, "{\"model\": \"gpt2\", \"lora_rank\": 4, \"lora_dropout\": 0.05, "
                          "\"dialect\": \"axolotl\"}"},
      {plimsoll_replay,
       "{\"snapshot\": \"" RECORDING "\", \"limit\": \"17.5GiB\", \"tune\": true}"},
      {plimsoll_list, "gpus"},
  };
  for (size_t i = 0; i < sizeof questions / sizeof *questions; i++) {
    char *usual = answer_to(questions[i].call, questions[i].request);
    CHECK(set_comma(), "localedef does not make a locale");
    char *here = answer_to(questions[i].call, questions[i].request);
    CHECK(strtod("0,5", NULL) > 0, "the caller's locale is still set");
    setlocale(LC_NUMERIC, "C");
    folder_remove();
    CHECK(strcmp(usual, here) == 0, "%s", questions[i].request);
    plimsoll_free(usual);
    plimsoll_free(here);
  }
}

// ---- snapshots --------------------------------------------------------------------------------------

static char *report_of(plimsoll_snapshot *s) {
  return plimsoll_snapshot_report(s, &answer, &error) ? NULL : answer;
}

// What a fresh look with the same settings says.
static char *fresh(const char *settings) {
  char request[400];
  plimsoll_snapshot *s;
  snprintf(request, sizeof request, "{\"snapshot\": \"%s\"%s%s}", RECORDING, *settings ? ", " : "",
           settings);
  if (plimsoll_snapshot_open(request, &s, &error)) return NULL;
  char *text = report_of(s);
  plimsoll_snapshot_close(s);
  return text;
}

TEST(a_snapshot_replayed_again_is_what_a_fresh_replay_says) {
  static const char *const settings[] = {
      "\"alloc_conf\": \"expandable_segments:True\"",
      "\"limit\": \"1GiB\"",
      "\"alloc_conf\": \"max_split_size_mb:64\", \"tune\": true",
      "\"limit\": \"64MiB\"",
      "",
  };
  plimsoll_snapshot *s;
  CHECK(!plimsoll_snapshot_open("{\"snapshot\": \"" RECORDING "\"}", &s, &error), "%s",
        error.message);
  for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
    char request[200];
    snprintf(request, sizeof request, "{%s}", settings[i]);
    CHECK(!plimsoll_snapshot_replay(s, request, &error), "%s", error.message);
    char *again = report_of(s), *once = fresh(settings[i]);
    CHECK(again && once && strcmp(again, once) == 0, "%s: %s", settings[i], error.message);
    plimsoll_free(again);
    plimsoll_free(once);
  }
  plimsoll_snapshot_close(s);
}

// The number behind a key, at its first occurrence behind `from`.
static uint64_t number_at(const char *text, const char *key) {
  const char *at = strstr(text, key);
  return at ? strtoull(at + strlen(key), NULL, 10) : PLIM_UNKNOWN;
}

TEST(a_part_of_the_timeline_has_the_bytes_of_the_whole) {
  plimsoll_snapshot *s;
  char *whole, *part, request[96];
  CHECK(!plimsoll_snapshot_open("{\"snapshot\": \"" RECORDING "\"}", &s, &error), "%s",
        error.message);
  CHECK(!plimsoll_snapshot_timeline(s, "{\"columns\": 100000}", &whole, &error), "%s",
        error.message);
  uint64_t events = number_at(whole, "\"events\": ");
  CHECK(number_at(whole, "\"columns\": ") == events, "a column for each event");
  char *at = strstr(whole, "\"allocated_bytes\": [") + 20;
  for (uint64_t i = 0; i < events; i++) {
    uint64_t bytes = strtoull(at, &at, 10);
    at++; // a comma, or the end
    if (i % (events / 5)) continue;
    snprintf(request, sizeof request, "{\"columns\": 1, \"from\": %llu, \"to\": %llu}",
             (unsigned long long)i, (unsigned long long)i + 1);
    CHECK(!plimsoll_snapshot_timeline(s, request, &part, &error), "%s", error.message);
    if (i)
      CHECK_U64((uint64_t)strtoull(strstr(part, "\"allocated_bytes\": [") + 20, NULL, 10), bytes);
    CHECK_U64(number_at(part, "\"first\": "), i);
    plimsoll_free(part);
    snprintf(request, sizeof request, "{\"event\": %llu}", (unsigned long long)i + 1);
    CHECK(!plimsoll_snapshot_moment(s, request, &part, &error), "%s", error.message);
    if (i) CHECK_U64(number_at(part, "\"allocated_bytes\": "), bytes);
    plimsoll_free(part);
  }
  plimsoll_free(whole);
  plimsoll_snapshot_close(s);
}

TEST(parts_that_do_not_exist_are_errors) {
  static const char *const parts[] = {"{\"columns\": 0}", "{\"columns\": 100001}",
                                      "{\"from\": 5, \"to\": 4}", "{\"from\": 99999999999}",
                                      "{\"width\": 7}"};
  plimsoll_snapshot *s;
  CHECK(!plimsoll_snapshot_open("{\"snapshot\": \"" RECORDING "\"}", &s, &error), "%s",
        error.message);
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    CHECK(plimsoll_snapshot_timeline(s, parts[i], &answer, &error) == PLIM_ERR_ARGUMENT && !answer,
          "%s", parts[i]);
  CHECK(!plimsoll_snapshot_timeline(s, "{\"from\": 7, \"to\": 7}", &answer, &error), "empty");
  plimsoll_free(answer);
  CHECK(plimsoll_snapshot_moment(s, "{}", &answer, &error) == PLIM_ERR_ARGUMENT, "no event");
  CHECK(plimsoll_snapshot_moment(s, "{\"event\": 0}", &answer, &error) == PLIM_ERR_ARGUMENT,
        "before the first event");
  CHECK(plimsoll_snapshot_moment(s, "{\"event\": 99999999}", &answer, &error) == PLIM_ERR_ARGUMENT,
        "a late event");
  CHECK(plimsoll_snapshot_replay(s, "{\"alloc_conf\": \"nonsense:1\"}", &error), "settings");
  char *still = report_of(s);
  CHECK(still && strstr(still, "\"exact\": true"), "%.200s", still);
  plimsoll_free(still);
  plimsoll_snapshot_close(s);
}

// Every answer about it would be one about a half-made result.
TEST(a_snapshot_whose_replay_ran_out_of_memory_says_so) {
  static const char again[] = "{\"limit\": \"1GiB\"}";
  plimsoll_snapshot *s;
  size_t lost = 0;
  CHECK(!plimsoll_snapshot_open("{\"snapshot\": \"" RECORDING "\"}", &s, &error), "%s",
        error.message);
  char *before = report_of(s);
  for (size_t at = 0; at < 60; at++) {
    fault_memory_set(at, true);
    plim_err err = plimsoll_snapshot_replay(s, again, &error);
    fault_memory_set(FAULT_NEVER, false);
    CHECK(err == PLIM_ERR_NOMEM, "%zu: %s", at, error.message);
    char *report = report_of(s); // the one before, if the request was not even read
    CHECK(report ? strcmp(report, before) == 0 : error.code == PLIM_ERR_NOMEM, "%zu", at);
    lost += !report;
    bool is_lost = plimsoll_snapshot_timeline(s, "{}", &answer, &error) == PLIM_ERR_NOMEM;
    CHECK(is_lost == !report, "%zu: the timeline", at);
    plimsoll_free(answer);
    is_lost = plimsoll_snapshot_moment(s, "{\"event\": 1}", &answer, &error) == PLIM_ERR_NOMEM;
    CHECK(is_lost == !report, "%zu: the moment", at);
    plimsoll_free(answer);
    plimsoll_free(report);
    CHECK(!plimsoll_snapshot_replay(s, "{}", &error), "%zu: %s", at, error.message);
  }
  char *after = report_of(s);
  CHECK(lost && after && strcmp(before, after) == 0, "%zu times lost", lost);
  plimsoll_free(before);
  plimsoll_free(after);
  plimsoll_snapshot_close(s);
}

TEST(an_answer_that_could_not_grow_is_an_error) {
  fault_memory_set(FAULT_NEVER, false);
  CHECK(!plimsoll_list("models", &answer, &error), "%s", error.message);
  char *whole = answer;
  for (size_t at = 0, requests = fault_memory_count(); at < requests; at++) {
    fault_memory_set(at, false);
    plim_err err = plimsoll_list("models", &answer, &error);
    fault_memory_set(FAULT_NEVER, false);
    CHECK(err ? err == PLIM_ERR_NOMEM && !answer : strcmp(answer, whole) == 0, "%zu", at);
    plimsoll_free(answer);
  }
  plimsoll_free(whole);
}

TEST(a_request_that_memory_is_too_small_for_is_no_wrong_request) {
  static const char request[] =
      "{\"model\": \"gpt2\", \"lora_rank\": 16, \"dialect\": \"axolotl\"}";
  for (size_t at = 0; at < 40; at++) {
    fault_memory_set(at, true);
    plim_err err = plimsoll_settings(request, &answer, &error);
    fault_memory_set(FAULT_NEVER, false);
    CHECK(err == PLIM_ERR_NOMEM && !answer, "%zu: %s", at, error.message);
  }
}

TEST_MAIN
