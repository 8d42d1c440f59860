// Settings are put into the user's files, and taken back.
#include <unistd.h>

#include "changeset.h"
#include "folder.h"
#include "recover.h"
#include "test.h"

// As recovery_next leaves it: `with` in place of `path`.
static void begin(recovery *v, const char *path, const char *with) {
  static const char *const typed[] = {"true", NULL};
  plim_sandbox_replaced one = {strdup(path), strdup(with)};
  recovery_begin(v, typed, NULL);
  v->has_with = vec_push(&v->with.version.replaced, one);
}

static bool has(const char *path, const char *text) {
  char found[64] = "";
  FILE *in = fopen(path, "r");
  if (!in) return !text;
  size_t size = fread(found, 1, sizeof found - 1, in);
  fclose(in);
  return text && strlen(text) == size && memcmp(found, text, size) == 0;
}

TEST(a_file_is_changed_and_restored) {
  recovery v;
  plim_error error = {0};
  folder_make();
  CHECK(chdir(folder_path("")) == 0, "chdir");
  folder_write_text("a", "old");
  folder_write_text("copy", "new");
  begin(&v, "a", "copy");
  CHECK(!recovery_put(&v, &error) && has("a", "new"), "%s", error.message);
  CHECK(!recovery_restore(&v, &error) && has("a", "old"), "%s", error.message);
  CHECK(has("a.backup", NULL) && access(".plimsoll", F_OK) != 0, "something is left");
  recovery_end(&v);
  folder_remove();
}

TEST(a_new_file_is_made_and_removed) {
  recovery v;
  plim_error error = {0};
  folder_make();
  CHECK(chdir(folder_path("")) == 0, "chdir");
  folder_write_text("copy", "new");
  begin(&v, "a", "copy");
  CHECK(!recovery_put(&v, &error) && has("a", "new"), "%s", error.message);
  CHECK(!recovery_restore(&v, &error) && has("a", NULL), "%s", error.message);
  recovery_end(&v);
  folder_remove();
}

TEST(a_file_that_the_user_changed_is_left_alone) {
  recovery v;
  plim_error error = {0};
  folder_make();
  CHECK(chdir(folder_path("")) == 0, "chdir");
  folder_write_text("a", "old");
  folder_write_text("copy", "new");
  begin(&v, "a", "copy");
  CHECK(!recovery_put(&v, &error), "%s", error.message);
  folder_write_text("a", "mine");
  CHECK(recovery_restore(&v, &error) == PLIM_ERR_UNSUPPORTED && has("a", "mine"), "no error");
  CHECK(strstr(error.message, "a was changed during the run"), "%s", error.message);
  CHECK(has("a.backup", "old"), "the original is kept");
  recovery_end(&v);
  folder_remove();
}

TEST(settings_that_are_kept_can_be_undone) {
  recovery v;
  plim_error error = {0};
  plim_changeset_result result;
  folder_make();
  CHECK(chdir(folder_path("")) == 0, "chdir");
  folder_write_text("a", "old");
  folder_write_text("copy", "new");
  begin(&v, "a", "copy");
  CHECK(!recovery_keep(&v, &error) && has("a", "new"), "%s", error.message);
  char files[64];
  CHECK(!recovery_clean_up(files, sizeof files, &error) && !*files && has("a", "new"), "it stays");
  CHECK(!plim_changeset_undo(".", NULL, &result, &error) && has("a", "old"), "%s", error.message);
  plim_changeset_result_clear(&result);
  recovery_end(&v);
  folder_remove();
}

// Two plans: what is in force already, and that with a smaller micro batch.
static bool plans(void *context, const simulate_process *seen, size_t rung, cli_strings *settings) {
  (void)context, (void)seen;
  bool ok = rung < 2 && vec_push(settings, strdup("alloc_conf=expandable_segments:True"));
  if (ok && rung)
    ok = vec_push(settings, strdup("micro_batch=4")) && vec_push(settings, strdup("accumulate=4"));
  return ok;
}

// The settings with which a program that needs a smaller batch is started again.
static void check_next(bool has_expandable, const char *wanted) {
  static const char *const typed[] = {"./trainer", "--per_device_train_batch_size",
                                      "8",         "--gradient_accumulation_steps",
                                      "2",         NULL};
  recovery v;
  recovery_step step;
  plim_error error = {0};
  explanation e = {.verdict = EXPLAIN_SHORTAGE};
  simulate_process seen = {0};
  explain_cure cure = {.kind = EXPLAIN_CURE_SMALLER_BATCH};
  CHECK(vec_push(&e.cures, cure), "memory");
  recovery_begin(&v, typed, NULL);
  v.plan = plans;
  v.has_expandable = has_expandable;
  CHECK(!recovery_next(&v, &e, &seen, &step, &error), "%s", error.message);
  CHECK_STR(step.text, wanted);
  vec_free(&e.cures);
  recovery_end(&v);
}

// A plan that would change nothing is passed over.
TEST(only_settings_that_change_are_named) {
  folder_make();
  CHECK(chdir(folder_path("")) == 0, "chdir");
  check_next(true, "the planned settings micro_batch=4, accumulate=4");
  check_next(false, "the planned settings alloc_conf=expandable_segments:True");
  folder_remove();
}

TEST_MAIN
