# The keys that other programs rely on.
$PLIMSOLL replay truth/allocator/cap2.pickle.xz --limit 2GiB --json | grep -E "^  \"|^    \"(peak_|segment_|retries|ooms)"
exit "${PIPESTATUS[0]}"
