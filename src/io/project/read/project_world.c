// Computes the number of GPUs from the machines, GPUs and batches set in several files.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "project_impl.h"

enum { MOST = 1 << 20 };

static bool is_known(const plim_project_knob *k) {
  return (k->origin == PLIM_EXPLICIT || k->origin == PLIM_DEFAULTED) &&
         k->value.kind == PLIM_VALUE_INTEGER && k->value.integer > 0 && k->value.integer <= MOST;
}

static int64_t count_of(const plim_project *p, plim_knob knob, int64_t unknown) {
  return is_known(&p->knobs[knob]) ? p->knobs[knob].value.integer : unknown;
}

// ---- machines ---------------------------------------------------------------------------------------

static bool is_per_node(const plim_project_knob *world) {
  const plim_key *key = world->place_count ? world->places[0].key : NULL;
  return world->origin == PLIM_EXPLICIT && key && key->flags & PLIM_KEY_PER_NODE;
}

static void leave_open(plim_project_knob *k, const char *why) {
  char copy[sizeof k->why];
  snprintf(copy, sizeof copy, "%s", why);
  k->origin = PLIM_UNCLEAR;
  k->is_fixed = true;
  k->value = (plim_value){0};
  snprintf(k->why, sizeof k->why, "%s", copy);
}

// The directives that set Slurm's variables: --nodes=4, --gres=gpu:a100:8.
static const struct {
  plim_knob knob;
  const char *variable, *directive;
} allocated[] = {
    {PLIM_KNOB_NODES, "SLURM_NNODES", "#SBATCH.--nodes"},
    {PLIM_KNOB_NODES, "SLURM_NNODES", "#SBATCH.-N"},
    {PLIM_KNOB_NODES, "SLURM_JOB_NUM_NODES", "#SBATCH.--nodes"},
    {PLIM_KNOB_NODES, "SLURM_JOB_NUM_NODES", "#SBATCH.-N"},
    {PLIM_KNOB_WORLD, "SLURM_GPUS_ON_NODE", "#SBATCH.--gpus-per-node"},
    {PLIM_KNOB_WORLD, "SLURM_GPUS_ON_NODE", "#SBATCH.--gres"},
    {PLIM_KNOB_WORLD, "SLURM_GPUS_PER_NODE", "#SBATCH.--gpus-per-node"},
};

// The number in 8, gpu:8 or gpu:a100:8; 0 if there is none.
static int64_t count_in(const plim_value *value) {
  if (value->kind == PLIM_VALUE_INTEGER) return value->integer;
  const char *colon = value->kind == PLIM_VALUE_TEXT ? strrchr(value->text, ':') : NULL;
  return colon ? atoll(colon + 1) : 0;
}

static void take_allocated(plim_project *p, size_t i) {
  plim_project_knob *k = &p->knobs[allocated[i].knob];
  const plim_setting *open =
      k->origin == PLIM_UNCLEAR && k->place_count ? k->places[0].setting : NULL;
  if (!open || open->value.kind != PLIM_VALUE_DERIVED) return;
  if (!strstr(open->value.text, allocated[i].variable)) return;
  const plim_settings *s = &p->files.at[k->places[0].file]->settings;
  const plim_setting *directive = plim_settings_find(s, allocated[i].directive);
  int64_t count = directive ? count_in(&directive->value) : 0;
  if (count < 1 || count > MOST) return;
  k->origin = PLIM_EXPLICIT, k->is_fixed = true;
  k->value = (plim_value){.kind = PLIM_VALUE_INTEGER, .integer = count};
  snprintf(k->why, sizeof k->why, "%.60s sets it", directive->key);
}

static void spread_over_nodes(plim_project *p) {
  plim_project_knob *world = &p->knobs[PLIM_KNOB_WORLD], *nodes = &p->knobs[PLIM_KNOB_NODES];
  int64_t count = count_of(p, PLIM_KNOB_NODES, 1);
  char why[sizeof world->why];
  if (world->origin == PLIM_EXPLICIT && world->value.kind == PLIM_VALUE_INTEGER && !is_known(world))
    leave_open(world, "it means all GPUs of the machine"); // -1
  if (is_per_node(world) && nodes->origin == PLIM_UNCLEAR) {
    if (nodes->place_count) world->places[0] = nodes->places[0];
    leave_open(world, nodes->why);
  }
  if (is_per_node(world) && is_known(world)) world->value.integer *= count;
  if (world->origin != PLIM_ABSENT || count == 1) return;
  snprintf(why, sizeof why, "there are %lld machines, but the number of GPUs in each is not set",
           (long long)count);
  leave_open(world, why);
}

// ---- from a comment ---------------------------------------------------------------------------------

static bool has(const char *line, size_t size, const char *word) {
  return memmem(line, size, word, strlen(word)) != NULL;
}

// Whether the name behind "--config" is that of this file, without folder and ending.
static bool names_file(const char *line, size_t size, const char *path) {
  static const char flag[] = "--config";
  const char *at = memmem(line, size, flag, sizeof flag - 1), *end = line + size;
  const char *slash = strrchr(path, '/'), *own = slash ? slash + 1 : path,
             *ending = strrchr(own, '.');
  size_t n = ending ? (size_t)(ending - own) : strlen(own);
  if (!at) return false;
  at += sizeof flag - 1;
  while (at < end && strchr(" =", *at)) at++;
  for (const char *c = at; c < end && !strchr(" \t\r", *c); c++)
    if (*c == '/') at = c + 1;
  if ((size_t)(end - at) < n || memcmp(at, own, n) != 0) return false;
  return at + n == end || strchr(" \t\r", at[n]) || strncmp(at + n, ".yaml", 5) == 0;
}

const char *plim_project_tune_command(const plim_project_file *f, size_t *size, int *number) {
  const char *found = NULL;
  bool has_recipe = false;
  int at = 1;
  for (const char *line = f->text; *line; at++) {
    size_t length = strcspn(line, "\n"), blank = strspn(line, " \t");
    bool is_command = line[blank] == '#' && has(line, length, "tune run ");
    bool trains = has(line, length, "_distributed") || has(line, length, "_single_device");
    if (is_command && (trains || !has_recipe)) {
      found = line, *size = length, *number = at;
      has_recipe = trains;
      if (trains && names_file(line, length, f->path)) return found;
    }
    line += length + (line[length] != 0);
  }
  return found;
}

// The word at `at`, which is moved behind it and the blanks that follow.
static size_t take_word(const char **at, const char *end, const char **word) {
  *word = *at;
  while (*at < end && !strchr(" \t\r\\", **at)) ++*at;
  size_t n = (size_t)(*at - *word);
  while (*at < end && strchr(" \t\r", **at)) ++*at;
  return n;
}

static int64_t count_behind(const char *line, size_t size, const char *flag) {
  const char *at = memmem(line, size, flag, strlen(flag));
  if (!at) return 0;
  at += strlen(flag);
  int64_t count = strtoll(at + (*at == ' ' || *at == '='), NULL, 10);
  return count > 0 && count <= MOST ? count : 0;
}

// "tune run --nproc_per_node 4 full_finetune_distributed": to the first word that belongs to no flag of torchrun.
bool plim_project_tune_start(const plim_project_file *f, char *out, size_t size) {
  static const char start[] = "tune run ";
  size_t length = 0, n = 0;
  int number;
  const char *line = plim_project_tune_command(f, &length, &number), *word;
  const char *begin = line ? memmem(line, length, start, sizeof start - 1) : NULL;
  if (!begin) return false;
  const char *end = line + length;
  for (const char *at = begin + sizeof start - 1; (n = take_word(&at, end, &word)) && *word == '-';)
    if (!memchr(word, '=', n)) take_word(&at, end, &word);
  bool fits = n && (size_t)(word + n - begin) < size;
  if (fits) snprintf(out, size, "%.*s", (int)(word + n - begin), begin);
  return fits;
}

bool plim_project_simulate_tune(const plim_project_file *f, char *out, size_t size) {
  char start[160], gpus[32] = "";
  if (!plim_project_tune_start(f, start, sizeof start)) return false;
  int64_t count = count_behind(start, strlen(start), "--nproc_per_node");
  if (count > 1) snprintf(gpus, sizeof gpus, "--gpus %lld ", (long long)count);
  return snprintf(out, size, "%s-- %s --config", gpus, start) < (int)size;
}

typedef struct {
  int64_t nodes, each; // GPUs of each machine; 0: not known
  int line;
} launched;

// The numbers of the launch command.
static launched of_command(const plim_project_file *f) {
  size_t size = 0;
  launched l = {0};
  const char *line = plim_project_tune_command(f, &size, &l.line);
  if (line) l.each = count_behind(line, size, "--nproc_per_node");
  if (line) l.nodes = count_behind(line, size, "--nnodes");
  if (line && !l.each && has(line, size, "_single_device")) l.each = 1;
  return l;
}

// "# To launch on 2 nodes w/ 8 devices on a SLURM cluster": a script of Slurm has the command.
static launched of_sentence(const plim_project_file *f) {
  static const char start[] = "To launch on ";
  int number = 1;
  for (const char *line = f->text; *line; number++) {
    size_t size = strcspn(line, "\n");
    const char *at = *line == '#' ? memmem(line, size, start, sizeof start - 1) : NULL;
    long long nodes = 0, each = 0;
    if (at && sscanf(at + sizeof start - 1, "%lld nodes w/ %lld devices", &nodes, &each) == 2 &&
        nodes > 0 && each > 0 && nodes <= MOST / each)
      return (launched){nodes, each, number};
    line += size + (line[size] != 0);
  }
  return (launched){0};
}

static plim_project_knob defaulted(int64_t count) {
  return (plim_project_knob){.origin = PLIM_DEFAULTED,
                             .value = {.kind = PLIM_VALUE_INTEGER, .integer = count}};
}

// torchtune's configurations do not set the number of GPUs; a comment at their start says how to launch them.
static void take_comment(plim_project *p) {
  plim_project_knob *world = &p->knobs[PLIM_KNOB_WORLD], *nodes = &p->knobs[PLIM_KNOB_NODES];
  if (p->dialect != PLIM_DIALECT_TORCHTUNE || world->origin != PLIM_ABSENT) return;
  for (size_t i = 0; i < p->files.len; i++) {
    const plim_project_file *f = p->files.at[i];
    if (f->is.dialect != PLIM_DIALECT_TORCHTUNE || f->settings.format != PLIM_FORMAT_YAML) continue;
    launched l = of_command(f);
    if (!l.each) l = of_sentence(f);
    if (!l.each) continue;
    int64_t machines = l.nodes && l.nodes <= MOST / l.each ? l.nodes : 1;
    *world = defaulted(machines * l.each);
    if (nodes->origin == PLIM_ABSENT) *nodes = defaulted(machines);
    char of[48] = "";
    if (machines * l.each == 1) return;
    if (machines > 1) snprintf(of, sizeof of, " on %lld machines", (long long)machines);
    plim_note_add(&p->notes, "assumed.gpus", "world",
                  "%lld GPUs%s, as in the launch command in a comment (--world N to change)",
                  (long long)(machines * l.each), of);
    plim_note_at(&p->notes, f->path, l.line);
    return;
  }
}

// The file behind "--config_file" in a comment: accelerate's file, which may shard the model.
static bool names_launch_file(const char *line, size_t size, const char **name, int *length) {
  static const char flag[] = "--config_file";
  size_t blank = 0;
  while (blank < size && strchr(" \t", line[blank])) blank++;
  const char *at = memmem(line, size, flag, sizeof flag - 1), *end = line + size;
  if (blank == size || line[blank] != '#' || !at) return false;
  for (at += sizeof flag - 1; at < end && strchr(" =\t", *at);) at++;
  *name = at;
  while (at < end && !strchr(" \t\r\\", *at)) at++;
  *length = (int)(at - *name);
  return *length > 0 && *length < 200;
}

// A comment may say how the file is launched. What that file of accelerate sets is not known here.
static void note_launch_files(plim_project *p) {
  bool is_launched = p->knobs[PLIM_KNOB_STRATEGY].origin != PLIM_ABSENT ||
                     p->knobs[PLIM_KNOB_WORLD].origin != PLIM_ABSENT;
  for (size_t i = 0; i < p->files.len && !is_launched; i++) {
    const plim_project_file *f = p->files.at[i];
    int number = 1;
    if (f->settings.format != PLIM_FORMAT_YAML) continue;
    for (const char *line = f->text; *line; number++) {
      size_t size = strcspn(line, "\n");
      const char *name;
      int length;
      if (names_launch_file(line, size, &name, &length)) {
        plim_note_add(&p->notes, "unread.launch_file", NULL,
                      "the launch command in a comment uses %.*s, which is not read: add its "
                      "path to this command, because it may shard the model",
                      length, name);
        plim_note_at(&p->notes, f->path, number);
        plim_note_errs_high(&p->notes);
        return;
      }
      line += size + (line[size] != 0);
    }
  }
}

// ---- from the batch ---------------------------------------------------------------------------------

static int64_t sharers(const plim_project *p) {
  return count_of(p, PLIM_KNOB_TENSOR_PARALLEL, 1) * count_of(p, PLIM_KNOB_CONTEXT_PARALLEL, 1);
}

// Infers the number of GPUs: a train_batch_size of 64 with 8 x 2 sequences per GPU needs four.
static void infer_world(plim_project *p) {
  plim_project_knob *world = &p->knobs[PLIM_KNOB_WORLD];
  int64_t global = count_of(p, PLIM_KNOB_GLOBAL_BATCH, 0);
  int64_t micro = count_of(p, PLIM_KNOB_MICRO_BATCH, 0);
  int64_t steps = count_of(p, PLIM_KNOB_ACCUMULATE, 0);
  if (world->origin != PLIM_ABSENT || !global || !micro || !steps || plim_project_divides(p))
    return;
  int64_t each = micro * steps;
  char why[sizeof world->why];
  if (global % each) {
    snprintf(why, sizeof why,
             "the global batch of %lld is not a multiple of %lld (%lld x %lld per GPU)",
             (long long)global, (long long)each, (long long)micro, (long long)steps);
    leave_open(world, why);
    return;
  }
  world->origin = PLIM_DEFAULTED;
  world->value = (plim_value){.kind = PLIM_VALUE_INTEGER, .integer = global / each * sharers(p)};
  snprintf(world->why, sizeof world->why,
           "the global batch of %lld is %lld x %lld per GPU on %lld GPUs", (long long)global,
           (long long)micro, (long long)steps, (long long)(global / each));
}

void plim_project_settle_world(plim_project *p) {
  for (size_t i = 0; i < sizeof allocated / sizeof *allocated; i++) take_allocated(p, i);
  spread_over_nodes(p);
  take_comment(p);
  infer_world(p);
  note_launch_files(p);
}

// ---- accumulation -----------------------------------------------------------------------------------

bool plim_project_accumulation(const plim_project *p, int64_t micro, int64_t world, int64_t *out) {
  int64_t global = count_of(p, PLIM_KNOB_GLOBAL_BATCH, 0), each;
  if (!global || !plim_project_divides(p)) return false;
  bool divides = world > 0 && micro > 0 && world % sharers(p) == 0 &&
                 !__builtin_mul_overflow(micro, world / sharers(p), &each) && global % each == 0;
  *out = divides ? global / each : 0;
  return true;
}
