// Reads the description of a data set that the files name, which is none of the project's files.
#include <stdlib.h>
#include <string.h>

#include "formats.h"
#include "project_impl.h"

enum { MAX_BYTES = 64 << 10 };

// v1/plugins/data_plugins/converter.py: the name of a converter is a key of each data set.
static bool has_pairs(const plim_settings *s) {
  for (size_t i = 0; i < s->at.len; i++) {
    const plim_value *value = &s->at.at[i].value;
    if (plim_key_is_called(s->at.at[i].key, "converter") && value->kind == PLIM_VALUE_TEXT &&
        strcmp(value->text, "pair") == 0)
      return true;
  }
  return false;
}

static bool file_has_pairs(const char *path) {
  plim_settings s = {0};
  plim_format format;
  char *text;
  size_t size;
  if (plim_text_file_read(path, MAX_BYTES, &text, &size, NULL)) return false;
  bool has = plim_format_of(path, text, size, &format) && format == PLIM_FORMAT_YAML &&
             !plim_settings_read(format, text, size, &s, NULL) && has_pairs(&s);
  plim_settings_clear(&s);
  free(text);
  return has;
}

const char *plim_project_pairs_of_answers(const plim_project *p) {
  for (size_t i = 0; i < p->files.len; i++) {
    const plim_project_file *f = p->files.at[i];
    const plim_setting *s = plim_settings_find(&f->settings, "train_dataset");
    char path[PLIM_PATH_BYTES];
    if (!s || s->value.kind != PLIM_VALUE_TEXT) continue;
    if (plim_lookup_file(f->path, s->value.text, path) && file_has_pairs(path))
      return s->value.text;
  }
  return NULL;
}
