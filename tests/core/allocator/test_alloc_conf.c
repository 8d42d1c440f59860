#include "alloc_conf.h"
#include "test.h"

static plim_alloc_conf parsed(const char *text) {
  plim_alloc_conf conf = {0};
  plim_error error;
  if (plim_alloc_conf_parse(text, &conf, &error) != PLIM_OK)
    printf("%s: %s\n", text, error.message), test_failed = true;
  return conf;
}

TEST(nothing_set_gives_the_defaults) {
  plim_alloc_conf conf = parsed("");
  CHECK_U64(conf.large_segment_bytes, 20 * PLIM_MIB);
  CHECK_U64(conf.max_split_bytes, UINT64_MAX);
  CHECK_U64(conf.max_non_split_rounding_bytes, 20 * PLIM_MIB);
  CHECK(!conf.expandable_segments && conf.gc_threshold == 0, "not off");
}

TEST(every_setting_that_changes_memory_is_read) {
  plim_alloc_conf conf =
      parsed("expandable_segments:True, max_split_size_mb:128 ,garbage_collection_threshold:0.8,"
             "max_non_split_rounding_mb:64,large_segment_size_mb:40,throw_on_cudamalloc_oom:True,"
             "per_process_memory_fraction:0.5,roundup_power2_divisions:8");
  CHECK(conf.expandable_segments && conf.throw_on_cudamalloc_oom, "flags");
  CHECK_U64(conf.max_split_bytes, 128 * PLIM_MIB);
  CHECK_U64(conf.max_non_split_rounding_bytes, 64 * PLIM_MIB);
  CHECK_U64(conf.large_segment_bytes, 40 * PLIM_MIB);
  CHECK(conf.gc_threshold == 0.8 && conf.memory_fraction == 0.5, "numbers");
  for (int i = 0; i < PLIM_DIVISION_SLOTS; i++) CHECK_U64(conf.divisions[i], 8);
}

TEST(the_segment_size_is_read_first_and_sets_the_rounding) {
  CHECK_U64(parsed("large_segment_size_mb:40").max_non_split_rounding_bytes, 40 * PLIM_MIB);
  plim_alloc_conf conf;
  plim_error error;
  CHECK(plim_alloc_conf_parse("max_split_size_mb:30,large_segment_size_mb:40", &conf, &error),
        "30 is below 40 wherever it stands");
}

// As torch 2.11 shows it in the settings of the recording roundup-skip.
TEST(skipped_boundaries_stay_off) {
  plim_alloc_conf conf = parsed("roundup_power2_divisions:[1:4,8:2,64:8,256:4,>:1]");
  static const uint32_t want[] = {4, 0, 0, 2, 0, 0, 8, 0, 4, 1, 1, 1, 1, 1, 1, 1};
  for (int i = 0; i < PLIM_DIVISION_SLOTS; i++) CHECK_U64(conf.divisions[i], want[i]);
}

TEST(the_first_boundary_rules_what_is_below) {
  plim_alloc_conf conf = parsed("roundup_power2_divisions:[256:4,512:2,>:8]");
  static const uint32_t want[] = {4, 4, 4, 4, 4, 4, 4, 4, 4, 2, 8, 8, 8, 8, 8, 8};
  for (int i = 0; i < PLIM_DIVISION_SLOTS; i++) CHECK_U64(conf.divisions[i], want[i]);
}

static const struct {
  const char *text;
  uint64_t byte;
  const char *hint; // a part of it
} wrong[] = {
    {"max_split_size_mb:8", 18, "max_split_size_mb:128"},
    {"expandable_segment:True", 0, "expandable_segments"},
    {"expandable_segments:true", 20, "True or False"},
    {"expandable_segments", 19, "key:value"},
    {"garbage_collection_threshold:1.5", 29, "0.8"},
    {"garbage_collection_threshold:0", 29, "0.8"},
    {"roundup_power2_divisions:[3:4]", 26, "["},
    {"roundup_power2_divisions:[64:3]", 29, "roundup"},
    {"roundup_power2_divisions:[64:4", 30, "["},
    {"roundup_power2_divisions:3", 25, "roundup"},
    {"max_split_size_mb:abc", 18, "128"},
    {"max_split_size_mb=128", 0, "colon"},
    {"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", 0, "after the ="},
    {"max_split_size_mb:1.5", 18, "128"},
    {"large_segment_size_mb:10", 22, "20"},
    {"max_split_size_mb:128 expandable_segments:True", 22, "commas"},
    {"max_split_size_mb:128,backend:cudaMallocAsync", 30, "native"},
    {"per_process_memory_fraction:1.1", 28, "0.9"},
};

TEST(errors_point_at_the_byte_and_say_what_to_type) {
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    plim_alloc_conf conf = {.large_segment_bytes = 7};
    plim_error error;
    CHECK(plim_alloc_conf_parse(wrong[i].text, &conf, &error) == PLIM_ERR_ARGUMENT, "%s passed",
          wrong[i].text);
    CHECK(error.byte == wrong[i].byte, "%s: byte %" PRIu64, wrong[i].text, error.byte);
    CHECK(strstr(error.hint, wrong[i].hint), "%s: hint '%s'", wrong[i].text, error.hint);
    CHECK_U64(conf.large_segment_bytes, 7);
  }
}

TEST(printing_and_reading_back_gives_the_same) {
  static const char *const texts[] = {
      "",
      "expandable_segments:True",
      "max_split_size_mb:128,garbage_collection_threshold:0.8",
      "large_segment_size_mb:40,max_non_split_rounding_mb:64,roundup_power2_divisions:16",
      "roundup_power2_divisions:[1:4,8:2,64:8,256:4,>:1]",
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    plim_alloc_conf conf = parsed(texts[i]);
    char printed[512];
    plim_alloc_conf_print(&conf, printed, sizeof printed);
    plim_alloc_conf again = parsed(printed);
    CHECK(memcmp(&conf, &again, sizeof conf) == 0, "%s became %s", texts[i], printed);
  }
}

TEST_MAIN
