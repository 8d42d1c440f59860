// Removes settings from texts: their line or entry is removed, comments on their own lines and all other bytes stay,
// and a removal that would affect something else is refused.
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "../fuzz/remove_property.h"
#include "formats.h"
#include "settings.h"
#include "test.h"
#include "text_file.h"

typedef struct {
  const char *before, *key, *after; // after NULL: refused
} row;

typedef plim_err remover(const plim_settings *s, const char *key, plim_edit *edit,
                         plim_error *error);

static plim_err remove_one(const plim_settings *s, const char *key, plim_edit *edit,
                           plim_error *error) {
  const plim_setting *setting = plim_settings_find(s, key);
  return setting ? plim_settings_remove(s, setting, edit, error)
                 : plim_fail(error, PLIM_ERR_ARGUMENT, "there is no %s", key);
}

// The text without the key, freed by the caller; NULL if the removal is refused.
static char *without(plim_format format, const row *r, remover *take, plim_error *error) {
  plim_settings s;
  plim_edit edit;
  char *text = NULL;
  size_t size;
  *error = (plim_error){0};
  if (plim_settings_read(format, r->before, strlen(r->before), &s, error)) return NULL;
  plim_err err = take(&s, r->key, &edit, error);
  if (!err) err = plim_edits_apply(s.text, s.size, &edit, 1, &text, &size, error);
  if (!err) free(edit.text);
  plim_settings_clear(&s);
  return text;
}

static void check_rows(plim_format format, const row *rows, size_t count, remover *take) {
  for (size_t i = 0; i < count; i++) {
    plim_error error;
    char *text = without(format, &rows[i], take, &error);
    bool is_well = text ? rows[i].after && strcmp(text, rows[i].after) == 0
                        : !rows[i].after && strstr(error.message, "cannot be removed");
    if (!is_well)
      printf("%s of\n%s\n%s\n", rows[i].key, rows[i].before, text ? text : error.message);
    CHECK(is_well, "row %zu", i);
    free(text);
  }
}

#define CHECK_ROWS(format, rows) check_rows(format, rows, sizeof(rows) / sizeof *(rows), remove_one)
// Removes all settings below a key.
#define CHECK_BLOCKS(format, rows)                                                                 \
  check_rows(format, rows, sizeof(rows) / sizeof *(rows), plim_settings_remove_all)

TEST(keys_are_removed_with_everything_below) {
  static const row yaml[] = {
      {"a: 1\nb:\n  # why\n  c: 2\n  d: [1, 2]  # and\n# about e\ne: 3\n", "b",
       "a: 1\n# about e\ne: 3\n"},
      {"a: 1\nb:\n- x\n- y\n", "b", "a: 1\n"},
      {"a: 1\nb: {c: 2, d: {e: 3}}\n", "b", "a: 1\n"},
      {"a:\n  b: {c: 2}\n  d: 1\n", "a.b", "a:\n  d: 1\n"},
      {"a: {b: {c: 2}, d: 1}\n", "a.b", "a: {d: 1}\n"},
      {"a: &x\n  b: 1\nc: *x\n", "a", NULL},
      {"a: 1\n", "a", NULL},
  };
  static const row json[] = {
      {"{\n  \"a\": 1,\n  \"b\": {\n    \"c\": 2\n  }\n}\n", "b", "{\n  \"a\": 1\n}\n"},
      {"{\"b\": {\"c\": [1]}, \"a\": 1}", "b", "{\"a\": 1}"},
  };
  static const row python[] = {
      {"f(a=1, b={\"c\": 2, \"d\": \"}\"}, e=3)\n", "f.b", "f(a=1, e=3)\n"},
      {"f(\n    a=1,\n    b={\n        \"c\": 2,  # }\n    },\n)\n", "f.b", "f(\n    a=1,\n)\n"},
      {"f(a=1, b=dict(c=2))\n", "f.b", "f(a=1)\n"},
      {"X = {\"a\": 1, \"b\": {\"c\": 2}}\n", "X.b", "X = {\"a\": 1}\n"},
      {"X = {\"a\": 1}\n", "X", NULL}, // a constant is used elsewhere
  };
  CHECK_BLOCKS(PLIM_FORMAT_YAML, yaml);
  CHECK_BLOCKS(PLIM_FORMAT_JSON, json);
  CHECK_BLOCKS(PLIM_FORMAT_PYTHON, python);
}

TEST(yaml) {
  static const row rows[] = {
      {"a: 1\nb: 2  # why\nc: 3\n", "b", "a: 1\nc: 3\n"},
      {"a: 1\n# about b\nb: 2\nc: 3\n", "b", "a: 1\n# about b\nc: 3\n"},
      {"a: 1\r\nb: 2\r\n", "a", "b: 2\r\n"},
      {"a: 1\nb: 2", "b", "a: 1"}, // without a line break at the end, before and after
      {"\xef\xbb\xbf"
       "a: 1\nb: 2\n",
       "a",
       "\xef\xbb\xbf"
       "b: 2\n"},
      {"o:\n  _component_: torch.optim.AdamW\n  fused: True\n  lr: 1.0e-4\n", "o.fused",
       "o:\n  _component_: torch.optim.AdamW\n  lr: 1.0e-4\n"},
      {"o: {a: 1, b: 2, c: 3}\n", "o.b", "o: {a: 1, c: 3}\n"},
      {"o: {a: 1, b: 2}\n", "o.b", "o: {a: 1}\n"},
      {"o: {a: 1, b: 2}\n", "o.a", "o: {b: 2}\n"},
      {"o: {a: 1}\n", "o.a", "o: {}\n"},
      {"a: |\n  two\n  lines\nb: 2\n", "a", "b: 2\n"},
      {"a:\nb: 2\n", "a", "b: 2\n"},
      {"a: x,\nb: 2\n", "b", "a: x,\n"},           // the comma belongs to a
      {"o:\n  a: 1\nb: 2\n", "o.a", NULL},         // o would become null
      {"l:\n  - a: 1\n    b: 2\n", "l.0.a", NULL}, // it shares its line with the dash
      {"l: [1, 2]\n", "l.0", NULL},
      {"a: &x 1\nb: *x\n", "a", NULL}, // b refers to it
  };
  CHECK_ROWS(PLIM_FORMAT_YAML, rows);
}

TEST(json) {
  static const row rows[] = {
      {"{\n  \"a\": 1,\n  \"b\": 2,\n  \"c\": 3\n}\n", "b", "{\n  \"a\": 1,\n  \"c\": 3\n}\n"},
      {"{\n  \"a\": 1,\n  \"b\": 2\n}\n", "b", "{\n  \"a\": 1\n}\n"},
      {"{\n  \"a\": 1,\n  \"b\": 2\n}", "a", "{\n  \"b\": 2\n}"},
      {"{\"a\": {\"x\": 1}, \"b\": 2}", "b", "{\"a\": {\"x\": 1}}"},
      {"{\"a\": 1, \"b\": [1, \"x,y\"], \"c\": 2}", "c", "{\"a\": 1, \"b\": [1, \"x,y\"]}"},
      {"{\"a\": 1}", "a", "{}"},
      {"{\"a\":1,\"b\":2,\"c\":3}", "a", "{\"b\":2,\"c\":3}"},
      {"{\n\t\"a\": 1,\r\n\t\"b\": 2\r\n}\r\n", "b", "{\n\t\"a\": 1\r\n}\r\n"},
      {"[1, 2]", "0", NULL},
  };
  CHECK_ROWS(PLIM_FORMAT_JSON, rows);
}

TEST(toml) {
  static const row rows[] = {
      {"a = 1\nb = 2 # why\n[t]\nc = 3\n", "b", "a = 1\n[t]\nc = 3\n"},
      {"[t]\nc = 3\n", "t.c", "[t]\n"},
      {"t = { a = 1, b = 2 }\n", "t.a", "t = { b = 2 }\n"},
      {"t = { a = 1, b = 2 }\n", "t.b", "t = { a = 1 }\n"},
      {"a = \"\"\"\nx = 1\n\"\"\"\nb = 2\n", "a", "b = 2\n"},
  };
  CHECK_ROWS(PLIM_FORMAT_TOML, rows);
}

TEST(python) {
  static const row rows[] = {
      {"args = TrainingArguments(\n    a=1,\n    fp16=True,  # old card\n    b=2,\n)\n",
       "TrainingArguments.fp16", "args = TrainingArguments(\n    a=1,\n    b=2,\n)\n"},
      {"f(\n    a=1,  # first\n    b=2\n)\n", "f.b", "f(\n    a=1  # first\n)\n"},
      {"f(a=1, b=2)\n", "f.b", "f(a=1)\n"},
      {"f(a=1, b=2)\n", "f.a", "f(b=2)\n"},
      {"f(x, a=1)\n", "f.a", "f(x)\n"},
      {"f(a=1)\n", "f.a", "f()\n"},
      {"C = {\n    \"a\": 1,\n    \"b\": 2,\n}\n", "C.b", "C = {\n    \"a\": 1,\n}\n"},
      {"C = {'a': 1, 'b': [1, 2], 'c': 3}\n", "C.c", "C = {'a': 1, 'b': [1, 2]}\n"},
      {"C = dict(a=1, b=2)\n", "C.a", "C = dict(b=2)\n"},
      {"BATCH = 2\nx = BATCH\n", "BATCH", NULL},
      {"class C:\n    batch: int = 2\n", "C.batch", NULL},
      {"C = {}\nC[\"a\"] = 1\n", "C.a", NULL},
      {"p.add_argument(\"--a\", default=1)\n", "p.--a", NULL},
  };
  CHECK_ROWS(PLIM_FORMAT_PYTHON, rows);
}

TEST(shell) {
  static const row rows[] = {
      {"python t.py --a 1 --fp16 --b 2\n", "--fp16", "python t.py --a 1 --b 2\n"},
      {"python t.py --a 1 --b 2\n", "--b", "python t.py --a 1\n"},
      {"python t.py --a=1 --b=2\n", "--a", "python t.py --b=2\n"},
      {"python t.py \\\n  --a 1 \\\n  --b \"x y\" \\\n  --c 3\n", "--b",
       "python t.py \\\n  --a 1 \\\n  --c 3\n"},
      {"python t.py \\\n  --a 1 \\\n  --c 3\n", "--c", "python t.py \\\n  --a 1\n"},
      {"python t.py --betas 0.9 0.95 --a 1\n", "--betas", "python t.py --a 1\n"},
      {"python t.py a.b=1 +c.d=2\n", "c.d", "python t.py a.b=1\n"},
      {"python t.py --a 1\npython u.py --a 2\n", "--a", "python t.py\npython u.py --a 2\n"},
      {"export A=1\nexport B=2  # why\npython t.py\n", "$B", "export A=1\npython t.py\n"},
      {"A=1\npython t.py --a $A\n", "$A", NULL},
      {"A=1 B=2\npython t.py\n", "$A", NULL},
  };
  CHECK_ROWS(PLIM_FORMAT_SHELL, rows);
}

TEST(dockerfile) {
  static const row rows[] = {
      {"FROM x\nCMD [\"python\", \"t.py\", \"--a\", \"1\", \"--fp16\"]\n", "--fp16",
       "FROM x\nCMD [\"python\", \"t.py\", \"--a\", \"1\"]\n"},
      {"FROM x\nCMD [\"python\", \"t.py\", \"--a\", \"1\", \"--b\", \"2\"]\n", "--a",
       "FROM x\nCMD [\"python\", \"t.py\", \"--b\", \"2\"]\n"},
      {"FROM x\nCMD python t.py --a 1 --b 2\n", "--a", "FROM x\nCMD python t.py --b 2\n"},
      {"FROM x\nENV A=1\n", "$A", NULL},
  };
  CHECK_ROWS(PLIM_FORMAT_DOCKERFILE, rows);
}

// ---- real files -------------------------------------------------------------------------------------

#define CONFIGS TEST_ROOT "/../../shared/configs/"

#ifdef TEST_SANITIZED // each one takes eight times as long
enum { STEP = 8 };
#else
enum { STEP = 1 };
#endif

// Removes every setting of a real file, or every n-th: it is refused, or only that setting is gone.
static size_t remove_each(const char *path, size_t *total) {
  char *text;
  size_t size, removed = 0;
  plim_format format;
  plim_settings s;
  plim_edit edit;
  if (plim_text_file_read(path, 1 << 20, &text, &size, NULL)) return 0;
  if (plim_format_of(path, text, size, &format) &&
      !plim_settings_read(format, text, size, &s, NULL)) {
    for (size_t i = 0; i < s.at.len; i += STEP) {
      check_removal(&s, i);
      bool is_gone = !plim_settings_remove(&s, &s.at.at[i], &edit, NULL);
      if (is_gone) free(edit.text);
      removed += is_gone;
      *total += 1;
    }
    plim_settings_clear(&s);
  }
  free(text);
  return removed;
}

TEST(most_settings_of_real_files_can_be_removed) {
  DIR *folder = opendir(CONFIGS);
  size_t total = 0, removed = 0;
  if (!folder) SKIP("no %s", CONFIGS);
  for (struct dirent *entry; (entry = readdir(folder));) {
    char path[512];
    snprintf(path, sizeof path, CONFIGS "%.200s", entry->d_name);
    if (*entry->d_name != '.') removed += remove_each(path, &total);
  }
  closedir(folder);
  printf("  %zu of %zu\n", removed, total);
  CHECK(total > 500 && removed * 10 >= total * 8, "%zu of %zu", removed, total);
}

TEST_MAIN
