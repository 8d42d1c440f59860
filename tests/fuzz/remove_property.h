// A property of every removal: it is refused with a message, or bytes outside of its span stay and the new text reads
// like the old one without that setting.
#ifndef PLIM_FUZZ_REMOVE_PROPERTY_H
#define PLIM_FUZZ_REMOVE_PROPERTY_H

#include <stdlib.h>
#include <string.h>

#include "formats.h"
#include "settings.h"

static void removal_expect(bool condition) {
  if (!condition) abort();
}

// Compares keys without the number of their command, which may change: --lr#2.
static bool has_same_name(const char *a, const char *b) {
  size_t n = *a ? strcspn(a + 1, "#") + 1 : 0, m = *b ? strcspn(b + 1, "#") + 1 : 0;
  return n == m && memcmp(a, b, n) == 0;
}

static void check_rest(const plim_settings *before, const plim_settings *after, size_t gone) {
  removal_expect(after->at.len + 1 == before->at.len);
  for (size_t i = 0, k = 0; i < before->at.len; i++) {
    if (i == gone) continue;
    const plim_setting *a = &before->at.at[i], *b = &after->at.at[k++];
    bool is_numbered = has_same_name(a->key, before->at.at[gone].key);
    removal_expect(is_numbered ? has_same_name(a->key, b->key) : strcmp(a->key, b->key) == 0);
    removal_expect(a->value.kind == b->value.kind && a->value.integer == b->value.integer);
    bool has_text = a->value.kind == PLIM_VALUE_TEXT;
    removal_expect(!has_text || strcmp(a->value.text, b->value.text) == 0);
  }
}

static void check_removal(const plim_settings *s, size_t i) {
  plim_settings after;
  plim_edit edit;
  plim_error error = {0};
  char *text;
  size_t size;
  if (plim_settings_remove(s, &s->at.at[i], &edit, &error)) {
    removal_expect(error.message[0] && !edit.text);
    return;
  }
  size_t rest = s->size - edit.span.end, kept = strlen(edit.text);
  removal_expect(!plim_edits_apply(s->text, s->size, &edit, 1, &text, &size, &error));
  removal_expect(size == edit.span.begin + kept + rest);
  removal_expect(memcmp(text, s->text, edit.span.begin) == 0);
  removal_expect(memcmp(text + size - rest, s->text + edit.span.end, rest) == 0);
  removal_expect(!kept || memmem(s->text + edit.span.begin, edit.span.end - edit.span.begin,
                                 edit.text, kept) != NULL);
  removal_expect(!plim_settings_read(s->format, text, size, &after, &error));
  check_rest(s, &after, i);
  plim_settings_clear(&after);
  free(edit.text);
  free(text);
}

#endif
