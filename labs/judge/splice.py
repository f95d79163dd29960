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
    |(?P<raw>\b(?:u8|u|U|L)?R"|\?\?[=/'()!<>-])
    |(?P<text>"(?:[^"\\\n]|\\.)*"|(?<![\w'])'(?:[^'\\\n]|\\.)+')
    |(?P<number>\.?\d(?:[\w.]|'\w|[eEpP][+-])*)
    |(?P<word>[A-Za-z_]\w*)
    |(?P<odd>/\*|["'`]|\#\#|%:|<%|%>|<:(?!:)|:>)
    |(?P<bracket>[(){}\[\]])
    |(?P<line>\n)
    |(?P<sign>[^\s])""",
    re.DOTALL | re.VERBOSE,
)
PAIRS = {")": "(", "}": "{", "]": "["}
INCLUDE = re.compile(r"^\s*#\s*include\s*(<[\w./+-]+>)\s*(?://.*)?$")
OF_LABS = re.compile(r'^\s*#\s*include\s*"\.\./(?:lab|descriptor|multicast)\.h"\s*(?://.*)?$')
DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(\w*)[ \t]*(\w*)(.*)$")


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


# --- A part is whole


def must_be_whole(lines, first):
    """Raises NotWhole unless these lines, of which the first has this number, are whole by themselves."""
    opened, branches, at, in_directive = [], [], first, False
    text = "\n".join(lines) + "\n"
    if split := re.search(r"\S\\[ \t\0]*\n\S", text):  # the compiler reads one word, or sign, where two seem to be
        at += text.count("\n", 0, split.start())
        raise NotWhole(at, "a line that goes on in the next one ends in a blank before its \\: put one there")
    if lines and lines[-1].rstrip().endswith("\\"):
        raise NotWhole(
            first + len(lines) - 1, "the last line of a part must not go on behind the mark: no \\ at its end"
        )
    told = {line: directive for directive, line in directives(lines, first)}
    for line, directive in told.items():
        look_at_directive(directive, line)
    for token in TOKEN.finditer(joined(text)):
        kind, word = token.lastgroup, token[0]
        if kind in ("odd", "raw") or word == "_Pragma":
            raise NotWhole(
                at, WHY_ODD.get(word, f"{word!r} has no end in this part, or is no plain C++: write it plainly")
            )
        if kind == "bracket" and not any(is_off for _, _, is_off in branches):
            take_bracket(opened, word, at, "part")
        elif word == "#" and not in_directive:
            if at not in told:
                raise NotWhole(at, "a directive begins its line: no comment ends before it")
            nest(branches, [one for one, _ in opened], told[at], at)
        in_directive = kind != "line" and (in_directive or word == "#")
        at += word.count("\n") + word.count(JOINED)
    must_be_closed(opened, "part")
    if branches:
        raise NotWhole(branches[-1][1], "#if has no #endif in this part")


def take_bracket(opened, word, line, where):
    """It opens, or closes what was opened last."""
    if word not in PAIRS:
        opened.append((word, line))
    elif not opened or opened.pop()[0] != PAIRS[word]:
        raise NotWhole(line, f"{word!r} closes what was not opened in this {where}")


def must_be_closed(opened, where):
    if opened:
        raise NotWhole(opened[-1][1], f"{opened[-1][0]!r} has no end in this {where}")


JOINED = "\x01"  # stands for a line that goes on in the next one
WHY_ODD = {
    "##": "no ## here: it makes signs that cannot be seen",
    "/*": "this comment has no end in this part",
    '"': "this text has no end in this line",
    "'": "this character has no end in this line",
    "_Pragma": "no _Pragma here: a macro keeps its meaning",
}


def joined(text):
    """As the compiler reads it: a line that ends in a backslash goes on in the next."""
    return re.sub(r"\\[ \t]*\n", f" {JOINED}", text)


def directives(lines, first):
    """(match of DIRECTIVE, line) of each directive, where no comment begins before it."""
    at, found = 0, []
    while at < len(lines):
        here, whole = at, lines[at]
        while whole.rstrip().endswith("\\") and at + 1 < len(lines):
            at += 1
            whole = whole.rstrip()[:-1] + " " + lines[at]
        at += 1
        if told := DIRECTIVE.match(re.sub(r"/\*.*?\*/", " ", whole)):
            found.append((told, first + here))
    return found


def look_at_directive(told, line):
    """What a directive in a part may not be."""
    name, _, rest = told.groups()
    if name == "line" or name.isdigit() or name == "pragma" and "macro" in told[0]:
        raise NotWhole(line, f"no #{name} here: a line keeps its number, and a macro its meaning")
    if name in ("include", "include_next", "import") and not (INCLUDE.match(told[0]) or OF_LABS.match(told[0])):
        raise NotWhole(line, "what a file of your own says is not looked at: write it here")
    opened = []
    for token in TOKEN.finditer(rest):
        if token.lastgroup == "bracket":
            take_bracket(opened, token[0], line, "directive")
    must_be_closed(opened, "directive")


def nest(branches, opened, told, line):
    """#if and its like: the brackets of each branch are whole."""
    name, condition = told[1], told[2] + told[3].partition("//")[0].strip()
    if name.startswith("if"):
        branches.append((opened, line, name == "if" and condition == "0"))  # the compiler reads nothing of #if 0
    elif name in ("else", "elif", "elifdef", "elifndef", "endif"):
        if not branches:
            raise NotWhole(line, f"#{name} without an #if in this part")
        if branches[-1][0] != opened:
            raise NotWhole(line, "a bracket begins or ends in one branch of #if alone")
        _, begin, _ = branches.pop()
        if name != "endif":
            branches.append((opened, begin, False))


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
    return Spliced(includes, [body for body, _ in made], made[0][1], unjudged(starter, text, wanted, its))


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
    return dict.fromkeys(told[2] for told, _ in directives(part, 1) if told[1] in ("define", "undef"))


def without_includes(part):
    return ["" if INCLUDE.match(line) or OF_LABS.match(line) else line for line in part]


def changed(lines, change):
    """The starter's lines with other constants. Its names are the global ones, whatever else a part calls so."""
    text = "\n".join(lines)
    for old, new in change.items():
        text = text.replace(old, new)
    return re.sub(r"(?<![\w:])(?=(?:lab|check|std)::)", "::", text).split("\n")


def unjudged(starter, text, wanted, its):
    """Which line outside the marks is not the starter's, in words, or ""."""
    was, now = outside(starter, wanted), outside(text, its)
    for at, line in now:
        if line not in {one for _, one in was}:
            return f"Line {at} stands outside the marks and is not judged: the starter's lines are there.\n"
    return ""


def outside(text, its):
    """(number, line without blanks and comments) of each line outside the parts that is no #include."""
    found = []
    for at, line in enumerate(text.splitlines(), 1):
        code = "".join(re.sub(r"(^|\s)//.*", "", line).split())
        if code and not code.startswith("#include") and not any(first <= at <= last for first, last in its):
            found.append((at, code))
    return found
