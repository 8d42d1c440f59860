# Pictures are written completely, and nothing else is written.
$PLIMSOLL replay truth/snapshots/stacks-tiny.pickle.xz --svg a.svg --html a.html >/dev/null
head -c 38 a.svg; echo; head -c 15 a.html; echo; ls
