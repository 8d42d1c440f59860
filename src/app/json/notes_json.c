#include "notes_json.h"

void notes_write(json_writer *j, const plim_notes *notes) {
  for (size_t i = 0; i < notes->list.len; i++) {
    const plim_note *note = &notes->list.at[i];
    jsonw_object(j, NULL);
    jsonw_string(j, "code", note->code);
    jsonw_string(j, "message", note->message);
    jsonw_string_or_null(j, "file", note->file ? note->file : "");
    if (note->line) jsonw_i64(j, "line", note->line);
    else jsonw_null(j, "line");
    jsonw_string_or_null(j, "knob", note->knob ? note->knob : "");
    jsonw_end(j);
  }
}
