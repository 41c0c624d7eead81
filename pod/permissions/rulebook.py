"""From the manifest's [permissions] to the rules in their order."""

import re

from pod.manifest import PermissionsTable
from pod.permissions.rules import Action, Rule, Rulebook
from pod.toml_text import quoted

_TOOL_AND_PATTERN = re.compile(r"([^()\s]+)(?:\((.*)\))?", re.DOTALL)


def rulebook_of(table: PermissionsTable) -> Rulebook:
    """Return the rules of *table*, its mode and its lists of tools included.

    In this order: disallowed_tools, allowed_tools, the rules, what the mode
    allows, the default.
    """
    rules = [
        *(
            _listed(text, "deny", f"disallowed_tools: {text}")
            for text in table.disallowed_tools
        ),
        *(
            _listed(text, "allow", f"allowed_tools: {text}")
            for text in table.allowed_tools
        ),
        *(
            Rule(
                rule.tool,
                pattern_of(rule.pattern),
                rule.action,
                f"[[permissions.rules]] {number}: {rule.tool}"
                f" {quoted(rule.pattern)} {rule.action}",
            )
            for number, rule in enumerate(table.rules, 1)
        ),
    ]
    default = table.default_action or ("deny" if table.allowed_tools else "allow")
    match table.mode:
        case "default":
            return Rulebook(tuple(rules), default)
        case "acceptEdits":
            rules += [
                Rule(tool, "*", "allow", 'mode = "acceptEdits"') for tool in _FILE_TOOLS
            ]
            return Rulebook(tuple(rules), table.default_action or "ask")
        case "plan":
            return Rulebook(tuple(rules), default, is_read_only=True)
        case "dontAsk":
            return Rulebook(tuple(rules), table.default_action or "deny", asking="deny")
        case "bypassPermissions":
            return Rulebook(tuple(rules), "allow", asking="allow")


_FILE_TOOLS = ("read_file", "grep", "glob", "write_file", "edit_file")


def _listed(text: str, action: Action, shown: str) -> Rule:
    """Read ``Bash(git *)``, or the name of a tool alone: all of its calls."""
    found = _TOOL_AND_PATTERN.fullmatch(text)
    assert found is not None, "the manifest lets nothing else through"
    return Rule(found[1], pattern_of(found[2] or "*"), action, shown)


def pattern_of(text: str) -> str:
    """Return a pattern as it is matched: ``git:*`` is how Claude Code has ``git *``."""
    return text[:-2] + " *" if text.endswith(":*") else text


def split_tools(text: str) -> tuple[str, ...]:
    """Split a list of tools as people write it: at commas and blanks, not inside ()."""
    tools = [""]
    depth = 0
    for character in text:
        depth += (character == "(") - (character == ")" and depth > 0)
        if depth == 0 and character in ", \t\n":
            tools.append("")
        else:
            tools[-1] += character
    return tuple(tool for tool in tools if tool)
