// Checks for DeepSpeed runs that are started without a launcher.
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "plan_edits.h"

// No launcher is needed if the code or the shell sets the launcher's variables.
static bool sets_ranks(const check *c) {
  check_place at;
  return check_code(c, "MASTER_ADDR", NULL) || check_code(c, "init_process_group(", NULL) ||
         check_find(c, "master_addr", &at);
}

// Lightning starts its processes itself.
static bool needs_launcher(const check *c) {
  const plim_project_knob *k = &c->files.project.knobs[PLIM_KNOB_STRATEGY];
  bool is_zero = k->origin == PLIM_EXPLICIT && k->value.kind == PLIM_VALUE_TEXT &&
                 strncmp(k->value.text, "zero", 4) == 0;
  return is_zero && c->files.project.dialect != PLIM_DIALECT_LIGHTNING && !sets_ranks(c);
}

static void fix_launcher(check *c, check_finding *f, const char *file) {
  char *script;
  long long gpus = check_local_world(c);
  if (plan_script(&c->files.project, &(plan_edits){0}, &script, NULL)) {
    c->has_no_memory = true;
    return;
  }
  bool is_module =
      strncmp(script, "-m ", 3) == 0; // the deepspeed launcher has a different flag for modules
  check_fix(f, "in %.80s: %s %lld %s", file,
            is_module ? "torchrun --nproc_per_node" : "deepspeed --num_gpus", gpus, script);
  free(script);
}

// deepspeed.init_distributed reads RANK, WORLD_SIZE and MASTER_ADDR; without them it tries MPI, which is rarely installed.
void check_launcher(check *c) {
  const char *file;
  if (plan_command_file(&c->files.project, &file, NULL)) c->has_no_memory = true;
  if (!c->trains || !file || !needs_launcher(c) || !project_job_is_plain(&c->files)) return;
  check_finding *f = check_add(c, "conflict.no_launcher", CHECK_FAILS,
                               "DeepSpeed is on, but the run is started with plain python");
  check_at_line(f, file, 0);
  check_why(f, "DeepSpeed needs a launcher even for one GPU: without RANK and MASTER_ADDR it tries "
               "MPI, and fails with \"No module named 'mpi4py'\"");
  fix_launcher(c, f, file);
}
