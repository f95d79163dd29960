# SPDX-License-Identifier: MIT-0
"""The autograder for Gradescope: a zip with this checkout, its set-up, and what judges a submission."""

import subprocess
import zipfile

from labs.judge.files import end, writing
from labs.judge.program import ROOT

SCRIPTS = ROOT / "labs" / "class" / "gradescope"
NOT_SENT = "labs/solutions", "labs/alternatives.json", "tests", "vmmsim/tests", ".github"
AS_SOMEBODY = ["-c", "user.name=lab", "-c", "user.email=lab@localhost"]  # git wants a name for what it never shows


def pack(labs, file):
    """./lab.sh gradescope 01a,01c FILE.zip"""
    scripts = {name: (SCRIPTS / name).read_text() for name in ("setup.sh", "run_autograder")}
    checkout = archive()
    part = file.with_name(f".{file.name}.part")
    with writing(file):
        try:
            with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as packed:
                for name, text in scripts.items():
                    about = zipfile.ZipInfo(name)
                    about.external_attr = 0o755 << 16
                    packed.writestr(about, text)
                packed.writestr("labs", ",".join(lab.number for lab in labs) + "\n")
                packed.writestr("checkout.tar", checkout)
            part.replace(file)
        finally:
            part.unlink(missing_ok=True)
    print(f"{file}: {', '.join(lab.number for lab in labs)}. Upload it as the autograder of a programming assignment.")
    return 0


def archive():
    """The files that git tracks, as they are now, as a tar; without those that tell what is right."""
    commit = git(*AS_SOMEBODY, "stash", "create").decode().strip() or "HEAD"  # what is not committed yet, too
    return git("archive", "--format=tar", commit, "--", ".", *(f":(exclude){path}" for path in NOT_SENT))


def git(*words):
    try:
        done = subprocess.run(
            ["git", "-c", f"safe.directory={ROOT}", "-C", ROOT, *words], capture_output=True, stdin=subprocess.DEVNULL
        )
    except FileNotFoundError:
        end(1, "git is missing: it says which files are the checkout's; install it, and run this again")
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        end(
            1,
            f"git {' '.join(words[:5])} failed, and {ROOT} has to be a clone: {said}",
        )
    return done.stdout
