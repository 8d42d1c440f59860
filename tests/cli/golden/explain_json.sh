# The whole document, of a log that is read from standard input, decompressed.
gzip -c fixtures/logs/late.log | $PLIMSOLL explain --json
