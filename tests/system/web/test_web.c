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

TEST(an_answer_is_taken_apart) {
  static const struct {
    const char *text;
    int status;
    const char *body, *code, *redirect;
  } cases[] = {
      {"HTTP/1.1 200 OK\r\nX: y\r\n\r\n{}\n", 200, "{}", "", ""},
      {"HTTP/2 200 \r\n\r\n{\n}\n\n", 200, "{\n}\n", "", ""},
      {"HTTP/1.0 404 Not\nx-error-code:  EntryNotFound \nA: b\n\n\n", 404, "", "EntryNotFound", ""},
      {"HTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 302 Found\r\n\r\nmoved\nhttps://a/b", 302,
       "moved", "", "https://a/b"},
      {"HTTP/1.1 200 OK\r\n\r\n\n", 200, "", "", ""},
      {"HTTP/1.1 200 OK\r\n\r\n", 0},
      {"HTTP/1.1 100 Go on\r\n\r\n\n", 0},
      {"SSH-2.0\r\n\r\nx\n", 0},
      {"{}", 0},
      {"", 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[256];
    const char *redirect = "";
    plim_web_answer answer;
    snprintf(text, sizeof text, "%s", cases[i].text);
    bool is_answer = plim_web_answer_read(text, strlen(text), &answer, &redirect);
    CHECK(is_answer == (cases[i].status != 0), "%zu: %d", i, is_answer);
    if (!is_answer) continue;
    CHECK(answer.status == cases[i].status, "%zu: %d", i, answer.status);
    CHECK_STR(answer.body, cases[i].body);
    CHECK(answer.size == strlen(cases[i].body), "%zu: %zu", i, answer.size);
    CHECK_STR(answer.code, cases[i].code);
    CHECK_STR(redirect, cases[i].redirect);
  }
}

TEST_MAIN
