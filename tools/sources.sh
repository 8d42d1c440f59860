#!/bin/bash
# Lists all C files of ours. Uses find, so that it works in an unpacked tarball too.
cd "$(dirname "$0")/.." || exit 2
find include src tests bench -name '*.[ch]' | LC_ALL=C sort
