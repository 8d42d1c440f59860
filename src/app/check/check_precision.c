// Checks for dtypes that the card does not support in hardware.
#include <string.h>

#include "check.h"

// The knob that requests bf16: the compute precision, or else the dtype of the parameters.
static const plim_project_knob *bf16_of(const check *c) {
  static const plim_knob knobs[] = {PLIM_KNOB_PRECISION, PLIM_KNOB_DTYPE};
  for (size_t i = 0; i < sizeof knobs / sizeof *knobs; i++)
    if (check_says(c, knobs[i], "bf16")) return &c->files.project.knobs[knobs[i]];
  return NULL;
}

static void show_place(const check *c, const plim_project_knob *k, check_finding *f) {
  if (!k->place_count || !k->places[0].setting) return;
  const plim_knob_place *at = &k->places[0];
  check_place place = {c->files.project.files.at[at->file], at->setting, at->setting->value};
  check_at(f, &place);
}

// torch.cuda.is_bf16_supported() is true on every card, because it includes emulation (pytorch/pytorch#148322), so
// Trainer starts.
void check_precision(check *c) {
  const plim_gpu *gpu = c->trains ? check_gpu(c) : NULL;
  const plim_project_knob *bf16 = gpu && !(gpu->bf16_tflops > 0) ? bf16_of(c) : NULL;
  if (!bf16) return;
  bool has_fp16 = gpu->fp16_tflops > 0;
  check_finding *f = check_add(c, "precision.emulated", CHECK_WARNING,
                               "bf16 on a GPU without bf16 support: the %s", gpu->name);
  check_why(f, "PyTorch emulates it with float32: at most %g TFLOPS%s", gpu->fp32_tflops,
            has_fp16 ? ", and kernels that need it are missing" : "");
  if (has_fp16)
    check_fix(f, "use fp16, which reaches %g TFLOPS here; plimsoll plan writes it",
              gpu->fp16_tflops);
  else check_fix(f, "use float32: this GPU has no fast 16-bit type");
  show_place(c, bf16, f);
}
