"""Add the pages of the site that are made from other files: start, gallery, archives, measurements, Python.

A hook of MkDocs (`mkdocs.yml`).  Links are those of the repository; here they are turned to where the site
has the page.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
COPIED = ("CONTRIBUTING.md", "benchmarks/README.md", "benchmarks/tables/**/*.md", "sweeps/*.md")
LINK = re.compile(r"(?<=\]\()(?!https?://|#|mailto:)([^)#\s]*)")
CONTRACTS = ("mixers.base.Mixer", "mixers.state.StateSize", "tasks.base.Task", "evaluation.base.Evaluation")
PLACES = {  # what the site has under another name than the repository
    **{"README.md": "index.md", "docs/results": "archives.md", "docs/figures": "gallery.md"},
    **{"benchmarks": "benchmarks/README.md", "sweeps": "sweeps/README.md"},
}
USE = ("zoo.evaluation.trained.load", "zoo.evaluation.trained.Trained", "zoo.results.table.load")


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the made pages to those that lie in docs/."""
    for path, text in made_pages().items():
        files.append(File.generated(config, path, content=text))
    for pattern in COPIED:
        for path in sorted(ROOT.glob(pattern)):
            files.append(File.generated(config, str(path.relative_to(ROOT)), content=path.read_text()))
    compiled = "tests/kernels/compiled.json"
    files.append(File.generated(config, compiled, content=(ROOT / compiled).read_text()))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn the links of a page, which are those of the repository, to the pages of the site."""
    del config, files
    source = page.file.src_uri
    home = {"index.md": "."}.get(source) or str(Path(_in_repository(source)).parent)
    up = "../" * source.count("/")
    return LINK.sub(lambda link: _turned(link[1], home, up), markdown)


def made_pages() -> Mapping[str, str]:
    """Return path -> Markdown of the pages that no file holds."""
    return {
        "index.md": (ROOT / "README.md").read_text(),
        "gallery.md": _gallery(),
        "archives.md": _archives(),
        "api/use.md": _api("Load a model, ask it, read results", USE),
        "api/contracts.md": _api(
            "What a mixer, a task and an evaluation promise", map("zoo.".__add__, CONTRACTS)
        ),
        "api/mixers.md": _api("Mixers", _targets("mixer"), ("forward", "extend", "state_size")),
        "api/tasks.md": _api("Tasks", _targets("task"), ("__init__", "sample", "oracle")),
        "api/evaluations.md": _api("Evaluations", _targets("evaluation"), ("table",)),
    }


def _in_repository(source: str) -> str:
    """Return where a page of the site lies in the repository."""
    return source if source.startswith(("benchmarks/", "sweeps/", "CONTRIBUTING")) else f"docs/{source}"


def _turned(link: str, home: str, up: str) -> str:
    """Return a link of a page in `home` as the site has it; up: from the page to the site's root."""
    if not link:
        return link
    parts: list[str] = []
    for part in [*Path(home).parts, *link.split("/")]:
        if part == ".." and parts:
            parts.pop()
        elif part not in (".", ".."):
            parts.append(part)
    place = "/".join(parts).rstrip("/")
    return up + PLACES.get(place, place.removeprefix("docs/"))


def _targets(group: str) -> list[str]:
    """Return the classes that the yamls of a group of conf/ name, each once."""
    yamls = (yaml.safe_load(path.read_text()) for path in sorted((ROOT / "conf" / group).glob("*.yaml")))
    return sorted({each["_target_"] for each in yamls if isinstance(each, dict) and "_target_" in each})


def _api(title: str, names: Iterable[str], members: Iterable[str] | None = None) -> str:
    options = "" if members is None else f"    options:\n      members: [{', '.join(members)}]\n"
    return f"# {title}\n\n" + "\n".join(f"::: {name}\n{options}" for name in names)


def _gallery() -> str:
    """Return every picture of docs/figures with its caption, by study."""
    figures = ROOT / "docs" / "figures"
    lines = ["# Every picture", "", "`make figures` draws them from the [archives](results)."]
    for folder in sorted({path.parent for path in figures.rglob("*.png")}):
        lines += ["", f"## {folder.name if folder != figures else 'Across studies'}", ""]
        for path in sorted(folder.glob("*.png")):
            caption = path.with_suffix(".txt")
            lines += [f"![{path.stem}]({path.relative_to(ROOT / 'docs')})", ""]
            lines += [caption.read_text().strip(), ""] if caption.is_file() else []
    return "\n".join(lines) + "\n"


def _archives() -> str:
    """Return the list of archived results, each to be downloaded."""
    paths: list[Any] = sorted((ROOT / "docs" / "results").glob("*.zip"))
    head = "# Archives\n\nThe records behind every picture; `analysis` reads an archive like a folder.\n\n"
    return head + "".join(f"- [{p.name}](results/{p.name}), {p.stat().st_size / 1e6:.1f} MB\n" for p in paths)
