// The order in which a script loads its model and prepares for ZeRO-3.
#include "project_job.h"

// The first of these words in the file; SIZE_MAX: none.
static size_t first_of(const plim_project_file *f, const char *const *words) {
  size_t first = SIZE_MAX;
  for (; *words; words++) {
    size_t byte = plim_python_find(&f->code, *words, 0, SIZE_MAX);
    if (byte < first) first = byte;
  }
  return first;
}

static size_t indent_of(const char *text, size_t byte) {
  size_t start = byte, indent = 0;
  while (start > 0 && text[start - 1] != '\n') start--;
  while (text[start + indent] == ' ') indent++;
  return indent;
}

// Whether both are in the same function, or both outside any, in this order.
static bool are_in_order(const plim_project_file *f, size_t first, size_t second) {
  size_t define = plim_python_find(&f->code, "def", first, second);
  while (define < second && indent_of(f->text, define))
    define = plim_python_find(&f->code, "def", define + 1, second);
  return define > second && indent_of(f->text, first) == indent_of(f->text, second);
}

const plim_project_file *project_job_loads_early(const project_job *p, size_t *byte) {
  static const char *const loads[] = {"AutoModelForCausalLM.from_pretrained(",
                                      "AutoModelForSeq2SeqLM.from_pretrained(",
                                      "AutoModel.from_pretrained(", NULL};
  static const char *const prepares[] = {"*TrainingArguments(",
                                         "SFTConfig(",
                                         "parse_args_into_dataclasses(",
                                         "parse_args_and_config(",
                                         "Accelerator(",
                                         "HfDeepSpeedConfig(",
                                         "zero.Init(",
                                         NULL};
  for (size_t i = 0; i < p->project.files.len; i++) {
    const plim_project_file *f = p->project.files.at[i];
    bool is_code = f->settings.format == PLIM_FORMAT_PYTHON;
    size_t loaded = is_code ? first_of(f, loads) : SIZE_MAX;
    if (loaded == SIZE_MAX) continue;
    size_t prepared = first_of(f, prepares);
    if (prepared == SIZE_MAX || prepared < loaded || !are_in_order(f, loaded, prepared))
      return NULL;
    if (byte) *byte = loaded;
    return f;
  }
  return NULL;
}
