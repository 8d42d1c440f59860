#include "estimate_result.h"
#include "notes_json.h"
#include "option_values.h"
#include "trainer_settings.h"

static void left_out(json_writer *j, const settings_result *s) {
  char name[64];
  jsonw_array(j, "left_out");
  for (size_t i = 0; i < s->left_out_count; i++) {
    cli_member_name(s->left_out[i], name, sizeof name);
    jsonw_string(j, NULL, name);
  }
  jsonw_end(j);
}

static void other_files(json_writer *j, const settings_result *s) {
  jsonw_array(j, "other_files");
  for (size_t i = 0; i < s->files.files.len; i++) {
    jsonw_object(j, NULL);
    jsonw_string(j, "file", s->files.files.at[i].path);
    jsonw_string(j, "text", s->files.files.at[i].text);
    jsonw_end(j);
  }
  jsonw_end(j);
}

void settings_write(json_writer *j, const void *result) {
  const settings_result *s = result;
  jsonw_object(j, NULL);
  jsonw_u64(j, "format_version", 1);
  jsonw_string(j, "dialect", s->dialect->name);
  jsonw_string(j, "title", s->dialect->title);
  jsonw_string(j, "format", s->dialect->format);
  jsonw_string(j, "file", s->dialect->file);
  jsonw_string(j, "text", s->text);
  other_files(j, s);
  jsonw_string(j, "command", s->command);
  left_out(j, s);
  if (s->is_read) estimate_json_options(j, "request", &s->read);
  else jsonw_null(j, "request");
  jsonw_array(j, "notes");
  notes_write(j, &s->notes);
  jsonw_end(j);
  jsonw_end(j);
}

void settings_list_write(json_writer *j, const void *unused) {
  (void)unused;
  jsonw_object(j, NULL);
  jsonw_u64(j, "format_version", 1);
  jsonw_array(j, "dialects");
  for (const settings_dialect *d = settings_dialects; d->name; d++) {
    jsonw_object(j, NULL);
    jsonw_string(j, "name", d->name);
    jsonw_string(j, "title", d->title);
    jsonw_string(j, "format", d->format);
    jsonw_string(j, "file", d->file);
    jsonw_end(j);
  }
  jsonw_end(j);
  jsonw_end(j);
}
