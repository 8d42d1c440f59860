// What sentence-transformers' scripts say by the name of a loss and of a data set: whether texts of different samples
// are compared, and how many texts a sample has.
#include <ctype.h>
#include <string.h>

#include "job_contrast.h"

// Losses that look at one sample at a time, and the texts they take; 0: as many as there are. All others compare
// samples of a batch with each other, or choose among them. From the classes of sentence_transformers/losses.
static const struct {
  const char *name;
  uint64_t columns;
} pairwise[] = {
    {"CosineSimilarityLoss", 2}, {"TripletLoss", 3}, {"MSELoss", 1},
    {"ContrastiveLoss", 2},      {"SoftmaxLoss", 2}, {"MarginMSELoss", 3},
    {"DistillKLDivLoss", 0},
};

// In-batch losses whose texts are known.
static const struct {
  const char *name;
  uint64_t columns;
} ranked[] = {{"CoSENTLoss", 2},
              {"AnglELoss", 2},
              {"OnlineContrastiveLoss", 2},
              {"MegaBatchMarginLoss", 2},
              {"ContrastiveTensionLoss", 2}};

// They have another loss inside.
static const char *const wrappers[] = {"MatryoshkaLoss", "AdaptiveLayerLoss", "Matryoshka2dLoss"};

#define COUNT(list) (sizeof(list) / sizeof *(list))

// ---- calls in a script ------------------------------------------------------------------------------

typedef struct {
  const char *at, *end;
} span;

static bool is_name(char c) { return isalnum((unsigned char)c) || c == '_'; }

static bool is_comment(const char *text, const char *at) {
  while (at > text && at[-1] != '\n')
    if (*--at == '#') return true;
  return false;
}

// A class or function of that name, or PyTorch's own, which is a part of a loss: loss_fct=nn.MSELoss().
static bool is_other(const char *text, const char *at) {
  static const char *const before[] = {"class ", "def ", "nn."};
  for (size_t i = 0; i < COUNT(before); i++) {
    size_t n = strlen(before[i]);
    if ((size_t)(at - text) >= n && memcmp(at - n, before[i], n) == 0) return true;
  }
  return false;
}

// The next name that ends with `end` and is called; what it is called with follows it.
static bool next_call(const plim_project_file *f, const char **from, const char *end, span *name) {
  const char *last = f->text + f->size;
  size_t n = strlen(end);
  for (const char *at = *from; (at = memmem(at, (size_t)(last - at), end, n)); at += n) {
    const char *begin = at;
    while (begin > f->text && is_name(begin[-1])) begin--;
    if (is_comment(f->text, begin) || is_other(f->text, begin)) continue;
    *from = at + n;
    *name = (span){begin, at + n - 1};
    return true;
  }
  return false;
}

static bool is_text(span s, const char *text) {
  size_t n = strlen(text);
  return (size_t)(s.end - s.at) == n && memcmp(s.at, text, n) == 0;
}

// ---- losses -----------------------------------------------------------------------------------------

static bool is_wrapper(span name) {
  for (size_t i = 0; i < COUNT(wrappers); i++)
    if (is_text(name, wrappers[i])) return true;
  return false;
}

static void take_loss(span name, job_texts *out) {
  size_t i = 0, k = 0;
  while (i < COUNT(pairwise) && !is_text(name, pairwise[i].name)) i++;
  while (k < COUNT(ranked) && !is_text(name, ranked[k].name)) k++;
  if (i < COUNT(pairwise)) out->pairwise++, out->columns = pairwise[i].columns;
  else out->others++;
  if (k < COUNT(ranked)) out->columns = ranked[k].columns;
}

static void look_for_losses(const plim_project_file *f, job_texts *out) {
  const char *from = f->text;
  span name;
  while (next_call(f, &from, "Loss(", &name))
    if (!is_wrapper(name)) take_loss(name, out);
}

// ---- data -------------------------------------------------------------------------------------------

static const char *close_of(const char *at, const char *last) {
  int depth = 1;
  for (; at < last; at++) {
    depth += (*at == '(' || *at == '[') - (*at == ')' || *at == ']');
    if (!depth) return at;
  }
  return NULL;
}

// load_dataset("sentence-transformers/all-nli", "triplet"): its configurations are named by their columns.
static uint64_t columns_of_config(span call) {
  static const struct {
    const char *name;
    uint64_t columns;
  } configs[] = {{"\"triplet", 3}, {"'triplet", 3}, {"\"pair", 2}, {"'pair", 2}};
  for (size_t i = 0; i < COUNT(configs); i++)
    if (memmem(call.at, (size_t)(call.end - call.at), configs[i].name, strlen(configs[i].name)))
      return configs[i].columns;
  return 0;
}

// InputExample(texts=[a, b, c])
static uint64_t columns_of_example(span call) {
  static const char texts[] = "texts=[";
  const char *at = memmem(call.at, (size_t)(call.end - call.at), texts, sizeof texts - 1);
  const char *end = at ? close_of(at + sizeof texts - 1, call.end) : NULL;
  if (!end) return 0;
  uint64_t columns = 1;
  int depth = 0;
  for (at += sizeof texts - 1; at < end; at++) {
    depth += (*at == '(' || *at == '[') - (*at == ')' || *at == ']');
    if (*at == ',' && !depth && at + 1 < end) columns++;
  }
  return columns;
}

static void look_for_data(const plim_project_file *f, job_texts *out) {
  static const struct {
    const char *call;
    uint64_t (*columns)(span call);
  } sources[] = {{"load_dataset(", columns_of_config}, {"InputExample(", columns_of_example}};
  for (size_t i = 0; i < COUNT(sources) && !out->data_columns; i++) {
    const char *from = f->text, *last = f->text + f->size;
    span name;
    while (!out->data_columns && next_call(f, &from, sources[i].call, &name)) {
      const char *end = close_of(from, last);
      if (end) out->data_columns = sources[i].columns((span){from, end});
    }
  }
}

job_texts project_job_texts(const plim_project *p) {
  job_texts found = {0};
  if (p->dialect != PLIM_DIALECT_SENTENCE) return found;
  for (size_t i = 0; i < p->files.len; i++) {
    const plim_project_file *f = p->files.at[i];
    if (f->settings.format != PLIM_FORMAT_PYTHON) continue;
    look_for_losses(f, &found);
    look_for_data(f, &found);
  }
  if (found.pairwise + found.others > 1)
    found.columns = 0; // which of them takes how many is not known
  return found;
}
