// The time that kernels would take on the real card, as far as their shapes are known: products by cuBLAS's arguments,
// attention and the optimizer's kernels by their names and grids. What other kernels move is not known here; PyTorch's
// allocator knows how much they wrote.
#include <stdio.h>
#include <string.h>

#include "card.h"

static double bytes_per_element(plim_compute compute) {
  return compute == PLIM_COMPUTE_FP32 ? 4 : 2;
}

// A product counts as a launch, because the real cuBLAS launches a kernel for it. If several threads add at once, one product
// may be lost; the sums are estimates.
void card_time_products(plim_compute compute, double m, double n, double k, double batch) {
  card_process *mine = card_process_here();
  double size = bytes_per_element(compute), written = batch * m * n * size;
  double bytes = batch * (m * k + k * n) * size + written;
  __atomic_add_fetch(&mine->launches, 1, __ATOMIC_RELAXED);
  mine->work.product_bytes += written;
  mine->work.product_seconds +=
      plim_product_seconds(card()->gpu, compute, 2 * batch * m * n * k, bytes, 0);
}

void card_time_attention(plim_compute compute, plim_sdpa_kernel kernel, double pairs, double width,
                         bool is_backward) {
  static __thread double last_pairs;
  if (!is_backward) last_pairs = pairs;
  else if (pairs <= 0) pairs = last_pairs;
  card_process_here()->work.attention_seconds +=
      plim_attention_seconds(card()->gpu, compute, kernel, pairs, width, is_backward, false);
}

// ---- kernels by their names -----------------------------------------------------------------------------

static plim_compute compute_of(const char *name) {
  if (strstr(name, "bfloat16") || strstr(name, "BFloat16") || strstr(name, "bf16"))
    return PLIM_COMPUTE_BF16;
  bool is_half = strstr(name, "half_t") || strstr(name, "Half") || strstr(name, "f16");
  return is_half ? PLIM_COMPUTE_FP16 : PLIM_COMPUTE_FP32;
}

// Numbers of a template: "ILi64ELi128E" after `word`. Returns how many were read.
static int numbers_after(const char *name, const char *word, int out[3]) {
  const char *at = strstr(name, word);
  int count = 0, length;
  if (!at) return 0;
  at += strlen(word);
  if (*at == 'I') at++;
  for (; count < 3 && sscanf(at, "Li%dE%n", &out[count], &length) == 1; at += length) count++;
  return count;
}

// The first two flags behind the type of the elements: dropout and a causal mask.
static bool is_causal(const char *name) {
  int dropout, causal = 0;
  const char *type = strstr(name, "cutlass"), *flags = type ? strstr(type, "ELb") : NULL;
  return flags && sscanf(flags, "ELb%dELb%dE", &dropout, &causal) == 2 && causal;
}

// pytorch_flash's kernels: the name says how many queries (forward) or keys (backward) of one head of one sequence a block
// has. There are assumed to be as many keys as queries.
static void time_flash(const char *name, bool is_backward, double blocks, double length_of_blocks) {
  int of[3];
  const char *traits = is_backward ? "Flash_bwd_kernel_traits" : "Flash_fwd_kernel_traits";
  if (numbers_after(name, traits, of) < 3) return;
  double length = length_of_blocks * of[is_backward ? 2 : 1], heads = blocks / length_of_blocks;
  double pairs = heads * length * length * (is_causal(name) ? 0.5 : 1);
  card_time_attention(compute_of(name), PLIM_SDPA_FLASH, pairs, of[0], is_backward);
}

// "fmha_cutlassF_bf16_aligned_64x128_rf_sm80": queries of a block and the most keys or elements that it holds.
static void time_efficient(const char *name, bool is_backward, double blocks,
                           double length_of_blocks) {
  int queries = 0, width = 0;
  const char *shape = strstr(name, "aligned_");
  if (!shape || sscanf(shape, "aligned_%dx%d", &queries, &width) != 2) return;
  double length = length_of_blocks * queries, heads = blocks / length_of_blocks;
  card_time_attention(compute_of(name), PLIM_SDPA_EFFICIENT,
                      is_backward ? 0 : heads * length * length, width, is_backward);
}

// A block works on a chunk of every list; one of the lists is written.
static void time_lists(const char *name, double blocks) {
  enum { CHUNK_ELEMENTS = 65536 }; // PyTorch's kChunkSize
  int lists[3];
  const char *at = strstr(name, "Metadata");
  const char *count = at ? strstr(at, "Li") : NULL;
  if (!count || sscanf(count, "Li%dE", &lists[0]) != 1 || lists[0] < 1 || lists[0] > 8) return;
  card_process_here()->work.listed_bytes +=
      blocks * CHUNK_ELEMENTS * bytes_per_element(compute_of(name)) * (lists[0] + 1);
}

card_kernel_kind card_kernel_kind_of(const char *name) {
  static const struct {
    const char *word;
    card_kernel_kind kind;
  } words[] = {{"multi_tensor_apply", CARD_KERNEL_LISTS},
               {"flash_fwd", CARD_KERNEL_FLASH_FORWARD},
               {"flash_bwd_dq_dk_dv", CARD_KERNEL_FLASH_BACKWARD},
               {"fmha_cutlassF", CARD_KERNEL_EFFICIENT_FORWARD},
               {"fmha_cutlassB", CARD_KERNEL_EFFICIENT_BACKWARD}};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (strstr(name, words[i].word)) return words[i].kind;
  return CARD_KERNEL_OTHER;
}

void card_time_kernel(card_kernel_kind kind, const char *name, unsigned x, unsigned y, unsigned z) {
  double blocks = (double)x * y * z;
  switch (kind) {
  case CARD_KERNEL_LISTS: time_lists(name, blocks); break;
  case CARD_KERNEL_FLASH_FORWARD: time_flash(name, false, blocks, x); break;
  case CARD_KERNEL_FLASH_BACKWARD: time_flash(name, true, blocks, x); break;
  case CARD_KERNEL_EFFICIENT_FORWARD: time_efficient(name, false, blocks, x); break;
  case CARD_KERNEL_EFFICIENT_BACKWARD: time_efficient(name, true, blocks, x); break;
  default: break;
  }
}
