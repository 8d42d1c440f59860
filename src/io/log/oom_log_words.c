#include <string.h>

#include "oom_log_impl.h"

bool log_starts(log_text text, const char *word) {
  size_t length = strlen(word);
  return text.size >= length && memcmp(text.at, word, length) == 0;
}

log_text log_after(log_text text, const char *word) {
  size_t length = strlen(word);
  const char *found = memmem(text.at, text.size, word, length);
  if (!found) return (log_text){NULL, 0};
  found += length;
  return (log_text){found, text.size - (size_t)(found - text.at)};
}

bool log_has(log_text text, const char *word) { return log_after(text, word).at != NULL; }

bool log_count(log_text text, uint64_t *value) {
  size_t i = 0;
  uint64_t read = 0;
  for (; i < text.size && text.at[i] >= '0' && text.at[i] <= '9'; i++) {
    if (i == 18) return false;
    read = read * 10 + (uint64_t)(text.at[i] - '0');
  }
  if (i) *value = read;
  return i > 0;
}

void log_copy(char *out, size_t size, log_text text) {
  size_t length = text.size < size - 1 ? text.size : size - 1;
  if (length) memcpy(out, text.at, length);
  out[length] = 0;
}

log_text log_trim(log_text text) {
  while (text.size && (*text.at == ' ' || *text.at == '\t')) text.at++, text.size--;
  while (text.size && (text.at[text.size - 1] == ' ' || text.at[text.size - 1] == '\t'))
    text.size--;
  return text;
}
