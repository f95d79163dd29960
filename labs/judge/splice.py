# SPDX-License-Identifier: MIT-0
"""A student's parts, from `// >>> ...` to `// <<<`, in the judge's own copies of the starter.

What stands outside the marks in the student's file is not judged, so it need not be compared. A part must be whole by
itself: then it can neither end the starter's code nor hide it.
"""

import dataclasses
import re

from labs.judge.lexer import are_glued, tokens

BEGIN, END = "// >>>", "// <<<"
OF_STARTER = 1_000_000  # added to a line of the starter, so that it is none of the student's
SELECT = "LAB_MAIN"  # the variable of the environment that says which main runs
PAIRS = {")": "(", "}": "{", "]": "["}
INCLUDE = re.compile(r"^\s*#\s*include\s*(<(?![^>]*\.\.)\w[\w./+-]*>)\s*(?://.*)?$")
ALLOWED = "include", "define", "undef", "pragma"


class NotWhole(Exception):
    """A part that is not whole by itself: the line of the file, and in words."""

    def __init__(self, line, words):
        super().__init__(line, words)
        self.line, self.words = line, words


@dataclasses.dataclass
class Spliced:
    includes: list  # lines
    bodies: list  # a text for each main
    lines: dict  # line of the starter outside the marks -> the student's line that it stands for
    assembly: list  # what the parts say to the assembler, in order
    remark: str  # what is not judged of the file, or ""


def parts(text):
    """(line of the mark before, line of the mark behind) of each part."""
    found, begin = [], 0
    for at, line in enumerate(text.splitlines(), 1):
        if line.strip().startswith(BEGIN):
            begin = at
        elif line.strip() == END and begin:
            found.append((begin, at))
            begin = 0
    return found


def whole(starter, text):
    """The starter with the parts of this text."""
    lines, mine = starter.splitlines(), text.splitlines()
    for (first, last), (begin, end) in reversed([*zip(parts(starter), parts(text), strict=True)]):
        lines[first : last - 1] = mine[begin : end - 1]
    return "\n".join([*lines, ""])


# --- A part is whole


def must_be_whole(lines, first):
    """Raises NotWhole unless these lines, of which the first has this number, are whole by themselves; what they say
    to the assembler, as Assembly."""
    text, opened, told = "\n".join(lines), [], []
    its, open_at = tokens(text)
    for at, line in enumerate(lines, first):
        if re.search(r"\\[ \t]+$", line) or line.endswith("\\") and at == first + len(lines) - 1:
            raise NotWhole(at, "no \\ at the end of this line: the next one would be a part of it")
    if open_at >= 0:
        raise NotWhole(first + text.count("\n", 0, open_at), "this comment, text or sign has no end in this part")
    its = [token for token in its if token.kind != "COMMENT" or token.more_lines]
    while its:
        count = 1
        if its[0].text == "#" and its[0].starts_line:
            count = next((at for at, it in enumerate(its) if it.logical != its[0].logical), len(its))
            told += look_at_directive(its[:count], text, first)
        elif its[0].kind != "COMMENT":
            look_at(its, text, first)
            told += [assembly(its, first)] if its[0].text in ASM else []
            take_bracket(opened, its[0], first, "part")
        its = its[count:]
    must_be_closed(opened, "part")
    return told


def look_at(its, text, first):
    """What the first of these tokens may not be."""
    one, other = its[0], next((it for it in its[1:] if it.kind != "COMMENT"), None)
    follows = other.text if other else ""
    glued = one.text + follows if other and are_glued(text, one, other) else one.text
    if "__device_stub_" in one.text:  # what the judge takes for the compiler's
        raise NotWhole(first + one.line, "this name is the compiler's: take another")
    wrong = WHY_ODD.get(one.text) or WHY_ODD.get(glued) or WHY_ODD.get(f"{one.text} {follows}")
    is_number_of_text = one.text[0].isdigit() and glued != one.text and follows[0] == "'"  # to some it is one sign
    if one.kind != "LITERAL" and one.text[0] in "\"'" or is_number_of_text:
        wrong = "this text has no end in this line"
    if wrong:
        raise NotWhole(first + one.line, wrong)


def take_bracket(opened, token, first, where):
    """It opens, or closes what was opened last."""
    if token.text in PAIRS.values():
        opened.append((token.text, first + token.line))
    elif token.text in PAIRS and (not opened or opened.pop()[0] != PAIRS[token.text]):
        raise NotWhole(first + token.line, f"{token.text!r} closes what was not opened in this {where}")


def must_be_closed(opened, where):
    if opened:
        raise NotWhole(opened[-1][1], f"{opened[-1][0]!r} has no end in this {where}")


PLAINLY = "other signs for brackets and # have no place here: write it plainly"
WHY_ODD = {
    **dict.fromkeys(("<%", "%>", "<:", ":>", "%:"), PLAINLY),
    **dict.fromkeys(("##", "__CONCAT"), "no ## here: it makes signs that cannot be seen"),
    "_Pragma": "no _Pragma here: a macro keeps its meaning",
    **{
        f"{kind} check": "check is the starter's" for kind in ("namespace", "struct", "class", "union", "enum", "using")
    },
    **dict.fromkeys(
        ("getenv", "secure_getenv", "environ", "__environ", "__PRETTY_FUNCTION__", "__COUNTER__", "typeid"),
        "what it is to do is the same in each run",
    ),
    "extern": "no function of the system has another meaning: write it without extern",
}


def look_at_directive(its, text, first):
    """What a directive in a part may not be; and what it says to the assembler."""
    line, name = first + its[0].line, its[1].text if its[1:] else ""
    words = text[its[0].begin : its[-1].end]
    if any(it.more_lines for it in its):
        raise NotWhole(line, "a directive must end in its line, with its comment")
    if name not in ALLOWED or name == "pragma" and re.search("macro|weak|extname", words):
        why = "what is judged has all its lines, with their numbers, and macros keep their meaning"
        raise NotWhole(line, f"no #{name} here: {why}")
    if name == "include" and not INCLUDE.match(words):
        raise NotWhole(line, "what a file of your own says is not looked at: write it here")
    opened, told = [], []
    for at in range(1, len(its) if name != "include" else 0):
        look_at(its[at:], text, first)
        told += [assembly(its[at:], first)] if its[at].text in ASM else []
        take_bracket(opened, its[at], first, "directive")
    must_be_closed(opened, "directive")
    return told


# --- What a part says to the assembler

ASM = "asm", "__asm", "__asm__"
INSTRUCTION = re.compile(r"(?:(?:fence|membar|bar|barrier|multimem)\.[^\\;:=]*)?")


@dataclasses.dataclass
class Assembly:
    line: int
    instructions: list
    clobbers: str  # what comes behind them


def assembly(its, first):
    """The tokens behind asm: fences, barriers and multimem alone, which say nothing to the assembler of the host."""
    line, texts, depth = first + its[0].line, [], 0
    its = [it for it in its[1:] if it.kind != "COMMENT" and it.text not in ("volatile", "__volatile__")]
    at = next((at for at, it in enumerate(its) if at and it.kind != "LITERAL"), 0)
    texts = [it.text[1:-1] for it in its[1:at] if it.text[0] == '"']
    instructions = [one.strip() for one in re.split(r";|\\n|\\t|\n", ";".join(texts))]
    instructions = [re.sub(r"^\{\s*|^\}$", "", one) for one in instructions]  # a block of PTX has braces
    is_plain = its and its[0].text == "(" and texts and len(texts) == at - 1 and its[at].text in (":", "::", ")")
    if not is_plain or not all(INSTRUCTION.fullmatch(one) for one in instructions):
        raise NotWhole(line, "asm here takes fences, barriers and multimem alone, as plain texts: write it plainly")
    end = at
    while end < len(its) and (depth or its[end].text != ")"):
        depth += (its[end].text == "(") - (its[end].text == ")")
        end += 1
    return Assembly(line, [one for one in instructions if one], " ".join(it.text for it in its[at:end]))


# --- Parts and starter

# The starter's names that are global ones, whatever a part declares by the same name.
CALLS = r"(?:cu(?:da)?[A-Z]\w*|close|dup2?|fork|kill|pipe|read|socketpair|waitpid|write)\("
OF_EVERYBODY = re.compile(rf"(?<![\w:.>])(?=(?:lab|check|std)::|{CALLS})")
MADE_GLOBAL = re.compile(rf"(?<!\w)::(?=(?:lab|check|std)::|{CALLS})")  # as they stand in what a program says


def spliced(starter, text, name, mains):
    """The parts of the student's `text` in the `starter`, once for each of `mains`: {"changes": {old: new}} of it."""
    wanted, its, mine = parts(starter), parts(text), text.splitlines()
    if len(wanted) != len(its):
        words = f"the marks are not those of the starter: {BEGIN} and {END}; ./lab.sh reset gives you a new one"
        raise NotWhole(1, words)
    of_parts = [mine[first : last - 1] for first, last in its]
    assembly = [
        told for (first, _), lines in zip(its, of_parts, strict=True) for told in must_be_whole(lines, first + 1)
    ]
    includes = [line for line in starter.splitlines() if re.match(r"\s*#\s*include\b", line)]
    includes += [f"#include {found[1]}" for line in mine if (found := INCLUDE.match(line))]
    made = [one_main(starter, wanted, of_parts, its, name, main.get("changes", {})) for main in mains]
    return Spliced(includes, [body for body, _ in made], made[0][1], assembly, unjudged(starter, text, its))


def program(all_spliced):
    """One program, of which SELECT=N runs the N-th main."""
    bodies = [body for each in all_spliced for body in each.bodies]
    text = [*dict.fromkeys(line for each in all_spliced for line in each.includes), "#include <cstdlib>"]
    text.append("#define main its_main")
    for number, body in enumerate(bodies):
        text += [f"namespace main_{number} {{", body, "}"]
    text += ["#undef main", f'#line 1 "{SELECT}"', "int main() {", f'switch (std::atoi(std::getenv("{SELECT}"))) {{']
    text += [f"case {number}: return main_{number}::its_main();" for number in range(len(bodies))]
    return "\n".join([*text, "default: return 125;", "}", "}", ""])


def one_main(starter, wanted, of_parts, its, name, change):
    """(the starter with these parts, the student's lines that stand for the starter's).

    The compiler is told of each part's lines where the student has them, and of the starter's with OF_STARTER added.
    """
    lines, out, done, end, before = {}, [], 0, 0, []
    source = [re.sub(r"^\s*#\s*include\b.*", "", line) for line in starter.splitlines()]
    for (first, last), part, (begin, behind) in zip(wanted, of_parts, its, strict=True):
        out += [f'#line {OF_STARTER + done + 1} "{name}"', *changed(source[done:first], change)]
        if begin - end == first - done:
            lines |= {done + at: end + at for at in range(1, first - done + 1)}
        told = directives(part)
        kept = dict.fromkeys(name for name, *_ in before + told)
        out += [f'#pragma push_macro("{one}")' for one in kept]
        for _, at, text in before:  # what an earlier part has defined
            out += [f'#line {at} "{name}"', text]
        out += [f'#line {begin + 1} "{name}"', *without_includes(part)]
        out += [f'#pragma pop_macro("{one}")' for one in kept]
        before += [(name_of, begin + 1 + at, text) for name_of, at, text in told]
        done, end = last - 1, behind - 1
    out += [f'#line {OF_STARTER + done + 1} "{name}"', *changed(source[done:], change)]
    return "\n".join(out), lines | {at: at - done + end for at in range(done + 1, len(source) + 1)}


def directives(part):
    """(the macro, the line in the part, the text) of each by which a part gives a macro another meaning."""
    text, found = "\n".join(part), []
    its = [token for token in tokens(text)[0] if token.kind != "COMMENT"]
    for at, token in enumerate(its[:-2]):
        if token.text == "#" and token.starts_line and its[at + 1].text in ("define", "undef"):
            end = max(it.end for it in its if it.logical == token.logical)
            found.append((its[at + 2].text, token.line, text[token.begin : end]))
    return found


def without_includes(part):
    return ["" if INCLUDE.match(line) else line for line in part]


def changed(lines, change):
    """The starter's lines with other constants, and with global names."""
    text = "\n".join(lines)
    if change:  # all at once: what one puts in may be what another replaces
        text = re.sub("|".join(map(re.escape, change)), lambda found: change[found[0]], text)
    return OF_EVERYBODY.sub("::", text).split("\n")


def unjudged(starter, text, its):
    """Which line outside the marks is not the starter's, but for blanks, comments and includes; in words, or ""."""
    was, now = ([code_of_line(line) for line in of.splitlines()] for of in (starter, text))
    for at, code in enumerate(now, 1):
        is_outside = not any(first <= at <= last for first, last in its)
        if is_outside and code not in ("", *was) and not code.startswith("#include"):
            return f"Line {at} stands outside the marks and is not judged: the starter's lines are there.\n"
    return ""


def code_of_line(line):
    return "".join(re.sub(r"(^|\s)//.*", "", line).split())
