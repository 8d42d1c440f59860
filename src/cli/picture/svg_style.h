// The style sheet of the SVG timeline, up to where the colours of the layers go. Part of svg.c.
#ifndef PLIM_CLI_SVG_STYLE_H
#define PLIM_CLI_SVG_STYLE_H

// clang-format off
static const char svg_style_light[] =
    "<style>\n"
    "text{font:12px system-ui,-apple-system,'Segoe UI',Roboto,sans-serif;fill:#3c4350}\n"
    ".title{font-size:18px;font-weight:600;fill:#14181f}\n"
    ".strong{font-weight:600;fill:#14181f}.quiet{fill:#69717f}.alarm{fill:#b3261e}\n"
    ".page{fill:#fff}.grid{stroke:#e3e6eb}.axis{stroke:#9aa1ad}"
    ".step{stroke:#14181f;stroke-opacity:.14}\n"
    ".cached{fill:#eceef2}.reserved{stroke:#14181f;stroke-width:1.2}\n"
    ".allocated{stroke:#14181f;stroke-opacity:.75;stroke-width:.8}\n"
    ".limit,.oom{stroke:#b3261e;stroke-width:1.4}.limit{stroke-dasharray:6 4}\n"
    ".pin{stroke:#14181f}.dot{fill:#fff;stroke:#14181f;stroke-width:1.4}\n"
    ".ooms{fill:#b3261e}.retries{fill:#fff;stroke:#b3261e;stroke-width:1.4}\n"
    ".empties{fill:#69717f}\n"
    ".grid,.axis,.step,.allocated,.reserved,.limit,.oom,.pin{fill:none}\n";

static const char svg_style_dark[] =
    "\n@media (prefers-color-scheme:dark){\n"
    "text{fill:#c3c9d4}.title,.strong{fill:#f2f4f8}.quiet{fill:#8d95a3}.alarm{fill:#ff8a80}\n"
    ".page{fill:#14171c}.grid{stroke:#262b33}.axis{stroke:#59616e}"
    ".step{stroke:#f2f4f8;stroke-opacity:.2}\n"
    ".cached{fill:#232830}.allocated,.reserved,.pin{stroke:#f2f4f8}.limit,.oom{stroke:#ff8a80}\n"
    ".dot{fill:#14171c;stroke:#f2f4f8}.ooms{fill:#ff8a80}.empties{fill:#8d95a3}\n"
    ".retries{fill:#14171c;stroke:#ff8a80}\n";
// clang-format on

#endif
