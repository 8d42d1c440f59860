// The allocator's configuration of a run: from the files, the environment, or the program that starts it.
#include <stdlib.h>
#include <string.h>

#include "alloc_conf.h"
#include "project_job.h"

// A program that sets the variable for the runs that it starts.
typedef struct {
  plim_dialect dialect;
  const char *command; // in launch scripts; NULL: however the run is started
  bool is_forced;      // whatever the variable was before
  uint64_t from_world; // with fewer GPUs it does not
  const char *name, *when;
} launcher;

static const launcher launchers[] = {
    // launcher.py and v1/launcher.py, for torchrun's processes
    {PLIM_DIALECT_LLAMA_FACTORY, "llamafactory-cli", true, 2, "llamafactory-cli",
     " on several GPUs (unless OPTIM_TORCH=0)"},
    {PLIM_DIALECT_LLAMA_FACTORY_V1, "llamafactory-cli", true, 2, "llamafactory-cli",
     " on several GPUs (unless OPTIM_TORCH=0)"},
    // torchtune/__init__.py
    {PLIM_DIALECT_TORCHTUNE, NULL, false, 1, "torchtune", ""},
    // utils/__init__.py, which cli/main.py calls: runs that are started without it have the defaults
    {PLIM_DIALECT_AXOLOTL, "axolotl train", false, 1, "axolotl train", ""},
};

// LLaMA-Factory (launcher.py) starts no torchrun then; ray_num_workers counts only with USE_RAY=1.
bool project_starts_with_ray(const plim_project *p) {
  for (size_t i = 0; i < p->files.len; i++)
    if (p->files.at[i]->is.dialect == PLIM_DIALECT_LLAMA_FACTORY &&
        plim_project_setting(p->files.at[i], "ray_num_workers"))
      return true;
  return false;
}

// accelerate, torchrun, Ray and a script's own command start the processes without the program.
static bool starts(const launcher *l, const plim_project *p) {
  if (l->dialect != p->dialect || project_starts_with_ray(p)) return false;
  for (size_t i = 0; l->command && i < p->files.len; i++) {
    const plim_project_file *f = p->files.at[i];
    bool is_command = f->settings.format == PLIM_FORMAT_SHELL;
    if (f->is.dialect == PLIM_DIALECT_ACCELERATE) return false;
    if (is_command && !memmem(f->text, f->size, l->command, strlen(l->command))) return false;
  }
  return true;
}

static const launcher *launcher_of(const plim_project *p) {
  for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++)
    if (starts(&launchers[i], p)) return &launchers[i];
  return NULL;
}

bool project_launcher_sets_conf(const plim_project *p) { return launcher_of(p) != NULL; }

bool project_launcher_sets_conf_on(const plim_project *p, uint64_t world) {
  const launcher *l = launcher_of(p);
  return l && world >= l->from_world;
}

bool project_launcher_forces_conf(const plim_project *p) {
  const launcher *l = launcher_of(p);
  return l && l->is_forced;
}

void project_job_note_launcher(const project_job *p, plim_notes *notes) {
  const launcher *l = launcher_of(&p->project);
  plim_note_add(notes, "assumed.alloc_conf", "alloc_conf",
                "the planned run is started by torchrun (FORCE_TORCHRUN=1), for which %s sets "
                "PYTORCH_CUDA_ALLOC_CONF=%s itself (unless OPTIM_TORCH=0)",
                l->name, PROJECT_LAUNCHER_CONF);
}

static bool is_before_2_9(const job_args *a) {
  uint16_t torch = job_release(a, PLIM_LIBRARY_TORCH);
  return torch && torch < PLIM_RELEASE(2, 9);
}

// Axolotl's set_pytorch_cuda_alloc_conf (utils/__init__.py): for a PyTorch before 2.9 it also rounds, and the variable has
// the older name.
static const char *conf_of(const launcher *l, const job_args *a) {
  bool is_older = l->dialect == PLIM_DIALECT_AXOLOTL && is_before_2_9(a);
  return is_older ? PROJECT_LAUNCHER_CONF ",roundup_power2_divisions:16" : PROJECT_LAUNCHER_CONF;
}

static const char *variable_of(const launcher *l, const job_args *a) {
  bool is_newer = l->dialect == PLIM_DIALECT_AXOLOTL && !is_before_2_9(a);
  return is_newer ? "PYTORCH_ALLOC_CONF" : "PYTORCH_CUDA_ALLOC_CONF";
}

// NULL: it sets none for this run.
static const char *launched_conf(project_job *p, const job_args *a, bool is_forced) {
  const launcher *l = launcher_of(&p->project);
  bool is_set = project_launcher_sets_conf_on(&p->project, a->world ? (uint64_t)a->world : 1);
  if (!is_set || l->is_forced != is_forced) return NULL;
  const char *conf = conf_of(l, a);
  plim_note_add(&p->notes, "assumed.alloc_conf", "alloc_conf", "%s sets %s=%s itself%s", l->name,
                variable_of(l, a), conf, l->when);
  p->conf_by = l->name;
  return conf;
}

// Settings that PyTorch refuses are ignored here; the check command reports them.
static const char *valid_conf(const char *name) {
  plim_alloc_conf conf;
  const char *text = getenv(name);
  return text && *text && !plim_alloc_conf_parse(text, &conf, NULL) ? text : NULL;
}

void project_job_fill_allocator(project_job *p, job_args *a) {
  static const char *const names[] = {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"};
  if (!a->alloc_conf) a->alloc_conf = launched_conf(p, a, true);
  if (!a->alloc_conf && p->run.alloc_conf.origin == PLIM_EXPLICIT)
    a->alloc_conf = p->run.alloc_conf.text;
  for (size_t i = 0; !a->alloc_conf && !a->is_elsewhere && i < sizeof names / sizeof *names; i++)
    a->alloc_conf = valid_conf(names[i]);
  if (!a->alloc_conf) a->alloc_conf = launched_conf(p, a, false);
}
