# SPDX-License-Identifier: MIT-0
"""A student's parts, from `// >>> ...` to `// <<<`, in the judge's own copies of the starter.

What stands outside the marks in the student's file is not judged, so it need not be compared. A part must be whole by
itself: then it can neither end the starter's code nor hide it.
"""

import dataclasses
import re

BEGIN, END = "// >>>", "// <<<"
OF_STARTER = 1_000_000  # added to a line of the starter, so that it is none of the student's
SELECT = "LAB_MAIN"  # the variable of the environment that says which main runs
TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)
    |(?P<raw>\b(?:u8|u|U|L)?R"|\?\?[=/'()!<>-]|\b_Pragma\b|\bnamespace\s+check\b
      |\b(?:asm|__asm|__asm__)\b(?!\s*(?:volatile)?\s*\(\s*"(?:fence|multimem)\.[^"\\;:=]*;?"\s*[:)]))
    |(?P<text>"(?:[^"\\\n]|\\.)*"|(?:\b(?:u8|[uUL])|(?<![\w']))'(?:[^'\\\n]|\\.)+')
    |\.?\d(?:[\w.]|'\w|[eEpP][+-])*
    |[A-Za-z_]\w*
    |(?P<odd>/\*|["'`]|\#\#|%:|<%|%>|<:(?!:)|:>|[^\x00-\x7f])""",
    re.ASCII | re.DOTALL | re.VERBOSE,
)
PAIRS = {")": "(", "}": "{", "]": "["}
INCLUDE = re.compile(r"^\s*#\s*include\s*(<(?![^>]*\.\.)\w[\w./+-]*>)\s*(?://.*)?$")
DIRECTIVE = re.compile(r"^\s*#\s*(\w*)\s*(\w*)(.*)$")
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
    """Raises NotWhole unless these lines, of which the first has this number, are whole by themselves."""
    opened = []
    for at, line in enumerate(plain(lines, first), first):
        if told := DIRECTIVE.match(line):
            look_at_directive(told, at)
        else:
            take_brackets(opened, line, at, "part")
    must_be_closed(opened, "part")


def plain(lines, first):
    """The lines without comments; texts have no brackets."""

    def of_token(token):
        kind, word, before = token.lastgroup, token[0], token.string[: token.start()]
        if kind in ("odd", "raw"):
            words = f"{word!r} has no end in this part, or is no plain C++: write it plainly"
            raise NotWhole(first + before.count("\n"), WHY_ODD.get(word, words))
        if kind == "comment" and "\n" in word and "#" in before.rpartition("\n")[2]:
            raise NotWhole(first + before.count("\n"), "a directive must end in its line, with its comment")
        return " " + "\n" * word.count("\n") if kind == "comment" else re.sub(r"[(){}\[\]]", "_", word)

    for at, line in enumerate(lines, first):
        if line.rstrip(" \t\0").endswith("\\"):
            raise NotWhole(at, "no \\ at the end of a line: the next one would be a part of it")
    return TOKEN.sub(of_token, "\n".join(lines)).split("\n")


def take_brackets(opened, text, line, where):
    """Each opens, or closes what was opened last."""
    for sign in re.findall(r"[(){}\[\]]", text):
        if sign not in PAIRS:
            opened.append((sign, line))
        elif not opened or opened.pop()[0] != PAIRS[sign]:
            raise NotWhole(line, f"{sign!r} closes what was not opened in this {where}")


def must_be_closed(opened, where):
    if opened:
        raise NotWhole(opened[-1][1], f"{opened[-1][0]!r} has no end in this {where}")


WHY_ODD = {
    "##": "no ## here: it makes signs that cannot be seen",
    "/*": "this comment has no end in this part",
    '"': "this text has no end in this line",
    "'": "this character has no end in this line",
    "_Pragma": "no _Pragma here: a macro keeps its meaning",
}


def look_at_directive(told, line):
    """What a directive in a part may not be."""
    name, _, rest = told.groups()
    if name not in ALLOWED or name == "pragma" and "macro" in told[0]:
        words = "what is judged has all its lines, with their numbers, and macros keep their meaning"
        raise NotWhole(line, f"no #{name} here: {words}")
    if name == "include" and not INCLUDE.match(told[0]):
        raise NotWhole(line, "what a file of your own says is not looked at: write it here")
    opened = []
    take_brackets(opened, rest, line, "directive")
    must_be_closed(opened, "directive")


# --- Parts and starter


def spliced(starter, text, name, mains):
    """The parts of the student's `text` in the `starter`, once for each of `mains`: {"changes": {old: new}} of it."""
    wanted, its, mine = parts(starter), parts(text), text.splitlines()
    if len(wanted) != len(its):
        words = f"the marks are not those of the starter: {BEGIN} and {END}; ./lab.sh reset gives you a new one"
        raise NotWhole(1, words)
    of_parts = [mine[first : last - 1] for first, last in its]
    for (first, _), lines in zip(its, of_parts, strict=True):
        must_be_whole(lines, first + 1)
    includes = [line for line in starter.splitlines() if re.match(r"\s*#\s*include\b", line)]
    includes += [f"#include {found[1]}" for line in mine if (found := INCLUDE.match(line))]
    made = [one_main(starter, wanted, of_parts, its, name, main.get("changes", {})) for main in mains]
    return Spliced(includes, [body for body, _ in made], made[0][1], unjudged(starter, text, its))


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
    lines, out, done, end = {}, [], 0, 0
    source = [re.sub(r"^\s*#\s*include\b.*", "", line) for line in starter.splitlines()]
    for (first, last), part, (begin, behind) in zip(wanted, of_parts, its, strict=True):
        out += [f'#line {OF_STARTER + done + 1} "{name}"', *changed(source[done:first], change)]
        if begin - end == first - done:
            lines |= {done + at: end + at for at in range(1, first - done + 1)}
        kept = macros(part)
        out += [f'#pragma push_macro("{one}")' for one in kept]
        out += [f'#line {begin + 1} "{name}"', *without_includes(part)]
        out += [f'#pragma pop_macro("{one}")' for one in kept]
        done, end = last - 1, behind - 1
    out += [f'#line {OF_STARTER + done + 1} "{name}"', *changed(source[done:], change)]
    return "\n".join(out), lines | {at: at - done + end for at in range(done + 1, len(source) + 1)}


def macros(part):
    """The macros that a part gives another meaning, to itself alone."""
    told = filter(None, map(DIRECTIVE.match, plain(part, 1)))
    return dict.fromkeys(one[2] for one in told if one[1] in ("define", "undef"))


def without_includes(part):
    return ["" if INCLUDE.match(line) else line for line in part]


def changed(lines, change):
    """The starter's lines with other constants. Its names are the global ones, whatever else a part calls so."""
    text = "\n".join(lines)
    for old, new in change.items():
        text = text.replace(old, new)
    return re.sub(r"(?<![\w:])(?=(?:lab|check|std)::)", "::", text).split("\n")


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
