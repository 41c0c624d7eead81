"""Write the files that are made from the code. Run from the repository's root."""

from pathlib import Path

from pod.command_reference import commands_page
from pod.manifest_reference import example_manifest, manifest_page

ROOT = Path(__file__).resolve().parents[1]
MADE = {
    "manifest.example.toml": example_manifest,
    "docs/manifest.md": manifest_page,
    "docs/commands.md": commands_page,
}

if __name__ == "__main__":
    for name, make in MADE.items():
        (ROOT / name).write_text(make(), encoding="utf-8")
