// Settings of Python files are found with their position and value, and a change affects nothing else.
#include "editing.h"

static plim_err open_python(const char *text) { return editing_open(PLIM_FORMAT_PYTHON, text); }

#define OPEN(text) CHECK(!open_python(text), "%s", editing_error.message)
#define SHOWS(key, value) CHECK_STR(shown(key), value)
#define CHANGES(text, key, value, wanted)                                                          \
  do {                                                                                             \
    OPEN(text);                                                                                    \
    CHECK(!change(key, value), "%s", editing_error.message);                                       \
    CHECK_STR(edited, wanted);                                                                     \
  } while (0)
#define INSERTS(text, key, value, wanted)                                                          \
  do {                                                                                             \
    OPEN(text);                                                                                    \
    CHECK(!insert(key, value), "%s", editing_error.message);                                       \
    CHECK_STR(edited, wanted);                                                                     \
  } while (0)
#define REFUSES(text, key, value)                                                                  \
  do {                                                                                             \
    OPEN(text);                                                                                    \
    CHECK(insert(key, value), "%s: inserted: %s", key, edited);                                    \
  } while (0)

// ---- values -----------------------------------------------------------------------------------------

TEST(literals_have_their_values) {
  static const struct {
    const char *source, *value;
  } cases[] = {
      {"2048", "2048"},
      {"1_000_000", "1000000"},
      {"0xFF", "255"},
      {"0o17", "15"},
      {"0b1010", "10"},
      {"-3", "-3"},
      {"- 3", "-3"},
      {"+3", "3"},
      {"-9223372036854775808", "-9223372036854775808"},
      {"9223372036854775808", "=9223372036854775808"},
      {"2e-4", "0.0002r"},
      {".5", "0.5r"},
      {"5.", "5r"},
      {"1_0.0_1", "10.01r"},
      {"1__0", "=1__0"},
      {"010", "=010"},
      {"00", "0"},
      {"2j", "=2j"},
      {"True", "true"},
      {"False", "false"},
      {"None", "null"},
      {"(((7)))", "7"},
      {"'a' \"b\"", "\"ab\""},
      {"('a'\n  'b')", "\"ab\""},
      {"''", "\"\""},
      {"r'\\d'", "\"\\d\""},
      {"u'x'", "\"x\""},
      {"'\\x41\\101\\u00e9\\U0001F600\\t\\d'", "\"AA\xc3\xa9\xf0\x9f\x98\x80\t\\d\""},
      {"'a\\\n b'", "\"a b\""},
      {"'''a\r\nb'''", "\"a\nb\""},
      {"'\\0'", "='\\0'"},
      {"'\\ud800'", "='\\ud800'"},
      {"'\\N{DASH}'", "='\\N{DASH}'"},
      {"b'x'", "=b'x'"},
      {"rb'x'", "=rb'x'"},
      {"f'{x}'", "=f'{x}'"},
      {"5 * 8", "=5 * 8"},
      {"not True", "=not True"},
      {"4 if x else 8", "=4 if x else 8"},
      {"(1,)", "=(1,)"},
      {"1, 2", "=1, 2"},
      {"[1]", "=[1]"},
      {"{1}", "={1}"},
      {"{k: 1 for k in x}", "={k: 1 for k in x}"},
      {"lambda a, b=1: a", "=lambda a, b=1: a"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[256];
    snprintf(text, sizeof text, "X = %s\n", cases[i].source);
    OPEN(text);
    SHOWS("X", cases[i].value);
  }
}

TEST(formatted_strings_nest) {
  OPEN("A = f\"{x[\"k\"]} {{ {y!r:>{w}} } # no comment\"\nB = 1\n"
       "C = f'{f\"{f'''{1}'''}\"}'\nD = rf'\\{x}'\nE = f'\\N{DASH} {x}'\n"
       "F = f'''{\n  x  # a comment with '\n}'''\nG = f'{x:%H:%M}' 'tail'\nH = 2\n");
  SHOWS("B", "1");
  SHOWS("H", "2");
  CHECK(editing.at.len == 8, "%zu settings", editing.at.len);
}

// ---- where settings stand ---------------------------------------------------------------------------

TEST(constants_of_modules_and_classes) {
  OPEN("A = 1\nB: int = 2; C = 3\nclass Config(Base, x=1):\n    lr = 1e-4\n    bs: int = 4\n"
       "    class Data:\n        workers = 8\n    rest = 5\nD = 4\n");
  SHOWS("A", "1");
  SHOWS("B", "2");
  SHOWS("C", "3");
  SHOWS("Config.lr", "0.0001r");
  SHOWS("Config.bs", "4");
  SHOWS("Config.Data.workers", "8");
  SHOWS("Config.rest", "5");
  SHOWS("D", "4");
  CHECK(editing.at.at[4].line == 5, "line %d", editing.at.at[4].line);
}

TEST(fields_of_dataclasses_have_their_defaults) {
  OPEN("@dataclass\nclass Args:\n    lr: float = field(default=1e-4, metadata={'help': 'x'})\n"
       "    bs: int = Field(4, ge=1)\n    steps: int = Field(ge=1, default=9)\n"
       "    tags: list = field(default_factory=list)\n    path: str = Field(..., min_length=1)\n");
  SHOWS("Args.lr", "0.0001r");
  SHOWS("Args.bs", "4");
  SHOWS("Args.steps", "9");
  SHOWS("Args.tags", "=field(default_factory=list)");
  SHOWS("Args.path", "=...");
  CHECK(editing.at.len == 5, "%zu settings", editing.at.len);
}

TEST(dicts_are_paths) {
  OPEN("C = {'lr': 1, \"a.b\": 2, 0: 'x', 'opt': {'name': 'adam', **more}, k: 3, 'e': {}}\n"
       "D = dict(r=16, sub=dict(x=1))\nC['new'] = 4\nC['opt']['eps'] = 1e-8\n");
  SHOWS("C.lr", "1");
  SHOWS("C.a\\.b", "2");
  SHOWS("C.0", "\"x\"");
  SHOWS("C.opt.name", "='name': 'adam'");
  SHOWS("D.r", "16");
  SHOWS("D.sub.x", "1");
  SHOWS("C.new", "4");
  SHOWS("C.opt.eps", "1e-08r");
}

TEST(a_dict_that_is_assigned_again_no_longer_holds) {
  OPEN("C = {'a': 1, 'b': 2}\nC = {'a': 3}\nX = 1\nX = 2\n");
  SHOWS("C.a", "3");
  SHOWS("C.b", "=2, but it is changed later");
  SHOWS("X", "2");
  CHECK(editing.at.len == 5, "%zu settings", editing.at.len);
}

TEST(calls_are_counted_by_name) {
  OPEN("args = TrainingArguments(bf16=True, kw={'x': 1})\n"
       "def f():\n    T.from_pretrained('m', load_in_4bit=True, q=Q(bits=4))\n"
       "    return TrainingArguments(bf16=False)\n"
       "@decorated(a=1)\ndef g(x=h(b=2)): return [LoraConfig(r=8) for _ in range(3)]\n");
  SHOWS("TrainingArguments.bf16", "true");
  SHOWS("TrainingArguments.kw.x", "1");
  SHOWS("TrainingArguments#2.bf16", "false");
  SHOWS("T.from_pretrained.load_in_4bit", "true");
  SHOWS("T.from_pretrained.q", "=Q(bits=4)");
  SHOWS("Q.bits", "4");
  SHOWS("decorated.a", "1");
  SHOWS("h.b", "2");
  SHOWS("LoraConfig.r", "8");
}

TEST(arguments_of_parsers) {
  OPEN("parser.add_argument('-b', '--batch-size', type=int, default=4)\n"
       "parser.add_argument('--fp16', action='store_true')\n"
       "parser.add_argument('--no-eval', action='store_false', dest='evaluate')\n"
       "group.add_argument('--lr', type=float)\nparser.add_argument('corpus', default='x')\n"
       "parser.add_argument('--out', required=True)\n"
       "parser.add_argument('-v', action='count')\nparser.add_argument('-q', default=N)\n");
  SHOWS("parser.--batch-size", "4");
  SHOWS("parser.--fp16", "false");
  SHOWS("parser.--no-eval", "true");
  SHOWS("group.--lr", "null");
  SHOWS("parser.--out", "null"); // and it is required
  SHOWS("parser.-q", "=N");
  CHECK(editing.at.len == 6, "%zu settings", editing.at.len);
}

TEST(the_environment_and_methods) {
  OPEN("import os\nos.environ['A'] = 'x'\nos.environ.setdefault('B', 'y')\n"
       "def main():\n    os.environ['C'] = '1'\n    environ['D'] = '2'\n"
       "    os.environ.update({'E': '3'}, F='4')\n    model.gradient_checkpointing_enable()\n"
       "    load().gradient_checkpointing_disable()\n");
  SHOWS("os.environ.A", "\"x\"");
  SHOWS("os.environ.B", "\"y\"");
  SHOWS("os.environ.C", "\"1\"");
  SHOWS("os.environ.D", "\"2\"");
  SHOWS("os.environ.E", "\"3\"");
  SHOWS("os.environ.F", "\"4\"");
  SHOWS("gradient_checkpointing_enable", "true");
  SHOWS("gradient_checkpointing_disable", "true");
  CHECK(change("gradient_checkpointing_enable", flag(false)), "changed: %s", edited);
}

TEST(uncertain_values_are_not_literals) {
  OPEN("A = 1\nif x:\n    A = 2\nfor i in y: B = 3\ndef f():\n    global C\n    C = 4\n    D = 5\n"
       "E = F = 6\nG, H = 7, 8\nI = 9\nI += 1\ntry:\n    J = 10\nexcept E: pass\n"
       "if __name__ == '__main__':\n    K = 11\nwith x:\n    L = 12\n");
  SHOWS("A", "=A = 2");
  SHOWS("B", "=B = 3");
  SHOWS("C", "=C = 4");
  SHOWS("D", "none");
  SHOWS("E", "=E = F = 6");
  SHOWS("F", "=E = F = 6");
  SHOWS("G", "=G, H = 7, 8");
  SHOWS("I", "=I += 1");
  SHOWS("J", "=J = 10");
  SHOWS("K", "11");
  SHOWS("L", "12");
  CHECK(change("A", integer(3)) == PLIM_ERR_UNSUPPORTED, "changed");
}

TEST(comments_are_after_or_above_the_value) {
  OPEN("# one\n\n# two\n# three\nA = 1\nB = 2  # four\nC = {\n    # five\n    'x': 1,\n"
       "    'y': 2,  ## six\n    'z': '''a\n''',  # seven\n}\nD = 3\n");
  static const char *const wanted[][2] = {{"A", "two\nthree"}, {"B", "four"},    {"C.x", "five"},
                                          {"C.y", "six"},      {"C.z", "seven"}, {"D", ""}};
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
    CHECK_STR(plim_settings_find(&editing, wanted[i][0])->comment, wanted[i][1]);
}

// ---- roots ------------------------------------------------------------------------------------------

#define ROOT(text, key, wanted)                                                                    \
  do {                                                                                             \
    OPEN(text);                                                                                    \
    CHECK_STR(root_of(key), wanted);                                                               \
  } while (0)

TEST(references_lead_to_their_literal) {
  ROOT("N = 4\nf(a=N)\n", "f.a", "N");
  ROOT("f(a=N)\nN = 4\n", "f.a", "none");
  ROOT("def g():\n  f(a=N)\nN = 4\n", "f.a", "N");
  ROOT("class C:\n  n = 4\nf(a=C.n)\n", "f.a", "C.n");
  ROOT("class C:\n  n = 4\n  m = n\n", "C.m", "C.n");
  ROOT("C = {'n': {'m': 4}}\nf(a=C['n']['m'])\n", "f.a", "C.n.m");
  ROOT("C = {'n': 4}\nf(a=C.get('n', 3))\n", "f.a", "C.n");
  ROOT("N = 4\nM = N\nf(a=(M))\n", "f.a", "N");
  ROOT("os.environ['X'] = '1'\nf(a=os.environ['X'])\n", "f.a", "os.environ.X");
  ROOT("N = 4\ndef g():\n  def h():\n    f(a=N)\n", "f.a", "N");
  ROOT("class C:\n  n = 4\nc = C()\nf(a=c.n)\n", "f.a", "C.n");
  ROOT("N = 4\ndef g():\n  N = 5\n  f(a=N)\n", "f.a", "g.N");
  ROOT("def g():\n  n = 5\n  def h():\n    f(a=n)\n", "f.a", "g.n");
  ROOT("class C:\n  n = 4\n  def g(self):\n    n = 5\n    f(a=n)\n", "f.a", "C.g.n");
  ROOT("N = 'x'\nAutoModel.from_pretrained(N, a=1)\n",
       "AutoModel.from_pretrained.pretrained_model_name_or_path", "N");
  ROOT("t = Args(n=4)\nf(a=t.n)\n", "f.a", "Args.n");
  ROOT("parser.add_argument('--n-x', default=4)\nargs = parser.parse_args()\nf(a=args.n_x)\n",
       "f.a", "parser.--n-x");
  ROOT("p.add_argument('--n', dest='m', default=4)\no, rest = p.parse_known_args()\n"
       "def g(o):\n  f(a=o.m)\n",
       "f.a", "p.--n");
}

TEST(uncertain_references_have_no_root) {
  static const char *const texts[] = {
      "f(a=N)\n",
      "N = 4\ndef g(N):\n  f(a=N)\n",
      "N = 4\ndef g(x=1, *, N: int = 3):\n  f(a=N)\n",
      "N = 4\ndef g():\n  N = 5\n  N = 6\n  f(a=N)\n",
      "N = 4\ndef g():\n  N = x()\n  f(a=N)\n",
      "def g():\n  N = 5\n  def h():\n    nonlocal N\n    N = 6\n  f(a=N)\n",
      "N = 4\ndef g():\n  f(a=N)\n  for N in x: pass\n",
      "N = 4\ndef g():\n  with x as N: f(a=N)\n",
      "N = 4\ndef g():\n  import N\n  f(a=N)\n",
      "N = 4\nx = [f(a=N) for N in y]\n",
      "N = 4\nx = lambda N: f(a=N)\n",
      "N = 4\nfor N in x: pass\nf(a=N)\n",
      "N = 4\nif x: N = 5\nf(a=N)\n",
      "N = 4\nN += 1\nf(a=N)\n",
      "N = 4\nf(a=N + 1)\n",
      "N = 4\nf(a=-N)\n",
      "N = 4\nf(a=N if x else 3)\n",
      "N = N\nf(a=N)\n",
      "C = {'n': 4}\nf(a=C[n])\n",
      "c = C(n=4)\nc = D(n=5)\nf(a=c.n)\n",
      "p.add_argument('--n', default=4)\nq.add_argument('--n', default=5)\nf(a=args.n)\n",
      "def g(n=4):\n  f(a=n)\n",
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    OPEN(texts[i]);
    CHECK(strcmp(root_of("f.a"), "none") == 0, "%s: %s", texts[i], root_of("f.a"));
  }
}

TEST(a_computed_value_is_refused_with_its_root) {
  OPEN("N = 4\nf(a=N)\n");
  CHECK(change("f.a", integer(5)) == PLIM_ERR_UNSUPPORTED, "changed");
  CHECK_STR(editing_error.hint, "it is computed from N: change that instead");
}

// ---- functions --------------------------------------------------------------------------------------

static const plim_setting *setting(const char *key) { return plim_settings_find(&editing, key); }

TEST(literals_of_functions_are_settings_under_the_functions_name) {
  OPEN("def main():\n  batch = 4  # per GPU\n  name = ('x')\n  other = f()\n  if y: late = 1\n"
       "def main():\n  batch = 5\n");
  CHECK(setting("main.batch") && setting("main.batch")->is_faint, "a literal");
  CHECK_STR(setting("main.batch")->comment, "per GPU");
  CHECK(setting("main.name") && setting("main#2.batch"), "text, and the second of a name");
  CHECK(!setting("main.other") && !setting("main.late"), "what is computed or not sure");
}

TEST(variables_that_are_bound_again_are_not_literals) {
  static const char *const texts[] = {"def g():\n  n = 4\n  n = 5\n",
                                      "def g():\n  n = 4\n  n += 1\n",
                                      "def g():\n  n = 4\n  for n in x: pass\n",
                                      "def g(n):\n  n = 4\n",
                                      "def g():\n  n = 4\n  if x: n = 5\n",
                                      "def g():\n  n = 4\n  del n\n",
                                      "def g():\n  n = 4\n  def h():\n    nonlocal n\n    n = 5\n"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    OPEN(texts[i]);
    const plim_setting *x = setting("g.n");
    CHECK(x && x->value.kind == PLIM_VALUE_DERIVED, "%s", texts[i]);
  }
}

TEST(the_first_argument_of_what_loads_a_model_has_a_name) {
  OPEN("AutoModel.from_pretrained('a', b=1)\nAutoTokenizer.from_pretrained('c')\n"
       "PeftModel.from_pretrained(m, 'd')\nSentenceTransformer('e')\n"
       "FastLanguageModel.from_pretrained('f')\nx.LlamaForCausalLM.from_pretrained(*g)\n"
       "AutoModel.from_pretrained(load())\n");
  CHECK_STR(setting("AutoModel.from_pretrained.pretrained_model_name_or_path")->value.text, "a");
  CHECK_STR(setting("SentenceTransformer.model_name_or_path")->value.text, "e");
  CHECK_STR(setting("FastLanguageModel.from_pretrained.model_name")->value.text, "f");
  CHECK(!setting("AutoTokenizer.from_pretrained.pretrained_model_name_or_path"), "no model");
  CHECK(!setting("PeftModel.from_pretrained.pretrained_model_name_or_path"), "an adapter");
  CHECK(!setting("x.LlamaForCausalLM.from_pretrained.pretrained_model_name_or_path"), "a list");
  CHECK(setting("AutoModel.from_pretrained#2.pretrained_model_name_or_path")->is_faint, "computed");
  CHANGES("def f():\n    m = AutoModel.from_pretrained(\n        'a',  # small\n    )\n",
          "AutoModel.from_pretrained.pretrained_model_name_or_path", words("b/c"),
          "def f():\n    m = AutoModel.from_pretrained(\n        'b/c',  # small\n    )\n");
  CHANGES("def f():\n\tn = 0x10; m = 2\n", "f.n", integer(17), "def f():\n\tn = 0x11; m = 2\n");
}

// ---- changes ----------------------------------------------------------------------------------------

TEST(numbers_keep_their_form) {
  CHANGES("X = 2048  # t\n", "X", integer(1536), "X = 1536  # t\n");
  CHANGES("X = 1_000", "X", integer(20000), "X = 20_000");
  CHANGES("X = 0xFF", "X", integer(171), "X = 0xAB");
  CHANGES("X = 0b1111_0000", "X", integer(5), "X = 0b101");
  CHANGES("X = 4", "X", integer(-4), "X = -4");
  CHANGES("X = - 4", "X", integer(4), "X = 4");
  CHANGES("X = 2e-4", "X", real(1e-5), "X = 1e-5");
  CHANGES("X = 2.0E-4", "X", real(1e-5), "X = 1.0E-5");
  CHANGES("X = 0.0002", "X", real(5e-5), "X = 0.00005");
  CHANGES("X = 0.5", "X", real(2), "X = 2.0");
  CHANGES("X = 0.5", "X", integer(2), "X = 2");
  CHANGES("X = 2", "X", real(0.25), "X = 0.25");
  CHANGES("X = 2", "X", real(1e-5), "X = 1e-5");
  CHANGES("X = 1e5", "X", real(0), "X = 0.0");
  CHANGES("X = 2", "X", integer(INT64_MIN), "X = -9223372036854775808");
  OPEN("X = 2");
  CHECK(change("X", real(1e308 * 10)) == PLIM_ERR_ARGUMENT, "infinity: %s", edited);
}

TEST(texts_keep_their_quotes) {
  CHANGES("X = 'a'", "X", words("it's"), "X = 'it\\'s'");
  CHANGES("X = \"a\"", "X", words("it's"), "X = \"it's\"");
  CHANGES("X = \"a\"", "X", words("a\nb\t\\\x01\r"), "X = \"a\\nb\\t\\\\\\x01\\r\"");
  CHANGES("X = r'\\d'", "X", words("\\w"), "X = r'\\w'");
  CHANGES("X = r'\\d'", "X", words("a\\"), "X = 'a\\\\'");
  CHANGES("X = u'x'", "X", words("\xc3\xa9"), "X = u'\xc3\xa9'");
  CHANGES("X = '''a\n'''", "X", words("b\n"), "X = '''b\n'''");
  CHANGES("X = '''a\r\n'''\r\n", "X", words("b\nc"), "X = '''b\r\nc'''\r\n");
  CHANGES("X = (\n  'a'  # c\n  \"b\"\n)", "X", words("d"), "X = (\n  'd'\n)");
  CHANGES("X = 4\nY = 'q'", "X", words("bf16"), "X = 'bf16'\nY = 'q'");
  CHANGES("autocast(device)\nX = 4", "X", words("bf16"), "autocast(device)\nX = \"bf16\"");
  CHANGES("autocast(device)\nX = 4\nY = 'q'", "X", words("bf16"),
          "autocast(device)\nX = 'bf16'\nY = 'q'");
  OPEN("X = 'a'");
  CHECK(change("X", words("\xff")) == PLIM_ERR_ARGUMENT, "not UTF-8: %s", edited);
}

TEST(words_change_to_anything) {
  CHANGES("f(a=True, b=1)", "f.a", flag(false), "f(a=False, b=1)");
  CHANGES("f(a=True, b=1)", "f.a", null(), "f(a=None, b=1)");
  CHANGES("f(a=None)", "f.a", words("x"), "f(a=\"x\")");
  CHANGES("f(a='x')", "f.a", integer(3), "f(a=3)");
}

TEST(only_the_value_changes) {
  CHANGES("\xef\xbb\xbf#!x\r\nA = {\r\n\t'k' : 1 ,# c\r\n}", "A.k", integer(22),
          "\xef\xbb\xbf#!x\r\nA = {\r\n\t'k' : 22 ,# c\r\n}");
  CHANGES("os.environ[\"X\"]='a:1'\n", "os.environ.X", words("b:2"), "os.environ[\"X\"]='b:2'\n");
  CHANGES("x = \\\n  1\n\f\ny = 2", "x", integer(3), "x = \\\n  3\n\f\ny = 2");
  CHANGES("class A:\n\tb = field(default=1, x=2)\n", "A.b", integer(3),
          "class A:\n\tb = field(default=3, x=2)\n");
}

TEST(an_argument_without_a_default_gets_one) {
  CHANGES("p.add_argument('--x', type=int)", "p.--x", integer(4),
          "p.add_argument('--x', type=int, default=4)");
  CHANGES("p.add_argument('--x', action='store_true',)", "p.--x", flag(true),
          "p.add_argument('--x', action='store_true', default=True,)");
  CHANGES("p.add_argument(\n    '--x',\n    action='store_true'  # off\n)", "p.--x", flag(true),
          "p.add_argument(\n    '--x',\n    action='store_true',  # off\n    default=True\n)");
}

// ---- insertions -------------------------------------------------------------------------------------

TEST(new_arguments_follow_their_neighbours) {
  INSERTS("f(a=1)", "f.b", integer(2), "f(a=1, b=2)");
  INSERTS("f()", "f.b", integer(2), "f(b=2)");
  INSERTS("f(  # c\n)", "f.b", integer(2), "f(b=2  # c\n)");
  INSERTS("f('m', a = 1)", "f.b", words("x"), "f('m', a = 1, b = 'x')");
  INSERTS("f(a=1,)", "f.b", integer(2), "f(a=1, b=2,)");
  INSERTS("f(\n    a=1,\n)\n", "f.b", integer(2), "f(\n    a=1,\n    b=2,\n)\n");
  INSERTS("f(\n    a=1\n)\n", "f.b", integer(2), "f(\n    a=1,\n    b=2\n)\n");
  INSERTS("f(\n    a=1)\n", "f.b", integer(2), "f(\n    a=1,\n    b=2)\n");
  INSERTS("f(\r\n\ta=1, # c\r\n)", "f.b", integer(2), "f(\r\n\ta=1, # c\r\n\tb=2,\r\n)");
  INSERTS("f(\n  a=1  # c\n)", "f.b", integer(2), "f(\n  a=1,  # c\n  b=2\n)");
  INSERTS("f(x, y,\n  a=1, c=3)", "f.b", integer(2), "f(x, y,\n  a=1, c=3, b=2)");
  INSERTS("f(a=1\n , c=2\n)", "f.b", integer(2), "f(a=1\n , c=2, b=2\n)");
  INSERTS("f(a=1); f(a=2)", "f#2.b", integer(2), "f(a=1); f(a=2, b=2)");
  INSERTS("D = dict(a=1)", "D.b", integer(2), "D = dict(a=1, b=2)");
  INSERTS("f(*x)", "f.b", integer(2), "f(*x, b=2)");
}

TEST(new_entries_follow_their_neighbours) {
  INSERTS("D = {'a': 1}", "D.b", words("x"), "D = {'a': 1, 'b': 'x'}");
  INSERTS("D = {}", "D.b", integer(2), "D = {\"b\": 2}");
  INSERTS("D = {\n    \"a\":1,  # c\n    # last\n}", "D.b", integer(2),
          "D = {\n    \"a\":1,  # c\n    \"b\":2,\n    # last\n}");
  INSERTS("D = {'x': {'a': 1}}", "D.x.b\\.c", integer(2), "D = {'x': {'a': 1, 'b.c': 2}}");
  INSERTS("D = {0: 1}", "D.1", integer(2), "D = {0: 1, 1: 2}");
  INSERTS("D = {**x}", "D.b", integer(2), "D = {**x, \"b\": 2}");
  INSERTS("f(k={'a': 1})", "f.k.b", flag(true), "f(k={'a': 1, 'b': True})");
}

TEST(uncertain_places_are_refused) {
  REFUSES("A = 1\n", "B", integer(2));
  REFUSES("f(a=1)\n", "g.a", integer(2));
  REFUSES("f(a=1)\n", "f.a", integer(2));
  REFUSES("f(a={})\n", "f.a", integer(2));
  REFUSES("f(**x)\n", "f.a", integer(2));
  REFUSES("f(x for x in y)\n", "f.a", integer(2));
  REFUSES("f(a=1)\n", "f.if", integer(2));
  REFUSES("f(a=1)\n", "f.b-c", integer(2));
  REFUSES("class C:\n  a = 1\nC(a=2)\n", "C.b", integer(2));
  REFUSES("if x: D = {'a': 1}\n", "D.b", integer(2));
  REFUSES("D = {'a': 1}\nD = g()\n", "D.b", integer(2));
  REFUSES("D = {'a': 1}\nD.update(x)\n", "D.b", integer(2));
  REFUSES("D = {'a': 1}\nf(D)\nD = {'a': 2}\n", "D.b", integer(2));
  REFUSES("D = {'a': 1}\n", "D.b", ((plim_value){.kind = PLIM_VALUE_DERIVED, .text = "x"}));
  REFUSES("p.add_argument('--a', default=1)\n", "p.--b", integer(2));
  REFUSES("model.gradient_checkpointing_enable()\n", "gradient_checkpointing_disable", flag(true));
}

// ---- what is not Python -----------------------------------------------------------------------------

TEST(broken_files_are_refused_where_they_break) {
  static const struct {
    const char *text, *message;
    uint64_t byte;
  } cases[] = {
      {"x = (1", "this bracket is never closed", 4},
      {"x = 1)", "this bracket was never opened", 5},
      {"x = (1]", "this bracket does not match the open one", 6},
      {"x = 'a\n", "this string is never closed", 4},
      {"x = '''a\n", "this string is never closed", 4},
      {"x = f'{a'", "this string is never closed", 8},
      {"if x:\ny = 1", "an indented block is expected here", 6},
      {"if x:\n", "an indented block is expected here", 6},
      {"x = 1\n  y = 2", "this line has an unexpected indent", 8},
      {"if x:\n    y = 1\n  z = 2", "this indentation matches no line above", 18},
      {"if x:\n        y = 1\n\tz = 2", "tabs and spaces are mixed inconsistently", 21},
      {"x = \\ 1", "a backslash must be the last character of its line", 4},
      {"x = $", "this character is not allowed in Python", 4},
      {"x = '\xff'", "the file is not valid UTF-8", 5},
      {"class :\n  x = 1", "this statement has no colon or no name", 7},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    CHECK(open_python(cases[i].text) == PLIM_ERR_PARSE, "%s: accepted", cases[i].text);
    CHECK_STR(editing_error.message, cases[i].message);
    CHECK_U64(editing_error.byte, cases[i].byte);
  }
}

TEST(declared_encodings_that_keep_ascii_are_read_others_refused) {
  OPEN("#!x\n# -*- coding: latin-1 -*-\nx = 1 # \xe9\n");
  CHECK(setting("x"), "a declared encoding that keeps ASCII is read");
  OPEN("# coding: iso_8859-15\ny = '\xa4'\nx = 1\n");
  OPEN("# vim: fileencoding=cp1252\nx = '\x80'\n");
  CHECK(open_python("x = 1 # \xe9\n") == PLIM_ERR_PARSE, "not without a declaration");
  CHECK(open_python("#!x\n# -*- coding: utf-16 -*-\nx = 1\n") == PLIM_ERR_UNSUPPORTED, "accepted");
  CHECK(open_python("# coding: shift_jis\nx = 1\n") == PLIM_ERR_UNSUPPORTED, "accepted");
  CHECK(open_python("#!x\n# -*- coding: big5 -*-\nx = 1\n") == PLIM_ERR_UNSUPPORTED, "accepted");
  CHECK_STR(editing_error.message,
            "the file declares the encoding big5, which is not supported yet");
  OPEN("# coding=UTF-8\nx = 1\n");
  OPEN("x = 1\n# coding: latin-1\n");
  OPEN("x = 1\ny = 2\n# coding: latin-1\n");
}

TEST(nesting_is_bounded) {
  enum { DEEP = 100000 };
  char *text = malloc(DEEP + 1);
  static const char *const openers[] = {"(", "[", "{", "f(a=", "{1:", "f'{", "lambda:", "((("};
  for (size_t k = 0; k < sizeof openers / sizeof *openers; k++) {
    for (size_t i = 0; i < DEEP; i++) text[i] = openers[k][i % strlen(openers[k])];
    text[DEEP] = 0;
    (void)open_python(text);
  }
  editing_close();
  free(text);
}

TEST_MAIN
