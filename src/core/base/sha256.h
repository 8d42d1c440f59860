// SHA-256 (FIPS 180-4), to compare contents without keeping them.
#ifndef PLIM_CORE_SHA256_H
#define PLIM_CORE_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define PLIM_SHA256_BYTES 32

void plim_sha256(const void *data, size_t size, uint8_t digest[PLIM_SHA256_BYTES]);

#endif
