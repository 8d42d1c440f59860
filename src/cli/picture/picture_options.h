// The options --svg and --html, shared by the commands that draw.
#ifndef PLIM_CLI_PICTURE_OPTIONS_H
#define PLIM_CLI_PICTURE_OPTIONS_H

#include "options.h"
#include "picture.h"

// What was typed. A command embeds this in its args struct.
typedef struct {
  const char *svg, *html; // NULL: not wanted
} picture_args;

// Rows for the command's table of options; AT(field) is the offset of picture_args.field.
// clang-format off
#define PICTURE_OPTIONS(AT)                                                                        \
  {"svg", 0, "FILE", CLI_FILE, AT(svg), "draw memory over time as an SVG picture", NULL},         \
  {"html", 0, "FILE", CLI_FILE, AT(html),                                                          \
   "draw memory over time as an HTML page in which you can zoom", NULL}
// clang-format on

// Refuses standard output, one file for both, a file that is no such picture, and `input`, which the command reads and calls
// `input_name` ("the snapshot"); NULL: it reads no file.
plim_err picture_check(const picture_args *args, const char *input, const char *input_name,
                       plim_error *error);

// One picture to draw.
typedef struct {
  const char *path;
  size_t columns;
  void (*write)(FILE *out, const picture *p);
} picture_request;

// Calls `draw` for each picture that is wanted, until one fails.
plim_err picture_draw(const picture_args *args,
                      plim_err (*draw)(const void *context, const picture_request *wanted,
                                       plim_error *error),
                      const void *context, plim_error *error);

#endif
