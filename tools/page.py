#!/usr/bin/env python3
"""page.py OUT [ENGINE...]: puts the files of web/ into one HTML page. ENGINE are scripts that define `engine`."""
import pathlib
import sys

WEB = pathlib.Path(__file__).resolve().parent.parent / 'web'
STYLES = ['chart.css', 'page.css']
SCRIPTS = ['chart.js', 'parts.js', 'options.js', 'plan.js', 'snapshot.js', 'page.js']


def joined(names, engine=()):
    texts = [(WEB / name).read_text() for name in names]
    return '\n'.join(pathlib.Path(name).read_text() for name in engine) + '\n'.join(texts)


def main():
    out, engine = pathlib.Path(sys.argv[1]), sys.argv[2:]
    script = joined(SCRIPTS, engine)
    if '</script' in script:
        sys.exit('page.py: a script contains "</script", which would end it')
    page = (WEB / 'page.html').read_text()
    page = page.replace('/*style*/', joined(STYLES)).replace('/*script*/', script)
    out.write_text(page)


main()
