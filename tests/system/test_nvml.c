// Cards are read from whatever version of the driver's library there is; without one there are none.
#include "nvml.h"

#include <stdlib.h>

#include "../test.h"

static plim_card cards[PLIM_MAX_CARDS];

static size_t count_with(const char *library) {
  setenv("PLIMSOLL_NVML", library, 1);
  size_t count = plim_nvml_cards(cards);
  unsetenv("PLIMSOLL_NVML");
  return count;
}

TEST(nvml_reads_the_cards) {
  size_t count = count_with(FAKE_NVML);
  CHECK(count == 2, "%zu cards", count); // the third refuses
  CHECK_STR(cards[1].name, "NVIDIA GeForce RTX 4090");
  CHECK_U64(cards[1].total_bytes, 24564 * PLIM_MIB);
  CHECK_U64(cards[1].free_bytes, 23000 * PLIM_MIB);
  CHECK_U64(cards[1].used_bytes, 1081 * PLIM_MIB);
}

TEST(nvml_of_an_old_driver_is_read) {
  size_t count = count_with(FAKE_OLD_NVML);
  CHECK(count == 2, "%zu cards", count);
  CHECK_U64(cards[0].total_bytes, 24564 * PLIM_MIB);
  CHECK_U64(cards[0].used_bytes, 1564 * PLIM_MIB);
}

TEST(nvml_that_does_not_start_has_no_cards) {
  setenv("FAKE_NVML_BROKEN", "1", 1);
  size_t count = count_with(FAKE_NVML);
  unsetenv("FAKE_NVML_BROKEN");
  CHECK(count == 0, "%zu cards", count);
}

TEST(nvml_that_is_not_there_has_no_cards) {
  CHECK(count_with("/nonexistent/libnvidia-ml.so") == 0, "cards");
  CHECK(count_with("libm.so.6") == 0, "cards of a library that is something else");
}

// Whatever this machine has, asking is harmless.
TEST(nvml_of_this_machine) {
  size_t count = plim_nvml_cards(cards);
  printf("  %zu cards\n", count);
  for (size_t i = 0; i < count; i++) {
    printf("  %s: %llu MiB, %llu free, %llu used\n", cards[i].name,
           (unsigned long long)(cards[i].total_bytes / PLIM_MIB),
           (unsigned long long)(cards[i].free_bytes / PLIM_MIB),
           (unsigned long long)(cards[i].used_bytes / PLIM_MIB));
    CHECK(cards[i].total_bytes >= cards[i].free_bytes, "more is free than there is");
  }
}

TEST_MAIN
