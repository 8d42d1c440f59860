#include "picture.h"

#include <stdarg.h>
#include <string.h>

#include "atomic_file.h"

plim_err picture_save(const picture *p, const char *path,
                      void (*write)(FILE *out, const picture *p), plim_error *error) {
  plim_atomic_file file;
  plim_err err = plim_atomic_open(&file, path, error);
  if (err) return err;
  write(file.out, p);
  return plim_atomic_commit(&file, error);
}

const plim_timeline_column *picture_peak(const picture *p) {
  const plim_timeline *t = p->timeline;
  return t->columns.len ? &t->columns.at[t->peak] : NULL;
}

static bool is_inside_character(char c) { return ((unsigned char)c & 0xC0) == 0x80; }

void picture_shorten(const char *from, char *text, size_t size, size_t max) {
  size_t length = strlen(from), half = max / 2;
  if (length <= max) {
    snprintf(text, size, "%s", from);
    return;
  }
  const char *end = from + length - half;
  while (half && is_inside_character(from[half])) half--;
  while (is_inside_character(*end)) end++;
  snprintf(text, size, "%.*s…%s", (int)half, from, end);
}

const char *picture_layer_name(const picture *p, size_t layer) {
  return p->source->part_names[p->source->layers[layer].part];
}

double picture_seconds_at(const picture *p, size_t event) {
  return p->source->seconds_at ? p->source->seconds_at(p->context, event) : -1;
}

size_t picture_append(char *text, size_t size, size_t used, const char *format, ...) {
  va_list args;
  va_start(args, format);
  int added = vsnprintf(text + used, size - used, format, args);
  va_end(args);
  if (added < 0) return used;
  return used + (size_t)added < size ? used + (size_t)added : size - 1;
}
