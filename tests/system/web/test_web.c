// Which addresses may be asked, and which of them get the token.
#include "web.h"

#include <string.h>

#include "test.h"

TEST(only_secure_addresses_are_asked) {
  static const struct {
    const char *url;
    bool is_safe;
  } cases[] = {
      {"https://huggingface.co", true},
      {"https://huggingface.co:8443/hub", true},
      {"http://localhost:8000", true},
      {"http://127.0.0.1:8000/x", true},
      {"http://127.1.2.3", true},
      {"http://[::1]:80/x", true},
      {"HTTPS://huggingface.co", true},
      {"http://huggingface.co", false},
      {"http://127.0.0.1.evil.org/", false},
      {"http://localhost.evil.org/", false},
      {"http://localhost@evil.org/", false},
      {"https://user:secret@huggingface.co", false},
      {"https://huggingface.co/a\nheader = \"x\"", false},
      {"https://huggingface.co/\"", false},
      {"https://huggingface.co/a b", false},
      {"https://", false},
      {"https:///x", false},
      {"ftp://127.0.0.1/", false},
      {"file:///etc/passwd", false},
      {"huggingface.co", false},
      {"", false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    CHECK(plim_web_is_safe(cases[i].url) == cases[i].is_safe, "%s", cases[i].url);
}

TEST(a_place_is_scheme_host_and_port) {
  static const struct {
    const char *a, *b;
    bool is_same;
  } cases[] = {
      {"https://huggingface.co/a", "https://HuggingFace.co/b?c", true},
      {"https://huggingface.co/a", "https://huggingface.co", true},
      {"https://huggingface.co/a", "http://huggingface.co/a", false},
      {"https://huggingface.co/a", "https://huggingface.co:8443/a", false},
      {"https://huggingface.co/a", "https://huggingface.co.evil.org/a", false},
      {"https://huggingface.co/a", "https://cdn.huggingface.co/a", false},
      {"http://127.0.0.1:1/a", "http://127.0.0.1:2/a", false},
      {"http://[::1]:1/a", "http://[::1]:1/b", true},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    CHECK(plim_web_is_same_place(cases[i].a, cases[i].b) == cases[i].is_same, "%s and %s",
          cases[i].a, cases[i].b);
}

TEST_MAIN
