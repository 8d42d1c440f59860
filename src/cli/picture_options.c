#include "picture_options.h"

#include <string.h>
#include <sys/stat.h>

static bool is_same_file(const char *a, const char *b) {
  struct stat x, y;
  if (strcmp(a, b) == 0) return true;
  return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static plim_err refuse(const char *option, const char *path, const char *why, const char *what,
                       plim_error *error) {
  plim_fail(error, PLIM_ERR_ARGUMENT, "%s %s: %s%s", option, path, why, what);
  plim_error_hint(error, "%s timeline.%s", option, option + 2);
  return PLIM_ERR_ARGUMENT;
}

plim_err picture_check(const picture_args *args, const char *input, const char *input_name,
                       plim_error *error) {
  const char *options[] = {"--svg", "--html"}, *paths[] = {args->svg, args->html};
  for (size_t i = 0; i < 2; i++) {
    const char *path = paths[i];
    if (!path) continue;
    if (strcmp(path, "-") == 0)
      return refuse(options[i], path, "standard output is for the report", "", error);
    if (input && is_same_file(path, input))
      return refuse(options[i], path, "that is ", input_name, error);
    if (i && paths[0] && is_same_file(path, paths[0]))
      return refuse(options[i], path, "both pictures would go there", "", error);
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
