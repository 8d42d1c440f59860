// Which of the images that a library carries for a kernel would run on the card. A library is compiled for some cards
// only: an RTX 4090 (8.9) runs code for 8.6, and CUB asks for exactly that number.
#ifndef PLIM_CARD_IMAGES_H
#define PLIM_CARD_IMAGES_H

#include <stddef.h>

typedef struct {
  int binary,
      ptx; // compute capabilities, 86 for 8.6: of the machine code that runs, and of the PTX it was compiled from
} card_image;

// `wrapper` is what a library hands to __cudaRegisterFatBinary; `capability` that of the card. {0, 0}: there is no code for
// this card. If the wrapper is not of a known form, the image is the card's own.
card_image card_image_of(const void *wrapper, int capability);

#endif
