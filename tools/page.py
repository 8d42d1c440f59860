#!/usr/bin/env python3
"""page.py MODULE OUT: puts the files of web/ and the library as WebAssembly (MODULE) into one HTML page."""
import base64
import gzip
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
STYLES = ['chart.css', 'page.css']
SCRIPTS = ['chart.js', 'parts.js', 'options.js', 'engine.js', 'plan.js', 'snapshot.js', 'page.js']
WORKER = ['wasi.js', 'module.js', 'worker.js']


def joined(names):
    """The files one after the other. They are one script, so that what they import and export is there already."""
    text = '\n'.join((ROOT / 'web' / name).read_text() for name in names)
    text = re.sub(r'^(import .* from .*|export \{.*\});\n', '', text, flags=re.MULTILINE)
    if '</script' in text or '</style' in text:
        sys.exit(f'page.py: one of {", ".join(names)} contains the end of its element')
    return text


def main():
    module, out = map(pathlib.Path, sys.argv[1:3])
    version = re.search(r'PLIM_VERSION "(.*)"', (ROOT / 'include/plimsoll.h').read_text()).group(1)
    packed = base64.b64encode(gzip.compress(module.read_bytes(), mtime=0)).decode()
    page = (ROOT / 'web/page.html').read_text()
    for name, text in [('style', joined(STYLES)), ('script', joined(SCRIPTS)), ('worker', joined(WORKER)),
                       ('wasm', packed), ('version', version)]:
        page = page.replace(f'/*{name}*/', text)
    out.write_text(page)


main()
