#include "picture_options.h"

#include <string.h>

#include "output_file.h"

// Pictures of this program are recognised by text that svg.c and html.c write.
static bool is_svg(const char *text, size_t size) {
  static const char own[] = "aria-label=\"GPU memory over time\"";
  return memmem(text, size, own, sizeof own - 1);
}

static bool is_html(const char *text, size_t size) {
  static const char own[] = " - GPU memory</title>";
  return memmem(text, size, own, sizeof own - 1);
}

plim_err picture_check(const picture_args *args, const char *input, const char *input_name,
                       plim_error *error) {
  output_file files[] = {
      {"--svg", args->svg, "timeline.svg", "a picture drawn by plimsoll", is_svg},
      {"--html", args->html, "timeline.html", "a page drawn by plimsoll", is_html},
  };
  for (size_t i = 0; i < 2; i++) {
    const output_file *f = &files[i];
    if (!f->path) continue;
    if (input && output_is_same(f->path, input))
      return output_refuse(f, "that is ", input_name, error);
    if (i && args->svg && output_is_same(f->path, args->svg))
      return output_refuse(f, "--svg and --html name the same file", "", error);
    plim_err err = output_check(f, error);
    if (err) return err;
  }
  return PLIM_OK;
}

plim_err picture_draw(const picture_args *args,
                      plim_err (*draw)(const void *context, const picture_request *wanted,
                                       plim_error *error),
                      const void *context, plim_error *error) {
  picture_request wanted[] = {{args->svg, SVG_COLUMNS, svg_write},
                              {args->html, HTML_COLUMNS, html_write}};
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
    plim_err err = wanted[i].path ? draw(context, &wanted[i], error) : PLIM_OK;
    if (err) return err;
  }
  return PLIM_OK;
}
