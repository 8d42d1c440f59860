// The digests of the examples in FIPS 180-4, and of texts whose lengths are around block boundaries (from sha256sum).
#include <stdlib.h>

#include "sha256.h"
#include "test.h"

static const char *hex_of(const void *data, size_t size) {
  static char hex[2 * PLIM_SHA256_BYTES + 1];
  uint8_t digest[PLIM_SHA256_BYTES];
  plim_sha256(data, size, digest);
  for (int i = 0; i < PLIM_SHA256_BYTES; i++) snprintf(hex + 2 * i, 3, "%02x", digest[i]);
  return hex;
}

TEST(sha256_of_the_standards_examples) {
  CHECK_STR(hex_of("", 0), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK_STR(hex_of("abc", 3), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK_STR(hex_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST(sha256_of_a_million_bytes) {
  char *many = malloc(1000000);
  CHECK(many, "memory");
  memset(many, 'a', 1000000);
  CHECK_STR(hex_of(many, 1000000),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  free(many);
}

TEST(sha256_around_the_end_of_a_block) {
  static const struct {
    size_t size;
    const char *want;
  } rows[] = {
      {55, "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318"},
      {56, "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a"},
      {63, "7d3e74a05d7db15bce4ad9ec0658ea98e3f06eeecf16b4c6fff2da457ddc2f34"},
      {64, "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb"},
      {65, "635361c48bb9eab14198e76ea8ab7f1a41685d6ad62aa9146d301d4f17eb0ae0"},
  };
  char text[65];
  memset(text, 'a', sizeof text);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    CHECK_STR(hex_of(text, rows[i].size), rows[i].want);
}

TEST_MAIN
