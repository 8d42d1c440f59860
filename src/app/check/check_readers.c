// Checks for syntax that plimsoll accepts but the run's own parser refuses or reads differently.
#include "check.h"
#include "lenient_reads.h"

// A parser of a file, and what it does with each kind of lenient syntax.
typedef struct {
  const char *name;
  struct {
    check_severity severity; // CHECK_OK: it accepts this
    const char *why;
  } does[PLIM_LOOSE_KINDS];
} reader;

#define LAST_WINS "uses the last one and silently drops the others"
#define NO_TABS "fails with ScannerError: found character '\\t' that cannot start any token"
#define ONE_DOCUMENT                                                                               \
  "accepts one document only: ComposerError, expected a single document in the stream"

// accelerate's HfDeepSpeedConfig, which transformers uses too, and HfArgumentParser.
static const reader json_load = {
    "transformers and accelerate read this file with json.load, which",
    {
        [PLIM_LOOSE_COMMA] = {CHECK_FAILS, "fails with JSONDecodeError"},
        [PLIM_LOOSE_COMMENT] = {CHECK_FAILS, "fails with JSONDecodeError"},
        [PLIM_LOOSE_TWICE] = {CHECK_WARNING, LAST_WINS},
    }};

// deepspeed.initialize(config=FILE), the deepspeed_config argument.
static const reader hjson = {
    "DeepSpeed",
    {
        [PLIM_LOOSE_COMMA] = {CHECK_NOTE, "accepts this, but transformers and accelerate read the "
                                          "file with json.load, which fails "
                                          "with JSONDecodeError"},
        [PLIM_LOOSE_COMMENT] = {CHECK_NOTE, "accepts this, but transformers and accelerate read "
                                            "the file with json.load, which fails "
                                            "with JSONDecodeError"},
        [PLIM_LOOSE_TWICE] = {CHECK_FAILS,
                              "fails with ValueError: Duplicate keys in DeepSpeed config"},
    }};

static const reader some_json = {
    "Python's json",
    {
        [PLIM_LOOSE_COMMA] = {CHECK_WARNING, "fails with JSONDecodeError"},
        [PLIM_LOOSE_COMMENT] = {CHECK_WARNING, "fails with JSONDecodeError"},
        [PLIM_LOOSE_TWICE] = {CHECK_WARNING, LAST_WINS},
    }};

static const reader pyyaml = {"yaml.safe_load",
                              {
                                  [PLIM_LOOSE_TWICE] = {CHECK_WARNING, LAST_WINS},
                                  [PLIM_LOOSE_DOCUMENTS] = {CHECK_FAILS, ONE_DOCUMENT},
                                  [PLIM_LOOSE_TAB] = {CHECK_FAILS, NO_TABS},
                              }};

static const reader omegaconf = {
    "OmegaConf",
    {
        [PLIM_LOOSE_TWICE] = {CHECK_FAILS, "fails with ConstructorError: found duplicate key"},
        [PLIM_LOOSE_DOCUMENTS] = {CHECK_FAILS, ONE_DOCUMENT},
        [PLIM_LOOSE_TAB] = {CHECK_FAILS, NO_TABS},
    }};

// The user's script may call safe_load_all.
static const reader some_yaml = {
    "yaml.safe_load",
    {
        [PLIM_LOOSE_TWICE] = {CHECK_WARNING, LAST_WINS "; OmegaConf refuses it"},
        [PLIM_LOOSE_DOCUMENTS] = {CHECK_WARNING, ONE_DOCUMENT},
        [PLIM_LOOSE_TAB] = {CHECK_WARNING, NO_TABS},
    }};

// LLaMA-Factory uses OmegaConf since July 2025 (its #8505), PyYAML before.
static const reader factory = {
    "LLaMA-Factory",
    {
        [PLIM_LOOSE_TWICE] =
            {CHECK_WARNING,
             "fails since July 2025 with ConstructorError: found duplicate key; before that, it "
             "used the last one"},
        [PLIM_LOOSE_DOCUMENTS] = {CHECK_FAILS, ONE_DOCUMENT},
        [PLIM_LOOSE_TAB] = {CHECK_FAILS, NO_TABS},
    }};

static const struct {
  plim_dialect dialect;
  const reader *reads;
} yaml_readers[] = {
    {PLIM_DIALECT_TORCHTUNE, &omegaconf},   {PLIM_DIALECT_NEMO, &omegaconf},
    {PLIM_DIALECT_LLM_FOUNDRY, &omegaconf}, {PLIM_DIALECT_MEGATRON_BRIDGE, &omegaconf},
    {PLIM_DIALECT_LLAMA_FACTORY, &factory}, {PLIM_DIALECT_LLAMA_FACTORY_V1, &factory},
    {PLIM_DIALECT_HOME, &some_yaml},        {PLIM_DIALECTS, &some_yaml},
};

static const reader *yaml_reader(const plim_project_file *f) {
  for (size_t i = 0; i < sizeof yaml_readers / sizeof *yaml_readers; i++)
    if (yaml_readers[i].dialect == f->is.dialect) return yaml_readers[i].reads;
  return &pyyaml;
}

static bool has_dialect(const check *c, plim_dialect dialect) {
  for (size_t i = 0; i < c->files.project.files.len; i++)
    if (c->files.project.files.at[i]->is.dialect == dialect) return true;
  return false;
}

static const reader *json_reader(const check *c, const plim_project_file *f) {
  plim_dialect d = c->files.project.dialect;
  bool is_trainer = d != PLIM_DIALECTS && plim_dialect_table[d].has_trainer;
  if (f->is.dialect != PLIM_DIALECT_DEEPSPEED)
    return f->is.dialect == PLIM_DIALECTS ? &some_json : &json_load;
  return is_trainer || has_dialect(c, PLIM_DIALECT_ACCELERATE) ? &json_load : &hjson;
}

// ---- findings ---------------------------------------------------------------------------------------

static const struct {
  const char *id, *what, *fix;
} kinds[PLIM_LOOSE_KINDS] = {
    [PLIM_LOOSE_COMMA] = {"text.comma", "a comma after the last value", "remove the comma"},
    [PLIM_LOOSE_COMMENT] = {"text.comment", "a comment in JSON", "remove the comment"},
    [PLIM_LOOSE_TWICE] = {"text.twice", "a key occurs twice", "keep one of them"},
    [PLIM_LOOSE_DOCUMENTS] = {"text.documents", "several documents in one file",
                              "put each into its own file"},
    [PLIM_LOOSE_TAB] = {"text.tab", "a tab in the indentation, where YAML requires spaces",
                        "replace it with spaces"},
};

static void report(check *c, const plim_project_file *file, const reader *r, int kind,
                   const plim_lenient_read *loose) {
  if (r->does[kind].severity == CHECK_OK) return;
  bool has_key = *loose->key;
  check_finding *f = check_add(c, kinds[kind].id, r->does[kind].severity, "%s%s%.90s",
                               kinds[kind].what, has_key ? ": " : "", loose->key);
  check_at_byte(f, file, loose->byte);
  check_show(f, file->text, loose->byte);
  check_why(f, "%s %s", r->name, r->does[kind].why);
  check_fix(f, "%s", kinds[kind].fix);
}

static void check_file(check *c, const plim_project_file *f) {
  plim_lenient_read loose[PLIM_LOOSE_KINDS];
  plim_err err = plim_lenient_reads_find(f->settings.format, f->text, f->size, loose, NULL);
  if (err == PLIM_ERR_NOMEM) c->has_no_memory = true;
  if (err) return;
  const reader *r = f->settings.format == PLIM_FORMAT_JSON ? json_reader(c, f) : yaml_reader(f);
  for (int i = 0; i < PLIM_LOOSE_KINDS; i++)
    if (loose[i].is_there) report(c, f, r, i, &loose[i]);
}

void check_readers(check *c) {
  for (size_t i = 0; i < c->files.project.files.len; i++)
    check_file(c, c->files.project.files.at[i]);
}
