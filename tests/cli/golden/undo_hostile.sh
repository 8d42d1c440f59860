# A .plimsoll that came with a folder cannot reach files outside of it, by path or by link.
work=$(mktemp -d) && mkdir -p "$work/repo/.plimsoll" && cd "$work/repo" || exit 9
hostile() { # PATH: the file with the text "precious" goes
  {
    printf 'plimsoll journal 1\nkind undo\nstate ready\nid 00000007\nrecord 1\nfile %s\n' "$1"
    printf 'from %s 8\nto absent\nkept none\ndropped none\n' "$(printf precious | sha256sum | cut -d' ' -f1)"
  } >.plimsoll/journal
  printf 'sha256 %s\n' "$(sha256sum <.plimsoll/journal | cut -d' ' -f1)" >>.plimsoll/journal
}
printf precious >../victim && ln -s .. up
for path in "$work/victim" up/victim; do
  hostile "$path" && $PLIMSOLL undo 2>&1 | sed "s,$work,WORK,"
  cat ../victim && echo
done
hostile mine && printf precious >mine && $PLIMSOLL undo && ls
rm -rf "$work"
