// The time for reading, changing and checking a file must grow linearly with its size, not quadratically as if every setting was
// searched linearly. The test compares the CPU times of a file and of one four times as large; because caches and
// other processes disturb them, one good try of several is enough.
#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "check.h"
#include "folder.h"
#include "project_change.h"
#include "test.h"

enum { COPIES = 4000, LARGER = 4, TRIES = 5 };
#define MOST_TIMES 8.0 // 4 if the time is linear, 16 if it is quadratic
#define NOISE_SECONDS 0.05

#define CALL "TrainingArguments(per_device_train_batch_size=8)\n"
#define ARGUMENT                                                                                   \
  "p = argparse.ArgumentParser()\np.add_argument('--z', default=1)\nargs = p.parse_args()\n"

typedef struct {
  const char *path, *front, *copy, *back; // `copy` has one %d for its number
} large;

static const large files[] = {
    {"calls.py", "size = 8\n", "TrainingArguments(per_device_train_batch_size=size, seed=%d)\n",
     ""},
    {"functions.py", "", "def f%d(x):\n    y = 1\n    return f(x, z=y)\n", CALL},
    {"overloads.py", "", "def f(x):\n    y = %d\n    return f(x, z=y)\n", CALL},
    {"classes.py", "", "class C%d:\n    a: int = 1\n    def g(self):\n        self.b = 1\n", CALL},
    {"ifs.py", ARGUMENT, "if args.z == %d:\n    y = 1\nelse:\n    y = 2\n", CALL},
    {"elifs.py", ARGUMENT "if args.z:\n    y = 1\n", "elif args.z == %d:\n    y = 1\n", CALL},
    {"same.py", "", "y = %d\n", CALL},
    {"same_dict.py", "", "y = {'z': %d}\n", CALL},
    {"arguments.py", ARGUMENT, "p.add_argument('--a%d', default=1)\n", CALL},
    {"dict.py", "y = {", "'k%d': 1, ", "}\n" CALL},
    {"with.py", "with a() as b", ", a() as b%d", ":\n    pass\n" CALL},
    {"chain.py", "y = 1\n", "y%d = y\ny = y\n", CALL},
    {"sums.py", "z = q\n", "y%d = z + 1\nz = z + 1\n", CALL},
    {"loads.py", "c = yaml.safe_load(open('c.yaml'))\n", "f(y=d.k%d)\n", CALL},
    {"branches.py", "", "if a%d:\n    f(gradient_accumulation_steps=2)\n", CALL},
    {"both.py", "",
     "if a%d:\n    f(gradient_accumulation_steps=2)\nelse:\n    f(gradient_accumulation_steps=2)\n",
     CALL},
    {"unpacked.py", "", "TrainingArguments(per_device_train_batch_size=8, **c%d)\n", ""},
    {"dicts.py", "y = {}\n", "y = {**y, 'k%d': 1}\n", CALL},
    {"changes.py", "y = {}\n", "def f%d(x):\n    x['k'] = 1\n    g(x)\nf(y)\n", CALL},
    {"losses.py", "", "loss = loss / a%d\n", CALL},
    {"sections.yaml", "", "section_%d:\n  per_device_eval_batch_size: 8\n",
     "training:\n  per_device_train_batch_size: 8\n"},
    {"rows.yaml", "", "section_%d:\n  per_device_train_batch_size: 8\n", ""},
    {"aliases.yaml", "size: &size 8\n", "section_%d: {per_device_train_batch_size: *size}\n", ""},
    {"vars.sh", "", "VARIABLE_%d=8\n", "python train.py --per_device_train_batch_size 8\n"},
    {"chain.sh", "V=8\n", "V%d=$V\nV=$V\n", "python train.py --per_device_train_batch_size 8\n"},
    {"many.sh", "", "python train.py --per_device_train_batch_size 8 --seed %d\n", ""},
    {"lists.sh", "ARGS=(--lr 1)\n", "ARGS+=(--flag_%d 8)\npython train.py \"${ARGS[@]}\"\n",
     "python train.py --per_device_train_batch_size 8\n"},
    {"commands.sh", "", "C%d='python train.py --lr 1'\neval $C\n",
     "python train.py --per_device_train_batch_size 8\n"},
    {"flags.sh", "python train.py", " --flag_%d 8", " --per_device_train_batch_size 8\n"},
    {"Dockerfile", "FROM x\n", "ENV VARIABLE_%d=8\n",
     "CMD python train.py --per_device_train_batch_size 8\n"},
    {"keys.toml", "", "key_%d = 8\n", "per_device_train_batch_size = 8\n"},
};

// More to follow and to find: words of commands, files that are missing, variables, lines that are cut.
static const large checked[] = {
    {"torchrun.sh", "", "torchrun --nproc_per_node 2 train.py --seed %d --fp16 True\n", ""},
    {"one_line.sh", "python train.py", " --seed x%d.yaml", "\n"},
    {"missing.sh", "", "python train.py --config conf/%d.yaml\n", ""},
    {"cut.sh", "", "python train.py \\\n# %d\n  --lr 1\n", ""},
    {"environment.sh", "", "PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:%d\n", "python train.py\n"},
    {"environment.py", "import os\n",
     "os.environ['PYTORCH_CUDA_ALLOC_CONF'] = 'max_split_size_mb:%d'\n", CALL},
    {"texts.py", "", "f(open('conf/%d.yaml'))\n", CALL},
    {"imports.py", "", "import module_%d\n", CALL},
};

// Two files that refer to each other: references to another module, arguments that a command sets.
static const large pairs[][2] = {
    {{"references.py", "", "f(y=cfg.x%d)\n", CALL}, {"other.py", "", "Y%d = 1\n", ""}},
    {{"conditions.py", "", "if cfg.x%d:\n    y = 1\n", CALL},
     {"fields.py", "class A:\n", "    x%d: int = 1\n", ""}},
    {{"given.py", ARGUMENT, "p.add_argument('--a%d', default=1)\nif args.a%d:\n    y = 1\n", CALL},
     {"run.sh", "python given.py", " --a%d 2", "\n"}},
};

static char *text_of(const large *file, int copies) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  if (!out) return NULL;
  fputs(file->front, out);
  for (int i = 0; i < copies; i++)
    for (const char *at = file->copy; *at;) {
      size_t plain = strcspn(at, "%");
      fprintf(out, "%.*s", (int)plain, at);
      at += plain;
      if (*at) fprintf(out, "%d", i), at += 2;
    }
  fputs(file->back, out);
  fclose(out);
  return text;
}

static void try_a_change(const plim_project *p) {
  plim_knob_change change = {PLIM_KNOB_MICRO_BATCH, {.kind = PLIM_VALUE_INTEGER, .integer = 4}};
  plim_edit_set edits;
  if (!plim_project_set(p, &change, 1, &edits, NULL)) plim_edit_set_clear(&edits);
}

// NaN if the file is not read correctly.
static double seconds_of(const large *file, size_t count, int copies) {
  plim_project p = {0};
  plim_error error = {0};
  plim_err err = PLIM_OK;
  char *texts[2] = {0};
  size_t size = 0;
  for (size_t i = 0; i < count; i++) size += strlen(texts[i] = text_of(&file[i], copies));
  clock_t begin = clock();
  for (size_t i = 0; i < count && !err; i++)
    err = plim_project_add(&p, file[i].path, texts[i], strlen(texts[i]), &error);
  if (!err) err = plim_project_finish(&p, &error);
  if (!err) try_a_change(&p);
  double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
  const plim_project_knob *k = &p.knobs[PLIM_KNOB_MICRO_BATCH];
  bool ok = !err && k->origin == PLIM_EXPLICIT && k->value.integer == 8;
  printf("%-14s %5.1f MB %5.2f s %s\n", file->path, (double)size / 1e6, seconds, error.message);
  plim_project_clear(&p);
  for (size_t i = 0; i < count; i++) free(texts[i]);
  return ok ? seconds : NAN;
}

static char *no_environment(const char *name) { return (void)name, NULL; }

// The same for check, which also follows what the file refers to.
static double seconds_of_check(const large *file, size_t count, int copies) {
  check *c = calloc(1, sizeof *c);
  plim_error error = {0};
  char *text = text_of(file, copies);
  (void)count;
  if (!c || !text) return NAN;
  c->root = "";
  c->environment = no_environment;
  folder_make_in_memory();
  folder_write_text(file->path, text);
  const char *path = folder_path(file->path);
  clock_t begin = clock();
  plim_err err = check_read(c, &(project_input){.files = &path, .count = 1}, &error);
  if (!err) err = check_all(c, &error);
  double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
  printf("%-14s %5.1f MB %5.2f s %zu findings %s\n", file->path, (double)strlen(text) / 1e6,
         seconds, c->findings.len, error.message);
  check_clear(c);
  folder_remove();
  free(c);
  free(text);
  return err ? NAN : seconds;
}

typedef double measure(const large *file, size_t count, int copies);

static bool is_in_time(measure *seconds, const large *file, size_t count) {
  for (int i = 0; i < TRIES; i++) {
    double once = seconds(file, count, COPIES);
    if (seconds(file, count, LARGER * COPIES) < MOST_TIMES * once + NOISE_SECONDS) return true;
  }
  return false;
}

TEST(large_files_are_read_and_changed_in_time) {
  for (size_t i = 0; i < sizeof files / sizeof *files; i++)
    test_count(files[i].path, is_in_time(seconds_of, &files[i], 1));
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
    test_count(pairs[i][0].path, is_in_time(seconds_of, pairs[i], 2));
}

TEST(large_files_are_checked_in_time) {
  for (size_t i = 0; i < sizeof files / sizeof *files; i++)
    test_count(files[i].path, is_in_time(seconds_of_check, &files[i], 1));
  for (size_t i = 0; i < sizeof checked / sizeof *checked; i++)
    test_count(checked[i].path, is_in_time(seconds_of_check, &checked[i], 1));
}

TEST_MAIN
