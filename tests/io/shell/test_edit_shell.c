// Launch scripts are read as the shell reads them, and a change affects no other byte. The arguments that programs get
// from a real bash are compared before and after.
#include <stdlib.h>

#include "edited.h"
#include "folder.h"
#include "formats.h"
#include "test.h"

static plim_settings s;
static plim_error error;

static bool read_script(const char *text) {
  plim_settings_clear(&s);
  error = (plim_error){0};
  return !plim_settings_read(PLIM_FORMAT_SHELL, text, strlen(text), &s, &error);
}

// ---- what is read -----------------------------------------------------------------------------------

static const char *const kinds[] = {"null", "bool", "int", "real", "text", "derived"};

// "key kind value" of every setting, one per line; derived values are followed by their root.
static const char *listing(void) {
  static char out[8192];
  size_t n = 0;
  *out = 0;
  for (size_t i = 0; i < s.at.len; i++) {
    const plim_setting *a = &s.at.at[i];
    char value[256] = "";
    if (a->value.kind == PLIM_VALUE_BOOL) strcpy(value, a->value.flag ? "true" : "false");
    if (a->value.kind == PLIM_VALUE_INTEGER)
      snprintf(value, sizeof value, "%" PRId64, a->value.integer);
    if (a->value.kind == PLIM_VALUE_REAL) snprintf(value, sizeof value, "%g", a->value.real);
    if (a->value.text) snprintf(value, sizeof value, "%s", a->value.text);
    n += (size_t)snprintf(out + n, sizeof out - n, "%s %s %s%s%s\n", a->key, kinds[a->value.kind],
                          value, a->root ? " <- " : "", a->root ? a->root : "");
  }
  return out;
}

static const struct {
  const char *what, *script, *settings;
} readings[] = {
    {"flags of a command", "python train.py --batch-size 4 --lr=1e-4 --bf16 --tf32 True -b 2\n",
     "--batch-size int 4\n--lr real 0.0001\n--bf16 bool true\n--tf32 bool true\n-b int 2\n"},
    {"quotes", "python t.py --a 'x y' --b \"it's\" --c $'t\\tb' --d=\"q\" \"--e=5\" '--f' 6\n",
     "--a text x y\n--b text it's\n--c text t\tb\n--d text q\n--e int 5\n--f int 6\n"},
    {"continued lines",
     "torchrun --nproc_per_node=4 \\\n  train.py \\\n  --seed 7 \\\n\necho --x 1\n",
     "--nproc_per_node int 4\n--seed int 7\n"},
    {"a comment in a continuation ends the command",
     "python train.py \\\n  --a 1 \\\n  # --b 2 \\\n  --c 3\n", "--a int 1\n"},
    {"a backslash with a blank behind it ends the line", "python train.py --a 1 \\ \n  --c 3\n",
     "--a int 1\n"},
    {"the later flag wins", "python t.py --lr 1 --lr 2\n", "--lr int 1\n--lr int 2\n"},
    {"launcher flags without values",
     "torchrun --standalone train.py --x 1\ndeepspeed --no_local_rank x.py\npython -u run.py --y "
     "2\n",
     "--standalone bool true\n--x int 1\n--no_local_rank bool true\n--y int 2\n"},
    {"a module, and a launcher's module",
     "python -m torch.distributed.run --nnodes 1 t.py --config c.py\npython -m pkg.train --z 1\n",
     "--nnodes int 1\n--config text c.py\n--z int 1\n"},
    {"several commands", "python a.py --lr 1\npython b.py --lr 2 --n 3\npython c.py --lr 4\n",
     "--lr int 1\n--lr#2 int 2\n--n int 3\n--lr#3 int 4\n"},
    {"several words", "python t.py --betas 0.9 0.95 --modules q_proj v_proj --lr 1 data\n",
     "--betas text 0.9 0.95\n--modules text q_proj v_proj\n--lr int 1\n"},
    {"negative numbers", "python t.py --seed -1 --x -y --z\n",
     "--seed int -1\n--x bool true\n--z bool true\n"},
    {"numbers that are none",
     "python t.py --a 007 --b 1e400 --c +4 --d .5 --e 5. --f 1_0 --g nan\n",
     "--a text 007\n--b text 1e400\n--c text +4\n--d real 0.5\n--e real 5\n--f text 1_0\n--g text "
     "nan\n"},
    {"variables", "A=1\nexport B=2 C=\"x y\"\ndeclare -x D=0.5\nreadonly E=true\nF=\n",
     "$A int 1\n$B int 2\n$C text x y\n$D real 0.5\n$E bool true\n$F text \n"},
    {"environment in front", "CUDA_VISIBLE_DEVICES=0 PYTORCH_ALLOC_CONF=a:b python t.py --x 1\n",
     "$CUDA_VISIBLE_DEVICES int 0\n$PYTORCH_ALLOC_CONF text a:b\n--x int 1\n"},
    {"env", "env A=1 B=2 python t.py --x 1 C=3\n", "$A int 1\n$B int 2\n--x int 1\nC int 3\n"},
    {"defaults", "A=${A:-4}\nB=\"${1:-5}\"\n: ${C:=6} \"${D:=x y}\"\npython t.py --e ${E:-7}\n",
     "$A int 4\n$B int 5\n$C int 6\n$D text x y\n--e int 7\n"},
    {"a default of a variable that is set is none", "A=1\npython t.py --a ${A:-4}\n",
     "$A int 1\n--a derived ${A:-4} <- $A\n"},
    {"copies", "A=4\nB=$A\nC=\"${B}\"\npython t.py --c $C --d=$A --e x$A --f $((A)) --g ${Z}\n",
     "$A int 4\n$B derived $A <- $A\n$C derived \"${B}\" <- $A\n--c derived $C <- $A\n"
     "--d derived $A <- $A\n--e derived x$A\n--f derived $((A)) <- $A\n--g derived ${Z}\n"},
    {"computed", "T=64\nG=4\npython t.py --a $((T / G)) --b $(nproc) --c `hostname` --d $((T*2))\n",
     "$T int 64\n$G int 4\n--a derived $((T / G))\n--b derived $(nproc)\n--c derived `hostname`\n"
     "--d derived $((T*2))\n"},
    {"set in several places: no root", "if x; then A=1; else A=2; fi\npython t.py --a $A\n",
     "$A derived 1, but only under a condition\n$A derived 2, but only under a condition\n--a "
     "derived $A\n"},
    {"loops, read and (( )) leave no root",
     "for A in 1 2; do python t.py --a $A; done\nB=1\nread B\nC=2\n((C *= 2))\npython u.py --b $B "
     "--c "
     "$C\n",
     "--a derived $A\n$B derived 1, unless a command changes it\n"
     "$C derived 2, unless a command changes it\n--b derived $B\n--c derived $C\n"},
    {"what the caller gives is no second value",
     "A=4\nwhile getopts a: o; do case $o in a) A=$OPTARG ;; esac; done\npython t.py --a $A\n",
     "$A int 4\n--a derived $A <- $A\n"},
    {"arrays",
     "ARGS=(--a 1 # one\n  '--b' \"2\"\n)\nARGS+=(--c)\npython t.py \"${ARGS[@]}\" --d 3\n",
     "--a int 1\n--b int 2\n--c bool true\n--d int 3\n"},
    {"a list belongs to the command that gets it",
     "A=(--lr 1)\npython t.py \"${A[@]}\" --lr 2\nB=(--lr 3)\npython u.py --lr 4 \"${B[@]}\"\n",
     "--lr int 1\n--lr int 2\n--lr#2 int 3\n--lr#3 int 4\n"},
    {"arguments in a string",
     "GPT_ARGS=\"\n  --num-layers 24 \\\n  --bf16\n  --lr $LR\n\"\nMORE=\"$GPT_ARGS --seed 3\"\n"
     "torchrun $DIST_ARGS pretrain.py $GPT_ARGS\n",
     "--num-layers int 24\n--bf16 bool true\n--lr derived $LR\n--seed int 3\n"},
    {"a command in a string",
     "CMD='accelerate launch --num_processes 2 t.py --bf16 --x 1 > log'\neval $CMD\n"
     "srun bash -c \"torchrun t.py --y 2\"\n",
     "--num_processes int 2\n--bf16 bool true\n--x int 1\n--y int 2\n"},
    {"a variable with arguments is no value",
     "EXTRA=\"\"\npython t.py --bf16 $EXTRA --a $EXTRA_ARGS --b \"$@\" --c $X\n",
     "$EXTRA text \n--bf16 bool true\n--a bool true\n--b bool true\n--c derived $X\n"},
    {"overrides",
     "python t.py --config-name base model.r=16 +a.b=c ++d=true ~e.f g='[1,2]' h=1,2 'i=\"x,y\"' "
     "j=null 'k=${l}' m/n@o=p\n",
     "--config-name text base\nmodel.r int 16\na.b text c\nd bool true\ne.f null \ng text [1,2]\n"
     "h derived 1,2\ni text x,y\nj null \nk derived ${l}\nm/n@o text p\n"},
    {"directives",
     "#!/bin/bash\n#SBATCH --gres=gpu:4 # cards\n#SBATCH -N 2 --exclusive\n##SBATCH "
     "--no=1\necho\n#SBATCH --late=1\n",
     "#SBATCH.--gres text gpu:4\n#SBATCH.-N int 2\n#SBATCH.--exclusive bool true\n"},
    {"here-documents are no script",
     "cat <<EOF > c.yaml\nA=1\npython t.py --x $(1\nEOF\npython - <<-'END'\n\tB=2 '\n\tEND\nC=3\n",
     "$C int 3\n"},
    {"blocks",
     "f() {\n  if [[ $1 =~ ^(a|b)$ ]]; then A=1; fi\n}\ncase $x in a|b) B=2 ;; (*) C=3 ;& esac\n"
     "while true; do D=4; done < in\n( E=5; ) | { F=6; } && G=7 || ! H=8; time I=9 &\n",
     "$A derived 1, but only under a condition\n$B derived 2, but only under a condition\n"
     "$C derived 3, but only under a condition\n$D derived 4, but only under a condition\n"
     "$E derived 5, but only under a condition\n$F derived 6, but only under a condition\n"
     "$G derived 7, but only under a condition\n$H derived 8, but only under a condition\n"
     "$I derived 9, but only under a condition\n"},
    {"a variable is known where its assignment has run",
     "f() { A=1; python t.py --a $A; }\npython u.py --a $A --b $B\nB=2\n(C=3; python v.py --c $C)\n"
     "true && D=4 && python w.py --d $D\npython x.py --c $C --d $D --e $E\nexport E=5 F=$E\n",
     "$A int 1\n--a derived $A <- $A\n--a#2 derived $A\n--b derived $B\n$B int 2\n$C int 3\n"
     "--c derived $C <- $C\n$D int 4\n--d derived $D <- $D\n--c#2 derived $C\n--d#2 derived $D\n"
     "--e derived $E\n$E int 5\n$F derived $E\n"},
    {"a default behind a test",
     "[ -z \"$A\" ] && A=4\nif [[ -z ${B} ]]; then B=5; fi\n"
     "if [ -z \"$D\" ]; then C=6; fi\npython t.py --a $A --b $B --c $C\n",
     "$A int 4\n$B int 5\n$C derived 6, but only under a condition\n--a derived $A <- $A\n"
     "--b derived $B <- $B\n--c derived $C\n"},
    {"what changes a variable on the way leaves no root",
     "A=1\necho $((++A))\nB=2\ncat <<EOF\n$((B++))\nEOF\nC=3\nprintf -v C 4\nD=4\nD[0]=5\nE=5\n"
     "echo ${E:=6}\nF=6\n: $((F <<= 1))\npython t.py --a $A --b $B --c $C --d $D --e $E --f $F\n",
     "$A derived 1, unless a command changes it\n$B derived 2, unless a command changes it\n$C "
     "derived 3, unless a command changes it\n$D derived 4, unless a command changes it\n$E "
     "derived 5, unless a command changes it\n$F derived 6, unless a command changes it\n--a "
     "derived $A\n--b derived $B\n"
     "--c derived $C\n--d derived $D\n--e derived $E\n--f derived $F\n"},
    {"printf that only prints", "A=1\nprintf 'A is %d, $A\\n' \"$A\"\npython t.py --a $A\n",
     "$A int 1\n--a derived $A <- $A\n"},
    {"a command that may set anything",
     "A=1\neval \"A=$X\"\nB=2\npython t.py --a $A --b $B --c ${C:-3}\n",
     "$A derived 1, unless source or eval changes it\n$B int 2\n--a derived $A\n--b derived $B <- "
     "$B\n"
     "--c derived ${C:-3}\n"},
    {"and one that does not", "A=1\neval \"$(conda shell.bash hook)\"\npython t.py --a $A\n",
     "$A int 1\n--a derived $A <- $A\n"},
    {"positions of a function are its own",
     "A=${1:-4}\nf() { B=${1:-5}; python t.py --b $B --c ${2:-6}; }\nf 7\n",
     "$A int 4\n$B derived ${1:-5}\n--b derived $B\n--c derived ${2:-6}\n"},
    {"a list that is replaced, or passed on in quotes",
     "A=(--a 1)\nA=(--b 2)\npython t.py \"${A[@]}\"\nB=\"--c 3\"\npython u.py --d 4 \"$B\"\n",
     "--a derived 1, unless it is changed before it is used\n"
     "--b derived 2, unless it is changed before it is used\n"
     "--c derived 3, unless it is changed before it is used\n--d int 4\n"},
    {"lists in strings of lists", "A=\"--a 1\"\nB=\"$A --b 2\"\npython t.py --a 3 $B\n",
     "--a int 1\n--b int 2\n--a#2 int 3\n"},
    {"words that are computed may be flags", "python t.py --a 1 $(cat args) --b 2\n",
     "--a derived 1, unless computed arguments after it change it\n--b int 2\n"},
    {"a flag with a known name", "T=bf16\npython t.py --a 1 --$T\nU=a\npython u.py --a 1 --$U 2\n",
     "$T text bf16\n--a int 1\n$U text a\n"
     "--a#2 derived 1, unless computed arguments after it change it\n"},
    {"echo does not pass a command on",
     "A=\"--a 1\"\nC=\"python t.py $A --b 2\"\necho $C\neval $C\n", "--a int 1\n--b int 2\n"},
    {"xargs puts words in", "ls | xargs python t.py --a 1\n",
     "--a derived 1, unless xargs replaces it\n"},
    {"substitutions",
     "A=$(python free.py --gb 24)\nB=`python x.py --n 1`\nC=$(echo $(python y.py --m 2))\n",
     "$A derived $(python free.py --gb 24)\n--gb int 24\n$B derived `python x.py --n 1`\n--n int "
     "1\n"
     "$C derived $(echo $(python y.py --m 2))\n"},
    {"surroundings are left out",
     "mkdir -p out\npip install -U x\necho --lr 3\n[ -f x ]\nnvidia-smi --query-gpu=name\n"
     "python -c 'x' --y 1\npython --version\npython -m pip install --upgrade z\n",
     ""},
    {"wrappers",
     "nohup srun --gpus 2 python t.py --a 1 &\nuv run --no-sync python u.py --b 2\n$PY v.py --c "
     "3\n",
     "--gpus int 2\n--a int 1\n--no-sync bool true\n--b int 2\n--c int 3\n"},
    {"line ends of Windows", "A=1\r\npython t.py \\\r\n  --b 2\r\n", "$A int 1\n--b int 2\n"},
    {"nothing", "", ""},
};

TEST(scripts_are_read_as_the_shell_does) {
  for (size_t i = 0; i < sizeof readings / sizeof *readings; i++) {
    bool is_read = read_script(readings[i].script);
    CHECK(is_read, "%s: %s", readings[i].what, error.message);
    CHECK(strcmp(listing(), readings[i].settings) == 0, "%s:\n%swant\n%s", readings[i].what,
          listing(), readings[i].settings);
  }
  plim_settings_clear(&s);
}

// What a program sees of $A, which bash was asked about; a script that sources others may export anything.
TEST(variables_reach_programs_if_they_are_exported) {
  static const struct {
    const char *script;
    bool is_unexported;
  } cases[] = {
      {"A=1\npython train.py\n", true},
      {"A=1\nB=$A python train.py\n", true}, // passed on under another name only
      {"A=1\n# note=$A\npython train.py\n", true},
      {"A=1\n# A=$A\npython train.py\n", true},
      {"A=1\nLOG=$A\npython train.py\n", true},
      {"A=1\nA=${A:-2}\npython train.py\n", true},
      {"A=1\ndocker run -e AA=$A -e A=$AA image python train.py\n", true},
      {"set -a\nB=1\nset +a\nA=1\npython train.py\n", true},
      {"set -o allexport\nB=1\nset +o allexport\nA=1\npython train.py\n", true},
      {"set -eo pipefail\nA=1\npython train.py\n", true},
      {"set -- -a\nA=1\npython train.py\n", true},
      {"A=1\nset -a\nB=1\npython train.py\n", true},
      {": ${A:=1}\npython train.py\n", true},
      {"declare A=1\npython train.py\n", true},
      {"A=1\nexport -n A\npython train.py\n", true},
      {"A=1\nset -e\npython train.py\n", true},
      {"A=1 python train.py\n", false},
      {"env A=1 python train.py\n", false},
      {"export A=1\npython train.py\n", false},
      {"A=1\nexport A\npython train.py\n", false},
      {"export B A\nA=1\npython train.py\n", false},
      {"declare -x A=1\npython train.py\n", false},
      {"A=1\ntypeset -gx A\npython train.py\n", false},
      {"set -a\nA=1\nset +a\npython train.py\n", false},
      {"set -ea\nA=1\npython train.py\n", false},
      {"set -e -a\nA=1\npython train.py\n", false},
      {"set -eo allexport\nA=1\npython train.py\n", false},
      {"set -a\nA=1\nset +a\nA=2\npython train.py\n", false},           // it stays exported
      {"set -a\nif x; then set +a; fi\nA=1\npython train.py\n", false}, // it may be
      {"set +a\nset -a\nA=1\npython train.py\n", false},
      {"A=1\nA=$A python train.py\n", false},
      {"A=1\nssh host \"A='$A' python train.py\"\n", false},
      {"A=1\nsrun --export=ALL,A=$A python train.py\n", false},
      {"A=1\nARGS=(-e \"A=${A}\")\ndocker run \"${ARGS[@]}\" image python train.py\n", false},
      {"A=1\nARGS=\"-e A=$A\"\ndocker run $ARGS image python train.py\n", false},
      {"A=1\nssh host <<END\nexport A=$A\nEND\npython train.py\n", false},
      {"set -o allexport\nA=1\npython train.py\n", false},
      {"A=1\ndocker run -e A=$A image python train.py\n", false},
      {"A=1\nsource other.sh\npython train.py\n", false},
      {"A=1\n", false}, // to be sourced
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    CHECK(read_script(cases[i].script), "%s", error.message);
    const plim_setting *a = plim_settings_find(&s, "$A");
    CHECK(a && a->is_unexported == cases[i].is_unexported, "%s", cases[i].script);
  }
  plim_settings_clear(&s);
}

TEST(settings_have_their_position) {
  CHECK(read_script("# one\n# two\nA=1 # three\n\n# four\n\nB=\"2\"\nC=(--d \\\n 3)\n"), "%s",
        error.message);
  static const struct {
    const char *key, *source, *comment;
    int line;
  } want[] = {{"$A", "1", "three", 3}, {"$B", "\"2\"", "", 7}, {"--d", "3", "", 9}};
  for (size_t i = 0; i < 3; i++) {
    const plim_setting *a = plim_settings_find(&s, want[i].key);
    CHECK(a && a->line == want[i].line, "%s: line %d", want[i].key, a ? a->line : 0);
    CHECK_STR(a->comment, want[i].comment);
    size_t n = strlen(want[i].source);
    CHECK(a->span.end - a->span.begin == n && !memcmp(s.text + a->span.begin, want[i].source, n),
          "%s", want[i].key);
  }
  CHECK(read_script("#!/bin/sh\n# one\n#  two\nA=1\n"), "%s", error.message);
  CHECK_STR(s.at.at[0].comment, "one\ntwo");
  plim_settings_clear(&s);
}

// ---- what is changed --------------------------------------------------------------------------------

static const char launch[] = "#!/bin/bash\n"
                             "#SBATCH --gres=gpu:4\n"
                             "set -e\n"
                             "\n"
                             "# what fits on one card\n"
                             "BATCH=4   # was 8\n"
                             "LR=${LR:-5e-5}\n"
                             "export TOKENIZERS_PARALLELISM=\"false\"\n"
                             "\n"
                             "torchrun --nproc_per_node=2 train.py \\\n"
                             "    --batch $BATCH \\\n"
                             "    --lr \"$LR\" \\\n"
                             "    --gradient_checkpointing \\\n"
                             "    --name 'first run' \\\n"
                             "    --optim adamw_torch 2>&1 | cat\n";

// The script with one part replaced; valid until the next call.
static const char *with(const char *from, const char *to) {
  static char out[2][4096];
  static int turn;
  const char *at = strstr(launch, from);
  turn = !turn;
  if (!at) return "the test is wrong";
  snprintf(out[turn], sizeof *out, "%.*s%s%s", (int)(at - launch), launch, to, at + strlen(from));
  return out[turn];
}

static void check_launch(const char *key, plim_value value, const char *from, const char *to) {
  edit_row row = {launch, key, value, NULL, 0, 0};
  char *got = edited(PLIM_FORMAT_SHELL, &row, &error);
  bool is_right = got && strcmp(got, with(from, to)) == 0;
  if (!is_right) printf("%s: %s\n%s\n", key, error.message, got ? got : "");
  free(got);
  CHECK(is_right, "%s", key);
}

TEST(change_touches_the_value_only) {
  check_launch("$BATCH", (plim_value)INT(2), "BATCH=4", "BATCH=2");
  check_launch("$LR", (plim_value)REAL(0.00002), "5e-5", "2e-5");
  check_launch("--nproc_per_node", (plim_value)INT(8), "node=2", "node=8");
  check_launch("--name", (plim_value)TEXT("it's"), "'first run'", "\"it's\"");
  check_launch("--optim", (plim_value)TEXT("adamw_bnb_8bit"), "adamw_torch", "adamw_bnb_8bit");
  check_launch("--optim", (plim_value)TEXT("a b"), "adamw_torch", "'a b'");
  check_launch("--gradient_checkpointing", (plim_value)BOOL(true), "BATCH", "BATCH");
  check_launch("--gradient_checkpointing", (plim_value)BOOL(false),
               "    --gradient_checkpointing \\\n", "");
  check_launch("$TOKENIZERS_PARALLELISM", (plim_value)BOOL(true), "\"false\"", "\"true\"");
  check_launch("#SBATCH.--gres", (plim_value)TEXT("gpu:2"), "gpu:4", "gpu:2");
}

TEST(insert_goes_where_it_belongs) {
  check_launch("--max_length", (plim_value)INT(512), "adamw_torch",
               "adamw_torch \\\n    --max_length 512");
  check_launch("--bf16", (plim_value)BOOL(true), "adamw_torch", "adamw_torch \\\n    --bf16");
  check_launch("model.r", (plim_value)INT(8), "adamw_torch", "adamw_torch \\\n    ++model.r=8");
  check_launch("$PYTORCH_CUDA_ALLOC_CONF", (plim_value)TEXT("expandable_segments:True"),
               "\"false\"\n",
               "\"false\"\nexport PYTORCH_CUDA_ALLOC_CONF=\"expandable_segments:True\"\n");
}

static const edit_row rows[] = {
    // Values keep their form.
    {"python t.py --lr 0.0001\n", "--lr", REAL(0.00005), "python t.py --lr 0.00005\n", 1, 1},
    {"python t.py --lr 1e-4\n", "--lr", REAL(3e-5), "python t.py --lr 3e-5\n", 1, 1},
    {"python t.py --lr 1.5\n", "--lr", REAL(2), "python t.py --lr 2.0\n", 1, 1},
    {"python t.py --n 4\n", "--n", REAL(0.1), "python t.py --n 0.1\n", 1, 1},
    {"python t.py --x True\n", "--x", BOOL(false), "python t.py --x False\n", 1, 1},
    {"python t.py --x FALSE\n", "--x", BOOL(true), "python t.py --x TRUE\n", 1, 1},
    {"python t.py --x=true\n", "--x", BOOL(false), "python t.py --x=false\n", 1, 1},
    {"python t.py --x a\n", "--x", TEXT(""), "python t.py --x ''\n", 1, 1},
    // Quotes are kept, or added if needed.
    {"python t.py --x 'a' --y\n", "--x", TEXT("b"), "python t.py --x 'b' --y\n", 1, 1},
    {"python t.py --x \"a\"\n", "--x", TEXT("$b `c` \"d\" \\e"),
     "python t.py --x \"\\$b \\`c\\` \\\"d\\\" \\\\e\"\n", 1, 1},
    {"python t.py --x=a\n", "--x", TEXT("*"), "python t.py --x='*'\n", 1, 1},
    {"python t.py \"--x=a b\"\n", "--x", TEXT("c d"), "python t.py \"--x=c d\"\n", 1, 1},
    {"python t.py '--x=a b'\n", "--x", TEXT("$c"), "python t.py '--x=$c'\n", 1, 1},
    {"python t.py --x a\\ b\n", "--x", INT(1), "python t.py --x 1\n", 1, 1},
    {"A=\"${A:-a}\"\npython t.py \"$A\"\n", "$A", TEXT("b c"),
     "A=\"${A:-b c}\"\npython t.py \"$A\"\n", 1, 1},
    {"A=${A:-a}\npython t.py \"$A\"\n", "$A", TEXT("b c"), "A=${A:-\"b c\"}\npython t.py \"$A\"\n",
     1, 1},
    {": ${A:=1}\npython t.py $A\n", "$A", INT(2), ": ${A:=2}\npython t.py $A\n", 1, 1},
    {"python t.py --a ${A:-${B:-4}}\n", "--a", INT(5), "python t.py --a ${A:-${B:-5}}\n", 1, 1},
    // Arguments from lists and variables.
    {"A=(--x 1 --y 2)\npython t.py \"${A[@]}\"\n", "--x", INT(3),
     "A=(--x 3 --y 2)\npython t.py \"${A[@]}\"\n", 1, 1},
    {"A=\"--x 1 --y 2\"\npython t.py $A\n", "--y", INT(3), "A=\"--x 1 --y 3\"\npython t.py $A\n", 1,
     1},
    {"A=\"--x 1 --y\"\npython t.py $A\n", "--x", TEXT("a b"), NULL, 0, 0},
    {"A=(\"--x=1 2\")\npython t.py \"${A[@]}\"\n", "--x", TEXT("3 4"),
     "A=(\"--x=3 4\")\npython t.py \"${A[@]}\"\n", 1, 1},
    {"A=\"${A:-a}\"\npython t.py $A\n", "$A", TEXT("it's"), NULL, 0, 0},
    {"A=(\"--x 1\" \"--y 2\")\npython t.py ${A[@]}\n", "--x", INT(3),
     "A=(\"--x 3\" \"--y 2\")\npython t.py ${A[@]}\n", 1, 1},
    {"CMD='python t.py --x 1'\neval $CMD\n", "--x", INT(3), "CMD='python t.py --x 3'\neval $CMD\n",
     1, 1},
    {"export A=1 B=2\npython t.py $A $B\n", "$B", INT(3), "export A=1 B=3\npython t.py $A $B\n", 1,
     1},
    {"python a.py --lr 1\npython b.py --lr 2\n", "--lr#2", INT(3),
     "python a.py --lr 1\npython b.py --lr 3\n", 1, 1},
    {"python t.py --lr 1 --lr 2\n", "--lr", INT(3), "python t.py --lr 1 --lr 3\n", 1, 1},
    {"if true; then python t.py --x 1; fi", "--x", INT(2), "if true; then python t.py --x 2; fi", 1,
     1},
    {"A=1\r\n", "$A", INT(2), "A=2\r\n", 0, 0},
    // Overrides.
    {"python t.py a.b=16\n", "a.b", INT(8), "python t.py a.b=8\n", 1, 1},
    {"python t.py +a.b=c\n", "a.b", TEXT("x,y"), "python t.py +a.b=\"'x,y'\"\n", 1, 1},
    {"python t.py 'a.b=\"c\"'\n", "a.b", TEXT("x,y"), "python t.py 'a.b=\"x,y\"'\n", 1, 1},
    {"python t.py a=[1,2]\n", "a", TEXT("[3,4]"), "python t.py a='[3,4]'\n", 1, 1},
    {"python t.py a=null\n", "a", INT(1), "python t.py a=1\n", 1, 1},
    {"python t.py a=1\n", "a", NONE, "python t.py a=null\n", 1, 1},
    {"python t.py a=1,2\n", "a", INT(1), NULL, 0, 0},
    {"python t.py ~a\n", "a", INT(1), NULL, 0, 0},
    // Flags without a value.
    {"python t.py --bf16 --lr 1\n", "--bf16", BOOL(false), "python t.py --lr 1\n", 1, 0},
    {"python t.py --lr 1 --bf16\n", "--bf16", BOOL(false), "python t.py --lr 1\n", 1, 0},
    {"python t.py --bf16 --x True\n", "--bf16", BOOL(false), "python t.py --bf16 False --x True\n",
     0, 1},
    {"python t.py --bf16 --lr 1\n", "--bf16", TEXT("full"), "python t.py --bf16 full --lr 1\n", 0,
     1},
    {"A=(\n  --x 1 # one\n  --bf16 # two\n)\npython t.py ${A[@]}\n", "--bf16", BOOL(false),
     "A=(\n  --x 1 # one\n   # two\n)\npython t.py ${A[@]}\n", 1, 0},
    {"python a.py --bf16\npython b.py --bf16\n", "--bf16", BOOL(false),
     "python a.py\npython b.py --bf16\n", 1, 0},
    {"python a.py --bf16 --x --bf16\n", "--bf16", BOOL(false), NULL, 0, 0},
    // Values that are not single, or would be read as something else.
    {"python t.py --betas 0.9 0.95\n", "--betas", REAL(0.8), NULL, 0, 0},
    {"A=1\npython t.py --a $A\n", "--a", INT(2), NULL, 0, 0},
    {"python t.py --x 1\n", "--x", TEXT("--y"), NULL, 0, 0},
    {"python t.py --x=1\n", "--x", TEXT("--y"), "python t.py --x=--y\n", 1, 1},
    {"python t.py --x 1\n", "--x", NONE, NULL, 0, 0},
    // New flags.
    {"python t.py\n", "--x", INT(1), "python t.py --x 1\n", 0, 2},
    {"python t.py", "--x", INT(1), "python t.py --x 1", 0, 2},
    {"python t.py config.py --a=1\n", "--x", INT(1), "python t.py config.py --a=1 --x=1\n", 0, 1},
    {"python t.py --a 1 > log 2>&1 &\nwait\n", "--x", INT(1),
     "python t.py --a 1 --x 1 > log 2>&1 &\nwait\n", 0, 2},
    {"cd . && python t.py --a 1 | tee log; echo\n", "--x", TEXT("a b"),
     "cd . && python t.py --a 1 --x 'a b' | tee log; echo\n", 0, 2},
    {"python t.py --a 1 \"$@\"\n", "--x", INT(1), "python t.py --a 1 --x 1 \"$@\"\n", 0, 2},
    {"python t.py \\\n\t--a 1 \\\n\t\"$@\"\n", "--x", INT(1),
     "python t.py \\\n\t--a 1 \\\n\t--x 1 \\\n\t\"$@\"\n", 0, 2},
    {"python t.py \\\n  --a 1 \\\n  # --b 2 \\\n  --c 3\n", "--x", INT(1),
     "python t.py \\\n  --a 1 \\\n  --x 1 \\\n  # --b 2 \\\n  --c 3\n", 0, 2},
    {"python t.py \\\r\n  --a 1\r\n", "--x", INT(1), "python t.py \\\r\n  --a 1 \\\r\n  --x 1\r\n",
     -1, -1},
    {"A=(--a 1)\npython t.py \"${A[@]}\"\n", "--x", INT(1),
     "A=(--a 1)\npython t.py \"${A[@]}\" --x 1\n", 0, 2},
    {"CMD=(\n  python t.py\n  --a 1 # one\n)\n\"${CMD[@]}\"\n", "--x", INT(1),
     "CMD=(\n  python t.py\n  --a 1 # one\n  --x 1\n)\n\"${CMD[@]}\"\n", 0, 2},
    {"python t.py --a False\n", "--x", BOOL(true), "python t.py --a False --x True\n", 0, 2},
    {"python t.py --a 1\n", "--x", BOOL(false), NULL, 0, 0},
    {"python t.py a=1\n", "b.c", TEXT("d e"), "python t.py a=1 \"++b.c='d e'\"\n", 0, 1},
    {"pip install x\npython - <<E\nx\nE\npython t.py\n", "--x", INT(1),
     "pip install x\npython - <<E\nx\nE\npython t.py --x 1\n", -1, -1},
    {"python a.py\npython b.py\n", "--x", INT(1), NULL, 0, 0},
    {"./run.sh\n", "--x", INT(1), NULL, 0, 0},
    // New variables.
    {"python t.py\n", "$A", INT(1), "export A=1\npython t.py\n", 0, 0},
    {"#!/bin/bash\n#SBATCH -N 1\n\n# trains\nset -e\nset -x\n\npython t.py\n", "$A", TEXT("x y"),
     "#!/bin/bash\n#SBATCH -N 1\n\n# trains\nset -e\nset -x\nexport A='x y'\n\npython t.py\n", 0,
     0},
    {"export B='x' # why\npython t.py\nexport C=1\n", "$A", INT(1),
     "export B='x' # why\nexport A='1'\npython t.py\nexport C=1\n", 0, 0},
    {"if true; then\n  export B=1\nfi\npython t.py\n", "$A", INT(1),
     "export A=1\nif true; then\n  export B=1\nfi\npython t.py\n", 0, 0},
    {"export B=1", "$A", INT(1), "export B=1\nexport A=1", 0, 0},
    {"python t.py --a ${A:-1}\n", "$A", INT(1), NULL, 0, 0},
};

TEST(changes_are_exact) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char *got = edited(PLIM_FORMAT_SHELL, &rows[i], &error);
    bool is_right = got && rows[i].after ? strcmp(got, rows[i].after) == 0 : !got && !rows[i].after;
    if (!is_right)
      printf("%s of\n%sgot\n%s\n%s\n", rows[i].key, rows[i].before, got ? got : error.message,
             error.hint);
    if (!got) CHECK(*error.message, "%s is refused without a word", rows[i].key);
    free(got);
    CHECK(is_right, "row %zu", i);
  }
}

TEST(refusals_say_what_to_do) {
  edit_row two = {"python a.py --x 1\n\ntorchrun b.py \\\n  --x 2\n", "--y", INT(1), NULL, 0, 0};
  CHECK(!edited(PLIM_FORMAT_SHELL, &two, &error), "inserted");
  CHECK_STR(error.message,
            "2 commands in this file start a training, and --y could belong to any of them");
  CHECK_STR(error.hint,
            "add it yourself to the right one: line 1: python a.py --x 1; line 3: torchrun b.py ");
  edit_row copied = {"A=1\npython t.py --a $A\n", "--a", INT(2), NULL, 0, 0};
  CHECK(!edited(PLIM_FORMAT_SHELL, &copied, &error), "changed");
  CHECK_STR(error.hint, "it is computed from $A: change that instead");
  CHECK_U64(error.byte, 20);
}

// ---- what is no script ------------------------------------------------------------------------------

static const struct {
  const char *text, *message;
  uint64_t byte;
} broken[] = {
    {"echo 'a", "this ' is never closed", 5},
    {"A=\"$(echo \"x\"", "this ( is never closed", 4},
    {"A=${B", "this ${ is never closed", 2},
    {"A=`x", "this ` is never closed", 2},
    {"A=(1 2", "this ( is never closed", 2},
    {"if x; then y", "this if has no fi", 0},
    {"x\nfor a in b; do c", "this loop has no done", 2},
    {"x; fi", "there is no open block here that this could close", 3},
    {"f() { x; )", "there is no open block here that this could close", 9},
    {"case x in a) b", "this case has no esac", 0},
    {"x > \n", "this redirection has no target", 2},
    {"[[ a", "this [[ is never closed", 0},
    {"a (b)", "this ( is unexpected here", 2},
};

TEST(invalid_scripts_are_refused_with_the_position) {
  for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
    CHECK(!read_script(broken[i].text), "%s", broken[i].text);
    CHECK(error.code == PLIM_ERR_PARSE, "%s", broken[i].text);
    CHECK_STR(error.message, broken[i].message);
    CHECK_U64(error.byte, broken[i].byte);
  }
}

// Every opening bracket or keyword, repeated many times, is refused or read in a short time.
TEST(hostile_scripts_end) {
  static const char *const parts[] = {
      "$(",    "${a:-", "\"$(",   "(",    "((",   "$((1) ", "`",  "{ ",    "if x\n",   "A=(",
      "[[ @(", "<<E\n", "--a b ", "#x\n", "a=1;", "'",      "\\", "x=$y ", "p.py --a "};
  enum { SIZE = 1 << 20 };
  char *text = malloc(SIZE);
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    size_t n = strlen(parts[i]);
    for (size_t k = 0; k < SIZE; k++) text[k] = parts[i][k % n];
    if (!plim_settings_read(PLIM_FORMAT_SHELL, text, SIZE, &s, &error)) plim_settings_clear(&s);
  }
  free(text);
}

TEST(large_and_binary_texts_are_refused) {
  size_t size = (16 << 20) + 1;
  char *text = malloc(size);
  memset(text, '\n', size);
  plim_err large = plim_settings_read(PLIM_FORMAT_SHELL, text, size, &s, &error);
  CHECK(large == PLIM_ERR_UNSUPPORTED, "%s", error.message);
  text[5] = 0;
  plim_err binary = plim_settings_read(PLIM_FORMAT_SHELL, text, 10, &s, &error);
  free(text);
  CHECK(binary == PLIM_ERR_PARSE && error.byte == 5, "%s", error.message);
}

// ---- with a real shell ------------------------------------------------------------------------------

// Stand-ins for programs, which write down their arguments, one per line.
static const char stand_ins[] =
    "record() { printf '%q\\n' \"$@\" >&9; }\n"
    "for p in python python3 torchrun accelerate deepspeed srun nohup; do\n"
    "  eval \"$p() { record $p \\\"\\$@\\\"; }\"\n"
    "done\n"
    "env() { while [[ $1 == *=* ]]; do export \"$1\"; shift; done; \"$@\"; }\n"
    "bash -n before.sh 2>/dev/null && { bash -n after.sh || exit 1; }\n"
    "for side in before after; do\n"
    "  ( exec 9>$side.out; source ./$side.sh; ) </dev/null >/dev/null 2>&1\n"
    "done\n"
    "diff before.out after.out > changes\n"
    "echo $(grep -c '^<' changes) $(grep -c '^>' changes)\n";

static bool evaluate(const char *before, const char *after, int *gone, int *come) {
  char command[600];
  folder_write_text("run.sh", stand_ins);
  folder_write_text("before.sh", before);
  folder_write_text("after.sh", after);
  snprintf(command, sizeof command, "cd '%s' && bash run.sh a1 a2", folder_path("."));
  FILE *pipe = popen(command, "r");
  bool is_read = pipe && fscanf(pipe, "%d %d", gone, come) == 2;
  return pipe && pclose(pipe) == 0 && is_read;
}

static bool check_row(const edit_row *row, const char *after) {
  int gone = -1, come = -1;
  bool is_right = evaluate(row->before, after, &gone, &come);
  bool is_counted = row->gone < 0 || (gone == row->gone && come == row->come);
  if (!is_right || !is_counted)
    printf("%s%s: %d arguments gone, %d new\n", row->before, row->key, gone, come);
  return is_right && is_counted;
}

TEST(bash_passes_on_what_was_changed_and_nothing_else) {
  if (system("bash -c true")) SKIP("there is no bash");
  int failed = 0;
  folder_make();
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (rows[i].after) failed += !check_row(&rows[i], rows[i].after);
  edit_row full = {launch, "", INT(0), NULL, 1, 1};
  failed += !check_row(&full, with("BATCH=4", "BATCH=2"));
  failed += !check_row(&full, with("5e-5", "2e-5"));
  failed += !check_row(&full, with("'first run'", "\"it's\""));
  folder_remove();
  CHECK(!failed, "%d rows", failed);
}

TEST_MAIN
