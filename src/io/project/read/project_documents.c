// Refuses a YAML file with several documents, because it is not clear which one the run uses.
#include "lenient_reads.h"
#include "project_impl.h"

static int line_of(const char *text, size_t byte) {
  int line = 1;
  for (size_t i = 0; i < byte; i++) line += text[i] == '\n';
  return line;
}

plim_err plim_project_refuse_documents(const plim_project *p, plim_error *error) {
  for (size_t i = 0; i < p->files.len; i++) {
    const plim_project_file *f = p->files.at[i];
    plim_lenient_read loose[PLIM_LOOSE_KINDS];
    bool is_read = f->settings.format == PLIM_FORMAT_YAML && f->recipe.dialect != PLIM_DIALECTS;
    if (!is_read || plim_lenient_reads_find(f->settings.format, f->text, f->size, loose, NULL))
      continue;
    if (!loose[PLIM_LOOSE_DOCUMENTS].is_there) continue;
    size_t byte = loose[PLIM_LOOSE_DOCUMENTS].byte;
    plim_err err = plim_fail(error, PLIM_ERR_UNSUPPORTED,
                             "the file has several YAML documents (the second starts in line %d), "
                             "and it is not clear which one the run uses",
                             line_of(f->text, byte));
    plim_error_hint(error, "put each document into its own file; yaml.safe_load accepts only one");
    return plim_error_file(error, err, f->path);
  }
  return PLIM_OK;
}
