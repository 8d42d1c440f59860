#include "value.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void plim_value_word(const plim_value *value, char *text, size_t size) {
  switch (value->kind) {
  case PLIM_VALUE_NULL: snprintf(text, size, "null"); break;
  case PLIM_VALUE_BOOL: snprintf(text, size, "%s", value->flag ? "true" : "false"); break;
  case PLIM_VALUE_INTEGER: snprintf(text, size, "%" PRId64, value->integer); break;
  case PLIM_VALUE_REAL: snprintf(text, size, "%.12g", value->real); break;
  case PLIM_VALUE_TEXT:
  case PLIM_VALUE_DERIVED: snprintf(text, size, "%s", value->text); break;
  }
}

void plim_value_print(const plim_value *value, char *text, size_t size) {
  if (value->kind == PLIM_VALUE_NULL) snprintf(text, size, "unknown");
  else plim_value_word(value, text, size);
}

static double number(const plim_value *value) {
  return value->kind == PLIM_VALUE_INTEGER ? (double)value->integer : value->real;
}

static bool is_number(const plim_value *value) {
  return value->kind == PLIM_VALUE_INTEGER || value->kind == PLIM_VALUE_REAL;
}

bool plim_value_same(const plim_value *a, const plim_value *b) {
  if (is_number(a) && is_number(b)) return fabs(number(a) - number(b)) < 1e-12;
  if (a->kind != b->kind) return false;
  bool has_text = a->kind == PLIM_VALUE_TEXT || a->kind == PLIM_VALUE_DERIVED;
  return has_text ? strcmp(a->text, b->text) == 0 : a->flag == b->flag;
}

int plim_line_at(plim_line_counter *counter, const char *text, size_t byte) {
  plim_line_counter at = *counter;
  if (at.text != text || at.byte > byte) at = (plim_line_counter){text, 0, 1};
  for (; at.byte < byte; at.byte++) at.line += text[at.byte] == '\n';
  *counter = at;
  return at.line;
}

char *plim_copy_of(const char *text, size_t size) {
  char *copy = malloc(size + 1);
  if (!copy) return NULL;
  memcpy(copy, text, size);
  copy[size] = 0;
  return copy;
}

bool plim_stream_end(FILE *stream, char **text) {
  bool is_whole = !ferror(stream);
  if (fclose(stream) == 0 && is_whole && *text) return true;
  free(*text);
  *text = NULL;
  return false;
}
