# A full disk is an error, however much is written.
$PLIMSOLL version >/dev/full
echo $?
$PLIMSOLL help --json >/dev/full
echo $?
# A reader that closes the pipe early is not an error: nothing on stderr, with SIGPIPE and without.
$PLIMSOLL help --json | head -1
mkfifo pipe && { head -c 0 <pipe & } && exec 3>pipe && wait # for the reader to leave
(trap '' PIPE; $PLIMSOLL help --json >&3; echo "exit $?" >&2)
