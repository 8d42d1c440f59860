// Diffs have the form that git writes, and git apply and patch -p1 turn the old files into the new ones.
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "diff.h"
#include "folder.h"
#include "test.h"
#include "vec.h"

static const char *diff_of(const char *path, const char *before, const char *after) {
  static char text[4096];
  plim_diff diff = {0};
  plim_err err = plim_diff_add(&diff, path, before, before ? strlen(before) : 0, after,
                               after ? strlen(after) : 0, NULL);
  snprintf(text, sizeof text, "%.*s", err ? 0 : (int)diff.len, diff.len ? diff.at : "");
  plim_diff_clear(&diff);
  return text;
}

TEST(diff_of_one_line_shows_three_around_it) {
  CHECK_STR(
      diff_of("c.yaml", "1\n2\n3\n4\nbatch: 8\n6\n7\n8\n9\n", "1\n2\n3\n4\nbatch: 4\n6\n7\n8\n9\n"),
      "diff --git a/c.yaml b/c.yaml\n--- a/c.yaml\n+++ b/c.yaml\n"
      "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-batch: 8\n+batch: 4\n 6\n 7\n 8\n");
}

TEST(diff_joins_hunks_that_touch) {
  CHECK_STR(diff_of("f", "a\n1\n2\n3\n4\n5\n6\nb\n", "A\n1\n2\n3\n4\n5\n6\nB\n"),
            "diff --git a/f b/f\n--- a/f\n+++ b/f\n"
            "@@ -1,8 +1,8 @@\n-a\n+A\n 1\n 2\n 3\n 4\n 5\n 6\n-b\n+B\n");
  CHECK_STR(diff_of("f", "a\n1\n2\n3\n4\n5\n6\n7\nb\n", "A\n1\n2\n3\n4\n5\n6\n7\nB\n"),
            "diff --git a/f b/f\n--- a/f\n+++ b/f\n"
            "@@ -1,4 +1,4 @@\n-a\n+A\n 1\n 2\n 3\n@@ -6,4 +6,4 @@\n 5\n 6\n 7\n-b\n+B\n");
}

TEST(diff_says_where_the_last_newline_is_missing) {
  CHECK_STR(diff_of("f", "a", "a\n"), "diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n"
                                      "\\ No newline at end of file\n+a\n");
  CHECK_STR(diff_of("f", "a\nb", "A\nb"), "diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n"
                                          "-a\n+A\n b\n\\ No newline at end of file\n");
}

TEST(diff_keeps_carriage_returns) {
  CHECK_STR(diff_of("f", "a\r\nb\r\n", "a\r\nc\r\n"),
            "diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\r\n-b\r\n+c\r\n");
}

TEST(diff_of_created_and_removed_files) {
  CHECK_STR(diff_of("f", NULL, "x\n"), "diff --git a/f b/f\nnew file mode 100644\n--- /dev/null\n"
                                       "+++ b/f\n@@ -0,0 +1 @@\n+x\n");
  CHECK_STR(diff_of("f", "x\n", NULL), "diff --git a/f b/f\ndeleted file mode 100644\n--- a/f\n"
                                       "+++ /dev/null\n@@ -1 +0,0 @@\n-x\n");
  CHECK_STR(diff_of("f", NULL, ""), "diff --git a/f b/f\nnew file mode 100644\n");
  CHECK_STR(diff_of("f", "same", "same"), "");
}

TEST(diff_quotes_names_as_git_does) {
  CHECK(strstr(diff_of("my run.sh", "1\n", "2\n"), "diff --git a/my run.sh b/my run.sh\n"
                                                   "--- a/my run.sh\t\n+++ b/my run.sh\t\n"),
        "%s", diff_of("my run.sh", "1\n", "2\n"));
  CHECK(strstr(diff_of("\303\274 \"x\"\t\\", "1\n", "2\n"),
               "--- \"a/\\303\\274 \\\"x\\\"\\t\\\\\"\n"),
        "%s", diff_of("\303\274 \"x\"\t\\", "1\n", "2\n"));
}

static size_t count_signs(const plim_diff *diff) {
  size_t count = 0;
  for (size_t i = 1; i < diff->len; i++)
    count += diff->at[i - 1] == '\n' && (diff->at[i] == '-' || diff->at[i] == '+');
  return count - 2; // without the two lines with names
}

// Myers' own example: ABCABBA to CBABAC in five edits.
TEST(diff_is_the_shortest) {
  plim_diff diff = {0};
  CHECK(!plim_diff_add(&diff, "f", "A\nB\nC\nA\nB\nB\nA\n", 14, "C\nB\nA\nB\nA\nC\n", 12, NULL),
        "fails");
  CHECK_U64(count_signs(&diff), 5);
  plim_diff_clear(&diff);
}

// ---- through git and patch --------------------------------------------------------------------

static uint64_t seed;

static unsigned below(unsigned n) {
  seed = seed * 6364136223846793005ull + 1442695040888963407ull;
  return (unsigned)(seed >> 33) % n;
}

typedef struct {
  char name[64];
  plim_diff before, after; // the texts
  bool is_new, is_gone;
} pair;

static void add(plim_diff *to, const char *text) {
  for (; *text; text++)
    if (!vec_push(to, *text)) abort();
}

static const char *line_of(unsigned kinds) {
  static char text[64];
  static const char *const odd[] = {
      "", "\r", "-- a", "++ b", "@@ -1 +1 @@", "\\ No newline", "diff --git"};
  unsigned kind = below(kinds + 3);
  if (kind < sizeof odd / sizeof *odd && below(4) == 0)
    snprintf(text, sizeof text, "%s", odd[kind]);
  else snprintf(text, sizeof text, "  key_%u: %u%s", kind, kind * kind, kind % 5 ? "" : "\r");
  return text;
}

static void add_line(plim_diff *to, unsigned kinds, bool has_end) {
  add(to, line_of(kinds));
  if (has_end) add(to, "\n");
}

static size_t line_length(const plim_diff *text, size_t at) {
  size_t end = at;
  while (end < text->len && text->at[end] != '\n') end++;
  return end - at + (end < text->len);
}

// Removes, inserts and replaces lines of the old text, one in `rarity`.
static void edit(pair *p, unsigned rarity, unsigned kinds) {
  for (size_t at = 0, length; at < p->before.len; at += length) {
    length = line_length(&p->before, at);
    unsigned what = below(rarity);
    if (what <= 1) add_line(&p->after, kinds, true);
    if (what == 1 || what == 2) continue;
    for (size_t i = 0; i < length; i++)
      if (!vec_push(&p->after, p->before.at[at + i])) abort();
  }
  if (below(8) == 0) add_line(&p->after, kinds, below(2));
}

static void name_pair(pair *p, int i) {
  static const char *const forms[] = {
      "f%d",       "a folder/with space %d", "deep/er/%d.yaml", "t\tab%d",
      "quo\"te%d", "\303\274n\303\257%d",    "back\\slash%d"};
  char form[64];
  snprintf(form, sizeof form, "%s", forms[below(10) % (sizeof forms / sizeof *forms)]);
  char *number = strstr(form, "%d");
  snprintf(p->name, sizeof p->name, "%.*s%d%s", (int)(number - form), form, i, number + 2);
}

// One pair in a hundred has more edits than MOST_EDITS.
static pair make_pair(int i) {
  pair p = {0};
  name_pair(&p, i);
  unsigned lines = below(4) ? below(40) : i % 100 ? below(300) : 5000, kinds = 1 + below(30);
  for (unsigned k = 0; k < lines; k++) add_line(&p.before, kinds, k + 1 < lines || below(3));
  edit(&p, 4 + below(40), kinds);
  p.is_new = below(12) == 0;
  p.is_gone = !p.is_new && below(12) == 0;
  if (p.is_new) p.before.len = 0;
  if (p.is_gone) p.after.len = 0;
  return p;
}

// GNU patch fails on created or removed empty files, also in git's own diffs.
static void avoid_empty_files(pair *p) {
  if (p->is_new && !p->after.len) p->is_new = false;
  if (p->is_gone && !p->before.len) p->is_gone = false;
}

static void drop_pair(pair *p) {
  vec_free(&p->before);
  vec_free(&p->after);
}

static const char *bytes(const plim_diff *text) { return text->at ? text->at : ""; }

// Files are in work/, the diff is next to it.
static const char *place_of(const pair *p) {
  static char inside[128];
  snprintf(inside, sizeof inside, "work/%.100s", p->name);
  return inside;
}

static void write_before(const pair *p) {
  if (!p->is_new) folder_write(place_of(p), bytes(&p->before), p->before.len);
}

static bool is_after(const pair *p) {
  FILE *in = fopen(folder_path(place_of(p)), "rb");
  if (!in) return p->is_gone;
  char *text = malloc(p->after.len + 1);
  size_t got = text ? fread(text, 1, p->after.len + 1, in) : 0;
  fclose(in);
  bool same = text && got == p->after.len && memcmp(text, bytes(&p->after), got) == 0;
  free(text);
  return same && !p->is_gone;
}

static int run_in_work(const char *command) {
  char line[1024];
  snprintf(line, sizeof line, "cd '%s' && { %s; } 2>&1 | tail -n 5; exit ${PIPESTATUS[0]}",
           folder_path("work"), command);
  folder_write_text("run.sh", line);
  snprintf(line, sizeof line, "bash '%s'", folder_path("run.sh"));
  return system(line);
}

#define PAIRS 400

static void round_trip(uint64_t start, bool has_empty_files, const char *command) {
  static pair pairs[PAIRS];
  plim_diff diff = {0};
  seed = start;
  folder_make();
  folder_write_text("work/.keep", "");
  for (int i = 0; i < PAIRS; i++) {
    pair *p = &pairs[i];
    *p = make_pair(i);
    if (!has_empty_files) avoid_empty_files(p);
    write_before(p);
    CHECK(!plim_diff_add(&diff, p->name, p->is_new ? NULL : bytes(&p->before), p->before.len,
                         p->is_gone ? NULL : bytes(&p->after), p->after.len, NULL),
          "diff of pair %d", i);
  }
  folder_write("all.patch", diff.at, diff.len);
  CHECK(run_in_work(command) == 0, "%s: the diff is in %s", command, folder_path("all.patch"));
  for (int i = 0; i < PAIRS; i++) CHECK(is_after(&pairs[i]), "pair %d, %s", i, place_of(&pairs[i]));
  for (int i = 0; i < PAIRS; i++) drop_pair(&pairs[i]);
  plim_diff_clear(&diff);
  folder_remove();
}

TEST(diff_goes_through_git_apply) {
  if (system("git --version >/dev/null 2>&1")) SKIP("there is no git");
  for (uint64_t start = 1; start <= 3; start++)
    round_trip(start, true, "git init -q . && git apply --whitespace=nowarn ../all.patch");
}

TEST(diff_goes_through_patch) {
  if (system("patch --version >/dev/null 2>&1")) SKIP("there is no patch");
  for (uint64_t start = 11; start <= 13; start++)
    round_trip(start, false, "patch -p1 -s --binary <../all.patch");
}

TEST_MAIN
