#!/bin/bash
# installing.sh BUILD_DIR: `make install`, `make uninstall` and `make deb` with what is in BUILD_DIR: what they put where, that it
# works there, and that nothing is left afterwards. The last line is "N passed, N failed".
cd "$(dirname "$0")/.." || exit 2
build=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export HOME=$work/home XDG_STATE_HOME=$work/state PLIMSOLL_NVML=/nowhere
mkdir "$HOME"
passed=0 failed=0

# expect NAME COMMAND...: passes if the command succeeds; shows what it printed otherwise.
expect() {
  local name=$1
  shift
  if "$@" >"$work/out" 2>&1; then
    passed=$((passed + 1)) && echo "ok   $name"
  else
    failed=$((failed + 1)) && cat "$work/out" && echo "FAIL $name"
  fi
}
fails() { ! "$@"; }
install() { tools/install.sh "$build" "$1"; }
remove() { tools/install.sh --remove "$1"; }
all() { (cd "$1" && find . | sort); }
is_same() { [ "$(all "$1")" = "$2" ]; }

# works PREFIX: the installed program, from another folder: a prediction, and programs for which it needs its libraries.
works() (
  cd "$work" || return
  rm -f maps
  "$1/bin/plimsoll" version
  "$1/bin/plimsoll" estimate --model gpt2 --gpu 24GiB | grep '^FITS' || return
  "$1/bin/plimsoll" simulate --gpu 24GiB --unsandboxed -- sh -c 'cat /proc/$$/maps >maps'
  grep "$1/lib/plimsoll/libplimsoll-card.so" maps || return
  "$1/bin/plimsoll" run --cap 1GiB -- sh -c 'cat /proc/$$/maps >maps' || return
  grep "$1/lib/plimsoll/libplimsoll_hook.so" maps
)
# plans PREFIX: LoRA on a 7B model, which does not fit as it is.
plans() (
  cp -r tests/fixtures/seed0 "$work/training" && cd "$work/training" || return
  "$1/bin/plimsoll" plan start_baseline.sh --gpu 24564MiB >plan
  [ $? -le 1 ] && grep '^now: .*DOES NOT FIT' plan && grep '^planned: .*FITS' plan
)
completes() { bash -c '. "$1"; complete -p plimsoll' bash "$1"; }

prefix="$work/some/local"
mkdir -p "$prefix/share/man/man1"
echo mine >"$prefix/share/man/man1/other.1"
before=$(all "$work/some")
expect "install" install "$prefix"
expect "the program runs where it was installed" works "$prefix"
expect "man pages" [ -s "$prefix/share/man/man1/plimsoll-check.1" ]
expect "bash completion" completes "$prefix/share/bash-completion/completions/plimsoll"
expect "zsh completion" grep -q '^#compdef plimsoll' "$prefix/share/zsh/site-functions/_plimsoll"
expect "fish completion" grep -q '^complete -c plimsoll' "$prefix/share/fish/vendor_completions.d/plimsoll.fish"
if command -v zsh >/dev/null; then
  expect "zsh takes it" zsh -f -c 'fpath=("$1" $fpath); autoload -U compinit; compinit -D -u; [ "$_comps[plimsoll]" = _plimsoll ] && zsh -n "$1/_plimsoll"' zsh "$prefix/share/zsh/site-functions"
fi
if command -v fish >/dev/null; then
  expect "fish completes" fish -c 'source $argv[1]; complete -C "plimsoll check --sari" | grep -q "^--sarif"' "$prefix/share/fish/vendor_completions.d/plimsoll.fish"
fi
once=$(all "$work/some")
echo "file share/man/man1/plimsoll-former.1" >>"$prefix/lib/plimsoll/installed"
echo old >"$prefix/share/man/man1/plimsoll-former.1"
expect "install over an older version" install "$prefix"
expect "which leaves none of its files" is_same "$work/some" "$once"
echo mine >"$prefix/lib/plimsoll/notes"
expect "uninstall" remove "$prefix"
expect "leaves what others put there" is_same "$work/some" "$(printf '%s\n./local/lib\n./local/lib/plimsoll\n./local/lib/plimsoll/notes' "$before" | sort)"
rm -r "$prefix/lib"
expect "uninstall where nothing is installed" fails remove "$prefix"
expect "changes nothing" is_same "$work/some" "$before"
expect "make install with DESTDIR" make -s -o build install DESTDIR="$work/stage" PREFIX=/usr
expect "the program is there" works "$work/stage/usr"
expect "make uninstall with DESTDIR" make -s uninstall DESTDIR="$work/stage" PREFIX=/usr
expect "nothing is left" [ ! -e "$work/stage" ]

if ! command -v dpkg-shlibdeps >/dev/null || ! command -v cpack >/dev/null || ! command -v file >/dev/null; then
  echo "skipped: dpkg-dev, cpack or file is missing, without which there is no Debian package"
else
  copy=$work/build # so that the package of a developer is not replaced
  mkdir "$copy"
  for part in plimsoll release man completions; do ln -s "$build/$part" "$copy/$part"; done
  expect "a Debian package" tools/deb.sh "$copy"
  version=$(sed -n 's/^#define PLIM_VERSION "\(.*\)"/\1/p' include/plimsoll.h)
  package=$copy/plimsoll_${version}_$(dpkg --print-architecture).deb
  field() { dpkg-deb -f "$package" "$1"; }
  expect "its name" [ "$(field Package) $(field Version) $(field Architecture)" = "plimsoll $version $(dpkg --print-architecture)" ]
  expect "its dependencies were found" grep -Eq 'libc6 \(>= .*libjansson4.*libsqlite3-0' <<<"$(field Depends)"
  expect "and what the network needs" grep -q 'curl' <<<"$(field Recommends)"
  system=$work/system
  mkdir -p "$system"/var/lib/dpkg/{info,updates} && touch "$system/var/lib/dpkg/status"
  if [ "$(id -u)" -eq 0 ]; then
    # Into a system of its own, which has no other packages; apt says what is missing on this one.
    in_system() { dpkg --root="$system" --log=/dev/null --force-depends --force-script-chrootless "$@"; }
    expect "dpkg installs it" in_system --install "$package"
    expect "and knows it" grep -q '^Status: install ok installed' "$system/var/lib/dpkg/status"
    expect "apt finds what it depends on" apt-get -qq --simulate --no-install-recommends install "$package"
  else
    expect "it unpacks" dpkg-deb -x "$package" "$system"
  fi
  expect "the program of the package" works "$system/usr"
  expect "plans LoRA on a 7B model" plans "$system/usr"
  for place in man/man1/plimsoll.1.gz man/man1/plimsoll-plan.1.gz bash-completion/completions/plimsoll \
    zsh/vendor-completions/_plimsoll fish/vendor_completions.d/plimsoll.fish doc/plimsoll/copyright doc/plimsoll/changelog.gz; do
    expect "$place" [ -s "$system/usr/share/$place" ]
  done
  expect "all in usr" [ "$(ls "$system" | tr '\n' ' ')" = "usr var " ]
  # Beside them, the library for other programs.
  expect "libraries in a folder of their own" [ "$(ls "$system/usr/lib" | grep -v '^libplimsoll\.so' | tr '\n' ' ')" = "pkgconfig plimsoll " ]
  expect "the library's other name is a link" [ -L "$system/usr/lib/libplimsoll.so" ]
  expect "no list of files beside dpkg's" [ ! -e "$system/usr/lib/plimsoll/installed" ]
  if [ "$(id -u)" -eq 0 ]; then
    expect "dpkg removes it" in_system --purge plimsoll
    expect "and leaves nothing" [ -z "$(find "$system/usr" -type f -o -type l 2>/dev/null)" ]
  fi
fi

echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
