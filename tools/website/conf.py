"""Sphinx's settings for the site. All scripts, styles and fonts are the site's own, so it works
offline and from a folder. Read next: ../make_docs.py, which runs Sphinx on the output of
stage.py."""

project = "dlblas"
author = "the authors of dlblas"
html_title = "dlblas"
language = "en"

extensions = ["myst_parser"]
myst_heading_anchors = 4  # GitHub's anchors, so that a link to a heading works in both places
myst_links_external_new_tab = False
suppress_warnings = ["misc.highlighting_failure", "myst.header"]

smartquotes = False  # quotes here are often code

html_theme = "furo"
html_favicon = "static/icon.svg"
html_static_path = ["static"]
templates_path = ["templates"]  # the search is ours
html_css_files = ["site.css"]
html_js_files = ["copy.js"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
highlight_language = "none"  # of a block that names none
pygments_style = "a11y-high-contrast-light"  # of accessible-pygments, which the theme brings
pygments_dark_style = "github-dark"
html_theme_options = {
    "light_css_variables": {
        "color-brand-primary": "#0f766e",
        "color-brand-content": "#0f766e",
        "font-stack": "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif",
        "font-stack--monospace": "ui-monospace, 'SF Mono', 'DejaVu Sans Mono', monospace",
    },
    "dark_css_variables": {
        "color-brand-primary": "#5eead4",
        "color-brand-content": "#5eead4",
    },
}
