$PLIMSOLL man help
mkdir d && $PLIMSOLL man --dir d && $PLIMSOLL man replay | cmp - d/plimsoll-replay.1; ls d
# The page passes man's own check, if man is installed.
if command -v man >/dev/null && man -l /dev/null >/dev/null 2>&1; then
  for command in "" replay help version completion man; do
    $PLIMSOLL man $command | LC_ALL=C.UTF-8 MANROFFSEQ= man --warnings=w -l - 2>&1 >page | head -5
    grep -q 'SEE ALSO' page || echo "no page for '$command'"
  done
fi
