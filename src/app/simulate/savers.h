// Savers of memory that need no change to the user's program: options of the commands that run one (simulate, profile, run),
// the variables by which the Python modules in src/card/python know of them, and what they did.
//
//   typedef struct { ...; savers_args savers; } my_args;
//   #define SAVERS_AT(field) offsetof(my_args, savers.field)
//   static const cli_option options[] = {..., SAVER_OPTIONS(SAVERS_AT), {0}};
//
//   savers_variables variables = savers_variables_of(&args->savers);
//   for (size_t i = 0; i < variables.count; i++) ... variables.entries[i] ... // "PLIMSOLL_GC_EVERY=10"
#ifndef PLIM_APP_SAVERS_H
#define PLIM_APP_SAVERS_H

#include <stdbool.h>

#include "notes.h"
#include "options.h"
#include "vec.h"

// Tokens of a chunk. With 512 the product reads each weight of the head once for 512 multiplications, enough to keep a GPU
// busy, and the float32 logits of a chunk take 297 MiB for 152,000 words. The rows of tests/truth/seeds_chunked.json were
// measured with it.
enum { SAVERS_CHUNK_TOKENS = 512 };

// What was typed. A command embeds this in its args struct. 0: not wanted.
typedef struct {
  uint64_t empty_cache_every, gc_every; // optimizer steps
  uint64_t chunked_loss;                // tokens; CLI_LEFT_OUT: SAVERS_CHUNK_TOKENS
} savers_args;

// Rows for the command's table of options; AT(field) is the offset of savers_args.field.
// clang-format off
#define SAVER_OPTIONS(AT)                                                                          \
  {"chunked-loss", 0, "[TOKENS]", CLI_UINT, AT(chunked_loss),                                      \
   "compute the loss of a transformers language model TOKENS tokens at a time (default: 512), so " \
   "that full logits never exist; loss and gradients stay the same", NULL},                        \
  {"empty-cache-every", 0, "N", CLI_UINT, AT(empty_cache_every),                                   \
   "call torch.cuda.empty_cache() after every N optimizer steps", NULL},                           \
  {"gc-every", 0, "N", CLI_UINT, AT(gc_every),                                                     \
   "call gc.collect() after every N optimizer steps", NULL}
// clang-format on

typedef struct {
  char entries[3][64]; // "NAME=VALUE"
  size_t count;
} savers_variables;

// The variables of the program's environment. `args` may be NULL.
savers_variables savers_variables_of(const savers_args *args);

// A line that read the logits, so that all of them were computed.
typedef struct {
  char *file; // owned
  int line;
  uint64_t times;
} savers_look;

// What the savers did in one process.
typedef struct {
  uint64_t emptied, collected; // times; PLIM_UNKNOWN: not wanted
  bool wants_chunks;
  uint64_t chunk_tokens, losses; // losses computed in chunks
  uint64_t most_tokens;          // of one loss
  uint64_t logits_bytes;         // that float32 logits of that loss would have taken
  char *why_off;                 // why no loss was computed in chunks; owned; NULL: some were
  vec(savers_look) looks;
} savers_done;

// One note for each saver that was wanted: what it did, or why it was not used.
void savers_describe(const savers_done *done, plim_notes *notes);
void savers_done_clear(savers_done *done);

#endif
