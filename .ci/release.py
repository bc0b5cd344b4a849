"""Build the wheel and the source archive of a release: `python .ci/release.py https://HOST/OWNER/veil`, output in `dist`.

The tree names no address, since it may be hosted anywhere. This adds that of the repository to the metadata, and makes the
links and images of the README absolute, so that the package page shows them.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?![a-z]+:|#)([^)\s]+)\)")


def absolute(readme: str, address: str, tag: str) -> str:
    """The README with absolute links: images to their bytes, other files to their pages, as they are at a tag."""

    def link(found: re.Match[str]) -> str:
        image, text, path = found.groups()
        return f"{image}[{text}]({address}/{'raw' if image else 'blob'}/{tag}/{path})"

    return _LINK.sub(link, readme)


def with_urls(project: str, address: str) -> str:
    """The text of pyproject.toml with `[project.urls]`."""
    urls = {
        "Homepage": address,
        "Documentation": f"{address}/tree/main/docs",
        "Changelog": f"{address}/blob/main/CHANGELOG.md",
        "Issues": f"{address}/issues",
    }
    table = "\n".join(f'{name} = "{url}"' for name, url in urls.items())
    return project.replace("[project.scripts]", f"[project.urls]\n{table}\n\n[project.scripts]", 1)


def main() -> None:
    """Copy what a release holds, add the address, build."""
    if len(sys.argv) != 2 or not re.fullmatch(r"https://[^\s\"]+[^\s\"/]", sys.argv[1]):
        sys.exit("usage: python .ci/release.py https://HOST/OWNER/veil")
    address, project = sys.argv[1], (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    version = re.search(r'^version = "(.+)"$', project, re.MULTILINE)
    assert version is not None
    if not re.fullmatch(r"\d+\.\d+\.\d+(rc\d+)?", version[1]):
        sys.exit(f"pyproject.toml has version {version[1]}, expected a release such as 0.2.0")
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        shutil.copytree(ROOT / "src", home / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        for name in ("LICENSE", "CHANGELOG.md", "CITATION.cff"):
            shutil.copy(ROOT / name, home)
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        (home / "README.md").write_text(absolute(readme, address, f"v{version[1]}"), encoding="utf-8")
        (home / "pyproject.toml").write_text(with_urls(project, address), encoding="utf-8")
        subprocess.run([sys.executable, "-m", "build", "--outdir", str(ROOT / "dist"), str(home)], check=True)


if __name__ == "__main__":
    main()
