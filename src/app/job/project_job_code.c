// Finds code of a script that plimsoll does not follow and that may shard, checkpoint or cast, and adds a note.
#include <stddef.h>
#include <string.h>

#include "project_job.h"
#include "python_code.h"

const char *project_job_calls(const project_job *p, const char *word) {
  for (size_t i = 0; i < p->project.files.len; i++) {
    const plim_project_file *f = p->project.files.at[i];
    bool is_code = f->settings.format == PLIM_FORMAT_PYTHON;
    if (is_code && plim_python_has(&f->code, word)) return f->path;
  }
  return NULL;
}

// Notes scripts that do in code what others set with a key.
void project_job_note_code(project_job *p, const job_args *a) {
  static const struct {
    const char *word, *what, *option;
    plim_knob knob;
    size_t at; // of job_args
  } code[] = {
      {"FullyShardedDataParallel", "shards the model", "--strategy fsdp2", PLIM_KNOB_STRATEGY,
       offsetof(job_args, strategy)},
      {"fully_shard(", "shards the model", "--strategy fsdp2", PLIM_KNOB_STRATEGY,
       offsetof(job_args, strategy)},
      {"apply_activation_checkpointing", "turns on checkpointing", "--checkpoint",
       PLIM_KNOB_CHECKPOINT, offsetof(job_args, checkpoint)},
      {"torch.utils.checkpoint", "turns on checkpointing", "--checkpoint", PLIM_KNOB_CHECKPOINT,
       offsetof(job_args, checkpoint)},
      {".to(torch.bfloat16)", "converts something to bf16", "--dtype bf16", PLIM_KNOB_DTYPE,
       offsetof(job_args, dtype)},
      {"model.half()", "converts the model to fp16", "--dtype fp16", PLIM_KNOB_DTYPE,
       offsetof(job_args, dtype)},
  };
  for (size_t i = 0; i < sizeof code / sizeof *code; i++) {
    const char *path = project_job_calls(p, code[i].word);
    bool is_told = job_is_typed(a, (const char *)a + code[i].at);
    if (!path || is_told || p->project.knobs[code[i].knob].origin == PLIM_EXPLICIT) continue;
    plim_note_add(&p->notes, "unread.code", plim_knob_table[code[i].knob].name,
                  "%s %s (%s) in code that plimsoll cannot follow: if that code runs, add %s", path,
                  code[i].what, code[i].word, code[i].option);
    plim_note_at(&p->notes, path, 0);
  }
}
