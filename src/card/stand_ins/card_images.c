#include "card_images.h"

#include <stdint.h>
#include <string.h>

// The wrapper around a library's images.
typedef struct {
  uint32_t magic, version;
  const unsigned char *images;
  void *file;
} image_wrapper;

#define WRAPPER_MAGIC 0x466243b1u
#define IMAGES_MAGIC 0xba55ed50u

enum { HEADER_BYTES = 16, ENTRY_BYTES = 32, KIND_PTX = 1, KIND_BINARY = 2 };

static uint32_t word(const unsigned char *at) {
  uint32_t value;
  memcpy(&value, at, sizeof value);
  return value;
}

static uint64_t long_word(const unsigned char *at) {
  uint64_t value;
  memcpy(&value, at, sizeof value);
  return value;
}

// Machine code runs on cards of the same major version that are not older; PTX on all that are not older.
static void offer(card_image *best, int kind, int arch, int capability) {
  if (arch > capability) return;
  if (kind == KIND_BINARY && arch / 10 == capability / 10 && arch > best->binary)
    best->binary = arch;
  if (kind == KIND_PTX && arch > best->ptx) best->ptx = arch;
}

// Each entry: its kind (2 bytes), the size of its own header at 4 and of what follows at 8, the architecture at 28.
static card_image best_of(const unsigned char *at, const unsigned char *end, int capability) {
  card_image best = {0, 0};
  while (end - at >= ENTRY_BYTES) {
    uint64_t bytes = word(at + 4) + long_word(at + 8);
    offer(&best, at[0], (int)word(at + 28), capability);
    if (bytes < ENTRY_BYTES || bytes > (uint64_t)(end - at)) break;
    at += bytes;
  }
  if (best.binary) return (card_image){best.binary, best.binary};
  return best.ptx ? (card_image){capability, best.ptx} : (card_image){0, 0};
}

card_image card_image_of(const void *wrapper, int capability) {
  const image_wrapper *w = wrapper;
  if (!w || w->magic != WRAPPER_MAGIC || !w->images || word(w->images) != IMAGES_MAGIC)
    return (card_image){capability, capability};
  uint64_t bytes = long_word(w->images + 8);
  const unsigned char *first = w->images + (word(w->images + 4) >> 16); // the size of the header
  return best_of(first, first + bytes, capability);
}
