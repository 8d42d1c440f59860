#include "test.h"
#include "units.h"

#include <math.h>

static uint64_t parsed(const char *text) {
  uint64_t bytes = 12345;
  return units_parse_bytes(text, &bytes, NULL) == PLIM_OK ? bytes : PLIM_UNKNOWN;
}

TEST(binary_and_decimal_suffixes) {
  CHECK_U64(parsed("24GiB"), 24 * PLIM_GIB);
  CHECK_U64(parsed("24G"), 24 * PLIM_GIB);
  CHECK_U64(parsed("24Gi"), 24 * PLIM_GIB);
  CHECK_U64(parsed("24GB"), 24000000000u);
  CHECK_U64(parsed("512MiB"), 512 * PLIM_MIB);
  CHECK_U64(parsed("1KB"), 1000u);
  CHECK_U64(parsed("1k"), 1024u);
  CHECK_U64(parsed("2TiB"), 2048 * PLIM_GIB);
}

TEST(plain_number_is_bytes) {
  CHECK_U64(parsed("0"), 0u);
  CHECK_U64(parsed("512"), 512u);
  CHECK_U64(parsed("512B"), 512u);
  CHECK_U64(parsed("18446744073709551614"), UINT64_MAX - 1);
}

TEST(fractions_are_exact) {
  CHECK_U64(parsed("1.5GiB"), PLIM_GIB + PLIM_GIB / 2);
  CHECK_U64(parsed("0.5K"), 512u);
  CHECK_U64(parsed("23.7 GiB"), 25447681228u); // 23.7 * 2^30 = 25447681228.8
  CHECK_U64(parsed("79.999999TB"), 79999999000000u);
}

TEST(a_size_never_reads_as_unknown) {
  CHECK_U64(parsed("18446744073709551615"), PLIM_UNKNOWN);
  uint64_t bytes = 7;
  CHECK(units_parse_bytes("18446744073709551615", &bytes, NULL) != PLIM_OK, "accepted");
  CHECK_U64(bytes, 7u);
  CHECK(units_parse_bytes("16777216T", &bytes, NULL) != PLIM_OK, "2^64 accepted");
  CHECK(units_parse_bytes("99999999999999999999", &bytes, NULL) != PLIM_OK, "10^20 accepted");
}

static uint64_t offence(const char *text) {
  plim_error error;
  uint64_t bytes;
  return units_parse_bytes(text, &bytes, &error) == PLIM_OK ? 999 : error.byte;
}

TEST(bad_sizes_name_the_offending_byte) {
  CHECK_U64(offence(""), 0u);
  CHECK_U64(offence("GiB"), 0u);
  CHECK_U64(offence("-1"), 0u);
  CHECK_U64(offence("24QB"), 2u);
  CHECK_U64(offence("24 quux"), 3u);
  CHECK_U64(offence("1.GiB"), 2u);
  CHECK_U64(offence("1.5"), 1u);
  CHECK_U64(offence("1.5.5G"), 3u);
  CHECK_U64(offence("24GiB "), 2u);
  CHECK_U64(offence("0x10"), 1u);
}

TEST(whole_numbers) {
  uint64_t value = 5;
  plim_error error;
  CHECK(units_parse_u64("18446744073709551615", &value, NULL) == PLIM_OK, "rejected 2^64-1");
  CHECK_U64(value, UINT64_MAX);
  CHECK(units_parse_u64("18446744073709551616", &value, NULL) != PLIM_OK, "accepted 2^64");
  CHECK(units_parse_u64("12a", &value, &error) != PLIM_OK, "accepted 12a");
  CHECK_U64(error.byte, 2u);
  CHECK(units_parse_u64("", &value, NULL) != PLIM_OK, "accepted nothing");
  CHECK(units_parse_u64("-1", &value, NULL) != PLIM_OK, "accepted -1");
}

TEST(numbers) {
  double value = 0;
  CHECK(units_parse_number("0.8", &value, NULL) == PLIM_OK && value == 0.8, "%g", value);
  CHECK(units_parse_number("-1e3", &value, NULL) == PLIM_OK && value == -1000, "%g", value);
  static const char *const bad[] = {"", "nan", "inf", "1e999", "0x10", "1,5", " 1", "-", "-inf"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    CHECK(units_parse_number(bad[i], &value, NULL) != PLIM_OK, "accepted \"%s\"", bad[i]);
}

TEST(bytes_read_well) {
  CHECK_STR(units_bytes(0).text, "0 B");
  CHECK_STR(units_bytes(512).text, "512 B");
  CHECK_STR(units_bytes(1023).text, "1023 B");
  CHECK_STR(units_bytes(1024).text, "1.00 KiB");
  CHECK_STR(units_bytes(PLIM_MIB).text, "1.00 MiB");
  CHECK_STR(units_bytes(25447681228u).text, "23.7 GiB");
  CHECK_STR(units_bytes(80 * PLIM_GIB).text, "80.0 GiB");
  CHECK_STR(units_bytes(999 * PLIM_MIB).text, "999 MiB");
  CHECK_STR(units_bytes(UINT64_MAX - 1).text, "16.0 EiB");
  CHECK_STR(units_bytes(PLIM_UNKNOWN).text, "unknown");
}

TEST(rounding_never_prints_1024_of_a_unit) {
  CHECK_STR(units_bytes(PLIM_MIB - 1).text, "1.00 MiB");
  CHECK_STR(units_bytes(PLIM_GIB - 1).text, "1.00 GiB");
  CHECK_STR(units_bytes(1023 * PLIM_MIB).text, "1023 MiB");
  CHECK_STR(units_bytes(10 * PLIM_GIB - 1).text, "10.0 GiB");
}

TEST(counts_have_thousands_separators) {
  CHECK_STR(units_count(0).text, "0");
  CHECK_STR(units_count(999).text, "999");
  CHECK_STR(units_count(1000).text, "1,000");
  CHECK_STR(units_count(1234567).text, "1,234,567");
  CHECK_STR(units_count(UINT64_MAX - 1).text, "18,446,744,073,709,551,614");
  CHECK_STR(units_count(PLIM_UNKNOWN).text, "unknown");
}

TEST(durations) {
  CHECK_STR(units_seconds(0).text, "0 s");
  CHECK_STR(units_seconds(850e-9).text, "850 ns");
  CHECK_STR(units_seconds(0.00123).text, "1.23 ms");
  CHECK_STR(units_seconds(0.9999).text, "1.00 s");
  CHECK_STR(units_seconds(12.34).text, "12.3 s");
  CHECK_STR(units_seconds(200).text, "3 min 20 s");
  CHECK_STR(units_seconds(3599.9).text, "1 h 00 min");
  CHECK_STR(units_seconds(7500).text, "2 h 05 min");
  CHECK_STR(units_seconds(-1).text, "unknown");
  CHECK_STR(units_seconds((double)NAN).text, "unknown");
}

TEST_MAIN
