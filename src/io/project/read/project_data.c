// Reads the description of a data set that the files name, which is none of the project's files.
#include <stdio.h>
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

// The value of each "path": a file, or a data set on the hub. Data of converted kinds ("alpaca", "pair", "sharegpt") are texts;
// others have messages as v1/utils/types.py describes them, whose parts have a type (v1/core/rendering/rendering.py).
static bool begins_with_media(const char *path) {
  static const char *const types[] = {"\"image_url\"", "\"video_url\"", "\"audio_url\""};
  char *text = malloc(MAX_BYTES + 1);
  FILE *file = text && plim_is_file(path) ? fopen(path, "rb") : NULL;
  size_t size = file ? fread(text, 1, MAX_BYTES, file) : 0;
  bool has = false;
  if (text) text[size] = 0;
  for (size_t i = 0; size && i < sizeof types / sizeof *types; i++)
    has |= strstr(text, types[i]) != NULL;
  if (file) fclose(file);
  free(text);
  return has;
}

static bool names_media(const char *from, const plim_settings *s) {
  for (size_t i = 0; i < s->at.len; i++) {
    const plim_value *value = &s->at.at[i].value;
    char path[PLIM_PATH_BYTES];
    if (plim_key_is_called(s->at.at[i].key, "path") && value->kind == PLIM_VALUE_TEXT &&
        plim_lookup_file(from, value->text, path) && begins_with_media(path))
      return true;
  }
  return false;
}

// Reads the description at `path`; false if it is none.
static bool read_description(const char *path, plim_settings *s) {
  plim_format format;
  char *text;
  size_t size;
  if (plim_text_file_read(path, MAX_BYTES, &text, &size, NULL)) return false;
  bool is_read = plim_format_of(path, text, size, &format) && format == PLIM_FORMAT_YAML &&
                 !plim_settings_read(format, text, size, s, NULL);
  free(text);
  return is_read;
}

// The data set that a file names, and where it is; NULL: it names none that is here.
static const char *data_of(const plim_project_file *f, char path[PLIM_PATH_BYTES]) {
  const plim_setting *s = plim_settings_find(&f->settings, "train_dataset");
  bool is_named = s && s->value.kind == PLIM_VALUE_TEXT;
  return is_named && plim_lookup_file(f->path, s->value.text, path) ? s->value.text : NULL;
}

const char *plim_project_pairs_of_answers(const plim_project *p) {
  for (size_t i = 0; i < p->files.len; i++) {
    plim_settings s = {0};
    char path[PLIM_PATH_BYTES];
    const char *data = data_of(p->files.at[i], path);
    bool has = data && read_description(path, &s) && has_pairs(&s);
    plim_settings_clear(&s);
    if (has) return data;
  }
  return NULL;
}

bool plim_project_has_media(const plim_project *p) {
  bool has = false;
  for (size_t i = 0; i < p->files.len && !has; i++) {
    plim_settings s = {0};
    char path[PLIM_PATH_BYTES];
    if (!data_of(p->files.at[i], path)) continue;
    has = read_description(path, &s) ? names_media(path, &s) : begins_with_media(path);
    plim_settings_clear(&s);
  }
  return has;
}
