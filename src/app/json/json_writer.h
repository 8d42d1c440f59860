// Writes one JSON document to a stream, pretty-printed or on one line, as the calls come.
//
//   json_writer j = jsonw_begin(stdout);
//   jsonw_object(&j, NULL);
//   jsonw_u64(&j, "format_version", 1);
//   jsonw_array(&j, "peaks_bytes");
//   jsonw_bytes(&j, NULL, peak);
//   jsonw_end(&j);
//   jsonw_end(&j);
//   jsonw_finish(&j);
//
// `key` names a member of an object; it is NULL in an array and at the top. Keys are snake_case and
// carry the unit. Misuse (a key in an array, an end too many) stops debug builds by assertion.
// Write errors stay with the stream; the program checks stdout once, at its end. What is written to memory (json_text)
// fails as a whole if memory runs out; whoever collects the values can also say so with jsonw_no_memory.
#ifndef PLIM_APP_JSON_WRITER_H
#define PLIM_APP_JSON_WRITER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "plimsoll.h"

enum { JSON_DEPTH = 32 };

typedef struct {
  FILE *out;
  int depth;                 // containers open
  bool is_array[JSON_DEPTH]; // of each open container
  bool has_items[JSON_DEPTH];
  bool is_done;       // the top value is complete
  bool is_a_line;     // no line breaks inside
  bool has_no_memory; // something is missing
  bool is_cut;        // something could not be written
} json_writer;

json_writer jsonw_begin(FILE *out);
json_writer jsonw_begin_line(FILE *out); // on one line, for a stream of documents
void jsonw_finish(json_writer *j);       // ends the document with a newline
void jsonw_no_memory(json_writer *j); // memory ran out for something that belongs into the document

bool jsonw_is_whole(const json_writer *j); // nothing is missing

// Writes a document to memory; `write` fills in the top value. The caller frees the text.
plim_err json_text(void (*write)(json_writer *j, const void *context), const void *context,
                   char **text, plim_error *error);

void jsonw_object(json_writer *j, const char *key);
void jsonw_array(json_writer *j, const char *key);
void jsonw_end(json_writer *j); // closes the innermost object or array

void jsonw_string(json_writer *j, const char *key,
                  const char *text); // NULL is null; bad UTF-8 is U+FFFD
void jsonw_string_or_null(json_writer *j, const char *key, const char *text); // "" is null as well
void jsonw_u64(json_writer *j, const char *key, uint64_t value);
void jsonw_i64(json_writer *j, const char *key, int64_t value);
void jsonw_bytes(json_writer *j, const char *key, uint64_t bytes); // PLIM_UNKNOWN is null
void jsonw_number(json_writer *j, const char *key,
                  double value); // reads back the same; NaN, inf: null
void jsonw_bool(json_writer *j, const char *key, bool value);
void jsonw_null(json_writer *j, const char *key);

#endif
