// Reads TOML 1.0: its settings and, on request, the place where a new key of a table belongs.
#ifndef PLIM_IO_TOML_READER_H
#define PLIM_IO_TOML_READER_H

#include "comments.h"
#include "hash.h"
#include "literals.h"

typedef enum {
  PLIM_TOML_NO_PLACE,
  PLIM_TOML_BEHIND_HEADER, // after the header of a table without entries
  PLIM_TOML_BEHIND_ENTRY,  // after the last entry, on a line of its own
  PLIM_TOML_INLINE         // within { }
} plim_toml_place_kind;

// Offsets are bytes of the text.
typedef struct {
  plim_toml_place_kind kind;
  size_t begin, end; // of the header or the last entry; of an empty inline table: after its {
  plim_span prefix;  // the entry's key without its last part: `lora.`
  bool is_empty;     // an inline table without entries
  bool spaced_before, spaced_behind; // whether there are spaces around the = of the entry
} plim_toml_place;

typedef struct {
  uint8_t kind;
  uint32_t section; // the section whose dotted keys created it
  uint32_t count;   // of an array: how many tables it has
  uint32_t element; // of an array: its last table
} plim_toml_node;

typedef struct {
  plim_settings *s;
  plim_error *error;
  plim_err err;
  const char *text;
  size_t size, at;
  uint32_t line;
  bool line_has_token;
  plim_comments comments;
  vec(plim_span) lines; // first and last line of each setting
  vec(plim_toml_node) nodes;
  plim_hash children; // by parent and key
  uint32_t table, section;
  plim_chars path; // with a dot before each part, because a part may be empty
  plim_chars key;  // the last part of the path
  int depth;
  const char *wanted; // the path of the table whose place is wanted, in the same form; NULL: none
  plim_toml_place place;
} plim_toml_reader;

plim_err plim_toml_read(plim_toml_reader *r, plim_settings *s, const char *wanted,
                        plim_error *error);
void plim_toml_reader_free(plim_toml_reader *r);

#endif
