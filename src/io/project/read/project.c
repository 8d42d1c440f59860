#include "project.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "formats.h"
#include "key_names.h"
#include "project_impl.h"
#include "text.h"
#include "text_file.h"

enum { MAX_BYTES = 4 << 20 };

// ---- files ------------------------------------------------------------------------------------------

static void free_file(plim_project_file *f) {
  if (!f) return;
  plim_settings_clear(&f->settings);
  plim_python_code_clear(&f->code);
  free(f->path);
  free(f->real);
  free(f->flags);
  free(f->elsewhere);
  free(f->import_root);
  free(f->target);
  free(f->source);
  free(f->from);
  free(f->text);
  free(f);
}

#define FORMAT_HINT                                                                                \
  "supported formats, by file name: YAML, JSON, TOML, Python, notebooks, shell, Dockerfile, "      \
  "Makefile, justfile, Taskfile"

bool plim_is_plan(const char *text, size_t size) {
  static const char key[] = "\"format_version\"";
  if (!memmem(text, size, key, sizeof key - 1)) return false;
  json_t *root = json_loadb(text, size, 0, NULL);
  bool has_rungs = json_is_array(json_object_get(root, "ladder")) ||
                   json_is_array(json_object_get(root, "cards"));
  bool is_plan = json_is_integer(json_object_get(root, "format_version")) && has_rungs;
  json_decref(root);
  return is_plan;
}

static plim_err refuse_plan(const plim_project_file *f, plim_error *error) {
  if (!plim_is_plan(f->text, f->size)) return PLIM_OK;
  plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT, "this is a saved plan, not a configuration");
  plim_error_hint(error, "to write it into the files it was made from: plimsoll apply %.200s",
                  f->path);
  return err;
}

plim_err plim_project_read_code(plim_project_file *f, plim_error *error) {
  if (f->settings.format != PLIM_FORMAT_PYTHON) return PLIM_OK;
  return plim_python_code_read(f->text, f->size, &f->code) ? plim_no_memory(error) : PLIM_OK;
}

static plim_err add_file(plim_project *p, plim_project_file *f, plim_error *error) {
  plim_format format = PLIM_FORMAT_SHELL;
  if (!f->path || !f->text || !vec_reserve(&p->files, 1)) return plim_no_memory(error);
  if (!f->target && !plim_format_of(f->path, f->text, f->size, &format)) {
    plim_err err = plim_fail(error, PLIM_ERR_UNSUPPORTED,
                             "this is not a configuration file in a supported format");
    plim_error_hint(error, FORMAT_HINT);
    return err;
  }
  plim_err err = refuse_plan(f, error);
  if (!err) err = plim_settings_read(format, f->text, f->size, &f->settings, error);
  if (!err) err = plim_project_read_code(f, error);
  if (err == PLIM_ERR_PARSE && error && !*error->hint)
    plim_error_hint(error, "fix the file, or leave it out");
  if (!err) p->files.at[p->files.len++] = f;
  return err;
}

plim_err plim_project_add(plim_project *p, const char *path, const char *text, size_t size,
                          plim_error *error) {
  plim_project_file *f = calloc(1, sizeof *f);
  plim_err err = PLIM_OK;
  if (!f) return plim_no_memory(error);
  f->path = strdup(path);
  f->is_notebook = plim_is_notebook(path);
  if (f->is_notebook) err = plim_notebook_code(text, size, &f->text, &f->size, error);
  else if ((f->text = malloc(size + 1))) memcpy(f->text, text, size), f->text[size] = 0;
  if (!f->is_notebook) f->size = size;
  if (!err) err = add_file(p, f, error);
  if (!err && f->is_notebook)
    plim_note_add(
        &p->notes, "read.notebook", NULL,
        "%.160s is read and not written: change its cells by hand (line numbers count the "
        "lines of code in all cells)",
        path),
        plim_note_at(&p->notes, path, 0);
  if (err) free_file(f);
  return err ? plim_error_file(error, err, path) : PLIM_OK;
}

plim_err plim_project_add_script(plim_project *p, const char *path, const char *target,
                                 const char *source, size_t source_size, const char *script,
                                 size_t size, plim_error *error) {
  plim_project_file *f = calloc(1, sizeof *f);
  if (!f) return plim_no_memory(error);
  f->path = strdup(path);
  f->target = strdup(target);
  f->source = plim_copy_of(source, source_size);
  f->text = plim_copy_of(script, size);
  f->source_size = source_size;
  f->size = size;
  plim_err err = f->target && f->source ? add_file(p, f, error) : plim_no_memory(error);
  if (err) free_file(f);
  return err ? plim_error_file(error, err, path) : PLIM_OK;
}

plim_err plim_project_add_typed(plim_project *p, const char *script, plim_error *error) {
  plim_err err = plim_project_add(p, PLIM_TYPED_COMMAND, script, strlen(script), error);
  if (!err) p->files.at[p->files.len - 1]->is_typed = true;
  return err;
}

plim_err plim_project_note_real(plim_project *p, const char *path, plim_error *error) {
  errno = 0;
  p->files.at[p->files.len - 1]->real = realpath(path, NULL);
  return errno == ENOMEM ? plim_no_memory(error) : PLIM_OK;
}

plim_err plim_project_read(plim_project *p, const char *named, plim_error *error) {
  char *text, path[PLIM_PATH_BYTES], name[PLIM_PATH_BYTES];
  size_t size;
  if (!plim_path_tidy(named, path))
    return plim_fail(error, PLIM_ERR_ARGUMENT, "the path is too long");
  plim_path_shorten(path, name);
  if (plim_project_has(p, name)) return PLIM_OK; // named twice
  plim_err err = plim_text_file_read(name, MAX_BYTES, &text, &size, error);
  if (!err) err = plim_project_add(p, name, text, size, error);
  free(text);
  return err ? err : plim_project_note_real(p, name, error);
}

void plim_project_clear(plim_project *p) {
  for (size_t i = 0; i < p->files.len; i++) free_file(p->files.at[i]);
  plim_bindings_clear(p);
  plim_unread_clear(p);
  plim_project_index_clear(p);
  vec_free(&p->files);
  plim_notes_clear(&p->notes);
  free(p->missing);
  p->missing = NULL;
}

plim_err plim_error_file_of(const plim_project *p, size_t file, plim_err code, plim_error *error) {
  return file == SIZE_MAX ? code : plim_error_file(error, code, p->files.at[file]->path);
}

void plim_project_miss(plim_project *p, const char *name) {
  if (!p->missing && !(p->missing = strdup(name))) p->has_failed = true;
}

// ---- dialects ---------------------------------------------------------------------------------------

static bool trains(plim_dialect dialect) {
  return dialect != PLIM_DIALECTS && !plim_dialect_table[dialect].is_part;
}

// The ecosystem that trains. Files take precedence over command lines, ecosystems over custom names.
static plim_dialect find_dialect(const plim_project *p) {
  plim_dialect found = PLIM_DIALECTS;
  for (int pass = 0; pass < 2; pass++)
    for (size_t i = 0; i < p->files.len; i++) {
      const plim_project_file *f = p->files.at[i];
      if (plim_is_command(f) != (pass == 1) || !trains(f->is.dialect)) continue;
      if (found == PLIM_DIALECTS || found == PLIM_DIALECT_HOME) found = f->is.dialect;
    }
  return found;
}

// A command line has the dialect of the program that it starts.
static void adopt(const plim_project *p, plim_project_file *f) {
  bool is_own = f->is.dialect == PLIM_DIALECT_MEGATRON || f->is.dialect == PLIM_DIALECT_NANOGPT;
  if (!plim_is_command(f) || is_own) return;
  bool is_vague = f->is.dialect == PLIM_DIALECTS || f->is.dialect == PLIM_DIALECT_HOME;
  bool is_general =
      (f->is.dialect == PLIM_DIALECT_HF || f->flags) && p->dialect != PLIM_DIALECT_HOME;
  f->is.rival = PLIM_DIALECTS;
  if (p->dialect != PLIM_DIALECTS && (is_vague || is_general)) {
    f->is.dialect = p->dialect;
    snprintf(f->is.reason, sizeof f->is.reason, "it starts %s",
             plim_dialect_table[p->dialect].name);
  }
  if (f->is.dialect == PLIM_DIALECTS) f->is.dialect = PLIM_DIALECT_HOME;
}

static void recognise_fsdp(plim_project *p) {
  for (size_t i = 0; i < p->files.len; i++) {
    plim_project_file *f = p->files.at[i];
    if (!plim_is_fsdp_file(p, f)) continue;
    f->is = (plim_recognition){.dialect = PLIM_DIALECT_FSDP, .rival = PLIM_DIALECTS};
    snprintf(f->is.reason, sizeof f->is.reason, "fsdp_config names it");
  }
}

// Trainers that a script calls, or whose class of arguments it hands to a parser, although it sets none of them.
static const struct {
  const char *modules[2]; // it imports one of them
  const char *piece;
  plim_dialect dialect;
} trainers[] = {
    {{"lightning", "pytorch_lightning"}, "LightningModule", PLIM_DIALECT_LIGHTNING},
    {{"lightning", "pytorch_lightning"}, "L.Trainer(", PLIM_DIALECT_LIGHTNING},
    {{"lightning", "pytorch_lightning"}, "pl.Trainer(", PLIM_DIALECT_LIGHTNING},
    {{"transformers", "trl"}, "SFTTrainer(", PLIM_DIALECT_TRL},
    {{"trl", "trl"}, "DPOTrainer(", PLIM_DIALECT_TRL},
    {{"trl", "trl"}, "KTOTrainer(", PLIM_DIALECT_TRL},
    {{"trl", "trl"}, "ORPOTrainer(", PLIM_DIALECT_TRL},
    {{"trl", "trl"}, "CPOTrainer(", PLIM_DIALECT_TRL},
    {{"trl", "trl"}, "RewardTrainer(", PLIM_DIALECT_TRL},
    {{"trl", "trl"}, "PRMTrainer(", PLIM_DIALECT_TRL},
    {{"trl", "trl"}, "GRPOTrainer(", PLIM_DIALECT_TRL},
    {{"trl", "trl"}, "RLOOTrainer(", PLIM_DIALECT_TRL},
    {{"transformers", "trl"}, "SFTConfig", PLIM_DIALECT_TRL},
    {{"transformers", "trl"}, "DPOConfig", PLIM_DIALECT_TRL},
    {{"transformers", "trl"}, "KTOConfig", PLIM_DIALECT_TRL},
    {{"transformers", "trl"}, "ORPOConfig", PLIM_DIALECT_TRL},
    {{"transformers", "trl"}, "CPOConfig", PLIM_DIALECT_TRL},
    {{"transformers", "trl"}, "RewardConfig", PLIM_DIALECT_TRL},
    {{"transformers", "trl"}, "PRMConfig", PLIM_DIALECT_TRL},
    {{"transformers", "trl"}, "TrlParser", PLIM_DIALECT_TRL},
    {{"transformers", "trl"}, "Seq2SeqTrainer(", PLIM_DIALECT_HF},
    {{"transformers", "trl"}, "Trainer(", PLIM_DIALECT_HF},
    {{"transformers", "trl"}, "TrainingArguments", PLIM_DIALECT_HF},
};

// The defaults of such a trainer are the settings of the run.
static void recognise_code(plim_project_file *f) {
  bool is_open = f->is.dialect == PLIM_DIALECT_HOME || f->is.dialect == PLIM_DIALECTS;
  if (!is_open || f->is.rival != PLIM_DIALECTS || f->settings.format != PLIM_FORMAT_PYTHON) return;
  for (size_t i = 0; i < sizeof trainers / sizeof *trainers; i++) {
    const char *const *modules = trainers[i].modules;
    bool has_it =
        plim_python_imports(&f->code, modules[0]) || plim_python_imports(&f->code, modules[1]);
    if (!has_it || !plim_python_has(&f->code, trainers[i].piece)) continue;
    f->is.dialect = trainers[i].dialect;
    snprintf(f->is.reason, sizeof f->is.reason, "it uses %s",
             plim_dialect_table[trainers[i].dialect].name);
    return;
  }
}

// Scripts of frameworks by name, for commands whose script is not here: their defaults are those of the framework. TRL
// 1.16 (trl/scripts, examples/scripts), transformers 5.23 (examples/pytorch).
static const struct {
  const char *words;
  plim_dialect dialect;
} scripts[] = {
    {"trl/scripts/*.py */trl/scripts/*.py trl.scripts.* examples/scripts/*.py "
     "*/examples/scripts/*.py",
     PLIM_DIALECT_TRL},
    {"*run_clm*.py *run_mlm*.py *run_plm.py *run_fim*.py *run_glue*.py *run_classification.py "
     "*run_xnli.py *run_ner*.py *run_qa*.py *run_seq2seq_qa.py *run_swag*.py "
     "*run_summarization*.py "
     "*run_translation*.py",
     PLIM_DIALECT_HF},
};

static bool is_one_of(const char *word, const char *patterns) {
  char pattern[64];
  for (const char *at = patterns; *(at += strspn(at, " "));) {
    size_t size = strcspn(at, " ");
    snprintf(pattern, sizeof pattern, "%.*s", (int)size, at);
    if (fnmatch(pattern, word, 0) == 0) return true;
    at += size;
  }
  return false;
}

// The dialect of the first script that the command names; `trl sft` is a script, too.
static plim_dialect dialect_of_command(const char *text) {
  static const char blanks[] = " \t\r\n\"'\\";
  char word[256] = "", last[256];
  for (const char *at = text; *(at += strspn(at, blanks));) {
    size_t size = *at == '#' ? strcspn(at, "\n") : strcspn(at, blanks);
    memcpy(last, word, sizeof last);
    snprintf(word, sizeof word, "%.*s", (int)size, at);
    at += size;
    if (strcmp(last, "trl") == 0 && is_one_of(word, "sft dpo kto reward grpo rloo orpo cpo"))
      return PLIM_DIALECT_TRL;
    for (size_t i = 0; *word != '#' && i < sizeof scripts / sizeof *scripts; i++)
      if (is_one_of(word, scripts[i].words)) return scripts[i].dialect;
  }
  return PLIM_DIALECTS;
}

static void recognise_command(plim_project_file *f) {
  bool is_open = f->is.dialect == PLIM_DIALECT_HOME || f->is.dialect == PLIM_DIALECTS ||
                 f->is.dialect == PLIM_DIALECT_HF;
  if (!is_open || !plim_is_command(f)) return;
  plim_dialect dialect = dialect_of_command(f->text);
  if (dialect == PLIM_DIALECTS) return;
  f->is = (plim_recognition){.dialect = dialect, .rival = PLIM_DIALECTS};
  snprintf(f->is.reason, sizeof f->is.reason, "it starts a script of %s",
           plim_dialect_table[dialect].name);
}

// The flags of a script's own parser may have the names of another framework's keys: --base-model is no sign of Axolotl,
// which reads a file.
static void recognise_flags(plim_project_file *f) {
  if (!f->flags || f->is.dialect != PLIM_DIALECT_AXOLOTL) return;
  f->is = (plim_recognition){.dialect = PLIM_DIALECT_HOME, .rival = PLIM_DIALECTS};
  snprintf(f->is.reason, sizeof f->is.reason, "its script has a parser of its own");
}

static void recognise(plim_project *p) {
  for (size_t i = 0; i < p->files.len; i++) {
    plim_project_file *f = p->files.at[i];
    plim_dialect told = plim_names_dialect(p, f->path);
    plim_dialect_recognise(&f->settings, &f->is);
    recognise_code(f);
    recognise_command(f);
    recognise_flags(f);
    if (told == PLIM_DIALECTS) continue;
    f->is = (plim_recognition){.dialect = told, .rival = PLIM_DIALECTS};
    snprintf(f->is.reason, sizeof f->is.reason, "plimsoll.yaml sets it");
  }
  recognise_fsdp(p);
  p->dialect = find_dialect(p);
  for (size_t i = 0; i < p->files.len; i++) {
    plim_project_file *f = p->files.at[i];
    if (plim_is_names(f->path)) f->is.dialect = f->is.rival = PLIM_DIALECTS;
    else adopt(p, f);
    if (f->is.rival != PLIM_DIALECTS)
      plim_note_add(&p->notes, "unclear.dialect", NULL,
                    "%s: %s; a plimsoll.yaml can name the ecosystem (docs/own_names.md)", f->path,
                    f->is.reason),
          plim_note_at(&p->notes, f->path, 0);
  }
}

static plim_err read_recipes(plim_project *p, plim_error *error) {
  plim_err err = PLIM_OK;
  for (size_t i = 0; i < p->files.len && !err; i++) {
    plim_project_file *f = p->files.at[i];
    if (f->settings.has_failed) return plim_no_memory(error); // the dialect is not known
    f->recipe.dialect = PLIM_DIALECTS;
    if (f->is.dialect != PLIM_DIALECTS)
      err = plim_recipe_file_read(&f->settings, f->is.dialect, &f->recipe, error);
    if (!err) plim_trainings_doubt(f);
  }
  return err;
}

// ---- which file decides -----------------------------------------------------------------------------

enum { DEEPSPEED_FILE = 1, ACCELERATE_FILE, ARGUMENT_DEFAULT, TRAINING_FILE, COMMAND, APART };

static bool is_apart(const plim_reading *r) { return r->key && r->key->flags & PLIM_KEY_APART; }

static int authority(const plim_project_file *f, const plim_reading *reading) {
  if (is_apart(reading)) return APART;
  if (plim_is_command(f)) return COMMAND;
  if (f->is.dialect == PLIM_DIALECT_DEEPSPEED) return DEEPSPEED_FILE;
  if (f->is.dialect == PLIM_DIALECT_ACCELERATE || f->is.dialect == PLIM_DIALECT_FSDP)
    return ACCELERATE_FILE;
  bool is_default = reading->setting && strstr(reading->setting->key, ".--");
  return is_default ? ARGUMENT_DEFAULT : TRAINING_FILE;
}

static const plim_reading *reading_of(const plim_project *p, size_t file, plim_knob knob) {
  const plim_project_file *f = p->files.at[file];
  return f->recipe.dialect == PLIM_DIALECTS ? NULL : &f->recipe.knobs[knob];
}

// Whether a computed value can be ignored because another file defines the name that it refers to.
static bool is_explained(const plim_project *p, size_t file, plim_knob knob,
                         const plim_setting *computed) {
  for (size_t i = 0; i < p->files.len; i++) {
    const plim_reading *other = i == file ? NULL : reading_of(p, i, knob);
    if (other && other->origin == PLIM_EXPLICIT && plim_reading_explains(other, computed))
      return true;
  }
  return false;
}

static bool has_word(const plim_reading *r, const char *word) {
  return r->value.kind == PLIM_VALUE_TEXT && strcmp(r->value.text, word) == 0;
}

static bool is_known_elsewhere(const plim_project *p, size_t file, plim_knob knob) {
  for (size_t i = 0; i < p->files.len; i++) {
    const plim_reading *other = i == file ? NULL : reading_of(p, i, knob);
    if (other && other->origin != PLIM_ABSENT) return true;
  }
  return false;
}

static bool is_shared_elsewhere(const plim_project *p, size_t file) {
  for (size_t i = 0; i < p->files.len; i++) {
    const plim_reading *other = i == file ? NULL : reading_of(p, i, PLIM_KNOB_STRATEGY);
    if (other && other->origin >= PLIM_UNCLEAR && !has_word(other, "none")) return true;
  }
  return false;
}

// Whether the value leaves the decision to other files: an option that is off here but has its own file, no strategy
// here but one elsewhere. An FSDP version alone turns nothing on.
static bool is_left_to_others(const plim_project *p, size_t file, plim_knob knob,
                              const plim_reading *r) {
  if (is_apart(r) && has_word(r, "off")) return is_known_elsewhere(p, file, knob);
  if (knob != PLIM_KNOB_STRATEGY) return false;
  bool is_fsdp = p->files.at[file]->is.dialect == PLIM_DIALECT_FSDP;
  return is_fsdp || (has_word(r, "none") && is_shared_elsewhere(p, file));
}

static bool is_statement(const plim_project *p, size_t file, plim_knob knob) {
  const plim_reading *r = reading_of(p, file, knob);
  if (!r || r->origin < PLIM_UNCLEAR || is_left_to_others(p, file, knob, r)) return false;
  return r->origin == PLIM_EXPLICIT || !r->setting || !is_explained(p, file, knob, r->setting);
}

void plim_knob_add_place(plim_project_knob *k, plim_knob_place place) {
  if (k->place_count < PLIM_KNOB_PLACES) {
    k->places[k->place_count++] = place;
    return;
  }
  k->is_fixed = true;
  if (k->origin == PLIM_EXPLICIT)
    snprintf(k->why, sizeof k->why, "it is set in more than %d places", PLIM_KNOB_PLACES);
}

static void add_place(plim_project_knob *k, size_t file, const plim_reading *r) {
  plim_knob_add_place(k, (plim_knob_place){file, r->setting, r->key, r->value});
}

static void take(plim_project_knob *k, size_t file, const plim_reading *r) {
  *k = (plim_project_knob){.origin = r->origin, .value = r->value, .is_fixed = r->is_fixed};
  memcpy(k->why, r->why, sizeof k->why);
  if (r->setting) add_place(k, file, r);
  if (r->rival) add_place(k, file, &(plim_reading){.setting = r->rival, .key = r->key});
}

static void mark_disagreement(const plim_project *p, plim_project_knob *k, size_t file,
                              const plim_reading *r) {
  char first[48], second[48];
  plim_value_print(&k->value, first, sizeof first);
  plim_value_print(&r->value, second, sizeof second);
  snprintf(k->why, sizeof k->why, "%.70s sets %.30s, but %.70s sets %.30s",
           p->files.at[k->places[0].file]->path, first, p->files.at[file]->path, second);
  k->origin = PLIM_UNCLEAR;
  k->is_fixed = k->differs = true;
  k->value = (plim_value){0};
  add_place(k, file, r);
}

static size_t strongest(const plim_project *p, plim_knob knob) {
  size_t best = SIZE_MAX;
  int most = 0;
  for (size_t i = 0; i < p->files.len; i++) {
    if (!is_statement(p, i, knob)) continue;
    int mine = authority(p->files.at[i], reading_of(p, i, knob));
    if (mine > most) best = i, most = mine;
  }
  return best;
}

static void note_disagreement(plim_project *p, size_t file, size_t best, const plim_reading *r) {
  plim_note_add(&p->notes, "conflict.value", plim_knob_table[r->key->knob].name,
                "%s differs from the value in %s, and the run would not start", r->setting->key,
                p->files.at[best]->path);
  plim_note_at(&p->notes, p->files.at[file]->path, r->setting->line);
}

// transformers 5.8 (integrations/deepspeed.py, trainer_config_process) compares the flags fp16 and bf16 alone, which a
// run in fp8 has besides.
static bool is_beside_fp8(const plim_value *ours, const plim_value *theirs, plim_knob knob) {
  bool are_words = knob == PLIM_KNOB_PRECISION && ours->kind == PLIM_VALUE_TEXT &&
                   theirs->kind == PLIM_VALUE_TEXT;
  return are_words && strcmp(ours->text, "fp8") == 0 && strcmp(theirs->text, "fp16") != 0;
}

static void compare_others(plim_project *p, plim_knob knob, size_t best) {
  plim_project_knob *k = &p->knobs[knob];
  int most = authority(p->files.at[best], reading_of(p, best, knob));
  for (size_t i = 0; i < p->files.len; i++) {
    const plim_reading *r = reading_of(p, i, knob);
    if (i == best || !r || r->origin != PLIM_EXPLICIT) continue;
    if (is_left_to_others(p, i, knob, r)) continue;
    bool is_same = plim_value_same(&r->value, &k->value);
    bool is_equal = authority(p->files.at[i], r) == most;
    if (k->differs && is_equal) add_place(k, i, r);
    if (k->origin != PLIM_EXPLICIT) continue;
    bool must_agree =
        r->key && r->key->flags & PLIM_KEY_AGREES && !is_beside_fp8(&k->value, &r->value, knob);
    bool follows = r->key && r->key->flags & PLIM_KEY_FOLLOWS;
    if (is_equal && !is_same) mark_disagreement(p, k, i, r);
    else if (is_equal || must_agree || follows) add_place(k, i, r);
    if (must_agree && !is_same) note_disagreement(p, i, best, r);
  }
}

static void assume(plim_project *p, plim_knob knob) {
  for (size_t i = 0; i < p->files.len; i++) {
    const plim_reading *r = reading_of(p, i, knob);
    if (!r || r->origin != PLIM_DEFAULTED || p->files.at[i]->is.dialect != p->dialect) continue;
    p->knobs[knob] = (plim_project_knob){.origin = PLIM_DEFAULTED, .value = r->value};
    memcpy(p->knobs[knob].why, r->why, sizeof r->why);
    return;
  }
}

static void decide(plim_project *p, plim_knob knob) {
  size_t best = strongest(p, knob);
  p->knobs[knob] = (plim_project_knob){0};
  if (best == SIZE_MAX) {
    assume(p, knob);
    return;
  }
  take(&p->knobs[knob], best, reading_of(p, best, knob));
  compare_others(p, knob, best);
}

// ---- batches that multiply out ----------------------------------------------------------------------

static int64_t count_of(const plim_project *p, plim_knob knob, int64_t unknown) {
  const plim_project_knob *k = &p->knobs[knob];
  bool is_known = k->origin == PLIM_EXPLICIT || k->origin == PLIM_DEFAULTED;
  return is_known && k->value.kind == PLIM_VALUE_INTEGER ? k->value.integer : unknown;
}

int64_t plim_project_ranks(const plim_project *p, int64_t world) {
  if (!world) world = count_of(p, PLIM_KNOB_WORLD, 0);
  int64_t shared =
      count_of(p, PLIM_KNOB_TENSOR_PARALLEL, 1) * count_of(p, PLIM_KNOB_CONTEXT_PARALLEL, 1);
  return world > 0 && shared > 0 && world % shared == 0 ? world / shared : 0;
}

bool plim_project_divides(const plim_project *p) {
  bool is_known =
      p->dialect != PLIM_DIALECTS && p->knobs[PLIM_KNOB_GLOBAL_BATCH].origin == PLIM_EXPLICIT;
  return is_known && p->knobs[PLIM_KNOB_ACCUMULATE].origin != PLIM_EXPLICIT &&
         plim_dialect_table[p->dialect].divides_batch;
}

int64_t plim_project_quotient(const plim_project *p, int64_t ranks) {
  int64_t global = count_of(p, PLIM_KNOB_GLOBAL_BATCH, 0);
  int64_t micro = count_of(p, PLIM_KNOB_MICRO_BATCH, 0), each;
  bool is_known = global > 0 && micro > 0 && ranks > 0;
  if (!is_known || __builtin_mul_overflow(micro, ranks, &each) || global % each) return 0;
  return global / each;
}

bool plim_project_has_script(const plim_project *p) {
  for (size_t i = 0; i < p->files.len; i++)
    if (p->files.at[i]->settings.format == PLIM_FORMAT_PYTHON) return true;
  return false;
}

// Megatron's schedule and kernels are not modelled, so which micro batch is faster is not known.
static bool keeps_split(const plim_project *p) {
  return p->dialect == PLIM_DIALECT_MEGATRON || p->dialect == PLIM_DIALECT_MEGATRON_BRIDGE ||
         p->dialect == PLIM_DIALECT_NEMO;
}

// A plan changes the micro batch alone then, and accumulation follows.
static void divide_batch(plim_project *p) {
  plim_project_knob *k = &p->knobs[PLIM_KNOB_ACCUMULATE];
  if (!plim_project_divides(p) || count_of(p, PLIM_KNOB_MICRO_BATCH, 0) <= 0) return;
  *k = (plim_project_knob){.is_fixed = keeps_split(p)};
  snprintf(k->why, sizeof k->why, "it is computed from the global batch of %lld",
           (long long)count_of(p, PLIM_KNOB_GLOBAL_BATCH, 0));
  int64_t quotient = plim_project_quotient(p, plim_project_ranks(p, 0));
  if (!quotient) return;
  k->origin = PLIM_DEFAULTED;
  k->value = (plim_value){.kind = PLIM_VALUE_INTEGER, .integer = quotient};
}

bool plim_project_multiplies_out(const plim_project *p) {
  int64_t ranks = plim_project_ranks(p, 0), global = count_of(p, PLIM_KNOB_GLOBAL_BATCH, 0),
          product;
  int64_t micro = count_of(p, PLIM_KNOB_MICRO_BATCH, 0),
          steps = count_of(p, PLIM_KNOB_ACCUMULATE, 0);
  bool is_known = p->knobs[PLIM_KNOB_GLOBAL_BATCH].origin == PLIM_EXPLICIT && micro && steps;
  if (!is_known || !ranks) return true;
  bool overflows = __builtin_mul_overflow(micro, steps, &product) ||
                   __builtin_mul_overflow(product, ranks, &product);
  return !overflows && product == global;
}

// ---- all together -----------------------------------------------------------------------------------

plim_err plim_project_finish(plim_project *p, plim_error *error) {
  plim_err err = plim_names_read(p, error);
  if (!err) err = plim_project_find_flags(p, error);
  if (!err) err = plim_project_index(p, error);
  if (err) return err;
  plim_project_find_elsewhere(p);
  recognise(p);
  plim_tune_leave_unread(p);
  plim_project_decide_conditions(p);
  err = read_recipes(p, error);
  for (int i = 0; i < PLIM_KNOBS && !err; i++) {
    decide(p, (plim_knob)i);
    err = plim_flags_decide(p, (plim_knob)i, error);
    if (!err) err = plim_bindings_decide(p, (plim_knob)i, error);
  }
  if (err) return err;
  plim_project_doubt_loads(p);
  plim_project_take_stage(p);
  plim_fsdp_refine(p);
  plim_project_find_model(p);
  plim_project_doubt_counts(p);
  plim_project_doubt_loops(p);
  plim_project_settle_world(p);
  divide_batch(p);
  plim_project_apply_rules(p);
  if (!plim_project_multiplies_out(p))
    plim_note_add(&p->notes, "conflict.batch", "global_batch",
                  "micro batch x accumulation x GPUs is not the global batch");
  plim_unread_doubt(p);
  return p->has_failed || p->notes.has_no_memory ? plim_no_memory(error) : PLIM_OK;
}
