# Files that cannot be replayed are named, with the position in them: exit 2, and no file is overwritten.
try() {
  echo "\$ plimsoll $*"
  $PLIMSOLL "$@" 2>&1
  echo "exit $?"
}
tiny=truth/snapshots/stacks-tiny.pickle.xz
try replay no-such-file.pickle
echo "hello" >notes.txt && try replay notes.txt
head -c 20000 $tiny >cut.pickle.xz && try replay cut.pickle.xz
printf "\200\004cposix\nsystem\n." >evil.pickle && try replay evil.pickle --json
try replay $tiny --device 3
try replay $tiny --torch newest
try replay $tiny --limit 24
try replay $tiny --limit 1KiB
try replay $tiny --alloc-conf expandable_segments:True,max_split_size_mb:8
try replay $tiny --alloc-conf expandable_segment:True
try replay $tiny --svg missing/a.svg
try replay $tiny --svg a.out --html a.out
cp truth/allocator/default.pickle.xz mine.pickle.xz && try replay mine.pickle.xz --svg ./mine.pickle.xz
cmp truth/allocator/default.pickle.xz mine.pickle.xz && ls
