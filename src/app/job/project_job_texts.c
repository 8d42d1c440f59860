// Reads sentence-transformers scripts: from the names of the loss and the data set it derives whether texts of different
// samples are compared, and how many texts a sample has.
#include <string.h>

#include "job_contrast.h"
#include "python_code.h"

// Losses within one sample, and the number of texts they use; 0: any number. All other losses compare samples of a
// batch with each other, or choose among them. From the classes of sentence_transformers/losses.
static const struct {
  const char *name;
  uint64_t columns;
} pairwise[] = {
    {"CosineSimilarityLoss", 2}, {"TripletLoss", 3}, {"MSELoss", 1},
    {"ContrastiveLoss", 2},      {"SoftmaxLoss", 2}, {"MarginMSELoss", 3},
    {"DistillKLDivLoss", 0},
};

// Losses across a batch with a known number of texts.
static const struct {
  const char *name;
  uint64_t columns;
} ranked[] = {{"CoSENTLoss", 2},
              {"AnglELoss", 2},
              {"OnlineContrastiveLoss", 2},
              {"MegaBatchMarginLoss", 2},
              {"ContrastiveTensionLoss", 2}};

// Losses that wrap another loss.
static const char *const wrappers[] = {"MatryoshkaLoss", "AdaptiveLayerLoss", "Matryoshka2dLoss"};

#define COUNT(list) (sizeof(list) / sizeof *(list))

static bool is_text(const plim_python_name *name, const char *text) {
  size_t n = strlen(text);
  return name->size == n && memcmp(name->text, text, n) == 0;
}

// ---- losses -----------------------------------------------------------------------------------------

static bool is_wrapper(const plim_python_name *name) {
  for (size_t i = 0; i < COUNT(wrappers); i++)
    if (is_text(name, wrappers[i])) return true;
  return false;
}

static void take_loss(const plim_python_name *name, job_texts *out) {
  size_t i = 0, k = 0;
  while (i < COUNT(pairwise) && !is_text(name, pairwise[i].name)) i++;
  while (k < COUNT(ranked) && !is_text(name, ranked[k].name)) k++;
  if (i < COUNT(pairwise)) out->pairwise++, out->columns = pairwise[i].columns;
  else out->others++;
  if (k < COUNT(ranked)) out->columns = ranked[k].columns;
}

// A PyTorch loss is only a part of a loss: loss_fct=nn.MSELoss().
static bool is_loss(const plim_python_name *name) {
  bool is_torch = name->owner_size == 2 && memcmp(name->owner, "nn", 2) == 0;
  return name->size >= 4 && memcmp(name->text + name->size - 4, "Loss", 4) == 0 && !is_torch &&
         !is_wrapper(name);
}

// ---- data -------------------------------------------------------------------------------------------

static void take_config(void *context, const char *text, size_t size) {
  static const struct {
    const char *name;
    uint64_t columns;
  } configs[] = {{"triplet", 3}, {"pair", 2}};
  uint64_t *columns = context;
  for (size_t i = 0; i < COUNT(configs); i++) {
    size_t n = strlen(configs[i].name);
    bool is_it = size >= n && memcmp(text, configs[i].name, n) == 0;
    if (is_it && configs[i].columns > *columns) *columns = configs[i].columns;
  }
}

// load_dataset("sentence-transformers/all-nli", "triplet"): its configurations are named by their columns.
static uint64_t columns_of_config(const plim_python_code *code, const plim_python_name *call) {
  uint64_t columns = 0;
  plim_python_strings(code, call->arguments, take_config, &columns);
  return columns;
}

// InputExample(texts=[a, b, c])
static uint64_t columns_of_example(const plim_python_code *code, const plim_python_name *call) {
  size_t at = plim_python_find(code, "texts=[", call->arguments.begin, call->arguments.end);
  return at == SIZE_MAX ? 0 : plim_python_items(code, at);
}

typedef struct {
  const plim_project_file *file;
  job_texts *out;
} found_calls;

// A data set's name says more than the first of several examples.
static void take_data(const found_calls *found, const plim_python_name *name, bool is_of_example) {
  job_texts *out = found->out;
  if (out->data_columns && (is_of_example || !out->is_of_example)) return;
  const plim_python_code *code = &found->file->code;
  uint64_t columns = is_of_example ? columns_of_example(code, name) : columns_of_config(code, name);
  if (!columns) return;
  out->data_columns = columns;
  out->is_of_example = is_of_example;
  out->data_file = found->file->path;
  out->data_line = 1;
  for (const char *at = found->file->text; at < name->text; at++) out->data_line += *at == '\n';
}

static bool take_call(void *context, const plim_python_name *name) {
  found_calls *found = context;
  if (!name->is_called) return true;
  if (is_loss(name)) take_loss(name, found->out);
  if (is_text(name, "load_dataset")) take_data(found, name, false);
  if (is_text(name, "InputExample")) take_data(found, name, true);
  return true;
}

job_texts project_job_texts(const plim_project *p) {
  job_texts found = {0};
  if (p->dialect != PLIM_DIALECT_SENTENCE) return found;
  for (size_t i = 0; i < p->files.len; i++) {
    const plim_project_file *f = p->files.at[i];
    if (f->settings.format != PLIM_FORMAT_PYTHON) continue;
    found_calls calls = {f, &found};
    plim_python_names(&f->code, take_call, &calls);
  }
  if (found.pairwise + found.others > 1)
    found.columns = 0; // it is not known which loss uses how many
  return found;
}
